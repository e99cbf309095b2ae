"""The verbs of the command line, one module each; what is heavy is imported when a verb runs."""

from .build import build
from .cache import cache
from .demo import demo
from .emit import emit
from .env import env
from .explain import explain
from .filter import filter_pictures
from .gallery import gallery
from .inspect import inspect
from .pack import pack
from .run import run
from .tune import tune

COMMANDS = (emit, inspect, explain, build, pack, tune, run, filter_pictures, gallery, demo, cache, env)

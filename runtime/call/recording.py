"""The graph that this thread is recording calls into, if any; known here so that a call can ask without the driver."""

from __future__ import annotations

import threading
from typing import Any


class _Recording(threading.local):
    graph: Any = None       # a cuda.graph.Graph


recording = _Recording()

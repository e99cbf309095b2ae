"""Paths that cannot be looked at: a miss and a private place for caches, a typed error for what was named."""

import os
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests import checks
from tests.runtime.build.test_cache import KEY, build, never
from tests.runtime.owners import closed
from warpconv import conv2d, open_pack
from warpconv.cli import cli
from warpconv.codegen.errors import FileError, PackError, WarpconvError
from warpconv.runtime import env, paths, trust
from warpconv.runtime.build import cache
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.call import conv
from warpconv.runtime.layers import read_layers
from warpconv.runtime.tuning import files

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX's kinds of paths")
needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


COMMANDS = [
    ["build", "--input", "1,1,8,8", "--filter", "1,3,3", "--arch", "sm_90", "-o", "{}"],
    ["tune", "--list", "--database", "{}"], ["run", "{}", "{}", "-o", "{}"],
    ["filter", "{}", "{}", "--kernel", "box:3"],
    ["emit", "--input", "1,1,8,8", "--filter", "1,3,3", "-o", "{}"], ["demo", "--output", "{}"]]


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory):
    """Everything that is imported late, imported: root's own Python may lie where nobody cannot read."""
    x = np.ones((1, 1, 4, 4), np.float32)
    if checks.no_cpu_device() is None:
        conv2d(x, x, device="cpu")
    file = tmp_path_factory.mktemp("paths") / "file"
    file.write_text("")
    for words in COMMANDS:
        CliRunner().invoke(cli, [word.format(file) for word in words])


@pytest.fixture(params=["closed", "long name", "long path", "loop", "below a file"])
def hopeless(request, tmp_path, monkeypatch):
    """A directory's path that raises when it is looked at, in the ways that systems have."""
    monkeypatch.setattr(cache, "_warned", set())
    if request.param == "closed":
        tmp_path.chmod(0o711)
        home = tmp_path / "home"
        home.mkdir()
        with closed(home):
            yield home / "place"
        return
    if request.param == "loop":
        (tmp_path / "loop").symlink_to("loop")
    if request.param == "below a file":
        (tmp_path / "file").write_text("")
    yield {"long name": tmp_path / ("x" * 300) / "place", "long path": tmp_path.joinpath(*["y" * 200] * 25),
           "loop": tmp_path / "loop" / "place", "below a file": tmp_path / "file" / "place"}[request.param]


def test_looking_never_raises(hopeless):
    assert not paths.exists(hopeless) and not paths.is_dir(hopeless) and not paths.is_file(hopeless)
    assert paths.status(hopeless) is None and paths.entries(hopeless) == []
    expected = {"home": "Permission denied", "xxx": "File name too long", "yyy": "File name too long",
                "loop": "Too many levels of symbolic links", "file": None}
    assert paths.refusal(hopeless) == next(v for k, v in expected.items() if k in str(hopeless))


def test_nothing_there_and_a_nul_in_the_name(tmp_path):
    assert paths.refusal(tmp_path / "absent") is None and not paths.exists(tmp_path / "absent")
    assert paths.refusal("a\0b") == "a NUL in its name" and not paths.exists("a\0b") and paths.entries("a\0b") == []
    assert trust.doubt(Path("/a\0b")) == "a NUL in its name"


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert paths.absolute("here") == Path("here")
    monkeypatch.setenv("WARPCONV_PACK", "here")
    assert env.settings().pack == (Path("here"),)
    with pytest.raises(PackError, match="no such pack"):
        open_pack("here")


def test_a_cache_there_is_a_private_one(hopeless):
    disk = DiskCache(hopeless)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = disk.fetch(KEY, build)
    assert len(caught) == 1 and "WARPCONV_CACHE_DIR" in str(caught[0].message)
    assert found.path.is_relative_to(tempfile.gettempdir()) and disk.fetch(KEY, never) == found == disk.find(KEY)
    assert disk.entries() == [] and disk.verify() == [] and disk.clear() == 0


@pytest.mark.long
@needs_compiler
def test_a_call_with_a_cache_there_is_served(hopeless):
    x, w = np.arange(2 * 9 * 11, dtype=np.float32).reshape(1, 2, 9, 11), np.ones((1, 2, 2, 2), np.float32)
    conv.clear()
    with env.scope(cache_dir=hopeless), pytest.warns(RuntimeWarning, match="WARPCONV_CACHE_DIR"):
        y = conv2d(x, w, device="cpu")
    expected = sum(x[:, :, r:r + 8, s:s + 10] for r in (0, 1) for s in (0, 1)).sum(1, keepdims=True)
    assert np.array_equal(y, expected)
    conv.clear()


def test_named_packs_are_told(hopeless):
    with pytest.raises(PackError, match="Permission denied|too long|Too many levels|no such pack"):
        open_pack(hopeless)
    x, w = np.ones((1, 1, 5, 5), np.float32), np.ones((1, 1, 3, 3), np.float32)
    conv.clear()
    with env.scope(pack=(hopeless,)), pytest.raises(PackError) as caught:
        conv2d(x, w, device="cpu")
    assert caught.value.value == str(hopeless)


def test_named_layers_and_databases_are_told(hopeless):
    with pytest.raises(FileError, match="cannot be read"):
        read_layers(hopeless)
    with pytest.raises(FileError, match="cannot be read"):
        files.read(hopeless)


def test_a_tuning_database_there(hopeless):
    from warpconv.runtime.tuning import user
    assert user.stamp_of(hopeless) is None              # planning goes by the rules
    if paths.refusal(hopeless) is None:                 # below a file there is simply nothing
        assert files.read_or_empty(hopeless).timings == {}
    else:
        with pytest.raises(FileError):
            files.read_or_empty(hopeless)


def test_a_toolkit_there_is_none(hopeless):
    from warpconv.runtime.build.compilers import nvrtc, tools
    with env.scope(cuda_home=hopeless) as settings:
        tools.find_program("nvcc", settings)
        nvrtc.find(settings)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[0])
def test_the_command_line_says_it_in_words(hopeless, arguments):
    done = CliRunner().invoke(cli, [word.format(hopeless) for word in arguments])
    assert done.exit_code in (1, 2) and isinstance(done.exception, (SystemExit, WarpconvError)), done.exception


LOOKS = re.compile(r"(?<!paths)(?<!owned)\.(exists|is_file|is_dir|stat)\(\)?")
# What is in the installed package itself, and what has just been made, read or listed by the same function.
OWN = {"device.py": 1, "entry.py": 1, "gallery.py": 1, "gallery_page.py": 2, "filter_jobs.py": 1, "files.py": 1,
       "notes.py": 3, "paths.py": 9}


def test_no_other_module_looks_at_paths_in_its_own_way():
    runtime = Path(paths.__file__).parent
    for path in [*runtime.rglob("*.py"), *(runtime.parent / "api").rglob("*.py")]:
        found = LOOKS.findall(path.read_text(encoding="utf-8"))
        assert len(found) <= OWN.get(path.name, 0), (path, found)

"""compute-sanitizer over every algorithm x variant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cases

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PLACES = ("/usr/local/cuda/bin", os.path.join(os.environ.get("CUDA_HOME", "/nonexistent"), "bin"))


def sanitizer() -> str:
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=os.pathsep.join(PLACES))
    if found is None:
        pytest.skip("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    return found


@pytest.mark.parametrize("tool, arguments", [("memcheck", []), ("racecheck", ["--shared"]),
                                             ("synccheck", ["--shared"])])
def test_no_tool_complains(tool, arguments):
    command = [sanitizer(), "--tool", tool, "--error-exitcode", "99", sys.executable, "-m", "tests.gpu.sanitize"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
                          timeout=850)
    said = done.stdout + done.stderr
    if "Device not supported" in said:
        pytest.skip("compute-sanitizer cannot work on this machine: it says 'Device not supported'")
    assert done.returncode == 0, said[-4000:]
    assert "ERROR SUMMARY: 0 errors" in said or "RACECHECK SUMMARY: 0 hazards" in said, said[-2000:]
    assert " variants ran" in said and len(cases.variants()) > 60

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


@pytest.mark.parametrize("tool, arguments", [("memcheck", []), ("racecheck", ["--shared", "--no-mbarriers"]),
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


def test_racecheck_does_not_follow_mbarriers(tmp_path):
    """Why ``--no-mbarriers``. Where this fails, the tool has learnt it, and those kernels can be checked."""
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(PLACES))
    if nvcc is None:
        pytest.skip("nvcc is not installed (it comes with the CUDA toolkit)")
    ring = tmp_path / "ring"
    subprocess.run([nvcc, "-arch=sm_90", "-o", ring, Path(__file__).with_name("mbarrier_ring.cu")], check=True)
    assert subprocess.run([ring], capture_output=True, text=True, check=True).stdout == "sum 2016, no error\n"
    command = [sanitizer(), "--tool", "racecheck", ring]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    assert "RACECHECK SUMMARY" in told and "RACECHECK SUMMARY: 0 hazards" not in told, told[-2000:]

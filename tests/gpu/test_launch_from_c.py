"""docs/examples/launch_wgmma.c, built and run: its kernel emitted, compiled and launched without Python."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gpu import support
from warpconv.cli import cli

pytestmark = pytest.mark.gpu

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "launch_wgmma.c"
CUDA = Path("/usr/local/cuda")


def test_a_kernel_launched_from_c(tmp_path):
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=str(CUDA / "bin"))
    if support.arch() not in ("sm_90", "sm_90a") or nvcc is None or shutil.which("cc") is None:
        pytest.skip("the example is for compute capability 9.0, and needs nvcc and a C compiler")
    command = re.search(r"warpconv (emit .*?) > wgmma.cu", EXAMPLE.read_text(encoding="utf-8"), re.DOTALL)[1]
    emitted = CliRunner().invoke(cli, shlex.split(command.replace("\\\n", " ")))
    assert emitted.exit_code == 0, emitted.output
    (tmp_path / "wgmma.cu").write_text(emitted.stdout, encoding="utf-8")
    cubin, program = tmp_path / "wgmma.cubin", tmp_path / "launch_wgmma"
    subprocess.run([nvcc, "-cubin", "-arch=sm_90a", "-o", cubin, tmp_path / "wgmma.cu"], check=True)
    subprocess.run(["cc", "-o", program, EXAMPLE, "-I", CUDA / "include", "-L", CUDA / "lib64" / "stubs", "-lcuda"],
                   check=True)
    done = subprocess.run([program, cubin], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr

"""The emitted text is the same in every process. Its form and the texts under review are tested in each room."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cases
from warpconv.codegen.render import render

SCRIPT = "from tests.codegen.test_text import digests\nprint(*digests(), sep='\\n')"


def digests() -> list[str]:
    """Of a third of the variants in which every value occurs."""
    return [f"{case.id} {hashlib.sha256(render(case.plan()).text.encode()).hexdigest()}"
            for case in cases.every_variants_value()[::3]]


@pytest.mark.long
def test_the_same_bytes_in_every_process():
    """This process has drawn a seed for its hashes; the reviewed texts are of yet other processes."""
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    other = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True,
                           cwd=Path(__file__).parents[2]).stdout
    assert other.splitlines() == digests()

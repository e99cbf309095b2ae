"""``python -m tests.typed`` runs mypy: strictly over warpconv.codegen (or over the packages that are named).

The tree's folders are packages under other names (setup.cfg's package_dir: codegen is warpconv.codegen), and an
editable installation finds them by an import hook, which mypy does not ask. So they are linked together in build/typed,
as they are once installed.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREE = Path("build", "typed")
PACKAGE = "warpconv.codegen"


def link() -> None:
    """Lay out build/typed: the entries of api as warpconv, and the other folders beside them."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    folders = dict(line.split(" = ") for line in settings["options"]["package_dir"].split("\n") if line)
    package = ROOT / TREE / "warpconv"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in (ROOT / folders["warpconv"]).iterdir():
        (package / path.name).symlink_to(path)
    for name, folder in folders.items():
        at = package.joinpath(*name.split(".")[1:])
        if not at.exists():
            at.symlink_to(ROOT / folder)


def check(*packages: str) -> subprocess.CompletedProcess[str]:
    """mypy's answer about packages, with the paths of the tree instead of those that lead through the links."""
    link()
    arguments = [each for package in packages or (PACKAGE,) for each in ("-p", package)]
    found = subprocess.run([sys.executable, "-m", "mypy", *arguments], cwd=ROOT, capture_output=True, text=True,
                           env={**os.environ, "MYPYPATH": str(TREE), "NO_COLOR": "1"})
    found.stdout = found.stdout.replace(f"{TREE / 'warpconv'}{os.sep}", "")
    return found


if __name__ == "__main__":
    result = check(*sys.argv[1:])
    print(result.stdout + result.stderr, end="")
    sys.exit(result.returncode)

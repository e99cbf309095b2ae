"""Processes that are interrupted or killed while they compile, build and write; a check of what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np

from ..axes import Choose
from .world import World

WORK = {
    "kernels": "import numpy as np, warpconv\nfor n in range(2, 9):\n"
               "    warpconv.conv2d(np.ones((1, 1, 16, 16), 'f'), np.ones((1, 1, n, n), 'f'), device='cpu')\n",
    "array": "import sys\nfrom warpconv.cli import main\nsys.argv = ['warpconv', 'run', 'x.npy', 'w.npy', '-o', "
             "'y.npy', '--device', 'cpu']\nmain()\n",
}
CHECK = ("import numpy as np, warpconv\n"
         "for n in range(2, 9):\n"
         "    y = warpconv.conv2d(np.ones((1, 1, 16, 16), 'f'), np.ones((1, 1, n, n), 'f'), device='cpu')\n"
         "    assert (y == n * n).all(), n\n")


def processes(choose: Choose, world: World) -> str:
    """A process is stopped at some moment; the next one computes all of it, and files are whole or not there."""
    folder = world.folder / "stopped"
    folder.mkdir(exist_ok=True)
    np.save(folder / "x.npy", np.ones((1, 1, 16, 16), np.float32))
    np.save(folder / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    (folder / "y.npy").unlink(missing_ok=True)
    work, how = choose(tuple(WORK)), choose((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    after = choose(tuple(n / 20 for n in range(60)))
    world.tell(f"{work}: {how.name} after {after} s")
    variables = {**os.environ, "WARPCONV_CACHE_DIR": str(folder / "cache")}
    process = subprocess.Popen([sys.executable, "-c", WORK[work]], cwd=folder, env=variables, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(after)
    process.send_signal(how)
    process.communicate(timeout=120)
    if (folder / "y.npy").exists():
        assert np.load(folder / "y.npy").shape == (1, 1, 14, 14), "half an array was left"
    left = [path.name for path in folder.iterdir() if path.name not in ("x.npy", "w.npy", "y.npy", "cache")]
    assert how is signal.SIGKILL or not left, f"{left} was left behind"
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=folder, env=variables, text=True, capture_output=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    for name in left:
        (folder / name).unlink(missing_ok=True)
    return "right"

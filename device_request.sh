#!/bin/bash
# needs at most 40 seconds: cuDNN's interface by ctypes, the quick forms of memory and twelve_layers
export PYTHONPATH=.
timeout -s TERM 42 python3 - <<'P' 2>&1 | tail -60
import os, sys, time, pathlib, signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
t0 = time.time()
import bench.__main__ as main
from bench import network_peers as np_, cudnn, harness
from bench.devices import open_device
from bench.twelve_layers import layers
d = open_device("cuda"); print("import", round(time.time() - t0, 1)); out = pathlib.Path(os.environ["OUT"])
try:
    print("cudnn", cudnn.version())
    layer = harness.make_layer(d, layers()["conv6"], most=2)
    for c in (np_.CUDNN[0], np_.CUDNN[2], np_.CUDNN[4]):
        conv, ops, found = np_.listen(d, layer, c)
        print(c.name, conv.workspaces())
        for f in found: print("  ", f)
except Exception as e:
    import traceback; traceback.print_exc()
for name in ("memory", "twelve_layers", "paper_layers"):
    t = time.time()
    r = main.run(main.study(name), out / name, quick=True, device=d)
    print(name, "seconds", round(time.time() - t, 1))
    for row in r.rows.values():
        print(row["key"], row["status"], {k: v for k, v in row.items() if k.startswith(("torch", "cudnn")) and k.endswith(("_ms", "_reason", "_held", "fp32_algorithm", "method"))})
        print("   ", {k: v for k, v in row.items() if k.startswith(("wide", "direct", "reuse")) and k.endswith(("_ms", "_reason", "_held", "_repeats", "method"))})
P

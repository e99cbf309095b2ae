"""Cold and warm times of specialize(), and the host's time for a warm call and for many, beside PyTorch's conv2d."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench.devices import NoDevice
from bench.harness import WrongResult, make_layer
from bench.report import environment
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

COMPILERS = ("nvrtc", "nvcc", "pycuda")
REPEATS, QUICK_REPEATS = 3, 1
CALLS, ROUNDS, QUICK_ROUNDS = 100, 40, 10
TIMES = {"import_ms": "import warpconv", "context_ms": "CUDA context", "first_ms": "first specialize()",
         "second_ms": "another layer", "memory_ms": "from memory", "other_size_ms": "another batch size",
         "compile_ms": "of the first: compiler"}
CHAIN, CHAIN_CALLS = 32, 20       # layers one after the other; times that they are submitted in a round
LAYERS = {"1x1x64x64, 5x5": ConvShape(c=1, h=64, w=64, k=1, r=5, s=5, padding=2),
          "8x32x28x28 depthwise, 3x3": ConvShape(n=8, c=32, h=28, w=28, k=32, r=3, s=3, padding=1, groups=32)}

ABOUT = """
First table: a new process for each sample, medians in milliseconds. "cold": the disk cache is empty, so the source is
rendered and compiled; "disk": the same again in another new process, so the kernel comes from the disk cache; "from
memory": specialize() once more in the same process. The CUDA context is made before the first specialize() and timed by
itself.

Second table: host time of one call in microseconds, while the GPU works behind: 100 calls are queued, the clock is
read, the queue is waited for outside the clock; medians over the rounds. Below the GPU's own time for the layer a call
cannot be seen; both layers take the GPU only some microseconds. `x.add_(0)` on one element is what PyTorch itself needs
at least to launch anything.

Third table: 32 small layers one after the other, each reading what the last one wrote. "host us" is the host's time to
submit all 32, as above; "whole us" the time from the first submission until the GPU is done and the host knows it, one
round at a time. `warpconv.graph` and PyTorch's CUDA graph submit the same 32 kernels as one.
"""


def run(context: Context) -> None:
    context.expect(2 * len(COMPILERS) + (len(_calls(None, None)) + 2) * len(LAYERS) + len(SUBMISSIONS))
    for compiler in COMPILERS:
        _start_times(context, compiler)
    for name, shape in LAYERS.items():
        _call_times(context, name, shape)
    _chain_times(context)


# ---- specialize()

def _start_times(context: Context, compiler: str) -> None:
    """Cold and disk rows of one compiler, from the same caches."""
    keys = {kind: f"specialize/{compiler}/{kind}" for kind in ("cold", "disk")}
    if not context.pending(keys.values()):
        return
    samples: dict[str, list[dict[str, Any]]] = {"cold": [], "disk": []}
    refusal: Exception | None = None
    context.say(f"specialize() with {compiler}")
    try:
        _available(compiler, context)
        for _ in range(QUICK_REPEATS if context.quick else REPEATS):
            with tempfile.TemporaryDirectory(prefix="warpconv-bench-") as folder:
                for kind in samples:
                    samples[kind].append(_process(compiler, folder, context.device.target.partition(":")[0]))
    except Exception as error:      # each row tells it
        refusal = error
    for kind, key in keys.items():
        context.row(key, lambda kind=kind: _medians(samples[kind], refusal), kind=kind, compiler=compiler)


def _available(compiler: str, context: Context) -> None:
    from warpconv.runtime.build.compilers import CompilerKind, available
    if context.device.kind == "host":
        return          # a trial: the C++ compiler stands in for all three
    found = available()[CompilerKind(compiler)]
    if not found:
        raise NoDevice(str(found))


def _process(compiler: str, cache: str, device: str) -> dict[str, Any]:
    variables = {**os.environ, "WARPCONV_CACHE_DIR": cache, "WARPCONV_COMPILER": compiler, "WARPCONV_PACK": ""}
    variables.pop("WARPCONV_DISABLE_CACHE", None)
    done = subprocess.run([sys.executable, "-m", "bench.studies.latency_target", "--device", device],
                          capture_output=True, text=True, cwd=environment.ROOT, env=variables, timeout=240)
    if done.returncode != 0:
        raise NoDevice((done.stderr.strip().splitlines() or ["the process failed"])[-1][:300])
    return json.loads(done.stdout.strip().splitlines()[-1])


def _medians(samples: list[dict[str, Any]], refusal: Exception | None) -> dict[str, Any]:
    if refusal is not None:
        raise refusal
    names = [name for name in TIMES if all(name in sample for sample in samples)]
    return {"samples": len(samples), **{name: statistics.median(s[name] for s in samples) for name in names}}


# ---- warm calls

def _call_times(context: Context, name: str, shape: ConvShape) -> None:
    keys = [f"call/{name}/{what}" for what in (*_calls(None, None), "torch conv2d", "torch x.add_(0), one element")]
    if not context.pending(keys):
        return
    layer = make_layer(context.device, shape)
    calls = {**_calls(context, layer), **_torch_calls(context, layer)}
    rounds = QUICK_ROUNDS if context.quick else ROUNDS
    for what, make in calls.items():
        context.row(f"call/{name}/{what}", lambda make=make: _host_time(context, make(), rounds), layer=name, call=what)


def _calls(context: Any, layer: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Ways to call us: name -> a function that prepares the call (once) and returns it."""
    def conv2d(**more: Any) -> Callable[[], Any]:
        import warpconv
        x, w, shape, target = layer.xs[0], layer.w, layer.shape, _device_word(context)
        padding = shape.padding[0][0]
        return lambda: warpconv.conv2d(x, w, padding=padding, groups=shape.groups, **target, **more)

    def kernel(*, out: bool, prepared: bool, constant: bool = False) -> Callable[[], Any]:
        settings = {"weights": "constant"} if constant else {}
        plan = plan_layer(layer.shape, algorithm="reuse" if constant else "auto", arch=context.device.arch,
                          settings=settings)
        made = context.device.specialize(layer.shape, plan)
        x, y = layer.xs[0], layer.ys[0]
        w = made.prepare(layer.w) if prepared else layer.w
        return (lambda: made(x, w, out=y)) if out else (lambda: made(x, w))

    return {"conv2d(x, w)": conv2d,
            "conv2d(x, w, out=y)": lambda: conv2d(out=layer.ys[0]),
            "kernel(x, w)": lambda: kernel(out=False, prepared=False),
            "kernel(x, w, out=y)": lambda: kernel(out=True, prepared=False),
            "kernel(x, filter, out=y)": lambda: kernel(out=True, prepared=True),
            "kernel(x, constant filter, out=y)": lambda: kernel(out=True, prepared=True, constant=True)}


def _device_word(context: Any) -> dict[str, str]:
    return {"device": "cpu"} if context.device.kind == "host" else {}


def _torch_calls(context: Context, layer: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
    def conv2d() -> Callable[[], Any]:
        from bench.peers.libraries import torch_conv
        call, x = torch_conv(context.device, layer), layer.xs[0]
        return lambda: call(x)

    def smallest() -> Callable[[], Any]:
        if context.device.kind != "torch":
            raise NoDevice("not run through PyTorch")
        one = layer.xs[0].flatten()[:1].clone()
        return lambda: one.add_(0)

    return {"torch conv2d": conv2d, "torch x.add_(0), one element": smallest}


def _host_time(context: Context, call: Callable[[], Any], rounds: int, calls: int = CALLS) -> dict[str, Any]:
    """Microseconds of the host for one call; the queue never holds more than ``calls``."""
    calls, rounds = (2, 3) if context.device.trial else (calls, rounds)
    for _ in range(calls):
        call()
    context.device.synchronize()
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append(1e6 * (time.perf_counter() - start) / calls)
        context.device.synchronize()
    samples.sort()
    gpu = context.device.sample([call], calls, 20.0) / calls
    return {"us": statistics.median(samples), "us_low": samples[len(samples) // 10],
            "us_high": samples[-1 - len(samples) // 10], "rounds": rounds, "gpu_us": 1e3 * gpu}


# ---- many small layers

SUBMISSIONS = ("kernel(x, filter, out=y), 32 calls", "conv2d(x, w, out=y), 32 calls", "warpconv.graph of the kernels",
               "CUDA graph of the framework, of the kernels", "torch conv2d, 32 calls")


def _chain_times(context: Context) -> None:
    keys = {what: f"chain/{what}" for what in SUBMISSIONS}
    if not context.pending(keys.values()):
        return
    layer = make_layer(context.device, LAYERS["8x32x28x28 depthwise, 3x3"])
    chain = _Chain(context, layer)
    rounds = QUICK_ROUNDS if context.quick else ROUNDS
    makers = (chain.kernels, chain.conv2d, chain.graph, chain.framework_graph, chain.torch)
    for (what, key), make in zip(keys.items(), makers):
        context.row(key, lambda make=make: _submission(context, make(), rounds), call=what)


class _Chain:
    """32 depthwise layers of one size between two buffers, the first reading the layer's input."""

    def __init__(self, context: Context, layer: Any):
        self.device, self.layer, self.word = context.device, layer, _device_word(context)
        self.buffers = [context.device.poisoned(layer.shape.output_shape) for _ in range(2)]

    def steps(self) -> list[tuple[Any, Any]]:
        """(input, output) of each layer."""
        sources = [self.layer.xs[0], *(self.buffers[i % 2] for i in range(CHAIN - 1))]
        return [(source, self.buffers[i % 2]) for i, source in enumerate(sources)]

    def kernels(self) -> Callable[[], Any]:
        kernel = self._kernel()
        prepared, steps = kernel.prepare(self.layer.w), self.steps()

        def submit() -> None:
            for source, target in steps:
                kernel(source, prepared, out=target)

        return submit

    def conv2d(self) -> Callable[[], Any]:
        import warpconv
        w, shape, steps = self.layer.w, self.layer.shape, self.steps()
        padding = shape.padding[0][0]

        def submit() -> None:
            for source, target in steps:
                warpconv.conv2d(source, w, padding=padding, groups=shape.groups, out=target, **self.word)

        return submit

    def graph(self) -> Callable[[], Any]:
        if self.device.kind == "host":
            raise NoDevice("the host has no CUDA graphs")
        import warpconv
        submit = self.kernels()
        wanted = self._result(submit)
        with warpconv.graph() as graph:
            submit()
        return self._same(graph.launch, wanted)

    def framework_graph(self) -> Callable[[], Any]:
        submit = self.kernels()
        wanted = self._result(submit)
        return self._same(self.device.capture([submit], 1), wanted)

    def torch(self) -> Callable[[], Any]:
        from bench.peers.libraries import torch_conv
        call, x = torch_conv(self.device, self.layer), self.layer.xs[0]

        def submit() -> None:
            y = x
            for _ in range(CHAIN):
                y = call(y)

        return submit

    def _kernel(self) -> Any:
        return self.device.specialize(self.layer.shape, plan_layer(self.layer.shape, arch=self.device.arch))

    def _result(self, submit: Callable[[], Any]) -> Any:
        """What a submission leaves in the last buffer, copied; the other one is poisoned before."""
        for buffer in self.buffers:
            self.device.copy(buffer, self.device.poisoned(self.layer.shape.output_shape))
        submit()
        self.device.synchronize()
        return self.device.double(self.buffers[(CHAIN - 1) % 2])

    def _same(self, submit: Callable[[], Any], wanted: Any) -> Callable[[], Any]:
        if not bool((self._result(submit) == wanted).all()):
            raise WrongResult("the graph gives another result than the calls")
        return submit


def _submission(context: Context, submit: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """As _host_time for a whole chain, and microseconds until the host knows that one chain is done."""
    found = _host_time(context, submit, rounds, CHAIN_CALLS)
    whole = []
    for _ in range(found["rounds"]):
        context.device.synchronize()
        start = time.perf_counter()
        submit()
        context.device.synchronize()
        whole.append(1e6 * (time.perf_counter() - start))
    return {**found, "whole_us": statistics.median(whole)}


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    starts = [r for r in rows.values() if r["key"].startswith("specialize/") and r["status"] == OK]
    calls = [r for r in rows.values() if r["key"].startswith("call/") and r["status"] == OK]
    start_lines = tuple((r["compiler"], r["kind"], *(r.get(name) for name in TIMES)) for r in starts)
    layers = list(dict.fromkeys(r["layer"] for r in calls))
    call_lines = tuple((what, *(v for layer in layers for v in _cells(calls, what, layer)))
                       for what in dict.fromkeys(r["call"] for r in calls))
    columns = [c for layer in layers for c in (f"{layer}: host us", "GPU us")]
    chains = tuple((r["call"], r["us"], r["whole_us"], r["gpu_us"]) for r in rows.values()
                   if r["key"].startswith("chain/") and r["status"] == OK)
    return [Table("specialize(), milliseconds", ("compiler", "cache", *TIMES.values()), start_lines),
            Table("A warm call, microseconds", ("call", *columns), call_lines),
            Table(f"{CHAIN} small layers, microseconds", ("submission", "host us", "whole us", "GPU us"), chains)]


def _cells(calls: list[dict[str, Any]], what: str, layer: str) -> tuple[float | None, float | None]:
    row = next((r for r in calls if r["call"] == what and r["layer"] == layer), {})
    return row.get("us"), row.get("gpu_us")


def plot(rows: Rows, figure: Any) -> None:
    """Host time of a call, one panel a layer."""
    calls = [r for r in rows.values() if r["key"].startswith("call/") and r["status"] == OK]
    layers = list(dict.fromkeys(r["layer"] for r in calls))
    figure.set_size_inches(4.5 * max(1, len(layers)), 3)
    for i, layer in enumerate(layers):
        axes = figure.add_subplot(1, len(layers), i + 1)
        mine = [r for r in calls if r["layer"] == layer][::-1]
        axes.barh([r["call"] for r in mine], [r["us"] for r in mine],
                  color=["0.6" if "torch" in r["call"] else "tab:blue" for r in mine])
        axes.set(title=layer, xlabel="host microseconds a call")


STUDY = Study("latency", "cold and warm specialize(), and the host's time of a call and of many beside torch's conv2d",
              ABOUT, run, tables, plot)

"""A dense layer beside cuDNN: both in CUDA graphs of several calls over inputs that rotate past the L2 cache.

cuDNN is PyTorch's conv2d in benchmark mode, in the memory format of the layer; ours is the plan that select() takes,
its filter prepared, everything that a call launches counted. In float32 cuDNN may take TF32 where ours is asked for it.
"""

from __future__ import annotations

import math
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import H200_COPY
from warpconv.codegen.shape import ConvShape

ROTATED_BYTES = 120e6       # of inputs and outputs: twice the second-level cache of an H200
TENSOR_RATE = 7.9e14        # float16 products of an H200 in a second, twice, as cuBLAS reaches on random data
REPLAYS = 5
MOST_ERROR = 2e-3           # of the difference's norm to the result's


def floor_us(shape: ConvShape) -> float:
    """Microseconds below which no kernel gets: the bytes at copy speed, or the products at the tensor cores' rate."""
    return 1e6 * max(shape.bytes_moved / H200_COPY, 2 * shape.macs / TENSOR_RATE)


def measure(torch: Any, shape: ConvShape, algorithm: str = "auto", replay_us: float = 5e3,
            settings: dict[str, Any] | None = None, precision: str = "float32", peer: str = "cudnn") -> dict[str, Any]:
    """Microseconds of both, the plan, the norm of their results' difference. ``peer``: cudnn, or cublas, which
    multiplies the same matrices (torch.mm), of a 1x1 layer of stride 1 in NHWC. Raises ArithmeticError where that is
    not small, what specialize() raises where there is no plan."""
    import warpconv
    dtype = getattr(torch, shape.dtype.value)
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    copies = max(1, min(8, math.ceil(ROTATED_BYTES / shape.bytes_moved)))
    order = torch.channels_last if shape.layout is Layout.NHWC else torch.contiguous_format
    inputs = [torch.randn(shape.input_shape, device="cuda", dtype=dtype).to(memory_format=order) for _ in range(copies)]
    weight = (torch.randn(shape.weight_shape, device="cuda") / shape.reduction ** 0.5).to(dtype)
    theirs_weight = weight.to(memory_format=order)
    calls = max(5, min(50, int(replay_us / (1e6 * (2 * shape.macs / 4e14 + shape.bytes_moved / 3e12) + 5))))
    padding = (shape.padding[0][0], shape.padding[1][0])

    def convolved(i: int) -> Any:
        return torch.nn.functional.conv2d(inputs[i % copies], theirs_weight, None, shape.stride, padding,
                                          shape.dilation, shape.groups)

    def multiplied(i: int) -> Any:
        pixels = inputs[i % copies].permute(0, 2, 3, 1).view(-1, shape.c)
        product = torch.mm(pixels, weight.view(shape.k, shape.c).t())
        return product.view(shape.n, shape.p, shape.q, shape.k).permute(0, 3, 1, 2)

    theirs = {"cudnn": convolved, "cublas": multiplied}[peer]
    expected = theirs(0)
    outputs = [torch.empty_like(expected).fill_(float("nan")) for _ in range(copies)]
    kernel = warpconv.specialize(shape, device="cuda", layout="NCHW", algorithm=algorithm, settings=settings or {},
                                 precision=precision)
    filter = kernel.prepare(weight)

    def ours(i: int) -> Any:
        return kernel(inputs[i % copies], filter, out=outputs[i % copies])

    error = float((ours(0).float() - expected.float()).norm() / expected.float().norm())
    if not error < MOST_ERROR:
        raise ArithmeticError(f"the results' difference is {error:.1e} of their norm")
    times = {name: _replayed(torch, call, calls) for name, call in ((peer, theirs), ("ours", ours))}
    return {"algorithm": kernel.spec.algorithm, "numerics": kernel.spec.numerics.value,
            "plan": kernel.plan.settings() if kernel.plan else None, **times,
            "ratio": times[peer] / times["ours"], "error": error, "floor": floor_us(shape),
            "tflops": 2 * shape.macs / times["ours"] / 1e6}


def measure_gradient(torch: Any, shape: ConvShape, operation: str, algorithm: str = "auto",
                     replay_us: float = 5e3, precision: str = "float32") -> dict[str, Any]:
    """The same of a data or filter gradient: ours as a call makes it, all its launches counted, beside PyTorch's
    convolution_backward, with TF32 where ours is asked for it; and that two calls give the same bits. Raises as
    measure()."""
    import warpconv
    from warpconv.codegen.spec import Operation
    from warpconv.runtime.call import kernels
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype, data = getattr(torch, shape.dtype.value), operation == "data_gradient"
    copies = max(1, min(8, math.ceil(ROTATED_BYTES / shape.bytes_moved)))
    order = torch.channels_last if shape.layout is Layout.NHWC else torch.contiguous_format

    def drawn(sizes: Any) -> list[Any]:
        return [torch.randn(sizes, device="cuda", dtype=dtype).to(memory_format=order) for _ in range(copies)]

    inputs, gradients = drawn(shape.input_shape), drawn(shape.output_shape)
    weight = (torch.randn(shape.weight_shape, device="cuda") / shape.reduction ** 0.5).to(dtype)
    theirs_weight = weight.to(memory_format=order)
    calls = max(5, min(50, int(replay_us / (1e6 * (2 * shape.macs / 4e14 + shape.bytes_moved / 3e12) + 5))))
    padding = (shape.padding[0][0], shape.padding[1][0])
    geometry = {"stride": shape.stride, "padding": padding, "dilation": shape.dilation, "groups": shape.groups,
                "algorithm": algorithm, "precision": precision}

    def theirs(i: int) -> Any:
        found = torch.ops.aten.convolution_backward(
            gradients[i % copies], inputs[i % copies], theirs_weight, None, list(shape.stride), list(padding),
            list(shape.dilation), False, [0, 0], shape.groups, [data, not data, False])
        return found[0 if data else 1]

    expected = theirs(0)
    made = [torch.empty(shape.input_shape if data else shape.weight_shape, device="cuda", dtype=dtype,
                        memory_format=order if data else torch.contiguous_format).fill_(float("nan"))
            for _ in range(copies)]

    def ours(i: int) -> Any:
        x, dy, out = (arrays[i % copies] for arrays in (inputs, gradients, made))
        if data:
            return warpconv.conv2d_input(shape.input_shape, weight, dy, out=out, **geometry)
        return warpconv.conv2d_weight(x, shape.weight_shape, dy, out=out, **geometry)

    first = ours(0).clone()
    error = float((first.float() - expected.float()).norm() / expected.float().norm())
    if not error < MOST_ERROR:
        raise ArithmeticError(f"the results' difference is {error:.1e} of their norm")
    if not torch.equal(ours(0), first):
        raise ArithmeticError("two calls differ")
    plan = kernels.plan_of(kernels.asked(shape, 0, operation=Operation(operation), algorithm=algorithm,
                                         precision=precision))
    times = {name: _replayed(torch, call, calls) for name, call in (("cudnn", theirs), ("ours", ours))}
    return {"operation": operation, "algorithm": plan.spec.algorithm, "numerics": plan.spec.numerics.value,
            "plan": plan.settings(), **times,
            "ratio": times["cudnn"] / times["ours"], "error": error, "floor": floor_us(shape),
            "tflops": 2 * shape.macs / times["ours"] / 1e6}


def _replayed(torch: Any, call: Any, calls: int) -> float:
    """Microseconds of a call in a graph of several."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    found = []
    for turn in range(REPLAYS + 2):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if turn > 1:
            found.append(begin.elapsed_time(end) / calls * 1e3)
    return sorted(found)[REPLAYS // 2]

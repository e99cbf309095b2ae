"""Launches that begin while the one before them ends, on a GPU: the bits of launches one after the other."""

import numpy as np
import pytest

import warpconv
from tests import reference, settings
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cuda import modules, quick

pytestmark = pytest.mark.gpu

# with a pass to NHWC, with sums of split tiles, with both; as many blocks as a multiprocessor, and few
SPLIT = [dict(n=1, c=512, h=7, w=7, k=512, r=3, s=3, padding=1), dict(n=1, c=1024, h=14, w=14, k=256, r=1, s=1)]
PASSED = [dict(n=32, c=128, h=14, w=14, k=128, r=3, s=3, padding=1), dict(n=1, c=24, h=57, w=31, k=40, r=3, s=3)]
CASES = [(layer, algorithm, layout, dtype) for layer in SPLIT + PASSED for algorithm in ("wgmma", "mma")
         for layout in ("NHWC", "NCHW") for dtype in ("float16", "float32")
         if layer in SPLIT or (algorithm, layout) == ("wgmma", "NCHW")]
TIMES = 40


def bits(torch, tensor):
    return tensor.contiguous().view(torch.int16 if tensor.element_size() == 2 else torch.int32)


@pytest.mark.parametrize("layer, algorithm, layout, dtype", CASES, ids=str)
def test_many_calls_in_a_row_give_the_bits_of_launches_one_by_one(layer, algorithm, layout, dtype, monkeypatch):
    torch = pytest.importorskip("torch")
    shape = ConvShape(**layer, layout=layout, dtype=dtype)
    precision = "tf32" if dtype == "float32" else "float32"
    plan = warpconv.plan_layer(shape, algorithm=algorithm, arch="sm_90a", precision=precision)
    assert any(step.early for step in plan.program.launches)
    x, w, _ = reference.operands(shape, settings.generator(7))
    x = np.moveaxis(x, -1, 1).copy() if layout == "NHWC" else x
    order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    images = [torch.tensor(x, device="cuda:0").roll(i, 3).to(memory_format=order) for i in range(4)]
    made = [torch.full(shape.output_shape, float("nan"), device="cuda:0", dtype=images[0].dtype).to(memory_format=order)
            for _ in range(TIMES)]
    weight = torch.tensor(w, device="cuda:0")

    def kernel():
        return warpconv.specialize(shape, device="cuda:0", layout="NCHW", plan=plan)

    with monkeypatch.context() as patched:
        for module in (modules, quick):
            patched.setattr(module, "can_begin_early", lambda: False)
        alone = kernel()
        wanted = []
        for image in images:
            wanted.append(bits(torch, alone(image, alone.prepare(weight))))
            torch.cuda.synchronize()

    def compare_and_poison():
        torch.cuda.synchronize()
        assert all(torch.equal(bits(torch, made[i]), wanted[i % 4]) for i in range(TIMES))
        for out in made:
            out.fill_(float("nan"))

    early = kernel()
    prepared = early.prepare(weight)
    for i in range(TIMES):          # the checked way first, then the remembered one
        early(images[i % 4], prepared, out=made[i])
    compare_and_poison()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(TIMES):
            early(images[i % 4], prepared, out=made[i])
    for _ in range(3):
        graph.replay()
    compare_and_poison()
    with warpconv.graph() as recorded:
        for i in range(TIMES):
            early(images[i % 4], prepared, out=made[i])
    for _ in range(3):
        recorded.launch()
    compare_and_poison()
    for i in range(TIMES):          # the filter prepared in each call
        early(images[i % 4], weight, out=made[i])
    compare_and_poison()

"""PyTorch on a GPU: streams, CUDA graphs, compilers, casts, devices; tests/torch has the rest, without a GPU."""

from __future__ import annotations

import copy
import gc

import pytest

from tests import settings
from tests.gpu import support

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402

import warpconv  # noqa: E402


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    torch.manual_seed(settings.seed)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def layer(dtype=torch.float32, last=False, c=32, k=32, groups=32, size=28):
    x, w, b = (torch.randn(shape, device="cuda") for shape in ((4, c, size, size), (k, c // groups, 5, 5), (k,)))
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    return *(t.to(dtype).requires_grad_() for t in (x, w / (c // groups) ** 0.5, b)), {"padding": 2, "groups": groups}


def expected(x, w, b, grad, options, act=F.silu):
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    made = act(F.conv2d(*wide, **options))
    return made.detach(), torch.autograd.grad(made, wide, grad.double())


def close(got, wanted):
    bound = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}[got.dtype]
    assert (got.double() - wanted).abs().max() <= bound * max(1.0, wanted.abs().max().item())


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("groups", [32, 1])
def test_gradients(dtype, last, groups):
    x, w, b, options = layer(dtype, last, groups=groups)
    made = warpconv.conv2d(x, w, b, activation="silu", **options)
    grad = torch.randn_like(made)
    got = torch.autograd.grad(made, [x, w, b], grad)
    output, wanted = expected(x, w, b, grad, options)
    close(made, output)
    for mine, other in zip(got, wanted):
        close(mine, other)
    assert got[0].stride() == x.stride()


def test_on_a_stream_of_its_own():
    """The input is written late on a side stream: a kernel elsewhere would read what was there before."""
    x, w, b, options = layer()
    side = torch.cuda.Stream()
    warpconv.conv2d(x, w, b, **options).sum().backward()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late = torch.zeros_like(x)
        torch.cuda._sleep(50_000_000)
        late.add_(x.detach())
        late.requires_grad_()
        made = warpconv.conv2d(late, w, b, **options)
        grad = torch.ones_like(made)
        got = torch.autograd.grad(made, [late, w, b], grad)
    side.synchronize()
    output, wanted = expected(x, w, b, grad, options, lambda v: v)
    close(made, output)
    for mine, other in zip(got, wanted):
        close(mine, other)


def test_nothing_waits():
    """A step is queued while the GPU is busy: no operator waits for it."""
    x, w, b, options = layer()
    for _ in range(3):
        warpconv.conv2d(x, w, b, activation="silu", **options).sum().backward()
    torch.cuda.synchronize()
    event = torch.cuda.Event()
    torch.cuda._sleep(1_000_000_000)
    event.record()
    warpconv.conv2d(x, w, b, activation="silu", **options).sum().backward()
    assert not event.query()
    torch.cuda.synchronize()


@pytest.mark.parametrize("last", [False, True], ids=["NCDHW", "channels_last_3d"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("groups, stride", [(8, 1), (8, 2), (1, 1)])
def test_volumes(dtype, last, groups, stride):
    """Output and gradients, of the call that is checked and of the next, which is not; and compiled."""
    x, w, b = (torch.randn(shape, device="cuda") for shape in ((2, 8, 9, 20, 36), (8, 8 // groups, 3, 3, 3), (8,)))
    if last:
        x = x.contiguous(memory_format=torch.channels_last_3d)
    tensors = [t.to(dtype).requires_grad_() for t in (x, w / (27 * 8 / groups) ** 0.5, b)]
    wide = [t.detach().double().requires_grad_() for t in tensors]
    wanted = F.silu(F.conv3d(*wide, stride=stride, padding=1, groups=groups))
    grad = torch.randn_like(wanted)

    def step(x, w, b):
        return warpconv.conv3d(x, w, b, stride=stride, padding=1, groups=groups, activation="silu")

    torch._dynamo.reset()       # its limit of compilations is for all cases together
    for call in (step, step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        made = call(*tensors)
        got = torch.autograd.grad(made, tensors, grad.to(dtype))
        close(made, wanted)
        for mine, other in zip(got, torch.autograd.grad(wanted, wide, grad.to(dtype).double(), retain_graph=True)):
            close(mine, other)
        assert got[0].stride() == x.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("groups", [32, 1])
def test_a_training_step_as_a_cuda_graph(dtype, groups):
    """Weights change inside: each replay steps on."""
    import warpconv.torch as layers
    model = layers.Conv2d(32, 32, 5, padding=2, groups=groups, device="cuda", dtype=dtype)
    theirs = torch.nn.Conv2d(32, 32, 5, padding=2, groups=groups, device="cuda").double()
    x = torch.randn(4, 32, 28, 28, device="cuda", dtype=dtype)
    rate = 1e-2 if groups == 32 else 1e-3

    def step(layer, x):
        loss = layer(x).square().mean()
        layer.weight.grad = layer.bias.grad = None
        loss.backward()
        with torch.no_grad():
            layer.weight -= rate * layer.weight.grad
            layer.bias -= rate * layer.bias.grad
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(model, x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, x)
    theirs.load_state_dict(model.state_dict())
    for _ in range(4):
        graph.replay()
        wanted = step(theirs, x.double())
        assert abs(loss.double().item() - wanted.item()) < 2e-2 * abs(wanted.item())
    close(model.weight.detach(), theirs.weight.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "channels_last"])
@pytest.mark.parametrize("size", [(16, 96, 28, 28), (16, 96, 80, 80), (16, 33, 130, 131)], ids=str)
def test_the_bias_of_a_large_layer(size, last, dtype, monkeypatch):
    """Summed by a kernel, in a graph, too, with the same bits each time; a smaller one by PyTorch."""
    from warpconv.runtime.torch import autograd, operators
    sums = []
    run = operators.run_bias
    monkeypatch.setattr(operators, "run_bias", lambda *args: sums.append(run(*args)) or sums[-1])
    x = torch.randn(size, device="cuda").to(dtype).contiguous(
        memory_format=torch.channels_last if last else torch.contiguous_format)
    weight = torch.randn(size[1], 1, 3, 3, device="cuda", dtype=dtype)
    bias = torch.zeros(size[1], device="cuda", dtype=dtype, requires_grad=True)
    grad = torch.randn_like(x)

    def gradient():
        return torch.autograd.grad(warpconv.conv2d(x, weight, bias, padding=1, groups=size[1]), bias, grad)[0]

    made = [gradient() for _ in range(3)]
    assert len(sums) == (3 if x.numel() >= autograd.LEAST_SUMMED["cuda"] else 0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gradient()
    assert not sums or captured is sums[-1]
    for _ in range(3):
        captured.fill_(float("nan"))
        graph.replay()
        made.append(captured.clone())
    scale = grad.double().abs().sum((0, 2, 3))
    for one in made:
        error = (one.double() - grad.double().sum((0, 2, 3))).abs()
        assert (error <= scale * 1e-7 + torch.finfo(dtype).eps * grad.double().sum((0, 2, 3)).abs()).all()
    assert all(torch.equal(one, made[-1]) for one in made)


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "channels_last"])
def test_memory_is_pytorchs(last):
    """Workspaces are of PyTorch's allocator; those of a graph's calls have the same memory, which goes with the
    graph."""
    import warpconv.torch as layers
    from warpconv.runtime.devices.cuda import memory
    gc.collect()                        # what tests before it left
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    model = torch.nn.Sequential(*(layer for _ in range(6) for layer in (
        layers.Conv2d(64, 64, 3, padding=1), layers.Conv2d(64, 64, 5, padding=2, groups=64)))).cuda().half()
    x = torch.randn(8, 64, 96, 96, device="cuda", dtype=torch.half, requires_grad=True)
    if last:
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()

    def step():
        model(x).float().square().mean().backward()

    step()
    held = memory.pool.held_bytes()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    peaks = []
    for captured in (False, True):
        torch.cuda.reset_peak_memory_stats()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            graph.replay()
        else:
            step()
        torch.cuda.synchronize()
        peaks.append(torch.cuda.max_memory_allocated())
    assert memory.pool.held_bytes() == held             # filters that are prepared, and nothing else
    assert peaks[1] < 1.3 * peaks[0]
    del graph
    model.zero_grad()
    x.grad = None
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < before + 4 * x.nbytes


def test_weights_in_a_graph_of_inference_may_change():
    import warpconv.torch as layers
    model = layers.Conv2d(64, 64, 3, padding=1, device="cuda", dtype=torch.float16).eval().requires_grad_(False)
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(4, 64, 14, 14, device="cuda", dtype=torch.float16).contiguous(memory_format=torch.channels_last)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = model(x)
    for _ in range(3):
        model.weight.copy_(torch.randn_like(model.weight))
        graph.replay()
        close(made, F.conv2d(x.double(), model.weight.double(), model.bias.double(), padding=1))
        close(model(x), F.conv2d(x.double(), model.weight.double(), model.bias.double(), padding=1))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled(mode):
    x, w, b, options = layer()
    torch._dynamo.reset()
    step = torch.compile(lambda x, w, b: F.silu(warpconv.conv2d(x, w, b, **options)), fullgraph=True, mode=mode)
    for _ in range(3):
        made = step(x, w, b)
        grad = torch.ones_like(made)
        got = torch.autograd.grad(made, [x, w, b], grad)
        output, wanted = expected(x, w, b, grad, options)
        close(made.detach(), output)
        for mine, other in zip(got, wanted):
            close(mine, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_amp(dtype):
    x, w, b, options = layer()
    with torch.autocast("cuda", dtype=dtype):
        made = warpconv.conv2d(x, w, b, **options)
    assert made.dtype is dtype
    grad = torch.randn_like(made)
    output, wanted = expected(x, w, b, grad, options, lambda v: v)
    close(made.detach(), output)
    for mine, other in zip(torch.autograd.grad(made, [x, w, b], grad), wanted):
        assert mine.dtype is torch.float32
        close(mine.to(dtype), other)


def test_convert_on_the_gpu():
    import warpconv.torch as layers
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.Conv2d(64, 64, 7, padding=3, groups=64),
                                torch.nn.Conv2d(64, 64, 3, padding=1)).cuda()
    x = torch.randn(64, 3, 112, 112, device="cuda")      # enough for the GPU to take longer than the host
    alone = support.WORKERS == 1        # else the host's time is that of all processes
    for training, where in ((False, "estimate"), *([(False, "measure")] if alone else []), (False, "graph"),
                            (True, "graph")):
        done = layers.convert(model.train(training), x, where=where)
        print(done)
        assert done.rows[1].converted and all(row.theirs is not None for row in done.rows), str(done)
        done.undo()


@pytest.mark.skipif(support.WORKERS > 1, reason="a test of time, beside other processes on the GPU")
def test_a_model_that_waits_for_the_host_is_seen():
    from warpconv.torch import measure
    small = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(20))).cuda()
    large = torch.nn.Sequential(*(torch.nn.Conv2d(256, 256, 3, padding=1) for _ in range(4))).cuda()
    device = torch.device("cuda", 0)
    for training in (False, True):
        times = measure.whole(small.train(training), (torch.zeros(1, 8, 8, 8, device="cuda"),), {}, device)
        assert times.host > times.device
        times = measure.whole(large.train(training), (torch.zeros(64, 256, 56, 56, device="cuda"),), {}, device)
        assert times.host < times.device


@pytest.mark.parametrize("ordinal", range(1, torch.cuda.device_count()) if torch.cuda.is_available() else [])
def test_on_another_gpu(ordinal):
    x, w, b, options = layer()
    moved = [t.detach().to(f"cuda:{ordinal}").requires_grad_() for t in (x, w, b)]
    made = warpconv.conv2d(*moved, **options)
    made.sum().backward()
    output, wanted = expected(x, w, b, torch.ones_like(made).to("cuda:0"), options, lambda v: v)
    close(made.to("cuda:0"), output)
    close(moved[0].grad.to("cuda:0"), wanted[0])


def test_frozen_weights_in_a_graph_are_prepared_once():
    import warpconv.torch as layers
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.Conv2d(64, 96, 1)).cuda().half().eval()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(4, 64, 14, 14, device="cuda", dtype=torch.float16).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = copy.deepcopy(model).double()(x.double())
        layers.convert(model, x, where="all", frozen=True)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = model(x)
        assert all(len(layers.modules._read_by_graphs[layer]) == 1 for layer in model)
        for layer in model:
            layer.forget_prepared()             # the graph's stay
        torch.cuda.empty_cache()
        for _ in range(3):
            made.fill_(float("nan"))
            graph.replay()
            close(made, wanted)

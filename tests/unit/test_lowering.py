"""im2win_basic and im2col: sizes against the document's table, plans and refusals, limits on workspace, both
libraries."""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import warpconv
from tests import checks, reference, settings
from tests.unit.test_limits import LAYERS
from warpconv.cli import cli
from warpconv.codegen.algorithms import im2col, im2win_tensor
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError, UnsupportedSpec
from warpconv.codegen.plan import LibraryCall, Repeat
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import LARGEST_SIZE, ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import conv, env, steps
from warpconv.runtime.cpu import Mode, backend
from warpconv.runtime.cuda.backend import CudaBackend
from warpconv.runtime.layers import NamedLayer, read_layers
from warpconv.runtime.library import cublas, numpy_gemm
from warpconv.runtime.measure import measure, reduced

# MiB of float32 for the twelve layers at batch 128: the im2win tensor, the columns of the batch, those of one image
MIB = {"conv1": (201.2, 536.2, 4.19), "conv2": (208.4, 555.8, 4.34), "conv3": (258.4, 884.4, 6.91),
       "conv4": (2670.5, 9096.4, 71.07), "conv5": (112.5, 468.8, 3.66), "conv6": (45.0, 112.5, 0.88),
       "conv7": (218.5, 649.7, 5.08), "conv8": (1155.0, 3403.1, 26.59), "conv9": (283.5, 820.1, 6.41),
       "conv10": (136.5, 380.2, 2.97), "conv11": (63.0, 162.0, 1.27), "conv12": (26.2, 56.2, 0.44)}
TWELVE = {layer.name: layer.shape for layer in read_layers("twelve_layers")}
SMALL = ConvShape(n=3, c=4, h=11, w=13, k=6, r=3, s=3, padding=1, groups=2)
needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture(autouse=True)
def forgotten():
    yield
    conv.clear()


def scratch(shape: ConvShape) -> int:
    plan = plan_layer(shape, algorithm="im2col")
    return next(w for w in plan.program.workspaces if w.name == im2col.SCRATCH).bytes_of(shape)


# ---- sizes

@pytest.mark.parametrize("name", MIB)
def test_the_twelve_layers_take_what_the_document_says(name):
    shape, (windows, batch, image) = TWELVE[name], MIB[name]
    plan = plan_layer(shape, algorithm="im2win_basic")
    unread = shape.w - ((shape.q - 1) * shape.stride[1] + shape.s)      # columns that no window touches: not stored
    assert unread == (name == "conv4")
    mib = plan.program.workspace_bytes(shape) / 2**20
    assert mib * shape.w / (shape.w - unread) == pytest.approx(windows, abs=0.051)
    for batched, wanted in (("whole", batch), ("image", image)):
        made = plan_layer(shape, algorithm="im2col", settings={"batch": batched})
        mib = (made.program.workspace_bytes(shape) - scratch(shape)) / 2**20
        assert mib == pytest.approx(wanted, abs=0.051 if batched == "whole" else 0.0051)


def test_the_documents_example():
    """36 elements of the im2win tensor where im2col has 48: 2x2 filters over three channels of 3 x 3."""
    shape = ConvShape(c=3, h=3, w=3, k=1, r=2, s=2)
    spec = KernelSpec.of(shape, algorithm="im2win_basic", arch=plan_layer(shape).spec.arch)
    assert im2win_tensor.numbers(spec).elements(shape) == 36
    assert im2col._columns(spec, im2col.Batch.IMAGE).bytes_of(shape) == 4 * 48


def test_the_tensor_in_numbers_is_where_the_windows_lie():
    """T as the planner describes it, made by NumPy, holds every window's taps where the numbers say."""
    shape = ConvShape(n=2, c=3, h=9, w=14, k=1, r=3, s=2, stride=(2, 3), padding=((1, 0), (2, 1)), dilation=(2, 3))
    numbers = im2win_tensor.numbers(plan_layer(shape, algorithm="im2win_basic").spec)
    x = settings.generator(5).standard_normal(shape.input_shape)
    padded = np.pad(x, ((0, 0), (0, 0), *shape.padding))
    row = numbers.row(shape)
    for p in range(shape.p):
        tensor = np.stack([padded[:, :, p * 2 + (i % 3) * 2, i // 3] for i in range(row)], axis=-1)
        for q in range(shape.q):
            window = tensor[:, :, q * numbers.window_step:][:, :, :numbers.window]
            assert window.shape[-1] == numbers.window
            for u in range(3):
                for v in range(2):
                    tap = window[:, :, v * numbers.tap_step + u]
                    assert np.array_equal(tap, padded[:, :, 2 * p + 2 * u, 3 * q + 3 * v])


def test_a_row_of_the_tensor_stays_in_an_int():
    wide = ConvShape(c=1, h=3, w=LARGEST_SIZE // 4, k=1, r=3, s=3)
    plan = plan_layer(wide, algorithm="im2win_basic")
    numbers = plan.numbers.tensor
    most = plan.program.argument("Q").at_most
    assert numbers.row_each * most + numbers.row_add <= LARGEST_SIZE < numbers.row_each * (most + 1) + numbers.row_add
    with pytest.raises(UnsupportedSpec, match=f"at most {most}"):
        plan_layer(replace(wide, w=LARGEST_SIZE // 3 + 3), algorithm="im2win_basic")
    assert plan_layer(replace(wide, r=1), algorithm="im2win_basic").program.argument("Q").at_most is None


@pytest.mark.parametrize("name", LAYERS)
def test_no_step_of_a_loop_overflows(name):
    """What an int counts, and a step of its loop beyond it, stays below 2^31: places in a row, rows, planes, images."""
    shape, most = LAYERS[name], 2**31 - 1
    windows = plan_layer(shape, algorithm="im2win_basic").program
    (x, y, z), (pixels, _, images) = (launch.grid_of(shape) for launch in windows.launches[1:])
    assert x * 32 <= most and shape.p + y * 8 <= most and shape.n * shape.c + z * im2win_tensor.PLANES <= most
    assert pixels * 32 <= most and shape.n + images <= most
    plan = plan_layer(shape, algorithm="im2col", settings={"batch": "whole"}, epilogue=("relu",))
    for launch in plan.program.launches:
        x, y, z = launch.grid_of(shape)
        assert x * launch.block[0] <= most
        if launch.entry == im2col.FINISH:
            assert shape.n * shape.k + y * launch.block[1] <= most
        else:
            assert shape.c + y * plan.numbers.channels_each <= most and shape.n + z <= most


def test_columns_of_2_31_elements_and_more_are_addressed_in_64_bits():
    shape = TWELVE["conv4"]
    for batch in im2col.Batch:
        plan = plan_layer(shape, algorithm="im2col", settings={"batch": batch})
        assert plan.spec.index_bits == 32
        elements = shape.n * shape.reduction * shape.p * shape.q
        assert elements > 2**31 and "const long long pixels = (long long)P * Q;" in warpconv.render(plan).text


# ---- plans

def test_what_does_not_overlap_is_said():
    def notes(**layer):
        return " ".join(plan_layer(ConvShape(c=2, h=40, w=40, k=2, **layer), algorithm="im2win_basic").notes)
    assert "share" not in notes(r=3, s=3) and "share no column" in notes(r=3, s=2, stride=(1, 2))
    assert "no two rows" in notes(r=3, s=5, stride=(3, 2)) and "share no column" not in notes(r=3, s=5, stride=(3, 2))


def test_a_layer_that_is_a_matrix_already_is_not_lowered():
    shape = ConvShape(n=2, c=8, h=9, w=9, k=4, r=1, s=1)
    plan = plan_layer(shape, algorithm="im2col")
    assert plan.program.entries == () and plan.program.workspace_bytes(shape) == scratch(shape)
    assert plan.program.library_calls == (LibraryCall(operation="gemm_batch", operands=("w", "x", "y", "scratch")),)
    with pytest.raises(UnsupportedSpec, match="matrix as it is"):
        plan_layer(shape, algorithm="im2col", settings={"batch": "image"})
    for changes in (dict(stride=2), dict(padding=1), dict(r=3)):
        assert plan_layer(replace(shape, **changes), algorithm="im2col").program.entries == \
            (f"im2col_{changes.get('r', 1)}x1",)


def test_steps_of_both_batches():
    image, whole = (plan_layer(SMALL, algorithm="im2col", settings={"batch": b}, epilogue=("relu",)).program
                    for b in ("image", "whole"))
    assert [type(step).__name__ for step in whole.steps] == ["Launch", "LibraryCall", "Launch"]
    assert isinstance(image.steps[0], Repeat) and len(image.steps) == 2
    assert image.entries == whole.entries == ("im2col_3x3", "im2col_finish")
    assert plan_layer(SMALL, algorithm="im2col").program.entries == ("im2col_3x3",)


@pytest.mark.parametrize("algorithm, layer, word", [
    ("im2col", dict(dtype="float16"), "float16"), ("im2col", dict(layout="NHWC"), "NHWC"),
    ("im2win_basic", dict(layout="NHWC"), "NHWC"), ("im2win_basic", dict(dtype="int8"), "int8")])
def test_refusals_in_words(algorithm, layer, word):
    with pytest.raises(UnsupportedSpec, match=f"{word} is not served"):
        plan_layer(replace(SMALL, **layer), algorithm=algorithm)


def test_estimates_follow_the_work_and_document_mapping_costs_more():
    shape = TWELVE["conv9"]
    basic = {mapping: plan_layer(shape, algorithm="im2win_basic", settings={"mapping": mapping})
             for mapping in ("document", "coalesced")}
    cost = {mapping: ALGORITHMS["im2win_basic"].estimate(plan, shape) for mapping, plan in basic.items()}
    assert cost["coalesced"] < cost["document"]
    row = ALGORITHMS["im2col"]
    fma = shape.macs / 32
    assert fma < row.estimate(plan_layer(shape, algorithm="im2col"), shape) < 3 * fma


# ---- limits

def test_over_the_limit_is_declined_with_both_numbers():
    shape = TWELVE["conv9"]
    needed = plan_layer(shape, algorithm="im2win_basic").program.workspace_bytes(shape)
    assert plan_layer(shape, algorithm="im2win_basic", workspace_limit=needed).program.workspace_bytes(shape) == needed
    with pytest.raises(UnsupportedSpec) as caught:
        plan_layer(shape, algorithm="im2win_basic", workspace_limit=needed - 1)
    assert str(needed) in caught.value.reason and str(needed - 1) in caught.value.reason
    reasons = {answer.algorithm: answer for answer in explain(shape, workspace_limit=0)}
    assert not reasons["im2win_basic"].supported and f"{needed} bytes is over the limit of 0 bytes" in \
        reasons["im2win_basic"].reason
    assert select(shape, workspace_limit=0) == select(shape)


def test_a_lighter_form_is_taken_where_the_heavier_was_not_asked_for():
    shape = TWELVE["conv9"]
    whole, image = (plan_layer(shape, algorithm="im2col", settings={"batch": b}) for b in ("whole", "image"))
    bytes_whole, bytes_image = (plan.program.workspace_bytes(shape) for plan in (whole, image))
    assert plan_layer(shape, algorithm="im2col") == plan_layer(shape, algorithm="im2col", workspace_limit=bytes_whole)
    assert plan_layer(shape, algorithm="im2col", workspace_limit=bytes_whole - 1) == image
    with pytest.raises(UnsupportedSpec, match=f"{bytes_whole} bytes is over the limit of {bytes_image}"):
        plan_layer(shape, algorithm="im2col", settings={"batch": "whole"}, workspace_limit=bytes_image)
    with pytest.raises(UnsupportedSpec, match=f"{bytes_image} bytes is over the limit of 1 bytes"):
        plan_layer(shape, algorithm="im2col", workspace_limit=1)


@pytest.mark.parametrize("limit, error", [(-1, ArgumentError), (1.5, ArgumentTypeError), (True, ArgumentTypeError),
                                          ("2G", ArgumentTypeError)])
def test_what_is_no_limit(limit, error):
    for call in (plan_layer, select, explain):
        with pytest.raises(error) as caught:
            call(SMALL, workspace_limit=limit)
        assert caught.value.argument == "workspace_limit" and caught.value.hint


@needs_cpu
def test_calls_honour_the_limit_for_every_batch():
    """A kernel is shared by batches; one whose workspace would be too large gets a kernel of its own, or none."""
    shape = ConvShape(n=1, c=4, h=11, w=13, k=6, r=3, s=3)
    one = plan_layer(shape, algorithm="im2col").program.workspace_bytes(shape)
    for n, batch in ((1, "whole"), (5, "image"), (1, "whole")):
        x, w, _ = reference.operands(replace(shape, n=n), settings.generator(n))
        limit = one + 100
        kernel = warpconv.specialize(replace(shape, n=n), device="cpu", algorithm="im2col", workspace_limit=limit)
        assert kernel.plan.settings() == {"batch": batch} and kernel.workspace_bytes(replace(shape, n=n)) <= limit
        for _ in range(2):
            out = warpconv.conv2d(x, w, device="cpu", algorithm="im2col", workspace_limit=limit)
            reference.expected(x, w, replace(shape, n=n)).check(out)
    with pytest.raises(UnsupportedSpec, match="over the limit of 7"):
        warpconv.conv2d(x, w, device="cpu", algorithm="im2col", workspace_limit=7)
    with env.scope(workspace_limit="3K"), pytest.raises(UnsupportedSpec, match="over the limit of 3072"):
        warpconv.specialize(shape, device="cpu", algorithm="im2col")
    with pytest.raises(ArgumentError, match="a plan has"):
        warpconv.specialize(shape, device="cpu", plan=plan_layer(shape), workspace_limit=7)


@needs_cpu
@pytest.mark.parametrize("algorithm, values", [("im2col", {"batch": "image"}), ("im2col", {"batch": "whole"}),
                                               ("im2win_basic", {})])
@pytest.mark.parametrize("epilogue", [(), ("bias", "relu")])
def test_planned_bytes_are_those_that_are_allocated(monkeypatch, algorithm, values, epilogue):
    pool = Pool()
    monkeypatch.setattr(backend._Executor, "allocate", pool.allocate)
    monkeypatch.setattr(backend._Executor, "release", pool.release)
    kernel = checks.check_layer("cpu", SMALL, algorithm, values,
                                [warpconv.codegen.spec.Epilogue(step) for step in epilogue])
    assert pool.most == kernel.workspace_bytes(SMALL) > 0 and pool.alive == {}


class Pool:
    """Records what is alive."""

    def __init__(self) -> None:
        self.alive: dict[str, int] = {}
        self.most = 0

    def allocate(self, workspace, nbytes: int) -> np.ndarray:
        self.alive[workspace.name] = nbytes
        self.most = max(self.most, sum(self.alive.values()))
        return np.full(nbytes, 0xff, np.uint8)

    def release(self, workspace, memory: np.ndarray) -> None:
        assert self.alive.pop(workspace.name) == memory.nbytes


@pytest.mark.parametrize("words, message", [
    (["explain", "--workspace-limit", "1M"], "over the limit of 1048576 bytes"),
    (["emit", "--algorithm", "im2win_basic", "--workspace-limit", "100"], "is over the limit of 100 bytes"),
    (["emit", "--workspace-limit", "1T"], "--workspace-limit"),
    (["emit", "--workspace-limit", "-1"], "--workspace-limit"),
    (["tune", "--workspace-limit", "1M"], "every configuration is measured")])
def test_the_limit_on_the_command_line(words, message):
    layer = ["--input", "8,64,56,56", "--filter", "64,3,3"]
    made = CliRunner().invoke(cli, [words[0], *layer, *words[1:]])
    assert message in " ".join(made.output.split()) and (made.exit_code == 0) == (words[0] == "explain")
    assert "Traceback" not in made.output


def test_the_environment_limits_the_command_line_and_layers_of_files(monkeypatch):
    layer = ["--input", "8,64,56,56", "--filter", "64,3,3", "--algorithm", "im2win_basic", "--json"]
    monkeypatch.setenv("WARPCONV_WORKSPACE_LIMIT", "64K")
    assert "over the limit of 65536 bytes" in CliRunner().invoke(cli, ["explain", *layer[:-3], "--json"]).output
    named = NamedLayer(name="conv9", shape=TWELVE["conv9"], algorithm="im2win_basic")
    with pytest.raises(UnsupportedSpec, match="over the limit of 65536"):
        named.plan("sm_90")
    monkeypatch.setenv("WARPCONV_WORKSPACE_LIMIT", "2G")
    record = json.loads(CliRunner().invoke(cli, ["inspect", *layer, "--no-source", "--no-measure"]).output)
    plan = named.plan("sm_90")
    assert record["workspace_bytes"] == plan.program.workspace_bytes(replace(TWELVE["conv9"], n=8)) > 0


@needs_cpu
def test_inspect_says_what_the_library_does():
    layer = ["--input", "1,2,9,9", "--filter", "2,3,3", "--algorithm", "im2col", "--no-source"]
    text = CliRunner().invoke(cli, ["inspect", *layer]).output
    assert "gemm_batch(w, columns, y, scratch): cuBLAS on a GPU, NumPy on the CPU device" in text
    record = json.loads(CliRunner().invoke(cli, ["inspect", *layer, "--json"]).output)
    assert record["library"] == ["library gemm_batch(w, columns, y, scratch)"]
    assert record["measured"]["worst_ratio"] < 1


# ---- counts

@needs_cpu
def test_the_transform_stores_each_element_once_in_full_lines():
    shape = ConvShape(n=2, c=5, h=12, w=64, k=1, r=3, s=3, padding=(0, 1))
    plan = plan_layer(shape, algorithm="im2win_basic")
    transform = checks.check_checked(plan, shape)[1]        # behind that of the filter
    elements = plan.numbers.tensor.elements(shape)
    assert elements * 4 == plan.program.workspace_bytes(shape)
    stores = transform.buffers["windows"]
    assert stores.store_bytes == elements * 4
    assert stores.store_requests == shape.n * shape.c * shape.p * -(-plan.numbers.tensor.row(shape) // 32)


@needs_cpu
def test_a_program_of_several_steps_is_measured_whole_and_reduced_with_all_its_steps():
    shape = ConvShape(n=4, c=16, h=20, w=20, k=48, r=3, s=3, padding=1)
    for algorithm in ("im2col", "im2win_basic"):
        plan = plan_layer(shape, algorithm=algorithm, epilogue=("bias",))
        small = reduced(plan)
        assert len(small.program.steps) == len(plan.program.steps) and small.spec.c < shape.c
        assert measure(small, small.spec.example_shape(h=20, w=20)).accuracy.within


# ---- the libraries

class HostCublas:
    """cuBLAS's side of the binding on host memory, column by column as cuBLAS counts."""

    Operation = SimpleNamespace(N=0)
    PointerMode = SimpleNamespace(HOST=0)
    Math = SimpleNamespace(DEFAULT_MATH=0)

    def __init__(self) -> None:
        self.made: list[int] = []
        self.calls: list[tuple] = []

    def create(self) -> int:
        self.made.append(len(self.made) + 1)
        return self.made[-1]

    def set_pointer_mode(self, handle: int, mode: int) -> None:
        assert mode == 0

    def set_math_mode(self, handle: int, mode: int) -> None:
        assert mode == self.Math.DEFAULT_MATH, "float32 means float32"

    def set_stream(self, handle: int, stream: int) -> None:
        self.calls.append(("stream", stream))

    def set_workspace(self, handle: int, pointer: int, nbytes: int) -> None:
        assert self.calls[-1][0] == "stream", "a stream that is set later forgets the workspace"
        self.calls.append(("workspace", pointer, nbytes))

    def sgemm_strided_batched_64(self, handle, trans_a, trans_b, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta,
                                 c, ldc, step_c, count) -> None:
        assert (trans_a, trans_b) == (0, 0)
        one, zero = (ctypes.c_float.from_address(at).value for at in (alpha, beta))
        assert (one, zero) == (1.0, 0.0)
        for i in range(count):
            left, right, out = (columns(at + 4 * i * step, rows, wide, leading) for at, step, rows, wide, leading in (
                (a, step_a, m, k, lda), (b, step_b, k, n, ldb), (c, step_c, m, n, ldc)))
            out[:] = left @ right
        self.calls.append(("gemm", count))


def columns(address: int, rows: int, wide: int, leading: int) -> np.ndarray:
    assert leading >= rows
    raw = (ctypes.c_float * (leading * wide)).from_address(address)
    return np.frombuffer(raw, np.float32).reshape(wide, leading)[:, :rows].T


@pytest.fixture
def host_cublas(monkeypatch):
    from warpconv.runtime.cuda import contexts, streams
    made = HostCublas()
    monkeypatch.setattr(cublas, "binding", lambda: made)
    monkeypatch.setattr(cublas, "_free", {})
    monkeypatch.setattr(contexts, "context_key", lambda: ("id", 1))
    monkeypatch.setattr(streams, "relaxed_capture", lambda: SimpleContext())
    return made


class SimpleContext:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.mark.parametrize("n, groups", [(1, 1), (5, 1), (1, 3), (2, 3), (5, 3), (3, 3)])
def test_cublas_is_asked_for_the_product_that_numpy_makes(host_cublas, n, groups):
    shape = ConvShape(n=n, c=2 * groups, h=5, w=6, k=3 * groups, r=2, s=3, groups=groups)
    rng = settings.generator(n + groups)
    w, made, asked = rng.standard_normal(shape.weight_shape, np.float32), *(
        np.full(shape.output_shape, np.nan, np.float32) for _ in range(2))
    lowered = rng.standard_normal((n, shape.c * 6, shape.p * shape.q), np.float32)
    numpy_gemm.gemm_batch(SimpleNamespace(wrote=lambda y: None), shape, [w, lowered, made, None])
    assert np.isfinite(made).all()
    executor = SimpleNamespace(stream=77, nbytes=lambda pointer: {4096: 100}[pointer])
    cublas.gemm_batch(executor, shape, [w.ctypes.data, lowered.ctypes.data, asked.ctypes.data, 4096])
    np.testing.assert_allclose(asked, made, rtol=2e-5, atol=1e-5)
    assert host_cublas.calls[:2] == [("stream", 77), ("workspace", 4096, 100)]
    assert sum(call[1] for call in host_cublas.calls if call[0] == "gemm") == n * groups
    assert len([call for call in host_cublas.calls if call[0] == "gemm"]) == (1 if 1 in (n, groups) else min(n, groups))
    for image in range(n):
        one, other = np.full_like(made, np.nan), np.full_like(made, np.nan)
        cublas.gemm_image(executor, shape, [w.ctypes.data, lowered[image].ctypes.data, one.ctypes.data, 4096, image])
        numpy_gemm.gemm_image(SimpleNamespace(wrote=lambda y: None), shape, [w, lowered[image], other, None, image])
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)
        assert np.isnan(np.delete(one, image, 0)).all() and np.isfinite(one[image]).all()
    assert host_cublas.made == [1], "one handle, used again"


def test_threads_at_work_at_the_same_time_have_handles_of_their_own(host_cublas):
    with cublas._handle() as first:
        with cublas._handle() as second:
            assert first != second
    with cublas._handle() as again:
        assert again in (first, second) and len(host_cublas.made) == 2


def test_a_failure_of_the_library_is_a_device_error_and_the_handle_comes_back(host_cublas, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")

    monkeypatch.setattr(host_cublas, "sgemm_strided_batched_64", broken, raising=False)
    executor = SimpleNamespace(stream=0, nbytes=lambda pointer: 100)
    with pytest.raises(DeviceError, match="CUBLAS_STATUS_NOT_SUPPORTED") as caught:
        cublas.gemm_batch(executor, SMALL, [0, 0, 0, 4096])
    assert cublas.EXTRA in caught.value.hint and cublas._free == {("id", 1): [1]}


def test_without_the_binding_there_is_no_kernel_for_a_gpu(monkeypatch):
    cublas.binding.cache_clear()
    for name in ("nvmath", "nvmath.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    program = plan_layer(SMALL, algorithm="im2col").program
    with pytest.raises(DeviceError) as caught:
        CudaBackend(program, b"", 0)
    assert cublas.EXTRA in caught.value.hint and caught.value.argument == "algorithm"
    steps.require(program, "cpu")
    CudaBackend(plan_layer(SMALL, algorithm="im2win_basic").program, b"", 0)
    cublas.binding.cache_clear()


def test_a_binding_that_breaks_is_a_device_error(monkeypatch):
    cublas.binding.cache_clear()
    broken = SimpleNamespace(__path__=[], __name__="nvmath", __spec__=None)
    monkeypatch.setitem(sys.modules, "nvmath", broken)
    monkeypatch.delitem(sys.modules, "nvmath.bindings", raising=False)
    with pytest.raises(DeviceError) as caught:
        cublas.require()
    assert cublas.EXTRA in caught.value.hint
    cublas.binding.cache_clear()


@needs_cpu
def test_the_products_are_numpys_on_the_cpu_device_and_every_access_around_them_is_checked():
    for batch in ("image", "whole"):
        plan = plan_layer(SMALL, algorithm="im2col", settings={"batch": batch}, epilogue=("bias", "relu"))
        kernel = checks.cpu_kernel(plan, Mode.CHECK)
        checks.check_kernel(kernel, SMALL)
        launches = SMALL.n + 1 if batch == "image" else 2
        assert len(kernel._backend.reports) == launches
        assert set().union(*(report.buffers for report in kernel._backend.reports)) == {"x", "columns", "bias", "y"}

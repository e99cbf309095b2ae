"""Packs served: to GPUs of their architecture or newer, to conv2d, on the CPU; no compiler, template or disk needed."""

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpconv
from tests.reference import expected, operands
from tests.runtime.pack.pack_tools import LAYERS, SHAPE, FakeCudaBackend, use_fake_gpu
from tests.runtime.pack.test_pack import compiler, folder, path  # noqa: F401
from warpconv.codegen.errors import (ArgumentError, ArgumentTypeError, DeviceError, KernelNotBuilt, PackError,
                                     ToolNotFound, UnsupportedSpec)
from warpconv.codegen.plan import Role
from warpconv.codegen.request import Request
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec
from warpconv.runtime.call import conv, kernels
from warpconv.runtime.layers import NamedLayer, read_layers
from warpconv.runtime.pack.check import check_program
from warpconv.runtime.pack.choice import PtxTooNew, serves
from warpconv.runtime.pack.pack import build_pack, find_in_packs, open_pack

STRIDED = LAYERS[1].shape
FUSED = LAYERS[1].epilogue


def has_cxx():
    from warpconv.runtime import env
    from warpconv.runtime.devices.cpu.toolchain import find_toolchain
    try:
        find_toolchain(env.settings().cxx)
    except ToolNotFound:
        return False
    return True


needs_cxx = pytest.mark.skipif(not has_cxx(), reason="no C++ compiler for the CPU device")


def test_a_cubin_is_served_to_the_gpu(path, monkeypatch):
    use_fake_gpu(monkeypatch, "sm_86")
    pack = open_pack(path)
    kernel = pack.specialize(SHAPE, device="cuda")
    assert (kernel.device, str(kernel.spec.arch), kernel.plan) == ("cuda:0", "sm_80", None)
    assert FakeCudaBackend.made[0].code == kernel.report.cubin and "sm_80" in kernel.source
    assert pack.specialize(SHAPE.with_batch(64)) is kernel              # sizes that its plan takes
    assert pack.specialize(replace(SHAPE, n=1, h=99)) is kernel
    fused = pack.specialize(STRIDED, epilogue=("bias", "relu"), device="cuda:0")
    assert fused.spec.epilogue == FUSED == pack.specialize(STRIDED, bias=True, activation="relu").spec.epilogue
    assert len(FakeCudaBackend.made) == 2


def test_ptx_is_served_to_a_newer_gpu(path, monkeypatch):
    use_fake_gpu(monkeypatch, "sm_100")
    kernel = open_pack(path).specialize(SHAPE, device="cuda")
    assert FakeCudaBackend.made[0].code == kernel.report.ptx.encode() + b"\0" and str(kernel.spec.arch) == "sm_90"


@pytest.mark.parametrize("driver, words", [
    ((12, 2), "8.4, and this driver, which is made for CUDA 12.2, reads up to 8.2"),
    (None, "8.4, and this driver is older")])
def test_ptx_newer_than_the_driver(folder, monkeypatch, driver, words):
    use_fake_gpu(monkeypatch, "sm_100", driver)
    FakeCudaBackend.error = DeviceError("the kernel does not load on a GPU: its PTX is newer than the driver")
    with pytest.raises(PtxTooNew, match=words) as caught:
        open_pack(folder).specialize(SHAPE, device="cuda")
    assert f"--arch sm_100 -o {folder}" in str(caught.value)


def test_other_errors_of_the_driver_stay(folder, monkeypatch):
    use_fake_gpu(monkeypatch, "sm_100")
    FakeCudaBackend.error = DeviceError("out of memory")
    with pytest.raises(DeviceError, match="^out of memory"):
        open_pack(folder).specialize(SHAPE, device="cuda")


def test_what_is_not_there_names_the_command(path, monkeypatch):
    use_fake_gpu(monkeypatch, "sm_75")
    with pytest.raises(KernelNotBuilt, match="no kernel for sm_75") as caught:
        open_pack(path).specialize(SHAPE, device="cuda")
    assert caught.value.command.startswith("warpconv build --input N,3,H,")
    assert caught.value.command.endswith(f"--arch sm_75 -o {path}") and caught.value.spec.c == 3
    use_fake_gpu(monkeypatch, "sm_90")
    assert "direct" not in {kernel.spec.algorithm for kernel in open_pack(path).kernels()}
    for change in ({"epilogue": "relu"}, {"algorithm": "direct"}, {"arch": "sm_86"}):
        with pytest.raises(KernelNotBuilt) as caught:
            open_pack(path).specialize(SHAPE, device="cuda", **change)
        assert ("--epilogue relu" in caught.value.command) == ("epilogue" in change)
    with pytest.raises(KernelNotBuilt) as caught:
        open_pack(path).specialize(ConvShape(n=32, c=64, h=56, w=56, k=64, r=1, s=1), device="cuda", precision="tf32")
    assert "--precision tf32" in caught.value.command and caught.value.spec.algorithm == "pointwise"
    with pytest.raises(UnsupportedSpec):
        open_pack(path).specialize(STRIDED, algorithm="reuse", epilogue=FUSED)
    with pytest.raises(ArgumentError):
        open_pack(path).specialize(STRIDED, algorithm="winograd")
    with pytest.raises(ArgumentTypeError):
        open_pack(path).specialize((1, 2, 3, 4))


def test_what_is_near_is_named(path, monkeypatch):
    """docs/packs.md built with bias and relu and asked without; nothing said that the layer is there with them."""
    use_fake_gpu(monkeypatch, "sm_90")
    pack = open_pack(path)
    with pytest.raises(KernelNotBuilt, match=r"this layer with epilogue bias, relu \(.* for sm_80, .* for sm_90\)"):
        pack.specialize(STRIDED, device="cuda")
    with pytest.raises(KernelNotBuilt, match="this layer without an epilogue"):
        pack.specialize(SHAPE, device="cuda", epilogue="relu")
    with pytest.raises(KernelNotBuilt, match="this layer as asked for .* for sm_90"):
        pack.specialize(SHAPE, device="cuda", arch="sm_86")
    with pytest.raises(KernelNotBuilt) as caught:
        pack.specialize(replace(SHAPE, k=8), device="cuda")
    assert "this layer" not in str(caught.value)


def test_the_documents_pack_serves_what_they_ask_for(tmp_path, compiler, monkeypatch):
    """The layers file and the call of docs/packs.md, as they stand there."""
    text = (Path(__file__).parents[3] / "docs" / "packs.md").read_text(encoding="utf-8")
    layers, call = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("toml", "python"))
    monkeypatch.chdir(tmp_path)
    Path("layers.toml").write_text(layers, encoding="utf-8")
    report = build_pack(read_layers("layers.toml"), "kernels.zip", ["sm_90"])
    # the form for Hopper, and the one that other GPUs of 9.0 would have
    assert report.ok and [row.arch for row in report.rows if row.status == "built"] == ["sm_90a", "sm_90"]
    use_fake_gpu(monkeypatch, "sm_90")
    before, _, after = call.partition("y = kernel(")
    names = {}
    exec(before, names)
    assert after and names["kernel"].report.cubin.startswith(b"\x7fELF")
    auto = read_layers("layers.toml")[0].plan("sm_90").spec.algorithm
    assert auto == warpconv.select(read_layers("layers.toml")[0].shape, "sm_90", epilogue=("bias", "relu")).algorithm


@pytest.mark.thin(2)
def test_arch_narrows_the_choice(path, monkeypatch):
    use_fake_gpu(monkeypatch, "sm_90")
    pack = open_pack(path)
    assert str(pack.specialize(SHAPE, device="cuda", arch="sm_90").spec.arch) == "sm_90"
    with pytest.raises(KernelNotBuilt):         # there is one, but it does not run here
        pack.specialize(SHAPE, device="cuda", arch="sm_80")


# ---- WARPCONV_PACK

def test_conv2d_looks_in_packs(path, monkeypatch, compiler):
    use_fake_gpu(monkeypatch)
    monkeypatch.setenv("WARPCONV_PACK", os.pathsep.join([str(path)]))
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    monkeypatch.setenv("WARPCONV_DISABLE_CACHE", "1")
    count = len(compiler.calls)
    kernel = conv.specialize(SHAPE, device="cuda")
    assert kernel.plan is None and kernel is find_in_packs(Request.of(SHAPE), device=0)
    with pytest.raises(KernelNotBuilt, match="no cache or pack"):
        conv.specialize(STRIDED, device="cuda")         # the pack has it with a bias only
    with pytest.raises(KernelNotBuilt):                 # plan values ask for a kernel of their own
        conv.specialize(SHAPE, device="cuda", algorithm="direct", settings={"k_tile": 1})
    assert len(compiler.calls) == count


def test_without_packs_there_is_nothing(monkeypatch):
    monkeypatch.delenv("WARPCONV_PACK", raising=False)
    assert find_in_packs(Request.of(SHAPE), device=None) is None


def test_the_first_pack_that_has_it(tmp_path, compiler, monkeypatch):
    use_fake_gpu(monkeypatch)
    build_pack(LAYERS[1:], tmp_path / "a", ["sm_90"])
    build_pack(LAYERS, tmp_path / "b.zip", ["sm_90"])
    monkeypatch.setenv("WARPCONV_PACK", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b.zip'}")
    assert find_in_packs(Request.of(SHAPE), device=0) is not None
    build_pack(LAYERS[:1], tmp_path / "a", ["sm_90"])   # a pack that has changed is opened again
    made = len(FakeCudaBackend.made)
    assert find_in_packs(Request.of(SHAPE), device=0) is find_in_packs(Request.of(SHAPE), device=0)
    assert len(FakeCudaBackend.made) == made + 1


def test_a_damaged_pack_is_an_error_not_a_miss(folder, monkeypatch):
    use_fake_gpu(monkeypatch)
    monkeypatch.setenv("WARPCONV_PACK", str(folder))
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(PackError):
        find_in_packs(Request.of(SHAPE), device=0)
    monkeypatch.setenv("WARPCONV_PACK", str(folder / "missing"))
    with pytest.raises(PackError):
        find_in_packs(Request.of(SHAPE), device=0)


def test_ptx_too_new_is_a_miss_while_compiling_is_on(folder, monkeypatch, caplog):
    use_fake_gpu(monkeypatch, "sm_100", (12, 2))
    monkeypatch.setenv("WARPCONV_PACK", str(folder))
    assert find_in_packs(Request.of(SHAPE), device=0) is None and "reads up to 8.2" in caplog.text
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    with pytest.raises(PtxTooNew):
        find_in_packs(Request.of(SHAPE), device=0)


SERVING = """
    import subprocess, sys, os

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("jinja2", "pycuda", "tomllib", "tomli", "filelock", "platformdirs"):
                raise ImportError(f"{name} is blocked")

    sys.meta_path.insert(0, Blocked())

    def forbidden(*arguments, **options):
        raise AssertionError(f"a process is started: {arguments}")

    subprocess.Popen.__init__ = os.system = os.posix_spawn = forbidden
    import warpconv
    from warpconv.runtime.call import conv, kernels
    from warpconv.runtime.devices.cuda import backend, contexts
    from warpconv.runtime.pack import pack

    class Backend:
        def __init__(self, program, code, ordinal):
            self.device, self.ordinal = f"cuda:{ordinal}", ordinal
        def load(self):
            pass

    backend.CudaBackend = Backend
    contexts.usable, contexts.default_device, contexts.arch = lambda: None, lambda: 0, lambda ordinal: "sm_90"
    contexts.hardware = lambda ordinal: warpconv.codegen.hardware.Hardware.of("sm_90")
    shape = warpconv.ConvShape(n=2, c=3, h=20, w=40, k=4, r=3, s=3)
    kernel = warpconv.open_pack(sys.argv[1]).specialize(shape, device="cuda")
    assert kernel.source.startswith("//") and kernel.report.cubin.startswith(b"\\x7fELF")
    assert warpconv.specialize(shape, device="cuda").plan is None
    assert "jinja2" not in sys.modules
    print("served")
"""


def test_serving_needs_no_jinja_no_process_and_no_disk(path):
    environment = {**os.environ, "WARPCONV_PACK": str(path), "WARPCONV_CACHE_DIR": "/dev/null/none"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SERVING), str(path)], env=environment, text=True,
                          capture_output=True, timeout=120)
    assert done.stdout == "served\n", done.stderr


# ---- the text of a pack, executed

@needs_cxx
@pytest.mark.parametrize("algorithm", ["direct", "reuse"])
def test_a_packs_kernel_on_the_cpu(tmp_path, compiler, algorithm):
    shape = ConvShape(n=2, c=3, h=20, w=70, k=4, r=3, s=3, padding=1)
    layer = NamedLayer(name="layer", shape=shape, algorithm=algorithm, epilogue=(Epilogue.BIAS, Epilogue.RELU))
    build_pack([layer], tmp_path / "pack.zip", ["sm_90"])
    kernel = open_pack(tmp_path / "pack.zip").specialize(shape, device="cpu", bias=True, activation="relu")
    x, w, bias = operands(shape, np.random.default_rng(1))
    expected(x, w, shape, bias=bias, epilogue=layer.epilogue).check(kernel(x, w, bias), algorithm)
    assert kernel.device == "cpu" and kernel.spec.algorithm == algorithm


@needs_cxx
def test_conv2d_on_the_cpu_from_a_pack(tmp_path, compiler, monkeypatch):
    build_pack(LAYERS[:1], tmp_path / "pack", ["sm_80", "sm_90"])
    monkeypatch.setenv("WARPCONV_PACK", str(tmp_path / "pack"))
    monkeypatch.setattr(kernels, "make", lambda *a: pytest.fail("the pack has this kernel"))
    x, w, _ = operands(SHAPE, np.random.default_rng(2))
    expected(x, w, SHAPE).check(conv.conv2d(x, w, device="cpu"))
    assert str(conv.specialize(SHAPE, device="cpu").spec.arch) == "sm_90"
    assert str(conv.specialize(SHAPE, device="cpu", arch="sm_80").spec.arch) == "sm_80"


@needs_cxx
def test_a_kernel_that_leans_on_a_library_is_served_to_those_who_name_it(tmp_path, compiler):
    matrix = ConvShape(n=2, c=8, h=9, w=9, k=4, r=1, s=1)       # whose text has no entry at all
    build_pack([NamedLayer(name="lowered", shape=SHAPE, algorithm="im2col"),
                NamedLayer(name="matrix", shape=matrix, algorithm="im2col")], tmp_path / "pack", ["sm_90"])
    pack = open_pack(tmp_path / "pack")
    for shape in (SHAPE, matrix):
        x, w, _ = operands(shape, np.random.default_rng(8))
        kernel = pack.specialize(shape, device="cpu", algorithm="im2col")
        expected(x, w, shape).check(kernel(x, w))
        assert pack.find(Request.of(shape), device=None) is None
        needed = kernel.workspace_bytes(shape)
        named = Request.of(shape, algorithm="im2col", workspace_limit=needed)
        assert pack.find(named, device=None) is kernel
        assert pack.find(replace(named, workspace_limit=needed - 1), device=None) is None


# ---- the value of a border, which is an argument

BORDERED = replace(SHAPE, padding=1, padding_mode="constant", padding_value=1.0)


def literal(record):
    """A record as versions had it whose texts held their border's value: no argument, and the value in the spec."""
    built, name = record.kernel, record.kernel.program.border.name
    program = replace(built.program, arguments=tuple(a for a in built.program.arguments if a.role is not Role.BORDER),
                      steps=tuple(replace(step, arguments=tuple(a for a in step.arguments if a != name))
                                  for step in built.program.steps))
    return replace(record, kernel=replace(built, spec=replace(built.spec, padding_value=1.0), program=program))


def test_a_pack_serves_every_value_of_a_border(compiler, tmp_path, monkeypatch):
    two = [NamedLayer(name=f"border_{value:g}", shape=replace(BORDERED, padding_value=value)) for value in (1.0, 2.0)]
    build_pack(two, tmp_path / "pack", archs=("sm_90",))
    pack = open_pack(tmp_path / "pack")
    assert len(pack.kernels()) == 1 and set(pack.kernels()[0].layers) == {"border_1", "border_2"}
    use_fake_gpu(monkeypatch, "sm_90")
    found = [pack.specialize(replace(BORDERED, padding_value=value), device="cuda") for value in (1.0, 2.0, -7.5)]
    assert [kernel.padding_value for kernel in found] == [1.0, 2.0, -7.5]
    assert len({id(kernel.backend) for kernel in found}) == 1
    with pytest.raises(KernelNotBuilt):
        pack.specialize(replace(BORDERED, padding_mode="zeros", padding_value=0.0), device="cuda")


def test_a_pack_of_a_version_whose_texts_held_the_value(compiler, tmp_path, monkeypatch):
    """It serves that value alone; others are built, or said to be missing."""
    build_pack([NamedLayer(name="bordered", shape=BORDERED)], tmp_path / "pack", archs=("sm_90",))
    pack = open_pack(tmp_path / "pack")
    old = literal(pack._manifest.records[0])
    check_program(old.kernel.program, old.kernel.spec)
    assert serves(old.kernel.spec, BORDERED, ()) and old.kernel.spec.takes_border(1.0)
    assert not serves(old.kernel.spec, replace(BORDERED, padding_value=2.0), ())
    assert decode(KernelSpec, encode(old.kernel.spec)) == old.kernel.spec
    with pytest.raises(ValueError, match="no such argument"):       # neither an argument nor in the text
        check_program(old.kernel.program, replace(old.kernel.spec, padding_value=0.0))
    monkeypatch.setattr(pack, "_manifest", replace(pack._manifest, records=(old,)))
    use_fake_gpu(monkeypatch, "sm_90")
    monkeypatch.setattr("warpconv.runtime.pack.pack.load", lambda tree, record, path: record.kernel)
    kernel = pack.specialize(BORDERED, device="cuda")
    assert kernel.padding_value == 1.0 and kernel.for_border(1.0) is kernel
    with pytest.raises(ArgumentError, match="made for other borders"):
        kernel.for_border(2.0)
    with pytest.raises(KernelNotBuilt):
        pack.specialize(replace(BORDERED, padding_value=2.0), device="cuda")


@needs_cxx
def test_a_pack_s_text_with_another_value(compiler, tmp_path):
    build_pack([NamedLayer(name="bordered", shape=BORDERED)], tmp_path / "pack", archs=("sm_90",))
    pack = open_pack(tmp_path / "pack")
    x, w, _ = operands(BORDERED, np.random.default_rng(8))
    for value in (1.0, -2.5):
        shape = replace(BORDERED, padding_value=value)
        expected(x, w, shape).check(pack.specialize(shape, device="cpu")(x, w), f"a border of {value}")

"""What a kernel is found by: every field that can change its text changes its keys, and nothing else does."""

import dataclasses
import enum

import pytest

from tests import cases
from tests.algorithms import ROWS
from warpconv.codegen import render
from warpconv.codegen.border import Border, BorderValue
from warpconv.codegen.dtypes import Cast, DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.options import with_settings
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import canonical, plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics, Operation
from warpconv.runtime import env
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import CudaTarget, cache_key

SHAPE = ConvShape(c=4, h=50, w=60, k=8, r=3, s=3, padding=1, groups=2)
OTHER = {"algorithm": "direct", "c": 8, "k": 16, "r": 5, "s": 5, "stride": (2, 2), "padding": ((1, 1), (1, 2)),
         "dilation": (2, 1), "groups": 4, "dtype": DType.FLOAT16, "layout": Layout.NHWC, "numerics": Numerics.FLOAT16,
         "epilogue": (Epilogue.RELU,), "arch": Arch(8, 0), "index_bits": 64,
         "padding_mode": Border.REFLECT, "padding_value": 1.0, "weight_dtype": DType.INT8, "out_dtype": DType.FLOAT16,
         "cast": Cast.TRUNCATE, "separable": True, "pitched": True, "t": 3,
         "operation": Operation.DATA_GRADIENT,
         "border_value": BorderValue.NUMBER}
ONE_VALUE: set[str] = set()    # enums of one member: nothing to perturb yet
BASE = plan_layer(SHAPE, algorithm="reuse")


def key(made, kind=CompilerKind.NVRTC, ptx=False, **settings):
    return cache_key(made, CudaTarget(kind, ptx), dataclasses.replace(env.settings(), **settings)).digest


def test_every_stored_field_of_the_spec_is_perturbed_here():
    names = {field.name for field in dataclasses.fields(KernelSpec) if field.metadata.get("stored", True)}
    assert names == set(OTHER) | ONE_VALUE
    for name in ONE_VALUE:
        assert len(type(getattr(BASE.spec, name))) == 1, f"{name} has a second value: perturb it"


@pytest.mark.parametrize("name", OTHER)
def test_a_field_of_the_spec_changes_both_keys(name):
    assert getattr(BASE.spec, name) != OTHER[name]
    changed = dataclasses.replace(BASE, spec=dataclasses.replace(BASE.spec, **{name: OTHER[name]}))
    assert canonical(changed.spec) != canonical(BASE.spec) and changed.spec != BASE.spec
    assert plan_digest(changed) != plan_digest(BASE) and key(changed) != key(BASE)


@pytest.mark.thin(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_plan_value_changes_both_keys(algorithm):
    rounded = ALGORITHMS[algorithm].float32 == (Numerics.TF32,)
    layer = ConvShape(**ROWS[algorithm].typical)
    base = plan_layer(layer, algorithm=algorithm, precision="tf32" if rounded else "float32")
    for field in dataclasses.fields(base.options):
        value = getattr(base.options, field.name)
        others = [m for m in type(value) if m is not value] if isinstance(value, enum.Enum) else [value + 1, 97]
        for other in others:
            changed = dataclasses.replace(base, options=with_settings(base.options, {field.name: other}))
            assert plan_digest(changed) != plan_digest(base), field.name
            assert key(changed) != key(base), field.name


@pytest.mark.thin(24)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_plans_of_equal_digest_have_equal_text_and_the_others_not(algorithm):
    texts: dict[str, str] = {}
    for case in (*cases.every_value(algorithm), *cases.table(algorithm)[::5]):
        made = case.plan()
        assert texts.setdefault(plan_digest(made), text := render.render(made).text) == text
    assert len(set(texts.values())) == len(texts)


def test_compiler_architecture_options_and_ptx_are_in_the_disk_key():
    keys = {key(BASE), key(BASE, CompilerKind.NVCC), key(BASE, ptx=True), key(BASE, nvcc_flags=("-use_fast_math",)),
            key(BASE, lineinfo=True)}
    assert len(keys) == 5


def test_the_generator_is_in_the_key(monkeypatch):
    before = plan_digest(BASE), key(BASE)
    monkeypatch.setattr(render, "generator_digest", lambda algorithm: "another")
    assert plan_digest(BASE) != before[0] and key(BASE) != before[1]


@pytest.fixture
def digests(monkeypatch):
    """Each algorithm's digest, as it would be if the file that ends so were edited."""
    files = render._sources()

    def of(ending=None):
        edited = [(path, data + b"\n") if ending and path.endswith(ending) else (path, data) for path, data in files]
        assert ending is None or edited != files
        monkeypatch.setattr(render, "_sources", lambda: edited)
        render.generator_digest.cache_clear()
        return {name: render.generator_digest(name) for name in ("", *ALGORITHMS)}

    yield of
    render.generator_digest.cache_clear()


@pytest.mark.parametrize("ending, rooms", [
    ("codegen/algorithms/wide/plan.py", {"wide"}), ("templates/wide/kernel.cu.jinja", {"wide"}),
    ("codegen/algorithms/toeplitz/numbers.py", {"toeplitz"}),
    ("templates/course/layer.cuh.jinja", {"naive", "constant", "tiled", "halo_cached", "coarsened", "im2win_basic"}),
    ("codegen/parts/vectors.py", set(ALGORITHMS)), ("codegen/shape.py", set(ALGORITHMS)),
    ("templates/parts/elements.cuh.jinja", set(ALGORITHMS))])
def test_an_edit_of_one_algorithm_leaves_the_keys_of_the_others(digests, ending, rooms):
    before, after = digests(), digests(ending)
    assert {name for name in before if before[name] != after[name]} == {"", *rooms}


def test_an_algorithm_from_elsewhere_is_known_by_its_own_package(digests, monkeypatch):
    def elsewhere(spec, options):
        raise NotImplementedError

    before = digests()
    monkeypatch.undo()
    monkeypatch.setattr(elsewhere, "__module__", "warpconv.runtime.env")     # any package that is not the generator's
    monkeypatch.setitem(ALGORITHMS, "mine", dataclasses.replace(ALGORITHMS["direct"], name="mine", plan=elsewhere))
    render.generator_digest.cache_clear()
    assert "warpconv.runtime/env.py" in dict(render._sources())
    after = {name: render.generator_digest(name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {""}
    assert render.generator_digest("mine") not in after.values()


@pytest.mark.parametrize("algorithm", ["reuse", "direct"])
@pytest.mark.parametrize("size", [3, 5, 7])
def test_a_batch_of_three_and_of_four_share_a_kernel(algorithm, size):
    """At every image size: no default may depend on the batch."""
    for side in (32, 56, 100, 224, 400, 680, 1024):
        layer = ConvShape(c=3, h=side, w=side, k=4, r=size, s=size, padding="same")
        digests = {plan_digest(plan_layer(layer.with_batch(n), algorithm=algorithm)) for n in (1, 2, 3, 4, 16, 128)}
        assert len(digests) == 1, f"images of {side}"


def test_sizes_are_arguments():
    made = plan_layer(SHAPE, algorithm="reuse")
    for h, w in ((50, 61), (51, 60), (500, 10), (9, 9)):
        other = dataclasses.replace(SHAPE, h=h, w=w)
        assert plan_digest(plan(KernelSpec.of(other, algorithm="reuse", arch=Arch(9, 0)), made.settings(), other)) \
            == plan_digest(made)


def test_digests_are_the_same_for_equal_plans_made_apart():
    again = plan_layer(ConvShape(c=4, h=50, w=60, k=8, r=3, s=3, padding=(1, 1), groups=2), algorithm="reuse")
    assert plan_digest(again) == plan_digest(BASE) and key(again) == key(BASE)


@pytest.mark.long
def test_names_are_safe_for_files_and_c():
    for case in cases.every_value():
        try:
            made = case.plan()
        except UnsupportedSpec:
            continue
        assert made.spec.name.isidentifier() and made.spec.name.isascii()
        assert cache_key(made, CudaTarget(CompilerKind.NVRTC), env.settings()).directory.startswith(made.spec.name)

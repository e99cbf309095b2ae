"""The table of GPUs, and that plans are made for the chip at hand."""

from __future__ import annotations

import json

import pytest

from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.hardware import H200, H200_SHARED_FILLED, LANES, Arch, Hardware, TensorCores
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.serialise import canonical, decode, plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.pack.pack import build_pack
from warpconv.runtime.tuning.choice import tuning_table

ARCHES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120",
          "sm_121")
PLANE = ConvShape(c=1, k=1, h=1024, w=1024, r=3, s=3, padding=1)
L4 = Hardware.of("sm_89", multiprocessors=58, l2_bytes=48 << 20)


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_are_of_gpus_that_can_be(arch: str) -> None:
    gpu = Hardware.of(arch)
    assert gpu.arch == Arch.parse(arch) and gpu.at_hand is None
    assert gpu.resident_warps * LANES == gpu.resident_threads
    assert 48 * 1024 < gpu.shared_block <= gpu.shared_multiprocessor < gpu.cached_multiprocessor
    assert gpu.async_copies is (gpu.arch.major >= 8) and gpu.bulk_copies is (gpu.arch.major >= 9)


def test_limits_of_the_programming_guide() -> None:
    """Opt-in shared memory of a block, resident threads and blocks: its table of technical specifications."""
    found = {arch: (gpu.shared_block >> 10, gpu.resident_threads, gpu.resident_blocks)
             for arch, gpu in ((arch, Hardware.of(arch)) for arch in ARCHES)}
    assert found == {"sm_75": (64, 1024, 16), "sm_80": (163, 2048, 32), "sm_86": (99, 1536, 16),
                     "sm_87": (163, 1536, 16), "sm_89": (99, 1536, 24), "sm_90": (227, 2048, 32),
                     "sm_90a": (227, 2048, 32), "sm_100": (227, 2048, 32), "sm_103": (227, 2048, 32),
                     "sm_110": (227, 1536, 24), "sm_120": (99, 1536, 24), "sm_121": (99, 1536, 24)}


def test_tensor_cores_by_target() -> None:
    assert [Hardware.of(arch).tensor_cores for arch in ("sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120")] == [
        TensorCores.MMA, TensorCores.MMA, TensorCores.WGMMA, TensorCores.TCGEN05, TensorCores.MMA]


def test_an_architecture_between_rows_has_the_one_before() -> None:
    assert Hardware.of("sm_88").resident_threads == Hardware.of("sm_87").resident_threads
    assert Hardware.of("sm_70").shared_multiprocessor == Hardware.of("sm_75").shared_multiprocessor


@pytest.mark.parametrize("arch", ["sm_33", "sm_60", "sm_130", "sm_999", "9.9.9"])
def test_architectures_that_no_kernel_is_generated_for(arch: str, tmp_path) -> None:
    """The command line's words, wherever one is named (tests/api/test_cli.py has those)."""
    words = "7.0 to 12.x" if arch != "9.9.9" else "not a GPU architecture"
    for asked in (Arch.parse, Hardware.of, lambda arch: plan_layer(PLANE, arch=arch),
                  lambda arch: explain(PLANE, arch=arch), lambda arch: tuning_table(arch=arch),
                  lambda arch: build_pack([NamedLayer(name="a", shape=PLANE)], tmp_path / "pack", [f"{arch}+PTX"])):
        with pytest.raises(ArgumentError, match=words):
            asked(arch)


def test_a_device_newer_than_the_table_has_plans_of_its_last_row() -> None:
    """What a driver says is no wish: the compiler decides whether it knows the architecture."""
    newer = Arch.read("sm_140")
    assert str(newer) == "sm_140" and Arch.parse(newer) is newer
    assert Hardware.of(newer).shared_multiprocessor == Hardware.of("sm_121").shared_multiprocessor
    assert plan_layer(PLANE, arch=Hardware.of(newer, multiprocessors=200)).spec.arch == newer


def test_a_gpu_has_at_least_one_multiprocessor() -> None:
    with pytest.raises(ArgumentError, match="multiprocessors"):
        Hardware.of("sm_90", multiprocessors=0)


def test_blocks_have_registers_of_whole_warps() -> None:
    for threads in (1, 33, 36, 63, 120):
        whole = -(-threads // LANES) * LANES
        assert resident_blocks(H200, 96, threads) == resident_blocks(H200, 96, whole) == 682 // whole


def test_shares_are_of_the_h200() -> None:
    assert H200.share_of_shared(H200_SHARED_FILLED) == H200_SHARED_FILLED
    assert Hardware.of("sm_89").share_of_shared(H200_SHARED_FILLED) == 100 * 1024 * 200 // 228
    assert H200.issue_slots(1050) == 1050 and L4.issue_slots(132) == 58


def test_the_grid_is_filled_for_the_chip_at_hand() -> None:
    """Seen on an L4: rounds of blocks of a GPU with 132 multiprocessors, of blocks planned for 200 KB."""
    def rounds(gpu: Hardware | str) -> tuple[int, int]:
        made = plan_layer(PLANE, algorithm="wide", arch=gpu)
        return made.program.steps[0].grid[1].fill.blocks, made.options.min_blocks

    blocks, each = rounds(L4)
    assert blocks == 58 * each
    blocks, each = rounds("sm_89")
    assert blocks == 142 * each
    blocks, each = rounds("sm_90")
    assert blocks == 132 * each


def test_the_chip_at_hand_is_no_part_of_the_text() -> None:
    plans = [plan_layer(PLANE, algorithm="wide", arch=gpu) for gpu in (L4, "sm_89")]
    assert render(plans[0]).text == render(plans[1]).text
    assert canonical(plans[0].spec) == canonical(plans[1].spec)
    assert decode(KernelSpec, json.loads(canonical(plans[0].spec))) == plans[1].spec
    assert plan_digest(plans[0]) != plan_digest(plans[1])       # its launch differs
    direct = [plan_layer(PLANE, algorithm="direct", arch=gpu) for gpu in (L4, "sm_89")]
    assert plan_digest(direct[0]) == plan_digest(direct[1])


def test_the_architectures_own_chip_is_nobody_at_hand() -> None:
    assert Hardware.of("sm_90", multiprocessors=132, l2_bytes=H200.l2_bytes).at_hand is None
    same = plan_layer(PLANE, arch=Hardware.of("sm_90", multiprocessors=132))
    assert same == plan_layer(PLANE, arch="sm_90") and same.spec.at_hand is None


def test_estimates_follow_the_chip() -> None:
    small = ConvShape(c=1, k=1, h=256, w=256, r=5, s=5, padding=2)
    few = {c.algorithm: c.estimate for c in explain(small, L4)}
    many = {c.algorithm: c.estimate for c in explain(small, "sm_89")}
    assert few["wide"] < many["wide"]       # a start that takes the same time is fewer issue slots of a small GPU

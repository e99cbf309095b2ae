"""The plans whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

HERE = Path(__file__).parent
# every plan value that has a measured default is named, so that a better default changes one file: reuse_defaults
REUSE = {"exchange": "select", "rows": "reuse", "decomposition": "paper", "weights": "shared", "edges": "direct",
         "sub_block_rows": 56, "warp_columns": 1, "warp_rows": 4, "ring": "turning", "rows_ahead": 1,
         "k_tile": 1, "min_blocks": 1}
DIRECT = {"block_size_x": 64, "block_size_y": 4, "k_tile": 1}
CHANNELS = {"body": "ring", "vector": 1, "columns": 2, "width": "whole", "sub_block_rows": 14, "rows_ahead": 1,
            "turn_rows": 1, "copies": "cached", "block_channels": 8, "block_columns": 8, "block_rows": 1,
            "min_blocks": 4}
STAGED = {"height": 7, "width": 7, "rows": 7, "planes": 32, "buffers": 1, "stage": "async", "weights": "registers",
          "vector": 8, "min_blocks": 8, "parts": "strips"}
TOEPLITZ_NHWC = {"pairs": 2, "chunks": 4, "warps": 1, "columns": 28, "across": 1, "turn": 1, "buffers": 3,
                 "sub_block_rows": 28, "images": 2, "weights": "registers", "matrix": "sparse"}
TOEPLITZ = {"tiles": 4, "warp_columns": 2, "warp_rows": 1, "warp_planes": 1, "vector": 8, "store_vector": 8,
            "weights": "registers", "sub_block_rows": 128, "min_blocks": 4}
WIDE = {"columns": 4, "vector": 4, "store_vector": 4, "span": "strips", "row_lanes": 32, "gaps": "zero_lanes",
        "edges": "interior", "sub_block_rows": 14, "rows_ahead": 2, "weights": "registers", "loads": "registers",
        "turn_steps": 1, "pipeline": "paired", "tap_rows": "all", "warp_columns": 4, "warp_rows": 1, "warp_planes": 1,
        "min_blocks": 4}
PATCH = {"columns": 8, "row_lanes": 7, "rows": 28, "planes": 1, "height": 56, "vector": 4, "store_vector": 4,
         "min_blocks": 3}
WIDE_PACKED = {"span": "packed", "edges": "guarded", "warp_columns": 1, "warp_planes": 4}
PIXELS = {"columns": 8, "vector": 8, "store_vector": 8, "sums": "float", "weights": "registers", "sub_block_rows": 32,
          "rows_ahead": 4, "filters": 1, "warp_columns": 4, "warp_rows": 1, "warp_planes": 1, "min_blocks": 4}
GEMM = {"block_m": 128, "block_n": 64, "block_k": 16, "thread_m": 8, "thread_n": 8, "order": "taps", "stages": 2,
        "splits": 1, "min_blocks": 4}
BIAS, RELU = Epilogue.BIAS, Epilogue.RELU


def _plane(size: int, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=512, w=512, k=1, r=size, s=size, padding="same"), **changes})


def _reuse(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="reuse", epilogue=epilogue, settings={**REUSE, **values})


def _direct(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="direct", epilogue=epilogue, settings={**DIRECT, **values})


def _pixels(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="pixels", epilogue=epilogue, settings={**PIXELS, **values})


def _depthwise(size: int, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=8, c=16, h=56, w=56, k=16, groups=16, r=size, s=size, padding=size // 2,
                               layout="NHWC"), **changes})


def _channels(shape: ConvShape, *epilogue: Epilogue, numerics: str = "float32", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="channels", epilogue=epilogue, settings={**CHANNELS, **values},
                      numerics=numerics)


def _lowered(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings=values)


def _gemm(algorithm: str, shape: ConvShape, *epilogue: Epilogue, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings={**GEMM, **values}, arch=arch)


def _staged(*epilogue: Epilogue, size: int = 3, settings: dict[str, Any], **layer: Any) -> KernelPlan:
    shape = _depthwise(size, **{**dict(c=32, h=7, w=7, k=32, groups=32, layout="NCHW"), **layer})
    return plan_layer(shape, algorithm="staged", epilogue=epilogue, settings={**STAGED, **settings})


def _toeplitz(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz", epilogue=epilogue, settings={**TOEPLITZ, **values})


def _toeplitz_nhwc(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_nhwc", epilogue=epilogue, settings={**TOEPLITZ_NHWC, **values})


def _slides(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    usual = {"tile": 32, **({"k_tile": 1} if algorithm not in ("naive", "constant") else {})}
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings={**usual, **values})


def _wide(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="wide", epilogue=epilogue, settings={**WIDE, **values})


def _patch(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="patch", epilogue=epilogue, settings={**PATCH, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "reuse_defaults_5x5": plan_layer(_plane(5), algorithm="reuse"),
        "reuse_3x3_select": _reuse(_plane(3)),
        "reuse_5x5_select": _reuse(_plane(5)),
        "reuse_5x5_packed": _reuse(_plane(5), exchange="packed"),
        "reuse_5x5_dynamic": _reuse(_plane(5), exchange="dynamic"),
        "reuse_5x5_dynamic_local": _reuse(_plane(5), exchange="dynamic_local"),
        "reuse_5x5_none_reload": _reuse(_plane(5), exchange="none", rows="reload"),
        "reuse_5x5_predicated_ahead": _reuse(_plane(5), edges="predicated", rows_ahead=5),
        "reuse_7x7_constant_shared_ends": _reuse(_plane(7), weights="constant", decomposition="shared_ends"),
        "reuse_5x5_shifted": _reuse(_plane(5), ring="shifted"),
        "reuse_3x3_channels_bias_relu": _reuse(_plane(3, c=3, k=8), BIAS, RELU, k_tile=4),
        "reuse_3x3_groups_cached": _reuse(_plane(3, c=4, k=8, groups=4), weights="cached", k_tile=2),
        "reuse_2x3_index64": _reuse(ConvShape(n=70000, c=1, h=300, w=300, k=1, r=2, s=3, padding=((0, 1), (2, 0)))),
        "reuse_5x5_reflect": _reuse(_plane(5, padding_mode="reflect"), edges="predicated", rows_ahead=5),
        "reuse_5x5_circular_direct": _reuse(_plane(5, padding_mode="circular")),
        "reuse_5x5_replicate_none_reload": _reuse(_plane(5, padding_mode="replicate"), exchange="none", rows="reload",
                                                  edges="predicated"),
        "reuse_5x5_border_of_one_value_shifted": _reuse(_plane(5, padding_mode="constant", padding_value=0.5),
                                                        edges="predicated", ring="shifted"),
        "reuse_3x3_symmetric_channels": _reuse(_plane(3, c=3, k=8, padding_mode="symmetric"), BIAS,
                                               edges="predicated", k_tile=2),
        "wide_3x3": _wide(_plane(3)),
        "wide_5x5_cached": _wide(_plane(5), RELU, loads="cached", rows_ahead=4, turn_steps=2),
        "wide_7x7_packed_float16": _wide(
            _depthwise(7, layout="NCHW", dtype="float16"), BIAS, loads="cached", rows_ahead=2, columns=8, vector=8,
            store_vector=8, row_lanes=8, **WIDE_PACKED),
        "wide_3x3_packed_select_stride_2": _wide(
            _depthwise(3, layout="NCHW", stride=2), columns=2, vector=4, store_vector=2, row_lanes=16, gaps="select",
            **WIDE_PACKED),
        "wide_3x3_quantised_uint8": _wide(_plane(3, out_dtype="uint8"), Epilogue.parse("quantize(0.1,3)"),
                                          loads="cached", rows_ahead=4, turn_steps=2),
        "wide_3x3_reflect": _wide(_plane(3, padding_mode="reflect"), loads="cached", rows_ahead=4, turn_steps=2),
        "wide_5x5_circular_packed": _wide(
            _depthwise(5, layout="NCHW", padding_mode="circular"), RELU, **WIDE_PACKED, row_lanes=14, gaps="none"),
        "wide_3x3_symmetric_packed_float16": _wide(
            _depthwise(3, layout="NCHW", padding_mode="symmetric", dtype="float16"), **WIDE_PACKED, loads="cached",
            rows_ahead=4, columns=8, vector=8, store_vector=8, row_lanes=7, gaps="none"),
        "wide_5x5_symmetric_float16": _wide(
            _plane(5, dtype="float16", padding_mode="symmetric"), loads="async", rows_ahead=2, columns=8, vector=8,
            store_vector=8),
        "wide_7x7_border_of_one_value": _wide(_plane(7, padding_mode="constant", padding_value=0.5), loads="cached"),
        "wide_9x9_constant": _wide(_plane(9), weights="constant", loads="cached", rows_ahead=2),
        "wide_separable_5x5_registers": _wide(_plane(5, separable=True), rows_ahead=1),
        "wide_separable_17x17_constant": _wide(_plane(17, separable=True), weights="constant", loads="cached",
                                               rows_ahead=4, turn_steps=2),
        "wide_separable_9x7_depthwise_shared_stride_2": _wide(
            _depthwise(9, s=7, layout="NCHW", stride=2, padding=(4, 3), separable=True), BIAS, weights="shared",
            columns=2, vector=4, store_vector=2, row_lanes=16, gaps="select", **WIDE_PACKED),
        "wide_separable_9x5_seams": _wide(
            _plane(9, s=5, padding_mode="symmetric", separable=True), BIAS, loads="cached", rows_ahead=4, turn_steps=2,
            warp_columns=1, warp_rows=4),
        "wide_13x13_shared_needed": _wide(_plane(13), weights="shared", tap_rows="needed", rows_ahead=1,
                                          pipeline="copied"),
        "wide_3x3_channels_stride_2": _wide(_plane(3, c=3, k=8, stride=2, padding=1), BIAS, RELU, weights="shared",
                                            rows_ahead=1, warp_columns=1, warp_planes=4),
        "wide_3x3_eight_filters": _wide(_plane(3, k=8), loads="cached", rows_ahead=4, turn_steps=2, warp_columns=1,
                                        warp_planes=4),
        "wide_3x3_reflect_pitched": _wide(_plane(3, c=2, k=2, groups=2, padding_mode="reflect").with_distances(), BIAS,
                                          loads="cached", rows_ahead=4, turn_steps=2),
        "patch_5x5_replicate": _patch(_depthwise(5, layout="NCHW", padding_mode="replicate")),
        "patch_13x13": _patch(_depthwise(13, layout="NCHW")),
        "patch_9x9_two_planes_float16": _patch(_depthwise(9, layout="NCHW", dtype="float16"), BIAS, RELU, columns=6,
                                               row_lanes=10, planes=2, store_vector=2),
        "patch_5x7_stride_dilation": _patch(_plane(5, s=7, k=2, stride=(1, 2), dilation=(2, 1), padding=(4, 3)), BIAS,
                                            columns=3, row_lanes=5, vector=1, store_vector=1, height=512),
        "direct_3x3_stride_dilation_groups": _direct(ConvShape(c=4, h=64, w=64, k=6, r=3, s=3, stride=2, padding=1,
                                                               dilation=(1, 2), groups=2)),
        "direct_3x3_bfloat16": _direct(ConvShape(c=2, h=64, w=64, k=2, r=3, s=3, padding=1, dtype="bfloat16"), RELU,
                                       k_tile=2),
        "direct_nhwc_3x3_depthwise_float16": _direct(ConvShape(c=64, h=56, w=56, k=64, r=3, s=3, padding=1, groups=64,
                                                               dtype="float16", layout="NHWC"), BIAS),
        "direct_nhwc_2x5_tile": _direct(ConvShape(c=8, h=64, w=64, k=12, r=2, s=5, stride=(1, 2), groups=2,
                                                  layout="NHWC"), block_size_x=6, block_size_y=32, k_tile=2),
        "direct_nhwc_3x3_pitched_uint8": _direct(
            ConvShape(c=3, h=64, w=64, k=3, r=3, s=3, padding=1, groups=3, dtype="uint8",
                      layout="NHWC").with_distances(),
            block_size_x=3, block_size_y=64),
        "direct_3x3_residual_clamp": _direct(ConvShape(c=3, h=64, w=64, k=4, r=3, s=3, padding=1), BIAS,
                                             Epilogue.RESIDUAL, Epilogue.clamp(0, 6), k_tile=2),
        "direct_nhwc_3x3_expression": _direct(
            ConvShape(c=8, h=56, w=56, k=8, r=3, s=3, padding=1, groups=8, dtype="float16", layout="NHWC"), BIAS,
            Epilogue.expr("where(v < 1, v * sigmoid(v), max(1, min(v, 4)) / 3) + relu(-v)"), block_size_x=8,
            block_size_y=32),
        "wide_3x3_residual_gelu_float16": _wide(_plane(3, dtype="float16"), BIAS, Epilogue.RESIDUAL, Epilogue.GELU,
                                                columns=8, vector=8, store_vector=8),
        "wide_3x3_packed_residual_silu": _wide(
            _depthwise(3, layout="NCHW"), BIAS, Epilogue.RESIDUAL, Epilogue.SILU, rows_ahead=4, row_lanes=16,
            **WIDE_PACKED),
        "direct_5x5_tile": _direct(ConvShape(c=3, h=64, w=64, k=8, r=5, s=5), BIAS, k_tile=4),
        "channels_3x3_float16": _channels(_depthwise(3, dtype="float16"), vector=2, columns=2),
        "channels_3x3_lines_float16": _channels(_depthwise(3, dtype="float16"), BIAS, body="lines", vector=2, columns=2,
                                                rows_ahead=4, turn_rows=2),
        "channels_3x3_stride_2_half_arithmetic": _channels(
            _depthwise(3, dtype="float16", stride=2), BIAS, numerics="float16", vector=4, columns=1, width="any",
            rows_ahead=2),
        "channels_3x3_reflect": _channels(_depthwise(3, padding_mode="reflect"), BIAS),
        "channels_3x3_constant_stride_2": _channels(
            _depthwise(3, stride=2, padding_mode="constant", padding_value=0.5), columns=1, width="any"),
        "channels_3x3_lines_circular": _channels(
            _depthwise(3, padding_mode="circular"), RELU, body="lines", rows_ahead=4, turn_rows=2),
        "channels_3x3_lines_constant_float16": _channels(
            _depthwise(3, dtype="float16", padding_mode="constant", padding_value=0.5), body="lines", vector=2,
            rows_ahead=2),
        "channels_5x5_tile_constant": _channels(
            _depthwise(5, padding_mode="constant", padding_value=0.5), body="tile", sub_block_rows=2),
        "channels_5x5_tile_multiplier": _channels(_depthwise(5, k=32, dtype="bfloat16"), BIAS, RELU, body="tile",
                                                  columns=4, sub_block_rows=2),
        "staged_3x3": _staged(settings={}),
        "staged_3x3_reflect": _staged(padding_mode="reflect", settings={"rows": 2}),
        "staged_3x3_constant": _staged(padding_mode="constant", padding_value=0.5, settings={"rows": 2}),
        "staged_5x5_strips_float16": _staged(BIAS, RELU, size=5, dtype="float16", h=8, w=8, settings={
            "height": 8, "width": 8, "rows": 2, "buffers": 2}),
        "staged_3x3_cut_stride_2_registers": _staged(c=5, k=10, groups=5, stride=2, settings={
            "rows": 3, "planes": 16, "stage": "registers", "weights": "shared"}),
        "staged_3x3_quarters_float16": _staged(BIAS, dtype="float16", h=6, w=6, settings={
            "height": 6, "width": 6, "rows": 3, "planes": 8, "buffers": 2, "parts": "quarters"}),
        "staged_3x3_quarters_circular": _staged(h=6, w=6, padding_mode="circular", settings={
            "height": 6, "width": 6, "rows": 3, "planes": 8, "buffers": 2, "parts": "quarters"}),
        "toeplitz_5x5_bands_float16": _toeplitz(_plane(5, dtype="float16"), BIAS, walk="bands"),
        "toeplitz_9x3_planes_bfloat16": _toeplitz(
            ConvShape(n=8, c=6, h=14, w=14, k=6, groups=6, r=9, s=3, padding=(4, 1), dtype="bfloat16"), RELU,
            walk="planes", tiles=2, warp_columns=1, warp_planes=4, vector=2, store_vector=4, stores="staged",
            weights="shared", images=8, buffers=3),
        "toeplitz_5x5_bands_reflect_float16": _toeplitz(
            _plane(5, dtype="float16", padding_mode="reflect"), walk="bands", way="ca", bands_ahead=2, begin="place"),
        "toeplitz_3x9_bands_circular_many_columns_bfloat16": _toeplitz(
            _plane(3, s=9, dtype="bfloat16", padding_mode="circular"), walk="bands", warp_columns=1, tiles=3, vector=4),
        "toeplitz_2x21_bands_symmetric_loop_float16": _toeplitz(
            _plane(2, s=21, dtype="float16", padding=((0, 1), (10, 10)), padding_mode="symmetric"), walk="bands",
            warp_columns=1, tiles=2, vector=2, store_vector=2, weights="shared"),
        "toeplitz_5x3_bands_of_one_value_float16": _toeplitz(
            _plane(5, s=3, dtype="float16", padding_mode="constant", padding_value=0.5), RELU, walk="bands", tiles=3,
            warp_columns=1),
        "toeplitz_5x5_planes_symmetric_float16": _toeplitz(
            _depthwise(5, layout="NCHW", h=14, w=14, dtype="float16", padding_mode="symmetric"), walk="planes", tiles=2,
            warp_columns=1, warp_planes=4, vector=2, store_vector=2, images=8, buffers=3),
        "toeplitz_3x15_planes_replicate_many_columns_bfloat16": _toeplitz(
            _depthwise(3, s=15, layout="NCHW", h=28, w=28, padding=(1, 7), dtype="bfloat16", padding_mode="replicate"),
            walk="planes", tiles=4, warp_columns=1, warp_planes=2, vector=4, store_vector=2, images=8, buffers=2),
        "toeplitz_nhwc_5x5_sparse_float16": _toeplitz_nhwc(_depthwise(5, dtype="float16"), BIAS, chunks=2),
        "toeplitz_nhwc_3x7_dense_bfloat16": _toeplitz_nhwc(
            ConvShape(n=8, c=24, h=14, w=14, k=24, groups=24, r=3, s=7, padding=(1, 3), dtype="bfloat16",
                      layout="NHWC"), RELU, pairs=1, chunks=2, columns=16, across=2, turn=2, weights="shared",
            matrix="dense"),
        "toeplitz_nhwc_5x5_reflect_float16": _toeplitz_nhwc(
            _depthwise(5, dtype="float16", padding_mode="reflect"), chunks=2),
        "toeplitz_nhwc_3x3_border_of_one_value_bfloat16": _toeplitz_nhwc(
            _depthwise(3, dtype="bfloat16", padding_mode="constant", padding_value=-1.0), chunks=2),
        "pixels_3x3": _pixels(_plane(3, dtype="uint8")),
        "pixels_3x3_four_filters_together": _pixels(_plane(3, k=4, dtype="uint8"), BIAS, rows_ahead=2, filters=2,
                                                    warp_columns=2, warp_planes=2, min_blocks=3),
        "pixels_5x5_dp4a_reflect": _pixels(_plane(5, dtype="uint8", weight_dtype="int8", padding_mode="reflect"),
                                           sums="dp4a", rows_ahead=2),
        "pixels_3x3_any_address_uint16_to_float16": _pixels(
            _plane(3, c=3, k=3, groups=3, dtype="uint16", out_dtype="float16"), BIAS, RELU, vector=1,
            store_vector=1, columns=4),
        "pixels_3x3_nhwc_reflect": _pixels(
            _plane(3, c=3, k=3, groups=3, dtype="uint8", layout="NHWC", padding_mode="reflect"), BIAS, columns=12,
            vector=4, store_vector=4),
        "pixels_4x4_constant_int8": _pixels(_plane(4, dtype="int8"), weights="constant", columns=4, vector=4,
                                            store_vector=4, rows_ahead=1),
        "pixels_2x6_mad_shared_int16_stride_2": _pixels(
            _plane(2, s=6, padding=(0, 2), stride=2, dtype="int16", weight_dtype="int16", cast="truncate",
                   padding_mode="constant", padding_value=-7), sums="mad", weights="shared",
            columns=4, vector=4, store_vector=2, rows_ahead=1),
        "im2col_3x3_image_padded_bias_relu": _lowered(
            "im2col", ConvShape(n=2, c=3, h=28, w=28, k=8, r=3, s=3, padding=1), BIAS, RELU, batch="image"),
        "im2col_5x17_whole_stride_dilation": _lowered(
            "im2col", ConvShape(n=2, c=4, h=40, w=60, k=8, r=5, s=17, stride=(2, 1), dilation=(1, 2), groups=2),
            batch="whole"),
        "im2col_1x1_bias": _lowered("im2col", ConvShape(n=2, c=16, h=28, w=28, k=32, r=1, s=1), BIAS, batch="whole"),
        "im2win_basic_3x3_padded_stride_dilation": _lowered(
            "im2win_basic", ConvShape(n=2, c=8, h=28, w=28, k=48, r=3, s=3, stride=(2, 1), padding=1, dilation=(1, 2),
                                      groups=2), BIAS, RELU, mapping="coalesced"),
        "im2win_basic_5x5_document_float16": _lowered(
            "im2win_basic", ConvShape(c=3, h=28, w=28, k=8, r=5, s=5, dtype="float16"), mapping="document"),
        "naive_5x5": _slides("naive", _plane(5)),
        "naive_31x3_stride_float16": _slides("naive", ConvShape(c=2, h=64, w=64, k=2, r=31, s=9, stride=(1, 2),
                                                                dtype="float16"), RELU, tile=16),
        "constant_5x5": _slides("constant", _plane(5)),
        "constant_3x3_groups_bias": _slides("constant", _plane(3, c=4, k=6, groups=2), BIAS, tile=16),
        "tiled_5x5": _slides("tiled", _plane(5)),
        "tiled_3x3_channels_bias_relu": _slides("tiled", _plane(3, c=3, k=8), BIAS, RELU, tile=16, k_tile=4),
        "halo_cached_5x5": _slides("halo_cached", _plane(5)),
        "halo_cached_3x3_stride_2_bfloat16": _slides(
            "halo_cached", _plane(3, c=2, k=2, stride=2, padding=1, dtype="bfloat16"), tile=16, k_tile=2),
        "coarsened_5x5": _slides("coarsened", _plane(5), walk=4, outputs=4),
        "coarsened_7x7_clamped": _slides("coarsened", _plane(7, c=2, k=4), BIAS, walk=2, outputs=3, k_tile=2),
        "implicit_gemm_3x3_taps": _gemm("implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), BIAS, RELU),
        "implicit_gemm_5x3_taps_padded_groups_filled": _gemm(
            "implicit_gemm", ConvShape(n=8, c=60, h=28, w=28, k=180, r=5, s=3, padding=(2, 1), stride=2, groups=2),
            BIAS),
        "implicit_gemm_11x11_table_splits": _gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=227, w=227, k=96, r=11, s=11, stride=4), BIAS, RELU, block_m=96,
            thread_m=12, order="table", splits=2, stages=3, min_blocks=3),
        "implicit_gemm_7x7_table_padded_sm_75": _gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3), RELU, arch="sm_75",
            block_m=64, block_n=128, block_k=8, order="table", min_blocks=1),
        "implicit_gemm_3x3_document": _lowered(
            "implicit_gemm", ConvShape(n=8, c=8, h=28, w=28, k=8, r=3, s=3, padding=1), BIAS, form="document"),
        "implicit_gemm_3x3_document_replicate": _lowered(
            "implicit_gemm", ConvShape(n=8, c=8, h=28, w=28, k=8, r=3, s=3, padding=1, padding_mode="replicate"),
            form="document"),
        "implicit_gemm_3x3_taps_reflect": _gemm(
            "implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3, padding=1, padding_mode="reflect")),
        "implicit_gemm_3x3_taps_border_of_one_value": _gemm(
            "implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3, padding=1, padding_mode="constant",
                                       padding_value=0.5)),
        "implicit_gemm_7x7_table_circular": _gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3,
                                       padding_mode="circular"), order="table", block_m=64, min_blocks=1),
        "implicit_gemm_7x7_table_border_of_one_value_sm_75": _gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3,
                                       padding_mode="constant", padding_value=0.5), arch="sm_75", order="table",
            block_m=64, min_blocks=1),
        "im2win_3x3_window": _gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), BIAS, order="window"),
        "im2win_7x7_window_padded_scalar_loads": _gemm(
            "im2win", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3), order="window",
            vector_loads="off"),
        "im2win_3x3_table_no_prefetch": _gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3),
                                              order="table", prefetch="off", stages=1),
        "im2win_3x3_taps_no_micro_kernel": _gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), RELU,
                                                 micro_kernel="off", min_blocks=2),
    }


def path_of(name: str) -> Path:
    return HERE / f"{name}.cu"

"""Networks as data: their sizes against published ones; the study's sums and tables from rows that are made up."""

from __future__ import annotations

import pytest

from bench.nets import NETS
from bench.studies import networks, networks_float32

# Multiply-adds of the convolutions of one image, in millions: torchvision's tables (GFLOPS of the weights' pages), less
# the fully connected layers (resnet50, resnext50: 2.0; vgg16: 123.6; mobilenet_v2: 1.3; googlenet: 1.0)
PUBLISHED = {"resnet50": 4089 - 2, "resnext50_32x4d": 4230 - 2, "vgg16": 15470 - 124, "mobilenet_v2": 301 - 1,
             "googlenet": 1498 - 1, "efficientnet_b0": 386 - 1, "shufflenet_v2_x1_0": 145 - 1}
CONVOLUTIONS = {"resnet50": 53, "resnext50_32x4d": 53, "vgg16": 13, "mobilenet_v2": 52, "googlenet": 57,
                "efficientnet_b0": 81, "convnext_tiny": 22, "shufflenet_v2_x1_0": 56}


@pytest.mark.parametrize("net", NETS)
def test_networks_have_their_convolutions(net):
    assert sum(NETS[net].values()) == CONVOLUTIONS[net]
    if net in PUBLISHED:
        macs = sum(count * networks.shape_of(layer, 1, "NHWC").macs for layer, count in NETS[net].items())
        assert macs / 1e6 == pytest.approx(PUBLISHED[net], rel=0.01)


def made_up(ratio: float, net: str = "resnet50") -> dict:
    return {networks.key_of(*case): {"key": networks.key_of(*case), "status": "ok", "layer": list(case[0]),
                                     "batch": case[1], "layout": case[2], "algorithm": "mma", "plan": {"splits": 2},
                                     "ours": 2.0, "cudnn": 2.0 * ratio, "ratio": ratio, "floor": 1.0}
            for case in networks.cases([net])}


def test_sums_count_a_layer_as_often_as_the_network_has_it():
    sums = next(iter(networks.tables(made_up(1.5))))
    assert [row[0] for row in sums.rows] == ["resnet50"]
    assert sums.rows[0][1:7] == (53, 23, 106.0, 159.0, sums.rows[0][5], 1.5)
    assert "1.50" in sums.text


def test_a_network_that_is_not_whole_has_no_sum():
    rows = made_up(0.5)
    rows.pop(next(iter(rows)))
    tables = list(networks.tables(rows))
    assert not tables[0].rows and len(tables[1].rows) == 22 and "22 of 22" in tables[1].text


def test_the_study_of_float32_has_each_precision_beside_cudnn():
    found = {}
    for precision, ratio in (("float32", 2.0), ("tf32", 1.5)):
        for layer, batch, layout in networks.cases(["resnet50"], networks_float32.BATCHES):
            key = networks_float32.key_of(precision, layer, batch, layout)
            found[key] = {"key": key, "status": "ok", "layer": list(layer), "batch": batch, "layout": layout,
                          "precision": precision, "algorithm": "wgmma", "plan": None, "ours": 4.0,
                          "cudnn": 4.0 * ratio, "ratio": ratio, "floor": 1.0}
    made = {table.title: table for table in networks_float32.tables(found)}
    for precision, ratio in (("float32", 2.0), ("tf32", 1.5)):
        for layout in networks.LAYOUTS:
            sums = made[f"Networks: {precision}, {layout}, batch 32"]
            assert [line[0] for line in sums.rows] == ["resnet50"]
            assert sums.rows[0][3:7] == (212.0, 212 * ratio, 53.0, ratio)
            assert len(made[f"Every layer: {precision}, {layout}, batch 32"].rows) == len(NETS["resnet50"])
    assert all(networks_float32.shape_of(*case).dtype.value == "float32" for case in networks.cases(["resnet50"]))

"""A model's pack: planned once, arrays kept once, served by node, and never half-written."""

import copy
import errno
import json
import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.models.make import conv, drawn, evaluated, model, pack_of, saved
from tests.runtime.pack.pack_tools import use_fake_compiler
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError, KernelNotBuilt, PackError, ShapeError
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.models.model import alike
from warpconv.runtime.models.source import read_model
from warpconv.runtime.pack.pack import build_pack, open_pack

X = [1, 3, 8, 9]


def network():
    """Three layers, two of them alike, one with the other's filter."""
    w = drawn(3, 3, 3, 3)
    nodes = [conv(["x", "w", "b"], "a", pads=[1] * 4), conv(["a", "v", "b"], "c", pads=[1] * 4),
             helper.make_node("Relu", ["c"], ["r"]), conv(["r", "w", "b"], "y", pads=[1] * 4, dilations=[1, 1])]
    return model(nodes, {"x": X}, ["y"], {"w": w, "v": drawn(3, 3, 3, 3), "b": drawn(3)})


@pytest.fixture
def path(tmp_path):
    return saved(network(), tmp_path)


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_network_runs_from_its_pack(name, path, tmp_path, monkeypatch):
    pack = pack_of(read_model(path), tmp_path / name, monkeypatch)
    assert len(pack.nodes()) == 3 and len(pack.kernels()) == 2
    x = value = drawn(*X)
    for node in ("/Conv/a", "/Conv/c", "/Conv/y"):
        served = pack.conv(node, device="cpu")
        assert served.record.node == served.node == node and "with its filter" in repr(served)
        value = served(value)
    (exact,) = evaluated(network_like(path), {"x": x})
    np.testing.assert_allclose(value, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    again = open_pack(pack.path)
    assert again.nodes() == pack.nodes()
    assert pack.conv("Conv_a").node == "/Conv/a"            # by the layer's name too


def network_like(path):
    import onnx
    return onnx.load(path)


def test_filter_and_bias_may_be_the_callers(path, tmp_path, monkeypatch):
    pack = pack_of(read_model(path), tmp_path / "pack", monkeypatch, weights=False)
    served, x, w, b = pack.conv("/Conv/a", device="cpu"), drawn(*X), drawn(3, 3, 3, 3), drawn(3)
    assert not served.holds("weight") and not (tmp_path / "pack" / "arrays").exists()
    for missing, words in ((lambda: served(x), "no weight"), (lambda: served(x, w), "no bias"),
                           (lambda: served.array("weight"), "no weight")):
        with pytest.raises(ArgumentError, match=words):
            missing()
    y = served(x, w, b)
    np.testing.assert_array_equal(served(x, served.prepare(w), b), y)
    with pytest.raises(ShapeError):
        served(x[:, :2], w, b)
    with pytest.raises(ArgumentError, match="no such layer"):
        pack.conv("/Conv/b")
    with pytest.raises(ArgumentError, match="no such layer"):
        pack.conv(3)
    rows = served(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), w, b, layout="NHWC")
    np.testing.assert_array_equal(rows.transpose(0, 3, 1, 2), y)


def test_a_transposed_layers_filter_is_kept_for_each_place(tmp_path, monkeypatch):
    """One device may be called with arrays of its own and with the host's: each has the filter beside it."""
    from warpconv.runtime import arrays
    from warpconv.runtime.pack import conv as served_by
    proto = model([conv(["x", "w"], op="ConvTranspose")], {"x": X}, ["y"], {"w": drawn(3, 2, 3, 3)})
    served = pack_of(read_model(saved(proto, tmp_path)), tmp_path / "pack", monkeypatch).conv("/ConvTranspose/y")
    monkeypatch.setattr(served_by, "_beside", lambda host, dtype, like, stream: (like.device, host))
    host = arrays.view(drawn(*X), "x")
    for place in (0, None, 0, 1):
        found, weight = served._weight(0 if place is None else place, host._replace(device=place), None)
        assert found == place and weight.shape == (3, 2, 3, 3)


def test_a_layer_of_a_file_is_served_as_well(tmp_path, monkeypatch):
    layer = replace(read_model("twelve_layers")["conv1"].shape, n=1, c=2, k=3, h=12, w=12, r=3, s=3, stride=1)
    pack = pack_of([NamedLayer(name="one", shape=layer)], tmp_path / "pack", monkeypatch, weights=False)
    assert pack.nodes() == {} and pack.conv("one", device="cpu")(drawn(1, 2, 12, 12), drawn(3, 2, 3, 3)).shape[1] == 3


def test_a_gpu_without_a_kernel_is_told(path, tmp_path, monkeypatch):
    from tests.runtime.pack.pack_tools import use_fake_gpu
    pack = pack_of(read_model(path), tmp_path / "pack", monkeypatch)
    use_fake_gpu(monkeypatch, "sm_80")
    with pytest.raises(KernelNotBuilt, match="/Conv/a"):
        pack.conv("/Conv/a", device="cuda").kernel()


def test_layers_alike_are_planned_once(path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    planned = []
    plan = NamedLayer.plan
    monkeypatch.setattr(NamedLayer, "plan", lambda self, arch: planned.append(self.name) or plan(self, arch))
    layers = read_model(path)
    report = build_pack(layers, tmp_path / "pack", ["sm_80", "sm_90"])
    assert [times for _, times in alike(layers)] == [2, 1] and len(planned) == 4
    assert [(row.name, row.arch) for row in report.rows] == [
        (layer.name, arch) for layer in layers for arch in ("sm_80", "sm_90")] and report.count("built") == 6


def test_equal_builds_are_equal_bytes_and_nothing_is_written_again(path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    layers = read_model(path)
    first, second = (tmp_path / name for name in ("a.zip", "b.zip"))
    for output in (first, second, tmp_path / "folder"):
        build_pack(layers, output, ["sm_90"], weights=True)
    assert first.read_bytes() == second.read_bytes()
    arrays = sorted((tmp_path / "folder" / "arrays").iterdir())
    assert len(arrays) == 3                     # two filters and one bias, which three layers have
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "folder").rglob("*")}
    report = build_pack(layers, tmp_path / "folder", ["sm_90"], weights=True)
    assert report.count("up-to-date") == 3
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "folder").rglob("*")} == before
    build_pack(layers, first, ["sm_90"], weights=True)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_new_build_replaces_arrays_and_leaves_those_of_others(name, path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    layers, output = read_model(path), tmp_path / name
    build_pack(layers, output, ["sm_90"], weights=True)
    other = NamedLayer(name="other", shape=layers[0].shape)
    build_pack([other], output, ["sm_90"])      # beside them
    pack = open_pack(output)
    assert set(pack.nodes()) == {"Conv_a", "Conv_c", "Conv_y"} and pack.conv("Conv_a").holds("weight")
    proto = network()
    (tmp_path / "new").mkdir()
    changed = read_model(saved(proto, tmp_path / "new"))
    build_pack(changed, output, ["sm_90"], weights=True)
    np.testing.assert_array_equal(open_pack(output).conv("Conv_a").array("weight"), changed[0].arrays().weight)
    build_pack(changed, output, ["sm_90"])      # without weights now
    assert not open_pack(output).conv("Conv_a").holds("weight")
    kept = [member for member in zipfile.ZipFile(output).namelist() if member.startswith("arrays")] if (
        name.endswith("zip")) else list((output / "arrays").iterdir()) if (output / "arrays").exists() else []
    assert kept == []


@pytest.mark.parametrize("damage", ["bytes", "gone", "link", "record", "nodes"])
def test_damage_is_told(damage, path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    output = tmp_path / "pack"
    build_pack(read_model(path), output, ["sm_90"], weights=True)
    array = sorted((output / "arrays").iterdir())[0]
    if damage == "bytes":
        array.write_bytes(array.read_bytes()[:-1] + b"\xff")
    elif damage == "gone":
        array.unlink()
    elif damage == "link":
        (output / "arrays").rename(tmp_path / "away")
        (output / "arrays").symlink_to(tmp_path / "away")
        with pytest.raises(FileError, match="link"):
            build_pack(read_model(path), output, ["sm_90"], weights=True)
        return
    else:
        from warpconv.runtime.pack.format import manifest_text
        document = json.loads((output / "manifest.json").read_text())
        del document["checksum"]
        if damage == "nodes":
            document["nodes"] = [1]
        else:
            document["nodes"]["Conv_a"]["arrays"]["weight"]["shape"] = [10**9, 10**9, 3, 3]
        (output / "manifest.json").write_text(manifest_text(document))
    with pytest.raises(PackError, match="arrays/|nodes"):
        open_pack(output)
    if damage in ("bytes", "gone"):             # and mended by the next build
        build_pack(read_model(path), output, ["sm_90"], weights=True)
        assert open_pack(output).conv("Conv_a").holds("weight")


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", ["pack", "pack.zip"])
@pytest.mark.parametrize("when", [0, 1, 2, 4, 6])
def test_a_full_disk_leaves_nothing_half_written(name, when, path, tmp_path, monkeypatch):
    """The disk takes so many writes, then no more; what is there afterwards is a sound pack, or none. With space
    again the build goes on."""
    use_fake_compiler(monkeypatch, tmp_path)
    output, left = tmp_path / "out" / name, [when]

    def full(original):
        def limited(self, *args, **kwargs):
            if str(tmp_path / "cache") in str(self):
                return original(self, *args, **kwargs)
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(self, *args, **kwargs)
        return limited

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full(Path.write_bytes))
        patch.setattr(zipfile.ZipFile, "writestr", full(zipfile.ZipFile.writestr))
        with pytest.raises(FileError, match="No space left"):
            build_pack(read_model(path), output, ["sm_90"], weights=True)
    if (output / "manifest.json").exists() or output.is_file():
        open_pack(output)
    assert [file for file in output.parent.rglob("*") if ".aside-" in file.name] == []
    report = build_pack(read_model(path), output, ["sm_90"], weights=True)
    assert report.ok and open_pack(output).conv("/Conv/y").holds("bias")


def test_weights_that_cannot_be_read_end_the_build_before_anything_is_written(tmp_path, monkeypatch):
    import onnx
    use_fake_compiler(monkeypatch, tmp_path)
    onnx.save(network(), tmp_path / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    (tmp_path / "data").unlink()
    layers = read_model(tmp_path / "model.onnx")
    with pytest.raises(FileError, match="cannot be read"):
        build_pack(layers, tmp_path / "pack", ["sm_90"], weights=True)
    assert not (tmp_path / "pack").exists()
    assert build_pack(layers, tmp_path / "pack", ["sm_90"]).ok


def test_weights_of_layers_that_have_none(tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    with pytest.raises(ArgumentError, match="hold no filters"):
        build_pack(read_model("twelve_layers"), tmp_path / "pack", ["sm_90"], weights=True)
    assert not (tmp_path / "pack").exists()


# ---- what a layer's own sizes decide, and which layer is meant

@pytest.mark.parametrize("pads", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_that_follows_from_the_size_is_checked(pads, tmp_path, monkeypatch):
    """With a stride, SAME pads 9 rows by one on both sides, 8 by one at one: what was built serves the first alone."""
    made = model([conv(["x", "w"], auto_pad=pads, strides=[2, 2])], {"x": ["n", 4, "h", "w_"]}, ["y"],
                 {"w": drawn(6, 4, 3, 3)})
    served = pack_of(read_model(saved(made, tmp_path), {"n": 2, "h": 9, "w_": 11}), tmp_path / "pack",
                     monkeypatch).conv("/Conv/y", device="cpu")
    assert served.record.pads == pads
    for sizes in ((9, 11), (7, 7)):         # rows of outputs of the next sizes are whole pairs, too
        x = drawn(1, 4, *sizes)
        (exact,) = evaluated(made, {"x": x})
        np.testing.assert_allclose(served(x), exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    for sizes in ((8, 11), (9, 8)):
        with pytest.raises(ShapeError, match=rf"pads an input of this.*9 x 11.*x = \({sizes[0]}, {sizes[1]}\).*--dim"):
            served(drawn(1, 4, *sizes))


def test_a_transposed_layer_with_an_output_shape_is_for_its_size(tmp_path, monkeypatch):
    made = model([conv(["x", "w"], op="ConvTranspose", output_shape=[18, 22], strides=[2, 2])], {"x": ["n", 4, 9, 11]},
                 ["y"], {"w": drawn(4, 6, 3, 3)})
    served = pack_of(read_model(saved(made, tmp_path), {"n": 2}), tmp_path / "pack",
                     monkeypatch).conv("/ConvTranspose/y", device="cpu")
    assert served(drawn(1, 4, 9, 11)).shape == (1, 6, 18, 22)
    with pytest.raises(ShapeError, match="9 x 11"):
        served(drawn(1, 4, 10, 11))


def test_branches_whose_nodes_have_one_name(tmp_path, monkeypatch):
    filters = {name: drawn(4, 4, 3, 3) for name in ("then", "else")}
    branches = {f"{name}_branch": helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["t"], name="c", pads=[1] * 4),
         helper.make_node(op, ["t"], [f"{name}_o"], name="r")], name, [],
        [helper.make_empty_tensor_value_info(f"{name}_o")], [numpy_helper.from_array(filters[name], "w")])
        for name, op in (("then", "Relu"), ("else", "Sigmoid"))}
    made = model([helper.make_node("If", ["cond"], ["y"], name="if", **branches)],
                 {"x": [2, 4, 9, 6], "cond": (TensorProto.BOOL, [])}, ["y"], {})
    found = read_model(saved(made, tmp_path))
    assert {layer.node for layer in found} == {"if/then_branch/c", "if/else_branch/c"}
    pack = pack_of(found, tmp_path / "pack", monkeypatch)
    for name, weight in filters.items():
        assert np.array_equal(pack.conv(f"if/{name}_branch/c", device="cpu").array("weight"), weight)
        assert np.array_equal(found[f"if/{name}_branch/c"].arrays().weight, weight)


def test_nodes_of_one_name_are_asked_for_by_their_layers(tmp_path, monkeypatch):
    """ONNX does not hinder them."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="/c"),
             helper.make_node("Conv", ["a", "w"], ["y"], name="/c")]
    found = read_model(saved(model(nodes, {"x": [1, 3, 9, 9]}, ["y"], {"w": drawn(3, 3, 3, 3)}), tmp_path))
    pack = pack_of(found, tmp_path / "pack", monkeypatch)
    names = [layer.name for layer in found]
    for ask in (pack.conv, found.__getitem__):
        with pytest.raises(ArgumentError, match=f"several layers of this node.*{names[0]}, {names[1]}"):
            ask("/c")
    assert [pack.conv(name, device="cpu").name for name in names] == names


def test_one_image_without_its_batch_is_no_line(path, tmp_path, monkeypatch):
    served = pack_of(read_model(path), tmp_path / "pack", monkeypatch).conv("/Conv/a", device="cpu")
    with pytest.raises(ShapeError, match=r"two spatial axes.*x\[None\]"):
        served(drawn(3, 8, 9))


def test_copies_share_a_pack_and_its_layers(path, tmp_path, monkeypatch):
    pack = pack_of(read_model(path), tmp_path / "pack", monkeypatch)
    served = pack.conv("/Conv/a", device="cpu")
    assert copy.deepcopy({"pack": pack, "conv": served}) == {"pack": pack, "conv": served}
    for held, way in ((pack, "open_pack"), (served, r"\.conv\(name\)")):
        with pytest.raises(ArgumentTypeError, match=f"not pickled.*{way}"):
            pickle.dumps(held)


def test_sizes_are_given_by_name(tmp_path):
    made = saved(model([conv(["x", "w"])], {"x": ["b", 3, 8, "w_"]}, ["y"], {"w": drawn(4, 3, 3, 3)}), tmp_path)
    assert read_model(made, {"b": np.int64(2), "w_": 9})[0].shape.n == 2
    with pytest.raises(ArgumentTypeError, match="dims.*list.*mapping"):
        read_model(made, [("b", 2)])
    with pytest.raises(ArgumentError, match="leaves no size.*dim = 'q'.*b, w_"):
        read_model(made, {"b": 1, "q": 3})

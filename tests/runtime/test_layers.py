"""LAYERS files: what they say, the ones that are shipped, and every mistake named with file, layer and field."""

import json
import sys

import pytest

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError, ShapeError, WarpconvError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime.layers import NamedLayer, default_name, read_layers, shipped

FULL = """
[defaults]
stride = 2
epilogue = "relu"

[layer.one]
input = [8, 4, 30, 40]
filter = [6, 3, 5]
stride = [1, 2]
padding = [1, 0, 2, 3]
dilation = [2, 1]
groups = 2
dtype = "float32"
epilogue = ["bias", "relu"]
algorithm = "direct"
set = {k_tile = 3}

[layer."conv2.x"]
input = [1, 1, 9, 9]
filter = [1, 3, 3]
"""


def write(tmp_path, text, name="layers.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_every_field(tmp_path):
    one, two = read_layers(write(tmp_path, FULL))
    assert one.shape == ConvShape(n=8, c=4, h=30, w=40, k=6, r=3, s=5, stride=(1, 2), padding=((1, 0), (2, 3)),
                                  dilation=(2, 1), groups=2)
    assert one.epilogue == (Epilogue.BIAS, Epilogue.RELU)
    assert (one.name, one.algorithm, dict(one.settings)) == ("one", "direct", {"k_tile": 3})
    assert one.plan("sm_80").options.k_tile == 3
    assert (two.name, two.shape.stride, two.epilogue, two.algorithm) == ("conv2.x", (2, 2), (Epilogue.RELU,), "auto")


def test_type_layout_and_arithmetic(tmp_path):
    """Sizes stand in the layout's order, as on the command line."""
    text = """
        [defaults]
        layout = "NHWC"
        dtype = "bfloat16"
        [layer.a]
        input = [2, 30, 40, 8]
        filter = [8, 3, 3]
        groups = 8
        accumulate = "float16"
        """
    made, = read_layers(write(tmp_path, text))
    assert made.shape == ConvShape(n=2, c=8, h=30, w=40, k=8, r=3, s=3, groups=8, dtype="bfloat16", layout="NHWC")
    assert made.numerics is Numerics.FLOAT16
    with pytest.raises(ArgumentError) as caught:
        read_layers(write(tmp_path, text.replace('"NHWC"', '"HWCN"')))
    assert caught.value.argument == "layer.a.layout" and "NHWC" in caught.value.hint
    with pytest.raises(ArgumentError) as caught:
        read_layers(write(tmp_path, text.replace("[2, 30, 40, 8]", "[2, 30, 40]")))
    assert caught.value.hint == "[N, H, W, C]"
    with pytest.raises(ArgumentError) as caught:
        read_layers(write(tmp_path, text.replace('"float16"', '"int8"')))
    assert caught.value.argument == "layer.a.accumulate"


def test_names_tell_types_layouts_and_arithmetic_apart():
    shape = ConvShape(c=8, h=30, w=40, k=8, r=3, s=3)
    names = {default_name(ConvShape(c=8, h=30, w=40, k=8, r=3, s=3, dtype=dtype, layout=layout), numerics=numerics)
             for dtype in ("float32", "float16", "bfloat16") for layout in ("NCHW", "NHWC")
             for numerics in (Numerics.FLOAT32, Numerics.FLOAT16)}
    assert len(names) == 12 and default_name(shape) in names and "float32" not in default_name(shape)


def test_json_is_the_same_tree(tmp_path):
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    path = write(tmp_path, json.dumps(tomllib.loads(FULL)), "layers.json")
    assert read_layers(path) == read_layers(write(tmp_path, FULL))


@pytest.mark.parametrize("padding, sides", [("1", ((1, 1), (1, 1))), ("[1, 2]", ((1, 1), (2, 2))),
                                            ("[[1, 0], [2, 3]]", ((1, 0), (2, 3))), ('"same"', ((1, 1), (1, 1))),
                                            ('"valid"', ((0, 0), (0, 0)))])
def test_padding(tmp_path, padding, sides):
    text = f"[layer.a]\ninput = [1, 1, 9, 9]\nfilter = [1, 3, 3]\npadding = {padding}\n"
    assert read_layers(write(tmp_path, text))[0].shape.padding == sides


# ---- the shipped files

TWELVE = [(3, 227, 96, 11, 4, 55), (3, 231, 96, 11, 4, 56), (3, 227, 64, 7, 2, 111), (32, 224, 64, 7, 2, 109),
          (96, 24, 256, 5, 1, 20), (256, 12, 512, 3, 1, 10), (3, 224, 64, 3, 1, 222), (64, 112, 128, 3, 1, 110),
          (64, 56, 64, 3, 1, 54), (128, 28, 128, 3, 1, 26), (256, 14, 256, 3, 1, 12), (512, 7, 512, 3, 1, 5)]
TWELVE_GMAC = [13.49, 13.99, 14.84, 152.61, 31.46, 15.10, 10.90, 114.19, 13.76, 12.76, 10.87, 7.55]


def test_the_twelve_layers():
    layers = {layer.name: layer.shape for layer in read_layers("twelve_layers")}
    mec = layers.pop("conv4_mec")
    assert list(layers) == [f"conv{i}" for i in range(1, 13)]
    for shape, row, gmac in zip(layers.values(), TWELVE, TWELVE_GMAC):
        assert (shape.c, shape.h, shape.k, shape.r, shape.stride[0], shape.p) == row
        assert (shape.n, shape.w, shape.s, shape.q) == (128, shape.h, shape.r, shape.p)
        assert shape.macs / 1e9 == pytest.approx(gmac, abs=0.006)
    assert (mec.c, round(mec.macs / 1e9, 2)) == (64, 305.22)


def test_the_papers_layers():
    layers = read_layers("paper_layers")
    table = [(28, 128, 3), (56, 64, 3), (12, 64, 5), (14, 16, 5), (24, 256, 5), (24, 64, 5), (28, 16, 5), (28, 512, 3),
             (56, 256, 3), (112, 128, 3), (224, 64, 3)]
    assert [layer.name for layer in layers] == [f"conv{i}_c{c}" for c in (1, 3) for i in range(1, 12)]
    assert [(s.h, s.k, s.r, s.c, s.n) for s in (layer.shape for layer in layers)] == \
        [(*row, c, 128) for c in (1, 3) for row in table]
    assert all((layer.shape.p, layer.shape.q) == (layer.shape.h, layer.shape.w) for layer in layers)


def test_what_is_shipped_is_named_and_described():
    assert set(shipped()) == {"memory_wall", "paper_layers", "twelve_layers"} and all(shipped().values())


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twelve_layers").write_text("[layer.mine]\ninput = [1, 1, 9, 9]\nfilter = [1, 3, 3]\n")
    assert [layer.name for layer in read_layers("twelve_layers")] == ["mine"]


# ---- mistakes

LAYER = "[layer.conv1]\ninput = [1, 3, 9, 9]\nfilter = [4, 3, 3]\n"


@pytest.mark.parametrize("text, kind, argument, words", [
    (LAYER + "pading = 1", ArgumentError, "layer.conv1.pading", "did you mean padding?"),
    ("[defaults]\nstrid = 1\n" + LAYER, ArgumentError, "defaults.strid", "did you mean stride?"),
    ("[layers.conv1]\n" + LAYER, ArgumentError, "layers", "did you mean layer?"),
    ("", ArgumentError, "layer", "has no layers"),
    ("layer = 3", ArgumentError, "layer", "no table"),
    ("[layer]\nconv1 = 3", ArgumentError, "layer.conv1", "no table"),
    ("[layer.conv1]\nfilter = [4, 3, 3]", ArgumentError, "layer.conv1.input", "[N, C, H, W]"),
    ("[layer.conv1]\ninput = [1, 3, 9, 9]", ArgumentError, "layer.conv1.filter", "[K, R, S]"),
    (LAYER.replace("[1, 3, 9, 9]", "[1, 3, 9]"), ArgumentError, "layer.conv1.input", "list of 4"),
    (LAYER.replace("[1, 3, 9, 9]", "[1, 3, 9, 9.5]"), ArgumentTypeError, "layer.conv1.input", "integer"),
    (LAYER.replace("[1, 3, 9, 9]", "[1, 3, -9, 9]"), ShapeError, "layer.conv1.input", "out of range"),
    (LAYER.replace("[1, 3, 9, 9]", "[1, 3, 2, 9]"), ShapeError, "layer.conv1.input", "empty output"),
    (LAYER + "stride = 0", ShapeError, "layer.conv1.stride", "out of range"),
    (LAYER + "groups = 2", ShapeError, "layer.conv1.groups", "divide"),
    (LAYER + 'padding = "half"', ShapeError, "layer.conv1.padding", "'same' or 'valid'"),
    (LAYER + 'dtype = "int7"', ArgumentError, "layer.conv1.dtype", "int7"),
    (LAYER + 'epilogue = ["softplus"]', ArgumentError, "layer.conv1.epilogue", "softplus"),
    (LAYER + "epilogue = 3", ArgumentError, "layer.conv1.epilogue", "list"),
    (LAYER + 'algorithm = "winograd"', ArgumentError, "layer.conv1.algorithm", "one of auto"),
    (LAYER + "algorithm = 3", ArgumentError, "layer.conv1.algorithm", "text"),
    (LAYER + "set = 3", ArgumentError, "layer.conv1.set", "exchange"),
    ('[layer."a b"]\n' + LAYER.split("\n", 1)[1], ArgumentError, "layer.a b.name", "letters"),
    ("[layer", FileError, "LAYERS", "no TOML"),
    (LAYER + LAYER, FileError, "LAYERS", "no TOML"),
])
def test_mistakes_name_file_layer_and_field(tmp_path, text, kind, argument, words):
    with pytest.raises(kind) as caught:
        read_layers(write(tmp_path, text))
    assert caught.value.argument == argument
    assert "layers.toml" in str(caught.value) and words in str(caught.value)
    assert isinstance(caught.value, WarpconvError)


@pytest.mark.parametrize("text", ["{", "[1]", '{"layer": {"a": {}, "a": {}}}', "\x00", "[" * 100000])
def test_json_mistakes(tmp_path, text):
    with pytest.raises((FileError, ArgumentError), match="layers.json"):
        read_layers(write(tmp_path, text, "layers.json"))


def test_unreadable_files(tmp_path):
    with pytest.raises(FileError, match="twelve_layers"):       # the way out lists the shipped ones
        read_layers(tmp_path / "missing.toml")
    with pytest.raises(FileError, match="no text"):
        (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
        read_layers(tmp_path / "binary.toml")
    with pytest.raises(FileError):
        read_layers(tmp_path)
    with pytest.raises(FileError):
        read_layers("a\0b")


def test_names_for_layers_without_one():
    shape = ConvShape(n=1, c=3, h=9, w=9, k=4, r=3, s=3, stride=(1, 2), padding=((1, 0), (2, 3)))
    other = ConvShape(n=5, c=3, h=99, w=9, k=4, r=3, s=3, stride=(1, 2), padding=((1, 0), (2, 3)))
    assert default_name(shape) == default_name(other)
    names = {default_name(shape), default_name(shape, epilogue=(Epilogue.RELU,)),
             default_name(shape, algorithm="direct"), default_name(shape, settings={"k_tile": 2}),
             default_name(ConvShape(n=1, c=3, h=9, w=9, k=4, r=3, s=3))}
    assert len(names) == 5
    for name in names:
        NamedLayer(name=name, shape=shape)

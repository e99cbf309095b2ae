"""What the fuzzer found, one test each; and that it is itself what it says."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from PIL import Image
from click.testing import CliRunner

import warpconv
from tests import checks, gradients
from tests.fuzz import __main__ as fuzz
from tests.fuzz import exact, images, layers, lists
from tests.fuzz.choices import Choices, smaller
from tests.fuzz.world import World
from tests.runtime import device_object
from warpconv.cli import cli
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentTypeError
from warpconv.commands.files import InputFileError, read_array

needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


# ---- found

@pytest.mark.parametrize("name", ["residual", "out"])
def test_an_image_without_a_batch_beside_what_is_no_array(name):
    x, w = np.zeros((4, 5, 5), np.float32), np.zeros((4, 4, 1, 1), np.float32)
    with pytest.raises(ArgumentTypeError, match=f"not an array .{name} = 0") as raised:
        warpconv.conv2d(x, w, **{name: 0}, device="cpu")
    assert raised.value.argument == name


def test_an_array_file_whose_header_ends_in_the_middle(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((1, 1, 12, 12), np.float32))
    data = path.read_bytes()
    path.write_bytes(data[:62] + b"(" * 30 + data[92:])
    with pytest.raises(InputFileError, match="cannot be read as an array"):
        read_array(str(path), "input")


def test_a_picture_with_a_nul_in_its_name(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "p.png")
    made = CliRunner().invoke(cli, ["filter", str(tmp_path / "p.png"), "\0", str(tmp_path / "out"), "--kernel", "box:3",
                                    "--device", "cpu"])
    assert made.exit_code == 2 and "NUL" in made.output and not (tmp_path / "out").exists()


# ---- the fuzzer

def test_a_case_is_the_same_each_time_and_can_be_played_again():
    draw = lambda choose: [choose(range(100)) for _ in range(20)]     # noqa: E731
    first = Choices((3, 7))
    drawn = draw(first)
    assert draw(Choices((3, 7))) == drawn != draw(Choices((3, 8)))
    assert draw(Choices(None, first.made)) == drawn
    assert draw(Choices(None, first.made[:3])) == drawn[:3] + [0] * 17


def test_what_fails_is_made_smaller():
    made = smaller([9, 4, 7, 50], lambda choices: choices[1] >= 2 and choices[3] >= 10, 100)
    assert made == [0, 2, 0, 25]


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("change, how", [
    (lambda y: y + np.ones_like(y), "wrong"), (lambda y: y, "right"), (lambda y: 1 / 0, "raw")])
def test_a_fault_is_seen_and_told(tmp_path, monkeypatch, capsys, change, how):
    real = warpconv.conv2d

    def other(*args, **kwargs):
        y = real(*args, **kwargs)
        y[...] = change(y)
        return y

    device_object.copied(monkeypatch)
    monkeypatch.setattr(layers.warpconv, "conv2d", other)
    monkeypatch.setattr(fuzz, "TRIES", 3)
    record = tmp_path / "record.json"
    status = fuzz.main(["--seed", "5", "--kind", "conv2d", "--cases", "3", "--record", str(record)])
    kept = json.loads(record.read_text())
    said = capsys.readouterr().out
    assert status == (how != "right") and kept["next"] == 3 and kept["counts"].keys() <= {f"conv2d {how}",
                                                                                          "conv2d refused"}
    assert kept["sources"] and ("--seed 5 --case" in said) == (how != "right") == bool(kept["failed"])


CALLS = {"volume": ("conv3d", "conv3d_input", "conv3d_weight"),
         "line": ("conv1d", "conv1d_input", "conv1d_weight", "conv_transpose1d", "conv_transpose2d",
                  "conv_transpose3d"),
         "lists": lists.CALLS}


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("kind", CALLS)
def test_kinds_see_a_wrong_element(kind, monkeypatch, capsys):
    """Of lists an element of the last image: the images alone are as they were."""
    def off(real):
        @functools.wraps(real)
        def other(*args, **kwargs):
            made = real(*args, **kwargs)
            y = made[0] if isinstance(made, tuple) else made[-1] if isinstance(made, list) else made
            if y.size and (kind != "lists" or isinstance(made, list)):
                y.flat[-1] += np.ones((), y.dtype) * 64
            return made
        return other

    monkeypatch.setattr(fuzz, "TRIES", 0)
    for name in CALLS[kind]:
        monkeypatch.setattr(warpconv, name, off(getattr(warpconv, name)))
    assert fuzz.main(["--seed", "5", "--kind", kind, "--cases", "6"]) == 1
    assert f"{kind} wrong" in capsys.readouterr().out


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", CALLS)
def test_kinds_see_what_should_be_refused(kind, tmp_path, monkeypatch):
    """A call that takes anything: what cannot be is told, as often as it is drawn."""
    world, seen = World("cpu", tmp_path), []
    for name in CALLS[kind]:
        monkeypatch.setattr(warpconv, name, functools.wraps(getattr(warpconv, name))(
            lambda *args, **given: args[0] if args else given.get("input")))
    for case in range(60):
        seen.append(fuzz.outcome(fuzz.KINDS[kind][0], Choices((5, case)), world)[1])
    assert 2 <= sum("not refused" in words for words in seen) <= 30


@pytest.mark.parametrize("number", range(8))
def test_exact_gradients_are_those_of_the_scattered_ones(number):
    """Two ways to make them: by slices of a padded image, and element by element."""
    rng = np.random.default_rng(number)
    shape = gradients.draw_shape(rng)
    x, w, dy = (rng.standard_normal(sizes) for sizes in (shape.input_shape, shape.weight_shape, shape.output_shape))
    dx, dw = gradients.scattered(x, w, dy, shape)
    np.testing.assert_allclose(exact.data_gradient(w, dy, shape).output, dx, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(exact.filter_gradient(x, dy, shape).output, dw, rtol=1e-9, atol=1e-9)


def test_an_exact_transposed_layer():
    """By its definition: the layer's matrix turned round, as np.convolve has it."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 1, 7)), rng.standard_normal((1, 1, 4))
    wide = np.zeros(19)
    wide[::3] = x[0, 0]
    made = exact.transposed(x, w, np.ones(1), ((2, 1),), (2,), 1, (3,), (1,), DType.FLOAT32)
    whole = np.concatenate([np.convolve(wide, w[0, 0]), np.zeros(2)])
    np.testing.assert_allclose(made.output[0, 0], whole[2:-1] + 1)
    assert exact.transposed(x, w, None, ((20, 5),), (0,), 1, (3,), (1,), DType.FLOAT32) is None


def test_scipys_results_are_compared():
    given = {"cval": 0.0}
    theirs = np.arange(6, dtype=np.uint8)
    images.near(theirs, theirs, theirs, given, "sobel")
    with pytest.raises(AssertionError, match="off by 1"):
        images.near(theirs + np.uint8(1), theirs, theirs, given, "sobel")
    with pytest.raises(AssertionError, match="off by"):
        images.near(np.float32([1.1]), np.float32([1]), np.float32([1]), given, "gaussian_filter")


@pytest.mark.long
@needs_compiler
def test_the_first_cases_of_each_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("arguments", "scipy", "volume", "line", "lists", "files", "commands"):
        pytest.importorskip("scipy")
        assert fuzz.main(["--seed", "4", "--kind", kind, "--cases", "12"]) == 0
    assert not list(tmp_path.iterdir())         # nothing is written where the fuzzer was started

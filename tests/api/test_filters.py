"""Named filters, images in and out, ``warpconv filter`` and ``warpconv demo`` on a real photograph."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from click.testing import CliRunner

from tests.pictures import by_hand
from warpconv.cli import cli
from warpconv.codegen.errors import ArgumentError
from warpconv.filters import LARGEST, names, weights
from warpconv.images import read_picture


def run(*arguments):
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def crop(tmp_path_factory):
    """A piece of the photograph that the demo uses."""
    from matplotlib import cbook
    image = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)).crop((180, 60, 301, 157))
    path = tmp_path_factory.mktemp("photo") / "crop.png"
    image.save(path)
    return path


# ---- names

@pytest.mark.parametrize("name, shape, total", [
    ("identity", (1, 1), 1), ("sobel-x", (3, 3), 0), ("prewitt-y", (3, 3), 0), ("scharr-x", (3, 3), 0),
    ("laplace", (3, 3), 0), ("laplace-8", (3, 3), 0), ("sharpen", (3, 3), 1), ("box:5", (5, 5), 1),
    ("box:4", (4, 4), 1), ("gaussian:5,1.2", (5, 5), 1), ("gaussian:31", (31, 31), 1), ("log:7,1.2", (7, 7), 0),
    ("emboss:7", (7, 7), 1), ("unsharp:5,2", (5, 5), 1), ("motion:9", (1, 9), 1), ("motion:9,90", (9, 1), 1),
    ("motion:7,45", (7, 7), 1)])
def test_filters_have_their_shape_and_sum(name, shape, total):
    made = weights(name)
    assert made.shape == shape and made.dtype == np.float32
    assert abs(made.astype(np.float64).sum() - total) < 1e-6


def test_slopes_point_right_and_down():
    ramp = np.tile(np.arange(5.0), (5, 1))
    for family in ("sobel", "prewitt", "scharr"):
        assert by_hand(ramp, weights(f"{family}-x"))[2, 2] > 0 == by_hand(ramp, weights(f"{family}-y"))[2, 2]
        assert by_hand(ramp.T, weights(f"{family}-y"))[2, 2] > 0


def test_a_gaussian_is_the_sampled_bell():
    made = weights("gaussian:5,1.2").astype(np.float64)
    assert made[2, 3] / made[2, 2] == pytest.approx(np.exp(-1 / (2 * 1.2**2)), rel=1e-6)
    assert np.array_equal(made, made.T) and np.array_equal(made, made[::-1])


def test_every_listed_form_can_be_made():
    for form, _ in names():
        assert weights(form.split("[")[0].replace("SIZE", "7")).size


@pytest.mark.parametrize("name", ["", "blur", "sobel-x:3", "box:0", "box:2.5", f"box:{LARGEST + 1}", "box:3,3", "box:x",
                                  "gaussian:5,0", "gaussian:4", "gaussian:5,-1", "gaussian:nan",
                                  "log:4", "motion:5,30", "box:inf"])
def test_other_names_are_refused(name):
    with pytest.raises(ArgumentError) as caught:
        weights(name)
    assert caught.value.hint


# ---- filter

@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "1"])
@pytest.mark.parametrize("kernel", ["gaussian:5,1.2", "box:4"])
def test_filter_keeps_the_kind_of_image(crop, tmp_path, mode, kernel):
    image = Image.open(crop)
    if mode.endswith("A"):
        image = image.convert(mode)
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    image.convert(mode).save(tmp_path / "in.png")
    result = run("filter", tmp_path / "in.png", tmp_path / "out.png", "--kernel", kernel, "--device", "cpu")
    assert result.exit_code == 0, result.output
    source, made = Image.open(tmp_path / "in.png"), Image.open(tmp_path / "out.png")
    kept = {"P": "RGB", "1": "L"}.get(mode, mode)
    assert made.mode == kept and made.size == source.size
    before, after = np.atleast_3d(np.asarray(source.convert(kept))), np.atleast_3d(np.asarray(made))
    colours = before.shape[2] - kept.endswith("A")
    for plane in range(colours):
        exact = by_hand(before[:, :, plane], weights(kernel))
        assert np.abs(after[:, :, plane] - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-3
    if kept.endswith("A"):
        assert np.array_equal(before[:, :, -1], after[:, :, -1])


def test_sixteen_bits_stay_sixteen(crop, tmp_path):
    values = np.asarray(Image.open(crop).convert("L")).astype(np.uint16) * 257
    Image.fromarray(values).save(tmp_path / "in.png")
    assert run("filter", tmp_path / "in.png", tmp_path / "out.png", "--kernel", "identity").exit_code == 0
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out.png")), values)


def test_scale_offset_and_absolute_values(crop, tmp_path):
    gray = tmp_path / "gray.png"
    Image.open(crop).convert("L").save(gray)
    exact = by_hand(np.asarray(Image.open(gray)), weights("sobel-x"))
    for options, wanted in ((["--scale", "0.125", "--offset", "128"], exact / 8 + 128), (["--abs"], np.abs(exact))):
        result = run("filter", gray, tmp_path / "out.png", "--kernel", "sobel-x", *options)
        assert result.exit_code == 0, result.output
        got = np.asarray(Image.open(tmp_path / "out.png"))
        assert np.abs(got - np.clip(wanted, 0, 255)).max() <= 0.5 + 1e-3
    result = run("filter", gray, tmp_path / "out.png", "--kernel", "sobel-x", "--device", "cpu", "--json")
    told = json.loads(result.stdout)
    assert set(told) == {"border", "written", "failed", "sheet", "seconds", "schema"} and told["failed"] == []
    record, = told["written"]
    assert record["clipped"] == pytest.approx(np.mean(exact < -0.5) + np.mean(exact > 255.5), abs=1e-3)
    assert set(record) == {"image", "output", "kernel", "layer", "algorithm", "device", "seconds", "clipped"}


def test_a_filter_from_a_file(crop, tmp_path):
    np.save(tmp_path / "k.npy", np.array([[0, 0, 1]]))
    assert run("filter", crop, tmp_path / "out.png", "--kernel", tmp_path / "k.npy").exit_code == 0
    before, after = np.asarray(Image.open(crop)), np.asarray(Image.open(tmp_path / "out.png"))
    assert np.array_equal(after[:, :-1], before[:, 1:]) and np.array_equal(after[:, -1], before[:, -2])
    np.save(tmp_path / "bad.npy", np.ones((2, 2, 2)))
    result = run("filter", crop, tmp_path / "new.png", "--kernel", tmp_path / "bad.npy")
    assert result.exit_code == 2 and "(R, S)" in result.stderr and not (tmp_path / "new.png").exists()


def test_filter_refuses_before_it_computes(crop, tmp_path):
    picture, pipe = tmp_path / "p.png", tmp_path / "pipe.png"
    Image.open(crop).save(picture)
    before = picture.read_bytes()
    os.mkfifo(pipe)
    for name, array in (("nan", [[1, np.nan]]), ("huge", [[1e39]]), ("large", np.ones((1, LARGEST + 1)))):
        np.save(tmp_path / f"{name}.npy", np.array(array))
    for out, options, says in (
            (picture, ["--kernel", "box:3"], "also an input"), (pipe, ["--kernel", "box:3"], "no regular file"),
            (tmp_path / "nan.npy", ["--kernel", tmp_path / "nan.npy"], "also an input"),
            (tmp_path / "o.png", ["--kernel", "box:3", "--scale", "nan"], "--scale"),
            (tmp_path / "o.png", ["--kernel", "box:3", "--offset", "inf"], "--offset"),
            (tmp_path / "o.png", ["--kernel", tmp_path / "nan.npy"], "not finite"),
            (tmp_path / "o.png", ["--kernel", tmp_path / "huge.npy"], "not finite"),
            (tmp_path / "o.png", ["--kernel", tmp_path / "large.npy"], "31x31")):
        result = run("filter", picture, out, *options)
        assert result.exit_code == 2 and says in result.stderr, result.output
    assert picture.read_bytes() == before and pipe.is_fifo() and not (tmp_path / "o.png").exists()


def test_formats_that_cannot_hold_the_image_are_refused(crop, tmp_path):
    Image.open(crop).convert("RGBA").save(tmp_path / "a.png")
    for name, says in (("out.jpg", "mode RGBA"), ("out.nothing", "format"), ("out", "format")):
        result = run("filter", tmp_path / "a.png", tmp_path / name, "--kernel", "box:3")
        assert result.exit_code == 2 and says in result.stderr and not (tmp_path / name).exists()


def test_without_pillow_the_way_to_get_it_is_told(crop, tmp_path, monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = run("filter", crop, tmp_path / "out.png", "--kernel", "box:3")
    assert result.exit_code == 1 and "warpconv[image]" in result.stderr


def test_pictures_are_read_upright(tmp_path):
    image = Image.new("L", (4, 2))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    assert read_picture(tmp_path / "a.jpg").size == (4, 2)


# ---- demo

def test_a_demo_that_fails_leaves_no_empty_folder(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ArgumentError("no", argument="device")

    monkeypatch.setattr("warpconv.commands.demo_run.run_demo", fail)
    (tmp_path / "kept").mkdir()
    assert run("demo", "--device", "cpu", "-o", tmp_path / "new" / "made").exit_code == 2
    assert run("demo", "--device", "cpu", "-o", tmp_path / "kept").exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


@pytest.mark.long
def test_the_demo_from_end_to_end(tmp_path):
    folder = tmp_path / "made"
    result = run("demo", "--device", "cpu", "-o", folder, "--kernel", "gaussian:7,1.5", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert set(record) == {"photograph", "device", "folder", "layers", "pictures", "counts_reason", "seconds", "schema"}
    assert len(record["layers"]) == 3 and all(row["accuracy"]["within"] for row in record["layers"])
    assert {row["name"] for row in record["layers"]} == {"gaussian 5x5", "sobel 3x3", "gaussian 7x7"}
    for row in record["layers"]:
        assert 'extern "C"' in Path(row["source"]).read_text()
        assert row["loads_per_32"] < row["direct_loads_per_32"]
        assert row["units"][0]["measured"] == row["units"][0]["planned"]
    assert len(record["pictures"]) == 6
    for picture in record["pictures"]:
        assert 5_000 < Path(picture).stat().st_size < 200_000
    photo, blurred = (np.asarray(Image.open(p)).astype(float) for p in (record["photograph"], record["pictures"][0]))
    inside = np.s_[4:-4, 4:-4]
    exact = np.stack([by_hand(photo[:, :, c], weights("gaussian:5,1.2")) for c in range(3)], axis=2)
    assert np.abs(blurred[inside] - exact[inside]).mean() < 3        # the picture is a JPEG
    text = run("demo", "--device", "cpu", "-o", folder, "--kernel", "gaussian:7,1.5").output
    assert "warp" in text and "within" in text and str(folder) in text

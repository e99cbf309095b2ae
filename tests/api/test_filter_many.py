"""``warpconv filter`` on real photographs: borders, several filters and pictures, 16 bits, contact sheets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from click.testing import CliRunner

from tests.pictures import PHOTOS, by_hand, crop
from warpconv.cli import cli
from warpconv.codegen.border import NAMES, Border
from warpconv.codegen.errors import ArgumentError
from warpconv.commands.filter_jobs import find_jobs, result_name
from warpconv.commands.filter_run import parse_border
from warpconv.filters import weights
from warpconv.images import finish, read_picture

# How numpy.pad calls each border.
PADS = {"zeros": ("constant", {}), "constant:77": ("constant", {"constant_values": 77}), "replicate": ("edge", {}),
        "reflect": ("reflect", {}), "symmetric": ("symmetric", {}), "circular": ("wrap", {})}


def run(*arguments):
    return CliRunner().invoke(cli, ["filter", *(str(a) for a in arguments), "--device", "cpu"])


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder with pieces of both photographs, and a file that is none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    crop("china", (60, 20, 181, 117)).save(folder / "b.png")
    crop("flower", (120, 60, 233, 151)).save(folder / "a.JPG", quality=95)
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "below").mkdir()
    return folder


def check(before: np.ndarray, after: np.ndarray, kernel: np.ndarray, mode: str = "reflect", largest: int = 255,
          **options) -> None:
    """Every value is the exact one, rounded to nearest and limited."""
    before, after = np.atleast_3d(before), np.atleast_3d(after)
    assert before.shape == after.shape and before.dtype == after.dtype
    for plane in range(before.shape[2]):
        exact = np.clip(by_hand(before[:, :, plane], kernel, mode, **options), 0, largest)
        assert np.abs(after[:, :, plane] - exact).max() <= 0.5 + 1e-6 * largest * kernel.size


# ---- borders

@pytest.mark.thin(12)
@pytest.mark.parametrize("border", PADS)
@pytest.mark.parametrize("kernel", ["gaussian:7,1.5", "sharpen", "box:4"])
def test_borders_are_those_of_numpy_pad(photos, tmp_path, border, kernel):
    made = run(photos / "b.png", tmp_path / "out.png", "--kernel", kernel, "--border", border)
    assert made.exit_code == 0, made.output
    mode, options = PADS[border]
    check(np.asarray(Image.open(photos / "b.png")), np.asarray(Image.open(tmp_path / "out.png")), weights(kernel),
          mode, **options)


@pytest.mark.thin(6)
@pytest.mark.parametrize("border", PADS)
def test_a_picture_smaller_than_its_filter(tmp_path, border):
    crop("china", (70, 60, 75, 63)).save(tmp_path / "tiny.png")
    np.save(tmp_path / "k.npy", np.random.default_rng(5).uniform(0, 2 / 15**2, (15, 15)))
    assert run(tmp_path / "tiny.png", tmp_path / "out.png", "--kernel", tmp_path / "k.npy", "--border",
               border).exit_code == 0
    mode, options = PADS[border]
    check(np.asarray(Image.open(tmp_path / "tiny.png")), np.asarray(Image.open(tmp_path / "out.png")),
          np.load(tmp_path / "k.npy").astype(np.float32), mode, **options)


def test_borders_have_every_librarys_name():
    for library, names in NAMES.items():
        for name, mode in names.items():
            assert parse_border(f"{library}:{name}") == (mode, 0.0)
    assert parse_border("opencv:CONSTANT:12.5") == parse_border("constant:12.5") == (Border.CONSTANT, 12.5)
    assert parse_border("scipy:reflect")[0] is Border.SYMMETRIC and parse_border("reflect")[0] is Border.REFLECT


@pytest.mark.parametrize("border", ["", "mirror", "scipy", "scipy:REFLECT", "reflect:3", "constant:x", "constant:nan",
                                    "constant:1:2", "zero"])
def test_other_borders_are_refused(photos, tmp_path, border):
    with pytest.raises(ArgumentError) as caught:
        parse_border(border)
    assert caught.value.hint and caught.value.argument == "--border"
    result = run(photos / "b.png", tmp_path / "o.png", "--kernel", "box:3", "--border", border)
    assert result.exit_code == 2 and "--border" in result.stderr and not (tmp_path / "o.png").exists()


# ---- several filters

def test_several_filters_make_a_file_each(photos, tmp_path):
    kernels = ("sobel-x", "gaussian:5,1.2", "sobel-y", "box:3")         # two sizes, mixed
    result = run(photos / "b.png", tmp_path / "out.png", *(w for k in kernels for w in ("--kernel", k)), "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["written"]
    assert [row["kernel"] for row in rows] == list(kernels)
    assert [Path(row["output"]).name for row in rows] == ["out-sobel-x.png", "out-gaussian-5-1.2.png",
                                                          "out-sobel-y.png", "out-box-3.png"]
    assert len({row["layer"] for row in rows}) == 2         # a call for each size
    for row in rows:
        check(np.asarray(Image.open(photos / "b.png")), np.asarray(Image.open(row["output"])), weights(row["kernel"]))
    assert not (tmp_path / "out.png").exists()


def test_a_gradients_magnitude(photos, tmp_path):
    result = run(photos / "b.png", tmp_path / "edges.png", "--kernel", "sobel-x", "--kernel", "sobel-y", "--combine",
                 "magnitude", "--scale", "0.25", "--offset", "3")
    assert result.exit_code == 0, result.output
    before, after = (np.asarray(Image.open(p)) for p in (photos / "b.png", tmp_path / "edges.png"))
    for plane in range(3):
        x, y = (by_hand(before[:, :, plane], weights(f"sobel-{axis}")) for axis in "xy")
        assert np.abs(after[:, :, plane] - np.clip(np.hypot(x, y) / 4 + 3, 0, 255)).max() <= 0.5 + 1e-3
    result = run(photos / "b.png", tmp_path / "o.png", "--kernel", "sobel-x", "--combine", "magnitude")
    assert result.exit_code == 2 and "--kernel twice" in result.stderr


@pytest.mark.thin(6)
@pytest.mark.parametrize("options, wanted", [
    (["--abs"], lambda v: np.abs(v)), (["--abs", "--scale", "0.3"], lambda v: np.abs(v) * 0.3),
    (["--abs", "--offset", "9"], lambda v: np.abs(v) + 9), (["--abs", "--scale", "-1"], lambda v: -np.abs(v)),
    (["--abs", "--scale", "-1", "--offset", "99"], lambda v: 99 - np.abs(v)),
    (["--scale", "-0.5", "--offset", "130.5"], lambda v: v * -0.5 + 130.5)])
@pytest.mark.parametrize("bits", [8, 16])
def test_values_on_their_way_to_pixels(tmp_path, options, wanted, bits):
    largest, unit = 2**bits - 1, 257 if bits == 16 else 1
    values = np.asarray(crop("china", (60, 20, 100, 60)).convert("L")).astype(f"u{bits // 8}") * unit
    Image.fromarray(values).save(tmp_path / "in.png")
    result = run(tmp_path / "in.png", tmp_path / "out.png", "--kernel", "laplace-8", *options, "--json")
    assert result.exit_code == 0, result.output
    exact = wanted(by_hand(values, weights("laplace-8")))
    got = np.asarray(Image.open(tmp_path / "out.png"))
    assert got.dtype == values.dtype
    assert np.abs(got - np.clip(exact, 0, largest)).max() <= 0.5 + 1e-6 * 16 * largest
    clipped = np.mean((np.rint(exact) < 0) | (np.rint(exact) > largest))
    assert json.loads(result.stdout)["written"][0]["clipped"] == pytest.approx(clipped, abs=2e-3)


@pytest.mark.long
def test_a_filter_that_cannot_leave_the_range_stores_pixels_itself(photos, tmp_path):
    for kernel, layer in (("gaussian:5,1.2", "uint8 NCHW"), ("sharpen", "to int16"), ("box:3 --offset 1", "to int16"),
                          ("sobel-x --abs", "to int16"), ("sobel-x --abs --scale 0.25", "uint8 NCHW"),
                          ("sobel-x --scale 0.125 --offset 127.5", "uint8 NCHW"),
                          ("box:3 --border constant:300", "to int16"), ("sobel-y --abs --scale -0.25 --offset 255",
                                                                        "uint8 NCHW")):
        made = run(photos / "b.png", tmp_path / "out.png", "--kernel", *kernel.split(), "--json")
        assert layer in json.loads(made.stdout)["written"][0]["layer"]


# ---- 16 bits and float32

def sixteen(channels: int) -> np.ndarray:
    """A photograph's piece with 16 bits that are not 8 bits times 257."""
    fine = np.asarray(crop("flower", (120, 60, 213, 131)).convert("RGB").resize((61, 47), Image.Resampling.BOX))
    noise = np.random.default_rng(3).integers(0, 257, (47, 61, 4), dtype=np.uint16)
    return (np.concatenate([fine, fine[:, :, :1]], axis=2).astype(np.uint16) * 256 + noise % 256)[:, :, :channels]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_tiff_of_16_bits_keeps_them(tmp_path, channels, byteorder):
    values = sixteen(channels)
    alpha = channels in (2, 4)
    options = {"extrasamples": ["unassalpha"], "planarconfig": "contig"} if alpha else {}
    tifffile.imwrite(tmp_path / "in.tif", values[:, :, 0] if channels == 1 else values, byteorder=byteorder,
                     photometric="rgb" if channels > 2 else "minisblack", resolution=(300, 150), resolutionunit="INCH",
                     iccprofile=b"a profile", metadata=None, **options)
    result = run(tmp_path / "in.tif", tmp_path / "out.tif", "--kernel", "unsharp:5,2")
    assert result.exit_code == 0, result.output
    made = tifffile.imread(tmp_path / "out.tif").reshape(values.shape)
    colours = channels - alpha
    check(values[:, :, :colours], made[:, :, :colours], weights("unsharp:5,2"), largest=65535)
    assert np.array_equal(made[:, :, colours:], values[:, :, colours:])
    again = read_picture(tmp_path / "out.tif")
    assert again.about["dpi"] == (300, 150) and again.about["icc_profile"] == b"a profile"
    if colours == 3:
        refused = run(tmp_path / "in.tif", tmp_path / "out.bmp", "--kernel", "box:3")
        assert refused.exit_code == 2 and "write a .tif" in refused.stderr and not (tmp_path / "out.bmp").exists()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_of_16_bits_is_read_upright(tmp_path, orientation):
    """As Pillow turns the same picture of 8 bits."""
    values = np.asarray(crop("flower", (120, 60, 140, 70)))
    for bits in (8, 16):
        tifffile.imwrite(tmp_path / f"{bits}.tif", values.astype(f"u{bits // 8}"), photometric="rgb", metadata=None,
                         extratags=[(274, 3, 1, orientation, False)])
    eight, wide = (read_picture(tmp_path / f"{bits}.tif").planes for bits in (8, 16))
    assert wide.dtype == np.uint16 and np.array_equal(eight, wide)


@pytest.mark.thin(2)
@pytest.mark.parametrize("planes", [1, 3])
def test_float32_is_kept_in_tiff_and_rounded_elsewhere(photos, tmp_path, planes):
    source = tmp_path / "in.png"
    Image.open(photos / "b.png").convert("L" if planes == 1 else "RGB").save(source)
    values = np.atleast_3d(np.asarray(Image.open(source)))
    assert run(source, tmp_path / "out.tif", "--kernel", "log:7", "--dtype", "float32").exit_code == 0
    made = np.atleast_3d(tifffile.imread(tmp_path / "out.tif"))
    assert made.dtype == np.float32 and made.min() < 0
    for plane in range(planes):
        assert np.abs(made[:, :, plane] - by_hand(values[:, :, plane], weights("log:7"))).max() < 1e-3
    assert run(tmp_path / "out.tif", tmp_path / "again.tif", "--kernel", "box:3").exit_code == 0
    again = np.atleast_3d(tifffile.imread(tmp_path / "again.tif"))
    assert np.abs(again[:, :, 0] - by_hand(made[:, :, 0], weights("box:3"))).max() < 1e-3
    assert run(source, tmp_path / "out.png", "--kernel", "box:3", "--dtype", "float32").exit_code == 0
    check(np.asarray(Image.open(source)), np.asarray(Image.open(tmp_path / "out.png")), weights("box:3"))
    refused = run(tmp_path / "out.tif", tmp_path / "o.png", "--kernel", "box:3")
    assert refused.exit_code == 2 and "float32" in refused.stderr


def test_what_would_lose_bits_or_images_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "pages.tif", np.zeros((2, 5, 6, 3), np.uint16), photometric="rgb")
    Image.fromarray(sixteen(1)[:, :, 0] >> 8).convert("L").save(
        tmp_path / "pages8.tif", save_all=True, append_images=[Image.new("L", (61, 47))])
    tifffile.imwrite(tmp_path / "signed.tif", np.zeros((5, 6, 3), np.int16), photometric="rgb")
    for name, says in (("pages.tif", "2 images"), ("pages8.tif", "2 images"),
                       ("signed.tif", "int16")):
        result = run(tmp_path / name, tmp_path / "out.tif", "--kernel", "box:3")
        assert result.exit_code == 2 and says in result.stderr and not (tmp_path / "out.tif").exists(), name


def test_values_become_pixels_exactly():
    edges = np.array([-32768, -1, 0, 1, 254, 255, 256, 32767], np.int16)
    made, clipped = finish(edges, np.uint8)
    assert made.tolist() == [0, 0, 0, 1, 254, 255, 255, 255] and clipped == 4 / 8
    made, clipped = finish(np.array([-0.5, 0.5, 1.5, 255.5, 255.4, np.nan, np.inf]), np.uint8)
    assert made.tolist() == [0, 0, 2, 255, 255, 0, 255] and clipped == 2 / 7


# ---- several pictures

def test_a_folder_keeps_names_and_what_the_pictures_tell(photos, tmp_path):
    Image.open(photos / "b.png").save(photos / "c.tif", dpi=(200, 200))
    shutil.copy(PHOTOS / "flower.jpg", photos / "d.jpg")
    result = run(photos, tmp_path / "out", "--kernel", "box:3")
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.JPG", "b.png", "c.tif", "d.jpg"]
    assert "4 of 4 pictures" in result.stdout
    check(np.asarray(Image.open(photos / "b.png")), np.asarray(Image.open(tmp_path / "out" / "b.png")),
          weights("box:3"))
    before, after = Image.open(photos / "d.jpg"), Image.open(tmp_path / "out" / "d.jpg")
    assert after.info["icc_profile"] == before.info["icc_profile"] and len(before.info["icc_profile"]) > 3000
    assert after.info["dpi"] == before.info["dpi"] == (72, 72)
    assert after.getexif()[0x013B] == "vultilion" and "CC BY 2.0" in after.getexif()[0x8298]
    assert Image.open(tmp_path / "out" / "c.tif").info["dpi"] == (200, 200)


def test_one_bad_picture_does_not_lose_the_others(photos, tmp_path):
    whole = (photos / "a.JPG").read_bytes()
    (photos / "0.jpg").write_bytes(whole[:300])
    (photos / "z.png").write_bytes(b"no picture at all")
    (photos / "t.tif").write_bytes(b"II*\0" + bytes(40))
    result = run(photos, tmp_path / "out", "--kernel", "box:3", "--json")
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert [Path(row["image"]).name for row in record["written"]] == ["a.JPG", "b.png"]
    assert [Path(row["image"]).name for row in record["failed"]] == ["0.jpg", "t.tif", "z.png"]
    assert all("cannot be read" in row["reason"] for row in record["failed"])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.JPG", "b.png"]
    told = run(photos, tmp_path / "out", "--kernel", "box:3")
    assert told.exit_code == 1 and "2 of 5 pictures" in told.stdout and "z.png" in told.stderr
    for path in (photos / "a.JPG", photos / "b.png"):
        path.unlink()
    assert run(photos, tmp_path / "none", "--kernel", "box:3").exit_code == 1
    assert not (tmp_path / "none").exists()


def test_several_files_with_several_filters_in_another_format(photos, tmp_path):
    result = run(photos / "a.JPG", photos / "b.png", f"{tmp_path / 'out'}/", "--kernel", "box:3", "--kernel",
                 "sharpen", "--format", ".PNG")
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a-box-3.png", "a-sharpen.png", "b-box-3.png",
                                                                    "b-sharpen.png"]
    check(np.asarray(Image.open(photos / "a.JPG")), np.asarray(Image.open(tmp_path / "out" / "a-sharpen.png")),
          weights("sharpen"))


def test_what_cannot_be_written_is_refused_first(photos, tmp_path):
    before = {path.name: path.read_bytes() for path in photos.iterdir() if path.is_file()}
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "empty").mkdir()
    shutil.copy(photos / "b.png", tmp_path / "b.png")
    (tmp_path / "link.png").symlink_to(photos / "b.png")
    box = ("--kernel", "box:3")
    for arguments, says in (
            ((photos, photos, *box), "also an input"),
            ((photos / "b.png", tmp_path / "link.png", *box), "also an input"),
            ((photos, tmp_path / "file", *box), "name a folder"),
            ((tmp_path / "empty", tmp_path / "out", *box), "no pictures"),
            ((photos / "b.png", tmp_path / "b.png", tmp_path / "out", *box), "one name"),
            ((photos / "b.png", tmp_path / "o.png", *box, *box), "twice"),
            ((photos / "b.png", tmp_path / "o.png", *box, "--format", "jpg"), "--format"),
            ((photos, tmp_path / "out", *box, "--format", "nothing"), "format"),
            ((photos, tmp_path / "out", *box, "--sheet", photos / "b.png"), "also an input"),
            ((photos, tmp_path / "out", *box, "--sheet", tmp_path / "out" / "b.png"), "--sheet"),
            ((photos / "b.png", tmp_path / "none" / "o.png", *box), "make it first"),
            ((photos / "b.png", tmp_path / "o.png", *box, "--scale", "1e40"), "float32")):
        result = run(*arguments)
        assert result.exit_code == 2 and says in result.stderr, (arguments, result.output)
    assert {path.name: path.read_bytes() for path in photos.iterdir() if path.is_file()} == before
    assert not (tmp_path / "out").exists() and not (tmp_path / "o.png").exists()


def test_results_have_names_that_files_can_have():
    assert [result_name(k) for k in ("gaussian:5,1.2", "sobel-x", "a/b c.npy", "motion:9,45", "---.npy")] == [
        "gaussian-5-1.2", "sobel-x", "b-c", "motion-9-45", "filter"]


def test_jobs_come_in_order(photos, tmp_path):
    found = find_jobs([str(photos)], str(tmp_path / "out"), ["x"], None)
    assert [Path(job.photo).name for job in found.jobs] == ["a.JPG", "b.png"] and found.folder == tmp_path / "out"


def test_a_contact_sheet_shows_before_and_after(photos, tmp_path):
    result = run(photos, tmp_path / "out", "--kernel", "box:3", "--kernel", "sobel-x", "--sheet",
                 tmp_path / "out" / "sheet.png")
    assert result.exit_code == 0 and "sheet.png" in result.stdout, result.output
    sheet = np.asarray(Image.open(tmp_path / "out" / "sheet.png")).astype(float)
    assert sheet.shape[1] == 3 * 312 + 12
    a, b = (np.asarray(Image.open(p).convert("RGB").resize((300, round(300 * p_h / p_w)), Image.Resampling.LANCZOS))
            for p, p_w, p_h in ((photos / "a.JPG", 113, 91), (photos / "b.png", 121, 97)))
    assert np.array_equal(sheet[12:12 + len(a), 12:312], a)
    top = 12 + len(a) + 38
    assert np.array_equal(sheet[top:top + len(b), 12:312], b)
    assert np.abs(sheet[top:top + len(b), 324:624] - b).mean() > 1          # after: not the same


def test_a_bar_is_for_terminals(photos, tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    result = run(photos, tmp_path / "out", "--kernel", "box:3")
    assert "━" not in result.stderr and result.exit_code == 0
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")         # dumb ones have no bar
    shown = run(photos, tmp_path / "out", "--kernel", "box:3")
    assert "━" in shown.stderr and shown.exit_code == 0
    assert "━" not in run(photos, tmp_path / "out", "--kernel", "box:3", "--json").stderr


@pytest.mark.parametrize("option", ["--scale", "--offset"])
@pytest.mark.parametrize("number", ["inf", "nan", "1e39"])
def test_numbers_that_float32_does_not_have_are_refused(tmp_path, option, number):
    Image.fromarray(np.zeros((5, 6), np.uint8)).save(tmp_path / "in.png")
    done = run(tmp_path / "in.png", tmp_path / "out.png", "--kernel", "box:3", option, number)
    assert done.exit_code == 2 and option in done.output and not (tmp_path / "out.png").exists()

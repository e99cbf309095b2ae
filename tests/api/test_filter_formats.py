"""``warpconv filter``: 16-bit colours in PNG and packed TIFF, CMYK and animations told, quality, folders in folders."""

from __future__ import annotations

import struct
import sys
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from tests.api.test_filter_many import check, run
from tests.pictures import crop
from warpconv.codegen.errors import ArgumentError, ToolNotFound
from warpconv.filters import weights
from warpconv.images import Picture, read_picture, write_picture


def codecs():
    return pytest.importorskip("imagecodecs", reason="imagecodecs is not installed")


def drawn(shape, dtype=np.uint16):
    return np.random.default_rng(len(shape)).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_png_of_16_bit_colours(tmp_path, channels):
    module = codecs()
    pixels = drawn((13, 17, channels))
    (tmp_path / "in.png").write_bytes(module.png_encode(pixels))
    picture = read_picture(tmp_path / "in.png")
    assert picture.planes.dtype == np.uint16 and (picture.alpha is not None) == (channels in (2, 4))
    about = {"icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(), "dpi": (300.0, 150.0),
             "exif": exif(Artist="someone")}
    write_picture(tmp_path / "out.png", Picture(planes=picture.planes, alpha=picture.alpha, about=about))
    assert np.array_equal(module.png_decode((tmp_path / "out.png").read_bytes()), pixels)
    with Image.open(tmp_path / "out.png") as seen:
        assert seen.info["icc_profile"] == about["icc_profile"] and seen.getexif()[315] == "someone"
        assert np.allclose(seen.info["dpi"], (300, 150), atol=0.02)
        seen.load()
    made = run(tmp_path / "out.png", tmp_path / "soft.png", "--kernel", "box:3")
    assert made.exit_code == 0, made.output
    soft = read_picture(tmp_path / "soft.png")
    assert set(soft.about) == {"icc_profile", "dpi", "exif"}
    check(np.moveaxis(picture.planes, 0, 2), np.moveaxis(soft.planes, 0, 2), weights("box:3"), largest=65535)


def exif(**tags):
    block = Image.Exif()
    block[315] = tags["Artist"]
    if "orientation" in tags:
        block[274] = tags["orientation"]
    return block.tobytes()


def test_png_is_turned_upright(tmp_path):
    module = codecs()
    pixels = drawn((5, 7, 3))
    write_picture(tmp_path / "a.png", Picture(planes=np.moveaxis(pixels, 2, 0),
                                              about={"exif": exif(Artist="x", orientation=6)}))
    assert np.array_equal(module.png_decode((tmp_path / "a.png").read_bytes()), pixels)
    picture = read_picture(tmp_path / "a.png")
    assert np.array_equal(np.moveaxis(picture.planes, 0, 2), np.rot90(pixels, -1))
    kept = Image.Exif()
    kept.load(picture.about["exif"])
    assert 274 not in kept and kept[315] == "x"


@pytest.mark.parametrize("packed", ["lzw", "deflate"])
def test_packed_tiff_of_16_bit_colours(tmp_path, packed):
    codecs()
    pixels = drawn((13, 17, 3))
    tifffile.imwrite(tmp_path / "in.tif", pixels, compression=packed, predictor=True, photometric="rgb")
    made = run(tmp_path / "in.tif", tmp_path / "out.tif", "--kernel", "sharpen")
    assert made.exit_code == 0, made.output
    check(pixels, tifffile.imread(tmp_path / "out.tif"), weights("sharpen"), largest=65535)


def test_what_is_missing_is_told(tmp_path, monkeypatch):
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
    (tmp_path / "a.png").write_bytes(raw + chunk(b"IDAT", zlib.compress(bytes(7))) + chunk(b"IEND", b""))
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    with pytest.raises(ToolNotFound, match="imagecodecs") as caught:
        read_picture(tmp_path / "a.png")
    assert "warpconv[image]" in caught.value.hint
    with pytest.raises(ToolNotFound, match="imagecodecs"):
        write_picture(tmp_path / "b.png", Picture(planes=drawn((3, 4, 5))))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png"]


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def test_a_damaged_png_is_told(tmp_path):
    module = codecs()
    whole = bytes(module.png_encode(drawn((40, 40, 3))))
    (tmp_path / "a.png").write_bytes(whole[:len(whole) // 2])
    made = run(tmp_path / "a.png", tmp_path / "b.png", "--kernel", "box:3")
    assert made.exit_code and "cannot be read" in made.output and "Traceback" not in made.output


def test_cmyk_is_told(tmp_path):
    crop("china", (60, 20, 90, 40)).convert("CMYK").save(tmp_path / "ink.jpg", quality=95)
    made = run(tmp_path / "ink.jpg", tmp_path / "out.png", "--kernel", "identity")
    assert made.exit_code == 0 and "ink.jpg: its colours are CMYK" in made.output
    assert Image.open(tmp_path / "out.png").mode == "RGB"
    assert "colours are" not in run(tmp_path / "out.png", tmp_path / "again.png", "--kernel", "identity").output


def test_pixels_of_one_bit_are_told_and_keep_their_profile(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    drawing = Image.fromarray(drawn((20, 24), np.uint8)).convert("1")
    drawing.save(tmp_path / "one.png", icc_profile=profile)
    made = run(tmp_path / "one.png", tmp_path / "out.png", "--kernel", "box:3")
    assert made.exit_code == 0 and "RGB" not in made.output and "colours" not in made.output
    assert "one.png: its pixels are of mode 1: it was filtered as 8-bit gray and is written so" in " ".join(
        made.output.split())
    with Image.open(tmp_path / "out.png") as out:
        assert out.mode == "L" and out.info["icc_profile"] == profile
        check(np.asarray(drawing.convert("L"))[:, :, None], np.asarray(out)[:, :, None], weights("box:3"))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_told(tmp_path, form):
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (0, 90, 200)]
    frames[0].save(tmp_path / "a.x", format=form, save_all=True, append_images=frames[1:])
    (tmp_path / "a.x").rename(tmp_path / f"a.{form.lower()}")
    with pytest.raises(ArgumentError, match=f"{form} is animated: it holds 3 images"):
        read_picture(tmp_path / f"a.{form.lower()}")


def test_quality(tmp_path):
    crop("china", (60, 20, 180, 120)).save(tmp_path / "in.png")
    sizes = []
    for quality in (10, 92, None):
        options = [] if quality is None else ["--quality", quality]
        assert run(tmp_path / "in.png", tmp_path / "out.jpg", "--kernel", "identity", *options).exit_code == 0
        sizes.append((tmp_path / "out.jpg").stat().st_size)
    assert sizes[0] < 0.6 * sizes[1] and sizes[1] == sizes[2]
    made = run(tmp_path / "in.png", tmp_path / "out.png", "--kernel", "identity", "--quality", 50)
    assert made.exit_code and "--quality" in made.output and not (tmp_path / "out.png").exists()
    assert run(tmp_path / "in.png", tmp_path / "out.jpg", "--kernel", "identity", "--quality", 0).exit_code


def test_folders_in_folders(tmp_path):
    for name in ("a.png", "more/b.png", "more/deep/b.png", "more/.hidden/c.png", "out/old.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        crop("china", (60, 20, 80, 40)).save(tmp_path / name)
    (tmp_path / "more" / "deep" / "broken.png").write_bytes(b"none")
    (tmp_path / "loop").symlink_to(tmp_path)
    made = run(tmp_path, tmp_path / "out", "--kernel", "identity", "--recursive", "--format", "bmp")
    assert made.exit_code == 1 and "3 of 4 pictures" in made.output and "broken.png" in made.output
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.bmp"))
    assert found == ["a.bmp", "more/b.bmp", "more/deep/b.bmp"]
    (tmp_path / "empty" / "in").mkdir(parents=True)
    told = run(tmp_path / "empty", tmp_path / "out2", "--kernel", "identity").output
    assert "--recursive" in told
    assert "no pictures" in run(tmp_path / "empty", tmp_path / "out2", "--kernel", "identity", "-r").output
    assert not (tmp_path / "out2").exists()


def test_a_gaussian_has_a_middle():
    with pytest.raises(ArgumentError, match="size"):
        weights("gaussian:4")
    assert weights("gaussian:5").shape == (5, 5)


# ---- what files say of their samples

def filtered(folder, name, *more):
    made = run(folder / name, folder / f"out-{name}", "--kernel", "identity", *more)
    assert made.exit_code == 0, made.output
    return made, read_picture(folder / f"out-{name}")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_gray_tiff_that_is_turned(tmp_path, dtype, orientation):
    """Not packed: Pillow maps such a file, and reads its rows by the turned picture's width."""
    pixels = (np.arange(35).reshape(5, 7) * 7).astype(dtype)
    tifffile.imwrite(tmp_path / "o.tif", pixels, photometric="minisblack", extratags=[(274, 3, 1, orientation, True)])
    upright = [pixels, pixels[:, ::-1], pixels[::-1, ::-1], pixels[::-1], pixels.T, np.rot90(pixels, -1),
               pixels[::-1, ::-1].T, np.rot90(pixels)][orientation - 1]
    assert np.array_equal(filtered(tmp_path, "o.tif")[1].planes[0], upright)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_white_is_0(tmp_path, dtype):
    pixels = drawn((13, 17), np.dtype(dtype))
    tifffile.imwrite(tmp_path / "w.tif", pixels, photometric="miniswhite")
    assert np.array_equal(filtered(tmp_path, "w.tif")[1].planes[0], np.iinfo(dtype).max - pixels)


def test_white_is_0_of_float32_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "w.tif", np.ones((4, 5), np.float32), photometric="miniswhite")
    with pytest.raises(ArgumentError, match="white is 0.*image.*MinIsBlack"):
        read_picture(tmp_path / "w.tif")


@pytest.mark.parametrize("dtype,words", [("int8", "signed bytes"), ("int16", "values below 0")])
def test_signed_elements_are_told_the_way(tmp_path, dtype, words):
    pixels = np.arange(-60, 60, dtype=dtype).reshape(10, 12)
    tifffile.imwrite(tmp_path / "s.tif", pixels, photometric="minisblack")
    with pytest.raises(ArgumentError, match=f"{words}.*--memory"):
        read_picture(tmp_path / "s.tif")


def test_32_bits_without_a_sign_are_not_below_0(tmp_path):
    tifffile.imwrite(tmp_path / "u.tif", np.full((4, 5), 3_000_000_000, np.uint32), photometric="minisblack")
    with pytest.raises(ArgumentError, match="values beyond 16 bits"):
        read_picture(tmp_path / "u.tif")


@pytest.mark.parametrize("channels", [3, 4])
def test_a_plane_for_each_colour_of_16_bits(tmp_path, channels):
    pixels = drawn((channels, 13, 17))
    more = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    tifffile.imwrite(tmp_path / "p.tif", pixels, photometric="rgb", planarconfig="separate", **more)
    made = filtered(tmp_path, "p.tif")[1]
    assert np.array_equal(made.planes, pixels[:3]) and (channels == 3 or np.array_equal(made.alpha, pixels[3]))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_colours_that_were_multiplied_by_their_alpha(tmp_path, dtype):
    most = 1.0 if dtype == "float32" else np.iinfo(dtype).max
    colours = np.random.default_rng(3).random((9, 11, 3))
    alpha = np.linspace(0, 1, 99).reshape(9, 11, 1)
    pixels = np.concatenate([colours * alpha, alpha], 2) * most
    pixels = pixels.astype(dtype) if dtype == "float32" else np.rint(pixels).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["assocalpha"])
    made = filtered(tmp_path, "a.tif")[1]
    seen = alpha[..., 0] > 0.2
    assert np.abs(made.planes[:, seen] / most - colours[seen].T).max() < {"uint8": 0.02}.get(dtype, 1e-4)
    assert not made.planes[:, alpha[..., 0] == 0].any()


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_one_transparent_colour(tmp_path, mode):
    image = Image.fromarray(drawn((9, 11, 3), np.uint8)).convert(mode)
    image.putpixel((4, 5), {"1": 0, "L": 7, "RGB": (7, 8, 9)}[mode])
    image.save(tmp_path / "t.png", transparency={"1": 0, "L": 7, "RGB": (7, 8, 9)}[mode])
    made = filtered(tmp_path, "t.png")[1]
    assert made.alpha is not None and made.alpha[5, 4] == 0 and made.alpha.max() == 255


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_a_sample_without_meaning_is_told(tmp_path, dtype):
    """Of 16 bits, and of older Pillows, which do not know such images, by tifffile."""
    x = drawn((9, 11, 2), dtype)
    tifffile.imwrite(tmp_path / "x.tif", x, photometric="minisblack",
                     extrasamples=["unspecified"], planarconfig="contig")
    made, picture = filtered(tmp_path, "x.tif")
    assert "a sample beside its colours" in made.output and len(picture.planes) == 1 and picture.alpha is None
    assert np.array_equal(picture.planes[0], x[:, :, 0])

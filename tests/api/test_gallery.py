"""``warpconv gallery``, and that the gallery in docs/ is what it makes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from click.testing import CliRunner

from tests.pictures import PHOTOS, by_hand
from warpconv.cli import cli
from warpconv.codegen.border import Border
from warpconv.commands import gallery_page
from warpconv.commands.files import InputFileError
from warpconv.commands.gallery_page import BORDERS, SECTIONS, SHIFT, WIDTH, shift, small
from warpconv.filters import names, weights
from warpconv.images import read_picture

DOCS = PHOTOS.parent
PHOTOGRAPHS = ("docs/photos/china.jpg", "docs/photos/flower.jpg")


@pytest.mark.long
def test_the_gallery_in_docs_is_what_the_command_makes(tmp_path, monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    page = tmp_path / "gallery.md"
    made = CliRunner().invoke(cli, ["gallery", *PHOTOGRAPHS, "-o", str(page), "--device", "cpu"])
    assert made.exit_code == 0, made.output
    assert page.read_text().replace(str(page), "docs/gallery.md") == (DOCS / "gallery.md").read_text()
    kept = {path.name: path for path in (DOCS / "gallery").iterdir()}
    assert kept.keys() == {path.name for path in (tmp_path / "gallery").iterdir()}
    for name, path in kept.items():
        ours, theirs = (np.asarray(Image.open(p)).astype(float) for p in (tmp_path / "gallery" / name, path))
        assert ours.shape == theirs.shape and np.abs(ours - theirs).mean() < 2      # other builds of libjpeg round else
        assert path.stat().st_size < 200_000
        assert "CC BY 2.0" in Image.open(path).getexif()[0x8298]
    assert sum(path.stat().st_size for path in kept.values()) < 1_000_000


def test_it_shows_every_filter_and_every_border():
    shown = {kernel.partition(":")[0] for _, entries in SECTIONS for one in entries for kernel in one.kernels}
    assert shown == {form.partition(":")[0] for form, _ in names()} - {"identity"}
    assert [border.partition(":")[0] for border in BORDERS] == [mode.value for mode in Border]


def test_its_pictures_are_the_filters_and_its_links_lead_to_them():
    text = (DOCS / "gallery.md").read_text()
    links = re.findall(r"\]\((gallery/[^)]+)\)", text)
    assert len(links) == len(set(links)) > 20 and all((DOCS / link).is_file() for link in links)
    photo = small(read_picture(PHOTOS / "china.jpg"), WIDTH).planes
    made = np.asarray(Image.open(DOCS / "gallery" / "gaussian-9-2.jpg")).astype(float)
    for plane in range(3):
        exact = by_hand(photo[plane], weights("gaussian:9,2"))
        assert np.abs(made[:, :, plane] - exact).mean() < 3         # the picture is a JPEG
    tiny = np.arange(60.0).reshape(6, 10)
    assert np.array_equal(by_hand(tiny, shift(), "edge"), np.pad(tiny, ((SHIFT, 0), (SHIFT, 0)), "edge")[:6, :10])


@pytest.mark.long
def test_photographs_without_an_author_are_told_so(tmp_path):
    Image.linear_gradient("L").save(tmp_path / "plain.png")
    page = tmp_path / "page.md"
    made = CliRunner().invoke(cli, ["gallery", str(tmp_path / "plain.png"), "-o", str(page), "--device", "cpu"])
    assert made.exit_code == 0 and "no author is named" in page.read_text()
    for wrong in (["gallery", str(tmp_path / "none.jpg"), "-o", str(tmp_path / "other.md")],
                  ["gallery", str(tmp_path / "plain.png"), "-o", str(tmp_path / "plain.png")]):
        assert CliRunner().invoke(cli, [*wrong, "--device", "cpu"]).exit_code == 2
    assert not (tmp_path / "other.md").exists() and not (tmp_path / "other").exists()
    assert Path(page).with_suffix("").is_dir()


def test_a_page_that_is_not_the_gallery_s_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gallery.md").write_text("mine")
    made = CliRunner().invoke(cli, ["gallery", str(DOCS / "photos" / "china.jpg"), "--device", "cpu"])
    assert made.exit_code == 2 and "no page that gallery made" in made.output
    assert [path.name for path in tmp_path.iterdir()] == ["gallery.md"] and Path("gallery.md").read_text() == "mine"


def test_a_picture_that_the_page_does_not_show_stays(tmp_path):
    photo, folder = tmp_path / "gallery" / "sobel-x.jpg", tmp_path / "gallery"
    folder.mkdir()
    photo.write_bytes(b"mine")
    made = [(photo, None, {})]
    for old, photos in (("", ()), ("](gallery/sobel-y.jpg)", ()), ("](gallery/sobel-x.jpg)", (str(photo),))):
        with pytest.raises(InputFileError, match="would be overwritten"):
            gallery_page._check_pictures(made, old, photos)
    gallery_page._check_pictures(made, "](gallery/sobel-x.jpg)", (str(DOCS / "photos" / "china.jpg"),))
    gallery_page._check_pictures([(folder / "new.jpg", None, {})], "", ())

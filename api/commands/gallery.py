"""``warpconv gallery``: a page with every named filter and every border on photographs."""

from __future__ import annotations

from pathlib import Path

import click

from .device import choose_device, device_option, note_device
from .files import check_output, output_folder
from .filter import smallest_layer
from .output import say, size_text


@click.command()
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.option("-o", "--output", metavar="PAGE.md", default="gallery.md", show_default=True,
              help="The page; its pictures go to a folder beside it, of the same name without .md.")
@device_option
def gallery(photos: tuple[str, ...], output: str, device: str) -> None:
    """Make a page of what the named filters and the borders do to PHOTOs, with the options of each picture.

    The photographs are made small first; their authors and licences are taken from their tags Artist and Copyright.
    """
    from .gallery_page import make_page
    page = Path(output)
    check_output(page, photos, "output")
    place, reason = choose_device(device, smallest_layer())
    note_device(reason)
    with output_folder(page.with_suffix("")) as folder:
        pictures = make_page(photos, page, folder, place)
    total = sum(path.stat().st_size for path in pictures)
    say(f"{page}: {len(pictures)} pictures in {folder}, {size_text(total)}")

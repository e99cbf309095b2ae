"""Contact sheets: pictures side by side on one page, each with its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLUMNS, WIDTH, MARGIN, CAPTION = 3, 300, 12, 26
TALLEST = 450           # of a picture on the sheet, so that an upright one does not make its row too tall
MOST_ROWS = 120         # of a sheet: a JPEG is at most 65 535 pixels high
PAPER, INK = (250, 250, 248), (30, 30, 30)


def contact_sheet(rows: Sequence[Sequence[tuple[str, Any]]]) -> Any:
    """A Pillow image of rows of pairs: a caption and a Pillow image of 8 bits."""
    from PIL import Image, ImageDraw
    small = [[(caption, thumbnail(image)) for caption, image in row] for row in rows]
    heights = [max(image.height for _, image in row) for row in small]
    sheet = Image.new("RGB", (max(map(len, small)) * (WIDTH + MARGIN) + MARGIN,
                              sum(heights) + len(small) * (CAPTION + MARGIN) + MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)
    top = MARGIN
    for row, height in zip(small, heights):
        for number, (caption, image) in enumerate(row):
            left = MARGIN + number * (WIDTH + MARGIN)
            sheet.paste(image, (left + (WIDTH - image.width) // 2, top))
            draw.text((left, top + height + 6), _fitted(draw, caption), fill=INK)
        top += height + CAPTION + MARGIN
    return sheet


def wrapped(images: Sequence[tuple[str, Any]], columns: int = COLUMNS) -> list[Sequence[tuple[str, Any]]]:
    """Images in rows of ``columns``."""
    return [images[first:first + columns] for first in range(0, len(images), columns)]


def thumbnail(image: Any) -> Any:
    """The image as RGB on the sheet's paper, WIDTH wide, or TALLEST high."""
    from PIL import Image
    ratio = min(WIDTH / image.width, TALLEST / image.height)
    size = max(1, round(image.width * ratio)), max(1, round(image.height * ratio))
    resized = image.resize(size, Image.Resampling.LANCZOS)
    if not resized.mode.endswith("A"):
        return resized.convert("RGB")
    paper = Image.new("RGBA", size, (*PAPER, 255))
    return Image.alpha_composite(paper, resized.convert("RGBA")).convert("RGB")


def _fitted(draw: Any, caption: str) -> str:
    """A caption cut where it would run into the next, in letters that the font has."""
    from PIL import ImageFont
    if not isinstance(draw.getfont(), ImageFont.FreeTypeFont):      # Pillow without FreeType: a bitmap font of Latin-1
        caption = caption.encode("latin-1", "replace").decode("latin-1")
    text = caption
    while len(caption) > 1 and draw.textlength(text) > WIDTH:
        caption = caption[:-1]
        text = caption + "..."
    return text

"""The demo's contact sheet: all pictures on one, with their names."""

from __future__ import annotations

from typing import Any

COLUMNS, WIDTH, MARGIN, CAPTION = 3, 300, 12, 26
PAPER, INK = (250, 250, 248), (30, 30, 30)


def contact_sheet(images: dict[str, Any]) -> Any:
    """A Pillow image with all ``images``, of one size, side by side and captioned."""
    from PIL import Image, ImageDraw
    first = next(iter(images.values()))
    height = round(first.height * WIDTH / first.width)
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (height + CAPTION + MARGIN) + MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (name, image) in enumerate(images.items()):
        left = MARGIN + number % COLUMNS * (WIDTH + MARGIN)
        top = MARGIN + number // COLUMNS * (height + CAPTION + MARGIN)
        sheet.paste(image.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS), (left, top))
        draw.text((left, top + height + 6), name.replace("_", " "), fill=INK)
    return sheet

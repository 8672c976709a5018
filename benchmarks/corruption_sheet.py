"""The contact sheet of docs/corruptions.md: a photograph under the fifteen corruptions at one severity.

Owns: docs/img/corruptions.jpg.
Run: python benchmarks/corruption_sheet.py [PICTURE]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from pellucid import Key
from pellucid.corruptions import NAMES, corrupt
from pellucid.kernels.blend.plasma import plasma

TARGET = Path(__file__).parents[1] / "docs" / "img" / "corruptions.jpg"
SIDE, LABEL, COLUMNS, SEVERITY = 224, 18, 4, 3


def photograph(path: str | None) -> torch.Tensor:
    """(3, 224, 224) in [0, 1]; scikit-image's astronaut, which is in the public domain, unless a file is named."""
    if path is None:
        from skimage import data

        picture = Image.fromarray(data.astronaut())
    else:
        picture = Image.open(path).convert("RGB")
    return torch.from_numpy(np.array(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS))).movedim(-1, 0) / 255.0


def ice() -> torch.Tensor:
    """A cloud in the place of a picture of frost, which this repository has none of."""
    generator = torch.Generator().manual_seed(0)
    cloud = plasma(lambda side: torch.rand(1, side, side, generator=generator), (256, 256), 1.6)[0]
    return (cloud**3 * torch.tensor([0.85, 0.95, 1.0])[:, None, None]).clamp(0.0, 1.0)


def main() -> None:
    """Draw the sheet."""
    image = photograph(sys.argv[1] if len(sys.argv) > 1 else None)
    tiles = [("original", image)]
    for name in NAMES:
        frost = {"frost": [ice()]} if name == "frost" else {}
        tiles.append((name, corrupt(image, name, SEVERITY, key=Key(0), **frost)))
    rows = -(-len(tiles) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * SIDE, rows * (SIDE + LABEL)), "white")
    for at, (name, tile) in enumerate(tiles):
        x, y = at % COLUMNS * SIDE, at // COLUMNS * (SIDE + LABEL)
        sheet.paste(Image.fromarray((tile * 255).round().to(torch.uint8).movedim(0, -1).numpy()), (x, y + LABEL))
        ImageDraw.Draw(sheet).text((x + 4, y + 3), name, fill="black")
    sheet.save(TARGET, quality=85)


if __name__ == "__main__":
    main()

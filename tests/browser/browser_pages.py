"""What tests of pages share: checks of a page as a whole."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

TOKEN = "the-token-of-the-browser-tests"
RUN = "20261116-171932-assay-decode-4284"
"""The run of docs/examples/h200-own-engine."""
BASELINES = Path(__file__).parent / "baselines"


def check_narrow(page: Any) -> None:
    """A page fits its screen: nothing but what scrolls by itself is wider."""
    wide, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= room, f"the page is {wide} px wide on a screen of {room} px"


_DISTANCE = """async ([one, other]) => {
  const pixels = async (data) => {
    const image = new Image();
    image.src = data;
    await image.decode();
    // Small pictures differ where the layout does, not where the edges of letters do.
    const canvas = new OffscreenCanvas(160, 100);
    const drawing = canvas.getContext("2d");
    drawing.imageSmoothingQuality = "high";
    drawing.drawImage(image, 0, 0, 160, 100);
    return drawing.getImageData(0, 0, 160, 100).data;
  };
  const [left, right] = [await pixels(one), await pixels(other)];
  let different = 0;
  for (let at = 0; at < left.length; at += 4) {
    const step = Math.max(...[0, 1, 2].map((part) => Math.abs(left[at + part] - right[at + part])));
    if (step > 40) different++;
  }
  return different / (left.length / 4);
}"""


def check_picture(page: Any, name: str, tolerance: float = 0.03) -> None:
    """Compare a page with its kept picture, at a sixth of its size.

    At most 3 % of the pixels may differ by more than 40 of 255 levels. `ASSAY_BASELINES=write` keeps
    the pictures of now instead.
    """
    path = BASELINES / f"{name}.jpg"
    picture = page.screenshot(type="jpeg", quality=60, animations="disabled")
    if os.environ.get("ASSAY_BASELINES") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(picture)
        return
    assert path.is_file(), f"no baseline {path.name}: ASSAY_BASELINES=write makes it"
    addresses = [
        f"data:image/jpeg;base64,{base64.b64encode(one).decode()}"
        for one in (picture, path.read_bytes())
    ]
    distance = page.evaluate(_DISTANCE, addresses)
    assert distance <= tolerance, f"{name}: {distance:.1%} of the pixels differ"

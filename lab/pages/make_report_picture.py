"""Photograph the report of the demo, for the README and the manual.

Run ``python lab/pages/make_report_picture.py``; it needs the extras ``report`` and ``browser``, and
Chromium, whose path the variable ``TEMPERANCE_CHROMIUM`` names.
"""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from temperance.cli import demo

PICTURE = Path(__file__).parents[2] / "docs" / "figures" / "report.png"
WIDTH = 900
COLOURS = 48  # of the palette: a quarter of the size, no difference to the eye


def main() -> None:
    """Write the report of digits rotated by 60 degrees, open it and take the picture."""
    page_text = demo.compare(60).calibration.to_html(
        title="Digits rotated by 60 degrees", model="LeNet-5, trained on MNIST"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("TEMPERANCE_CHROMIUM", "/usr/bin/chromium"),
            chromium_sandbox=os.geteuid() != 0,  # it refuses to start for root
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 2000}, device_scale_factor=1.3)
        page.set_content(page_text)
        chart = page.locator("#wrong-answers figure").bounding_box()
        assert chart is not None  # noqa: S101 - it has been found
        height = chart["y"] + chart["height"] + 6
        page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    with Image.open(PICTURE) as picture:
        picture.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()

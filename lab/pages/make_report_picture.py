"""Photograph the report of the demo, for the README and the manual.

Run ``python lab/pages/make_report_picture.py``; it needs the extras ``report`` and ``browser``, and
Chromium, whose path the variable ``TEMPERANCE_CHROMIUM`` names. The picture carries its numbers as
text, by which a test notices that they have changed.
"""

from __future__ import annotations

import os
from pathlib import Path

from make_demo_figure import calibrated, save

from temperance.report.texts import between

PICTURE = Path(__file__).parents[2] / "docs" / "figures" / "report.png"
WIDTH = 900
COLOURS = 16  # of the palette: a fifth of the size, no difference to the eye


def shown() -> str:
    """Return the numbers in the picture."""
    cal = calibrated()
    return ", ".join(between(one) for one in (cal.accuracy, cal.ece_before, cal.ece_after))


def main() -> None:
    """Write the report of digits rotated by 60 degrees, open it and take the picture."""
    from playwright.sync_api import sync_playwright

    page_text = calibrated().to_html(
        title="Digits rotated by 60 degrees", model="LeNet-5, trained on MNIST"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("TEMPERANCE_CHROMIUM", "/usr/bin/chromium"),
            chromium_sandbox=os.geteuid() != 0,  # it refuses to start for root
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 2000})
        page.set_content(page_text)
        second_part = page.locator("h2").first.bounding_box()
        assert second_part is not None  # noqa: S101 - it has been found
        height = second_part["y"] - 24
        page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    save(COLOURS, PICTURE, shown())


if __name__ == "__main__":
    main()

"""Photograph the assistant: a judged picture, and the study report of the demo.

Run ``python lab/pages/make_assistant_pictures.py``; it needs ``temperance-skin-lesion``, the extra
``browser``, and Chromium, whose path the variable ``TEMPERANCE_CHROMIUM`` names. The pictures carry
their numbers as text, by which a test notices that they have changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from make_demo_figure import save

from temperance_skin_lesion import intake, study
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.cli import open_assistant
from temperance_skin_lesion.drawings import lesion_file
from temperance_skin_lesion.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
JUDGED, STUDY = FIGURES / "assistant.png", FIGURES / "assistant-study.png"
SEED = 108
"""Of a drawn picture that is urgent."""

PORT = 8431
COLOURS = 24


def shown() -> dict[Path, str]:
    """Return the numbers in each picture."""

    def percent(values: Sequence[float]) -> str:
        return " ".join(f"{100 * value:.1f}" for value in values)

    with tempfile.TemporaryDirectory() as directory:
        assistant = open_assistant(Settings(data=Path(directory), keep_images=True, demo=True))
        found = study.report(assistant, Agreement())
        content = lesion_file(SEED)
        (case,) = assistant.judge([intake.read(content, "drawn")], [content])
        assistant.store.close()
    assert found is not None  # noqa: S101 - the demo has a study
    shares = (found.everything.estimated.shares, found.everything.measured)
    return {
        JUDGED: percent(case.malignant),
        STUDY: ", ".join(percent(one.accuracy) for one in shares if one.accuracy),
    }


def main() -> None:
    """Start the demo, judge a picture, open the study and photograph both."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "temperance_skin_lesion", "demo", "--port", str(PORT)]
    address = f"http://127.0.0.1:{PORT}"
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command) as server,  # noqa: S603 - our own
    ):
        drawn = Path(folder) / "drawn.jpg"
        drawn.write_bytes(lesion_file(SEED))
        wait_for(f"{address}/static/icon.svg")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=os.environ.get("TEMPERANCE_CHROMIUM", "/usr/bin/chromium"),
                chromium_sandbox=os.geteuid() != 0,  # it refuses to start for root
            )
            page = browser.new_page(viewport={"width": 1180, "height": 1600}, base_url=address)
            page.goto("/")
            page.set_input_files("#files", drawn)
            page.get_by_text("Done:").wait_for()
            page.locator("[data-results]").screenshot(path=JUDGED)
            page.set_viewport_size({"width": 960, "height": 1600})
            page.goto("/study")
            page.evaluate("document.querySelectorAll('p.small, details').forEach(e => e.remove())")
            first, second = (page.locator(".panel").nth(i).bounding_box() for i in (0, 1))
            assert first is not None and second is not None  # noqa: S101, PT018 - both are there
            height = second["y"] + second["height"] - first["y"]
            page.screenshot(path=STUDY, clip={**first, "height": height}, full_page=True)
            browser.close()
        server.terminate()
    for path, text in shown().items():
        save(COLOURS, path, text)


def wait_for(address: str, seconds: float = 120) -> None:
    """Wait until the server answers."""
    for _ in range(int(10 * seconds)):
        try:
            urlopen(address).close()  # noqa: S310 - our own
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"{address} did not answer within {seconds:g} s.")


if __name__ == "__main__":
    main()

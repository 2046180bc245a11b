"""What every test shares: one thread, reproducible examples, and the way to data kept elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Read by BLAS, OpenMP and torch when they load, which the imports above do not do.
# Worker processes share the cores; more threads would only make them wait for each other.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# No deadline, also for making values: a slow machine is not a bug, and a loaded one has taken 38 s
# for a first text. Derandomised: a red test is red for everybody.
settings.register_profile(
    "temperance",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Thousands of made-up calls for each function: pytest --hypothesis-profile=thorough
settings.register_profile(
    "thorough", settings.get_profile("temperance"), derandomize=False, max_examples=5000
)
# The inner loop, `make test`: a quarter of the examples.
settings.register_profile("quick", settings.get_profile("temperance"), max_examples=25)
settings.load_profile("temperance")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Directory of the data that is not in the repository, named by ``TEMPERANCE_DATA``."""
    named = os.environ.get("TEMPERANCE_DATA")
    if not named:
        pytest.skip("TEMPERANCE_DATA is not set: it names the directory of the shared data")
    directory = Path(named)
    if not directory.is_dir():
        pytest.fail(f"TEMPERANCE_DATA={named} is not a directory")
    return directory


@pytest.fixture
def without_numba():
    """Compute with NumPy alone until the end of the test."""
    from temperance._core import kernels

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.SWITCH, "0")
        kernels.choose()
        yield
    kernels.choose()


@pytest.fixture(scope="session")
def chromium():
    """Headless Chromium of the system, driven by Playwright; for tests marked ``browser``."""
    from playwright.sync_api import sync_playwright

    executable = os.environ.get("TEMPERANCE_CHROMIUM", "/usr/bin/chromium")
    # Chromium's own sandbox refuses to start for root, who runs the tests inside containers.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, chromium_sandbox=os.geteuid() != 0
        )
        yield browser
        browser.close()


# Contrast of every piece of text with what lies behind it, as WCAG 2 defines it.
CONTRAST = """() => {
  const parse = c => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const level = ([r, g, b]) => .2126 * light(r) + .7152 * light(g) + .0722 * light(b);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  let worst = [99, ''];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = walk.nextNode();) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest('script, style') || !e.checkVisibility()) continue;
    const [a, b] = [level(parse(getComputedStyle(e).color)), level(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, node.data.trim()];
  }
  return worst;
}"""


@pytest.fixture(scope="session")
def worst_contrast():
    """The text of a page that stands out least: its contrast and itself."""
    return lambda page: page.evaluate(CONTRAST)

"""Severities lead as far from the original image as those of the published package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from temperance_lab import shifts

RECORD = Path(__file__).parents[3] / "benchmarks" / "records" / "severity.json"
# Textures, shading and a scatter of our own; of other random corruptions the images are few.
LOOSE = {"frost": 0.25, "spatter": 0.25, "glass_blur": 0.1, "snow": 0.1}
NAMES = sorted(set(shifts.CORRUPTIONS) - {"elastic_transform"})  # another one in the package

pytestmark = pytest.mark.skipif(
    not RECORD.is_file(), reason="a source distribution has no benchmarks/"
)


@pytest.fixture(scope="module")
def images(shared_data):
    """Images that benchmarks/severity.py gave to the package, by side."""
    with np.load(shared_data / "cifar10_small.npz") as data:
        small = data["x_test"][:60]
    corners = [(top, left) for top in (0, 203) for left in (0, 208, 416)]
    large = [
        image[top : top + 224, left : left + 224]
        for image in load_sample_images().images
        for top, left in corners
    ]
    return {"32": small, "224": np.stack(large)}


@pytest.mark.parametrize("side", ["32", "224"])
@pytest.mark.parametrize("name", NAMES)
def test_severities_lead_as_far_as_the_published_ones(side, name, images):
    peer = np.array(json.loads(RECORD.read_text())["sizes"][side][name]["peer"])
    x = images[side].astype(float)
    ours = [np.sqrt(((shifts.corrupt(images[side], name, s) - x) ** 2).mean()) for s in range(1, 6)]
    np.testing.assert_allclose(ours, peer, rtol=LOOSE.get(name, 0.08))
    # Further with every severity wherever the package goes further, beyond the chance that a few
    # images leave; the package cuts its frost out of one of five photographs.
    steps = np.diff(peer) > (0.2 if name == "frost" else 0.03) * peer[1:]
    assert steps.any() or name == "frost"
    assert (np.diff(ours)[steps] > 0).all()

"""A picture that is not fit is not judged; one that shows dark skin is fit."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from temperance_skin_lesion.drawings import lesion
from temperance_skin_lesion.quality import faults, measure


@pytest.fixture(scope="module")
def pictures():
    return [lesion(np.random.default_rng(i), 64) for i in range(30)]


def said(pixels):
    return " ".join(faults(measure(pixels)))


def test_drawn_lesions_are_fit(pictures):
    fit = [said(p) == "" for p in pictures]
    assert np.mean(fit) >= 0.9


def test_blur_dark_glare_and_grey_are_told_apart(pictures):
    fit = [p for p in pictures if said(p) == ""]
    for p in fit[:10]:
        blurred = np.asarray(Image.fromarray(p).filter(ImageFilter.GaussianBlur(2.5)))
        assert "blurred" in said(blurred)
        assert "too dark" in said((p * 0.1).astype(np.uint8))
        assert "overexposed" in said(np.clip(p.astype(int) + 130, 0, 255).astype(np.uint8))
        assert "no colour" in said(np.asarray(Image.fromarray(p).convert("L").convert("RGB")))


def test_dark_skin_is_no_fault(pictures):
    """Half the light of the drawn skin, colours kept: far darker than any validation picture."""
    fit = [p for p in pictures if said(p) == ""]
    darker = [(p * 0.45).astype(np.uint8) for p in fit]
    assert np.mean([measure(p).light for p in darker]) < 0.3
    assert not [p for p in darker if "dark" in said(p)]


def test_an_unfit_picture_is_retaken(client, as_files, pictures):
    import io

    buffer = io.BytesIO()
    blurred = Image.fromarray(pictures[0]).filter(ImageFilter.GaussianBlur(4))
    blurred.save(buffer, "PNG")
    (case,) = client.post("/api/v1/predict", files=as_files([buffer.getvalue()])).json()["cases"]
    assert case["decision"] == "refer"
    assert case["rule"] == "foreign" or "quality" in [rule["rule"] for rule in case["rules"]]
    assert case["urgency"] in {"retake", "urgent"}

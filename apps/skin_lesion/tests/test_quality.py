"""A picture that is not fit is retaken; one that shows dark skin is fit, and never answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFilter

from temperance_skin_lesion.drawings import lesion, lesion_file
from temperance_skin_lesion.intake import read
from temperance_skin_lesion.quality import faults, is_dark, linear, measure, typology_angle


@pytest.fixture(scope="module")
def pictures():
    return [lesion(np.random.default_rng(i), 64) for i in range(30)]


SOONER = {"urgent", "soon"}


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


def test_the_tone_is_the_angle_of_yellow_and_lightness():
    """Yellow of sRGB has L* 97.14 and b* 94.48, blue 32.30 and -107.86, white 100 and 0."""
    colours = np.array([[255, 255, 0], [0, 0, 255], [255, 255, 255]])
    expected = np.degrees(np.arctan2([47.14, -17.70, 50], [94.48, -107.86, 0]))
    np.testing.assert_allclose(typology_angle(linear(colours)), expected, atol=0.05)


def test_the_tone_is_that_of_the_frame_without_black_corners():
    picture = np.full((64, 64, 3), (141, 85, 36), dtype=np.uint8)
    picture[6:-6, 6:-6] = 255
    picture[:20, :20] = 0
    assert is_dark(measure(picture))
    assert measure(picture).tone == pytest.approx(-12.6, abs=0.1)
    picture[:, :, :] = np.where(picture == (141, 85, 36), (244, 208, 177), picture)
    assert not is_dark(measure(picture))


def test_dark_skin_is_referred_and_not_to_be_retaken(assistant, pictures):
    """Of drawn pictures that are answered, all are referred once their skin is dark."""

    def judged(pixels):
        pictures = [replace(given, pixels=one) for one in pixels]
        return [case for case in assistant.judge(pictures) if case.rule != "foreign"]

    given = read(lesion_file(0), "a")
    assert any(case.decision == "answer" for case in judged(pictures))
    darker = judged([(p * np.array([0.6, 0.5, 0.4])).astype(np.uint8) for p in pictures])
    assert darker
    for case in darker:
        assert case.decision == "refer"
        (why,) = [why for rule, why in case.rules if rule == "skin-tone"]
        assert "light skin only" in why
        assert case.urgency in ({"urgent", "retake"} if "quality" in dict(case.rules) else SOONER)


def test_an_unfit_picture_is_retaken(client, as_files, pictures):
    import io

    buffer = io.BytesIO()
    blurred = Image.fromarray(pictures[0]).filter(ImageFilter.GaussianBlur(4))
    blurred.save(buffer, "PNG")
    (case,) = client.post("/api/v1/predict", files=as_files([buffer.getvalue()])).json()["cases"]
    assert case["decision"] == "refer"
    assert case["rule"] == "foreign" or "quality" in [rule["rule"] for rule in case["rules"]]
    assert case["urgency"] in {"retake", "urgent"}

"""Estimates of accuracy: exact where their assumption holds, ordered where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

import temperance as tp

METHODS = ["matched", "cot", "cott", "atc", "atc-ne", "doc", "confidence"]


def model(n: int, seed: int, signal: float = 2.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=n)
    return 2 * signal * (signal * np.eye(5)[y] + rng.normal(size=(n, 5))), y


@pytest.mark.parametrize("method", METHODS)
def test_without_a_shift_every_estimate_is_right(method):
    (z, y), source = model(4_000, 0), model(4_000, 1)
    found = tp.estimate_accuracy(z, np.full(5, 0.2), source, method=method)
    assert abs(found.value - (z.argmax(axis=1) == y).mean()) < 0.03
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("method", ["matched", "cot", "cott", "atc", "atc-ne"])
def test_a_weaker_signal_lowers_the_estimate(method):
    source, q = model(3_000, 1), np.full(5, 0.2)
    strong, weak = (
        tp.estimate_accuracy(model(3_000, 2, s)[0], q, source, method=method).value
        for s in (2.0, 1.2)
    )
    assert weak < strong - 0.05


def test_doc_and_atc_equal_their_definitions():
    (z, _), (s, y) = model(1_000, 3, 1.5), model(1_500, 4)
    t = tp.fit_temperature(s, y).temperature
    top, own = softmax(z / t, axis=1).max(axis=1), softmax(s / t, axis=1).max(axis=1)
    right = s.argmax(axis=1) == y
    doc = right.mean() - (own.mean() - top.mean())
    atc = (top > np.quantile(own, 1 - right.mean())).mean()
    assert_allclose(tp.estimate_accuracy(z, source=(s, y), method="doc").value, doc, rtol=1e-9)
    assert_allclose(tp.estimate_accuracy(z, source=(s, y), method="atc").value, atc, rtol=1e-9)


def test_atc_ne_equals_its_definition():
    (z, _), (s, y) = model(1_000, 3, 1.5), model(1_500, 4)
    t = tp.fit_temperature(s, y).temperature
    score, own = (
        np.sum(p * np.log(p), axis=1) for p in (softmax(z / t, axis=1), softmax(s / t, axis=1))
    )
    expected = (score > np.quantile(own, (s.argmax(axis=1) != y).mean())).mean()
    found = tp.estimate_accuracy(z, source=(s, y), method="atc-ne").value
    assert_allclose(found, expected, rtol=1e-9)
    assert found != tp.estimate_accuracy(z, source=(s, y), method="atc").value


def test_atc_ne_survives_probabilities_of_zero():
    (z, _), source = model(1_000, 0), model(1_000, 1)
    masked = np.where(np.arange(5) == 4, -1e6, z)
    found = tp.estimate_accuracy(masked, source=source, method="atc-ne").value
    assert 0 <= found <= 1


def test_a_change_of_scale_fools_confidence_and_not_the_matched_estimate():
    (z, y), source, q = model(4_000, 0, 1.2), model(4_000, 1, 1.2), np.full(5, 0.2)
    truth = (z.argmax(axis=1) == y).mean()
    matched, doc = (
        tp.estimate_accuracy(3 * z, q, source, method=method) for method in ("matched", "doc")
    )
    assert abs(matched.value - truth) < 0.03
    assert doc.value > truth + 0.1


@pytest.mark.parametrize("method", ["doc", "confidence", "cot"])
def test_intervals_are_those_of_the_sampling_error(method):
    found = []
    for seed in range(120):
        source = model(400, 1000 + seed) if method == "doc" else None
        z, _ = model(300, seed, 1.5)
        found.append(tp.estimate_accuracy(z / 6, np.full(5, 0.2), source, method=method))
    width = np.mean([one.high - one.low for one in found]) / 2
    assert width == pytest.approx(1.645 * np.std([one.value for one in found]), rel=0.25)


def test_no_estimate_is_certain():
    (z, _), source = model(200, 0, 5.0), model(400, 1, 1.0)
    found = tp.estimate_accuracy(z, source=source, method="atc")
    assert found.value == 1
    assert 0.9 < found.low < 1


def test_matched_confidence_is_matched():
    z, _ = model(2_000, 5)
    for accuracy in (0.3, 0.6, 0.95):
        fitted = tp.match_confidence(z, accuracy)
        assert_allclose(fitted.predict_proba(z).max(axis=1).mean(), accuracy, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_matched_confidence_scales_with_the_logits(scale):
    z, _ = model(500, 5)
    fitted = tp.match_confidence(scale * z, 0.7).temperature
    assert_allclose(fitted / scale, tp.match_confidence(z, 0.7).temperature, rtol=1e-6)


def test_a_masked_class_does_not_move_the_matched_temperature():
    z, _ = model(500, 5)
    masked = np.hstack([z, np.full((500, 3), -1e9)])
    expected = tp.match_confidence(z, 0.7).temperature
    assert_allclose(tp.match_confidence(masked, 0.7).temperature, expected, rtol=1e-6)


def test_what_a_method_needs_is_demanded():
    z, y = model(100, 6)
    with pytest.raises(tp.InputError, match="source must be a pair"):
        tp.estimate_accuracy(z, method="atc")
    with pytest.raises(tp.InputError, match="prior must be 5"):
        tp.estimate_accuracy(z, source=(z, y), method="matched")
    with pytest.raises(tp.InputError, match="accuracy must be"):
        tp.match_confidence(z, 0.1)
    with pytest.raises(tp.NotIdentified, match="constant in every row"):
        tp.match_confidence(np.zeros((10, 3)), 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_mask_of_any_size_is_no_number(method):
    """From a hostile review: NaN, where float32's least number masks a class."""
    (z, _), (s, labels) = model(800, 5), model(600, 6)
    q = np.full(5, 0.2)
    plain = tp.estimate_accuracy(z, q, (s, labels), method=method)
    mask = float(np.finfo(np.float32).min)
    wide, old = (np.column_stack([x, np.full(len(x), mask)]) for x in (z, s))
    found = tp.estimate_accuracy(wide, np.r_[q, 0], (old, labels), method=method)
    assert_allclose(found, plain, rtol=1e-6)


@pytest.mark.parametrize("labels", ["random", "upside down"])
def test_labels_that_tell_nothing_leave_the_unit_of_the_logits_free(labels):
    """From a hostile review: T was 31 times the unit at 1e-4, and a tenth of it at 1e5."""
    rng = np.random.default_rng(1)
    z, s = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    y = rng.integers(3, size=400) if labels == "random" else s.argmin(axis=1)
    q, answers = np.full(3, 1 / 3), []
    for unit in (1.0, 1e-4, 1e-2, 1e2, 1e5):
        source = (unit * s, y)
        found = [tp.estimate_accuracy(unit * z, q, source, method=m).value for m in METHODS]
        answers.append([tp.fit_prior_matched(unit * z, q, source).temperature / unit, *found])
    for answer in answers[1:]:
        assert_allclose(answer, answers[0], rtol=1e-5)


def test_a_source_that_is_all_right_does_not_sharpen_the_model():
    """Rows of the training tell nothing of the confidence on rows that are hard."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=1000)
    s = 4 * np.eye(10)[y] + 0.5 * rng.normal(size=(1000, 10))
    assert (s.argmax(axis=1) == y).all()
    z, _ = model(1000, 7, 1.2)
    hard = np.column_stack([z, z])[:, :10]
    at_one = softmax(hard, axis=1).max(axis=1).mean()
    found = tp.estimate_accuracy(hard, source=(s, y), method="confidence")
    assert found.value == pytest.approx(at_one)

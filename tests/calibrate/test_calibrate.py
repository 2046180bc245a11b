"""`calibrate`: its verdict, its intervals, its refusals, and its errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance._core.sample import Sample
from temperance.calibrate import _expected_error, findings, uncertainty
from temperance.calibrate.uncertainty import ALONE, DISAGREEMENT, MODEL_ERROR, MOVED, standard_error
from temperance.maps import IDENTITY
from temperance.methods.evidence import gather_evidence
from temperance.methods.source import SourceProfile

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=OFFSET)


@pytest.fixture(scope="module")
def cal(scene):
    return tp.calibrate(scene.target, prior=scene.prior, source=scene.source)


def test_a_shift_of_an_overconfident_model_is_improved(scene, cal):
    z, y = scene.held_out
    assert cal.verdict == "improved"
    assert tp.metrics.ece(np.asarray(cal.map(z)), y) < tp.metrics.ece(z, y)
    assert cal.ece_after.value < cal.ece_before.value


def test_the_map_is_that_of_fit_prior_matched(scene, cal):
    fitted = tp.fit_prior_matched(scene.target, scene.prior, scene.source)
    assert cal.map.parameters()["temperature"] == pytest.approx(fitted.temperature, rel=1e-6)


@pytest.mark.parametrize("middle", [0.0, 0.05, 0.1])
def test_the_expected_error_is_the_mean_over_what_may_be(middle):
    """All rows have confidence 0.7; how often they are right is off by a normal error around it."""
    error = 0.03
    drawn = np.abs(np.random.default_rng(0).normal(middle, error, 100_000))
    right = 0.7 - middle + error * np.array([0.0, -1.645, 1.645])
    p = np.tile([0.7, 0.3], (100, 1))
    told = _expected_error(p, [np.tile([r, 1 - r], (100, 1)) for r in right])
    assert told.value == pytest.approx(drawn.mean(), rel=0.03)
    ends = np.abs(0.7 - right)
    assert (told.low, told.high) == pytest.approx((ends.min(), ends.max()))


def test_what_is_told_lies_within_its_interval(cal):
    for one in (cal.temperature, cal.accuracy, cal.ece_before, cal.ece_after):
        assert one.low <= one.value <= one.high
        assert one.low < one.high


def test_no_evidence_keeps_the_source_temperature():
    s = scenes.shifted(k=5, n=2000, signal=3.0, home=3.0, scale=3.0)
    cal = tp.calibrate(s.target, prior=s.prior, source=s.source)
    assert cal.verdict == "no-evidence"
    assert cal.temperature.value == tp.fit_temperature(*s.source).temperature


def test_a_source_temperature_that_does_not_suit_is_not_kept():
    # Too sure of itself by a factor two at home, the model is calibrated on logits half as large.
    s = scenes.shifted(k=5, n=4000, signal=3.0, home=3.0, scale=6.0, stretch=0.5)
    cal = tp.calibrate(s.target, prior=s.prior, source=s.source)
    assert cal.verdict == "no-evidence"
    assert cal.map == IDENTITY
    assert "TP203" in {finding.code for finding in cal.findings}
    z, y = s.held_out
    kept = tp.fit_temperature(*s.source)
    assert tp.metrics.ece(z, y) < 0.5 * tp.metrics.ece(np.asarray(kept(z)), y)


def test_errors_of_the_accuracy_add_up_as_variances(scene):
    """What sampling adds is what it does to the log-odds of two shares."""
    q = scene.prior
    profile = replace(SourceProfile.of(*scene.source, q), error=0.2, effective=900.0)
    evidence = gather_evidence(Sample(scene.target), q, profile)
    for estimates, model in (
        ({"believed": 0.7}, ALONE),
        ({"believed": 0.7, "typical": 0.7}, MODEL_ERROR),
        ({"believed": 0.7, "typical": 0.6}, np.hypot(MODEL_ERROR, DISAGREEMENT * np.log(14 / 9))),
    ):
        told = replace(evidence, accuracy=0.7, estimates=estimates, explained=0.0)
        endless = replace(profile, effective=1e12)
        assert standard_error(told, endless, 10**12, 0.0) == pytest.approx(model, rel=1e-4)
        assert standard_error(told, endless, 10**12, 0.3) == pytest.approx(np.hypot(model, 0.3))
        rng = np.random.default_rng(0)
        here, home = (rng.binomial(n, a, 100_000) / n for n, a in ((700, 0.7), (900, 0.8)))
        sampling = np.std(np.log(here / (1 - here)) - np.log(home / (1 - home)))
        both = standard_error(told, profile, 700, 0.0)
        assert np.sqrt(both**2 - model**2) == pytest.approx(sampling, rel=0.02)


def test_what_a_bias_leaves_unknown_moves_the_ends_apart(scene, cal, monkeypatch):
    """The log-odds of the confidence: by the share of predictions that the bias changes."""
    p = np.asarray(cal.map.predict_proba(scene.target))
    moved = np.mean(p.argmax(axis=1) != scene.target.argmax(axis=1))
    assert moved > 0.05
    monkeypatch.setattr(uncertainty, "MOVED", 0.0)
    plain = tp.calibrate(scene.target, prior=scene.prior, source=scene.source)
    assert cal.map == plain.map
    wide, narrow = (np.array([c.accuracy.low, c.accuracy.high]) for c in (cal, plain))
    gaps, before = (
        np.abs(np.log(a / (1 - a)) - np.log(c.accuracy.value / (1 - c.accuracy.value)))
        for a, c in ((wide, cal), (narrow, plain))
    )
    expected = np.hypot(before, 1.645 * MOVED * moved)
    np.testing.assert_allclose(gaps, expected, rtol=0.02)


def test_a_map_is_never_less_sure_than_the_prior_makes_it(monkeypatch):
    """To say the most frequent class always is right as often as that occurs."""
    q = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    s = scenes.shifted(k=5, n=4000, signal=1.0, home=3.0, scale=9.0, offset=OFFSET, prior=q)
    monkeypatch.setattr(uncertainty, "MOVED", 50.0)  # nothing is known of what is moved
    cal = tp.calibrate(s.target, prior=q, source=s.source)
    assert cal.temperature.high < 100 * cal.temperature.value
    assert cal.accuracy.low > 0.5


def test_a_bias_that_changes_nothing_leaves_no_doubt(monkeypatch):
    s = scenes.shifted(k=5, n=2000, signal=2.0, home=3.0, scale=6.0)
    plain = tp.calibrate(s.target, prior=s.prior, source=s.source, bias=False)
    monkeypatch.setattr(uncertainty, "MOVED", 100.0)
    assert tp.calibrate(s.target, prior=s.prior, source=s.source, bias=False) == plain


def test_improved_with_a_reservation_says_where_the_model_is_better(cal):
    found = {finding.code: finding for finding in cal.findings}
    assert cal.verdict == "improved"
    told = found["TP404"].evidence
    assert cal.accuracy.low <= told["possible"] <= cal.accuracy.high
    assert told["expected"] == pytest.approx(cal.accuracy.value)
    assert told["error"] > told["error_of_model"]
    assert cal.ece_after.high >= told["error"]
    certain = scenes.shifted(k=5, n=4000, signal=1.0, home=3.0, scale=9.0)
    sure = tp.calibrate(certain.target, prior=certain.prior, source=certain.source)
    assert sure.verdict == "improved"
    assert "TP404" not in {finding.code for finding in sure.findings}


def test_contradicting_estimates_are_refused(scene, monkeypatch):
    monkeypatch.setattr(findings, "BOUND", 0.01)
    cal = tp.calibrate(scene.target, prior=scene.prior, source=scene.source)
    assert cal.verdict == "refused"
    assert cal.findings[0].code == "TP402"


def test_a_prior_that_the_rows_contradict_is_refused():
    s = scenes.shifted(k=5, n=2000, signal=3.0, scale=6.0)
    wrong = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    cal = tp.calibrate(s.target, prior=wrong, source=s.source)
    assert cal.verdict == "refused"
    assert "TP106" in {finding.code for finding in cal.findings if finding.severity == "refuse"}
    for better in (s.prior, tp.about(wrong, rows=5), None):
        again = tp.calibrate(s.target, prior=better, source=s.source)
        assert "TP106" not in {finding.code for finding in again.findings}


@pytest.mark.parametrize("seed", range(5))
def test_a_right_prior_allows_at_least_the_true_accuracy(seed):
    s = scenes.any_shift(seed, overconfident=True)
    evidence = gather_evidence(Sample(s.target), s.prior, SourceProfile.of(*s.source, s.prior))
    assert evidence.allowed > np.mean(s.target.argmax(axis=1) == s.labels) - 0.03


@pytest.mark.parametrize("given", [True, False])
def test_a_source_that_identifies_nothing_is_refused(scene, given):
    logits, labels = scene.source
    cal = tp.calibrate(
        scene.target, prior=scene.prior if given else None, source=(0 * logits, labels)
    )
    assert cal.verdict == "refused"
    assert cal.map == tp.maps.IDENTITY
    assert cal.findings[0].code == "TP403"
    assert cal.facts["prior_kind"] == ("given" if given else "estimated")
    if not given:  # nothing limits what the mix may be
        assert cal.facts["prior_low"] == [0.0] * 5
        assert cal.facts["prior_high"] == [1.0] * 5


def test_a_prior_that_is_less_known_widens_the_interval(scene, cal):
    """Of the accuracy of the model's own predictions: that after the map is of another map."""
    wide = np.stack([scene.prior * 0.3, np.minimum(1, scene.prior * 3)], axis=1)
    kinds = {}
    for less in (tp.about(scene.prior, rows=1000), tp.about(scene.prior, rows=20), wide):
        other = tp.calibrate(scene.target, prior=less, source=scene.source)
        kinds[other.facts["prior_kind"]] = other
        _, low, high = cal.facts["accuracy_before"]
        assert other.facts["accuracy_before"][1] < low
        assert other.facts["accuracy_before"][2] > high
    assert set(kinds) == {"about", "range"}


def test_an_estimated_prior_is_never_called_known(scene):
    cal = tp.calibrate(scene.target, source=scene.source)
    assert cal.facts["prior_kind"] == "estimated"
    assert "TP105" in {finding.code for finding in cal.findings}


def test_without_a_source_it_is_the_map_of_that_information(scene):
    blind = tp.calibrate(scene.target, prior=scene.prior)
    fitted = tp.fit_prior_matched(scene.target, scene.prior)
    assert blind.map.parameters()["temperature"] == pytest.approx(fitted.temperature, rel=1e-6)
    assert blind.facts["method"] == "uts"
    assert blind.facts["source"] is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prior": None}, "prior"),
        ({"prior": [0.5, 0.5]}, "prior"),
        ({"prior": [0.5, 0.5, 0.5, -0.25, -0.25]}, "prior"),
        ({"source": 3}, "source must be a pair"),
        ({"classes": ["a", "b"]}, "classes"),
    ],
)
def test_bad_inputs_raise(scene, given, message):
    with pytest.raises(tp.InputError, match=message):
        tp.calibrate(scene.target, **({"prior": scene.prior} | given))


def test_probabilities_are_not_logits(scene):
    p = np.exp(scene.target - scene.target.max(axis=1, keepdims=True))
    with pytest.raises(tp.InputError, match="from_probabilities"):
        tp.calibrate(p / p.sum(axis=1, keepdims=True), prior=scene.prior)


@pytest.mark.slow
def test_improved_is_right():
    """In 95 % of shifts of both kinds; experiments/labelfree counts a thousand, real ones too."""
    right = []
    for seed in range(scenes.UNSEEN, scenes.UNSEEN + 80):
        for overconfident in (False, True):
            s = scenes.any_shift(seed, overconfident=overconfident)
            cal = tp.calibrate(s.target, prior=s.prior, source=s.source)
            if cal.verdict == "improved":
                z, y = s.held_out
                right.append(tp.metrics.ece(np.asarray(cal.map(z)), y) < tp.metrics.ece(z, y))
    assert len(right) > 80
    assert np.mean(right) >= 0.95

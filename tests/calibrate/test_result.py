"""The answer of the front door: saved and loaded whole, and measured on a few labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scenes
from scipy.stats import binomtest
from simulated import draw_labels, softmax

import temperance as tp
from temperance.calibrate import _worth_labelling
from temperance.calibrate.audit import _wilson

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=OFFSET)


@pytest.fixture(scope="module")
def cal(scene):
    return tp.calibrate(scene.target, prior=scene.prior, source=scene.source)


def test_saved_and_loaded_it_is_the_same_to_the_byte(scene, cal, tmp_path):
    cal.save(tmp_path / "first.json")
    again = tp.calibrate(scene.target, prior=scene.prior, source=scene.source)
    again.save(tmp_path / "again.json")
    tp.load(tmp_path / "first.json").save(tmp_path / "loaded.json")
    first = (tmp_path / "first.json").read_bytes()
    assert first == (tmp_path / "again.json").read_bytes()
    assert first == (tmp_path / "loaded.json").read_bytes()


@pytest.mark.parametrize("n", [30, 100, 200])
def test_an_audit_measures_what_labels_say(scene, cal, n):
    rows = cal.details["label_next"][:n]
    z, y = scene.target[rows], scene.labels[rows]
    measured = cal.audit(z, y)
    assert measured.n == n
    assert measured.accuracy.value == tp.metrics.accuracy(np.asarray(cal.map(z)), y)
    assert measured.nll_before.value == pytest.approx(tp.metrics.nll(z, y))
    assert measured.nll_after.value < measured.nll_before.value
    assert measured.ece_after.low <= measured.ece_after.value <= measured.ece_after.high
    assert measured.label_next == cal.details["label_next"][n:]


def test_an_audit_agrees_with_the_truth_and_not_with_wrong_labels(scene, cal):
    rows = cal.details["label_next"][:150]
    assert cal.audit(scene.target[rows], scene.labels[rows]).agrees
    assert not cal.audit(scene.target[rows], (scene.labels[rows] + 1) % 5).agrees


def test_rows_that_are_all_right_still_leave_doubt(scene, cal):
    z = scene.target[:40]
    measured = cal.audit(z, np.asarray(cal.map(z)).argmax(axis=1))
    assert measured.accuracy.value == 1
    assert 0.85 < measured.accuracy.low < 1


@pytest.mark.parametrize(("right", "n"), [(0, 30), (30, 30), (7, 11), (1, 200)])
def test_the_interval_of_a_share_is_wilsons(right, n):
    peer = binomtest(right, n).proportion_ci(0.9, method="wilson")
    ours = _wilson(right / n, n)
    assert (ours.low, ours.high) == pytest.approx((peer.low, peer.high), abs=1e-4)


def test_groups_widen_the_intervals(scene, cal):
    order = np.argsort(scene.target.argmax(axis=1) != scene.labels)[::8][:200]
    groups = np.arange(len(order)) // 20
    z, y = scene.target[order], scene.labels[order]
    by_row, by_group = cal.audit(z, y).accuracy, cal.audit(z, y, groups).accuracy
    assert by_group.high - by_group.low > 1.5 * (by_row.high - by_row.low)


def test_rows_worth_labelling_measure_better_than_random_ones():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(2000, 5))
    p = softmax(z)
    chosen = _worth_labelling(p)[:100]
    stratified, at_random = [], []
    for _ in range(2000):
        right = draw_labels(p, rng) == p.argmax(axis=1)
        stratified.append(right[chosen].mean() - right.mean())
        at_random.append(right[rng.permutation(2000)[:100]].mean() - right.mean())
    assert abs(np.mean(stratified)) < 0.005
    # What is left is the variance within rows, E[c (1 - c)], of the whole, a (1 - a).
    c = p.max(axis=1)
    theory = np.sqrt(np.mean(c * (1 - c)) / (c.mean() * (1 - c.mean())))
    assert np.std(stratified) / np.std(at_random) == pytest.approx(theory, rel=0.1)


def test_an_audit_refuses_other_classes(cal):
    with pytest.raises(tp.InputError, match="must have 5 columns"):
        cal.audit(np.random.default_rng(0).normal(size=(30, 4)), np.zeros(30, dtype=int))


def test_an_audit_refuses_the_source(scene, cal):
    z, y = scene.source
    with pytest.raises(tp.InputError, match="These are the source"):
        cal.audit(z, y.astype(np.int16))
    assert cal.audit(z[:-1], y[:-1]).n == len(z) - 1


def test_facts_of_an_audit_are_plain(scene, cal):
    facts = cal.audit(scene.target[:50], scene.labels[:50]).to_dict()
    assert isinstance(facts["accuracy"], list)
    assert isinstance(facts["agrees"], bool)


def test_a_map_whose_estimates_disagree_is_improved_with_a_reservation(cal):
    disagreement = tp.Finding("TP401", "They disagree.", {}, "", "warn")
    doubtful = replace(cal, findings=(disagreement,))
    assert "labelled rows" in doubtful.doubt
    assert doubtful.doubt in doubtful.to_dict()["meaning"]
    assert not replace(doubtful, verdict="no-evidence").doubt
    assert not replace(cal, findings=()).doubt


def test_printed_it_is_a_summary(cal):
    lines = str(cal).splitlines()
    assert lines[0] == f"{cal.verdict}: {cal.meaning}"
    assert f"accuracy     {cal.accuracy:.3g}" in lines
    assert [line[:5] for line in lines[5:]] == [finding.code for finding in cal.findings]
    assert max(map(len, lines)) < 250


def test_facts_tell_what_was_given_and_what_would_help(scene, cal):
    blind = tp.calibrate(scene.target[:1999], prior=scene.prior)
    assert (blind.details["n_target"], blind.details["n_source"]) == (1999, 0)
    assert (cal.details["n_target"], cal.details["n_source"]) == (2000, len(scene.source[1]))

    def mentions(calibration, fact, words):
        return any(words in sentence for sentence in calibration.details[fact])

    assert mentions(blind, "would_change", "More target rows")
    assert not mentions(cal, "would_change", "More target rows")
    assert mentions(blind, "would_change", "A labelled source")
    assert not mentions(cal, "would_change", "A labelled source")
    assert mentions(cal, "assumptions", "not used to train")
    assert not mentions(blind, "assumptions", "not used to train")
    assert not mentions(cal, "would_change", "A class mix")


def test_facts_tell_how_well_the_mix_is_known(scene, cal):
    assert cal.details["prior_low"] is cal.details["prior_high"] is None
    known = tp.about(scene.prior, rows=40)
    rough = tp.calibrate(scene.target, prior=known, source=scene.source)
    assert rough.details["prior_low"] == known.low.tolist()
    assert rough.details["prior_high"] == known.high.tolist()
    assert any("A class mix" in wish for wish in rough.details["would_change"])


def test_facts_of_the_target_and_the_source_are_those_of_their_rows(scene, cal):
    z, y = scene.source
    told, top = cal.details["histograms"], softmax(z).max(axis=1)
    count, _ = np.histogram(top, told["edges"])
    right, _ = np.histogram(top[z.argmax(axis=1) == y], told["edges"])
    sums, _ = np.histogram(top, told["edges"], weights=top)
    assert told["source"] == count.tolist()
    assert told["source_correct"] == right.tolist()
    assert told["source_confidence"] == pytest.approx(sums)
    own, mapped = softmax(scene.target), np.asarray(cal.predict_proba(scene.target))
    for name, p in (("before", own), ("after", mapped)):
        assert cal.details[f"mix_{name}"] == pytest.approx(p.mean(axis=0))
        assert cal.details[f"confidence_{name}"] == pytest.approx(p.max(axis=1).mean())
        count, _ = np.histogram(p.max(axis=1), told["edges"])
        assert told[f"target_{name}"] == count.tolist()


def test_expected_risk_is_what_the_map_believes_of_the_surest_rows(scene, cal):
    p = np.asarray(cal.predict_proba(scene.target))
    told = cal.details["risk_coverage"]
    surest = np.sort(p.max(axis=1))[::-1]
    for place in (0, 9, 49, 99):
        n = round(told["coverage"][place] * len(p))
        assert told["risk_after"][place] == pytest.approx(1 - surest[:n].mean())
    own = np.take_along_axis(p, scene.target.argmax(axis=1)[:, None], axis=1)
    assert told["risk_before"][-1] == pytest.approx(1 - own.mean())
    assert told["risk_before"][-1] > told["risk_after"][-1]


def test_it_is_shown_without_its_pages_of_numbers(cal):
    assert "histograms" not in repr(cal)


def test_a_verdict_that_nobody_gave_is_refused(cal):
    assert tp.Calibration.from_dict(cal.to_dict()).verdict == cal.verdict
    with pytest.raises(tp.InputError, match="verdict"):
        tp.Calibration.from_dict(cal.to_dict() | {"verdict": "splendid"})

"""Every code of the table is found where it should be, and not on quiet data."""

from __future__ import annotations

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance import demo
from temperance.calibrate.findings import CODES

FLAT = np.full(5, 0.2)


def codes(*args, **known):
    return [f.code for f in tp.calibrate(*args, **known).findings]


@pytest.fixture(scope="module")
def quiet():
    return scenes.shifted(k=5, n=3000, home=2.0, signal=2.0, scale=4.0)


def trigger(code, q):
    """Return the arguments of a call that must give the finding."""
    z, (old, old_y) = q.target, q.source
    rng = np.random.default_rng(0)
    shifted = scenes.shifted(k=5, n=2000, signal=1.0, scale=6.0, offset=[2.0, 0, 0, 0, 0])
    apart = scenes.shifted(k=5, n=2000, home=5.0, signal=5.0, scale=4.0)
    return {
        "TP101": ((z + 1e3 * np.eye(5)[1], FLAT), {}),
        "TP102": ((z - 100 * np.eye(5)[2], FLAT, q.source), {}),
        "TP103": ((z, np.array([0.25, 0.25, 0.25, 0.25, 0.0]), q.source), {}),
        "TP104": ((shifted.target, FLAT, shifted.source), {}),
        "TP105": ((z,), {"source": q.source}),
        "TP106": ((apart.target, np.array([0.7, 0.1, 0.1, 0.05, 0.05]), apart.source), {}),
        "TP201": ((shifted.target, FLAT, shifted.source), {}),
        "TP202": ((3 * z, FLAT, q.source), {}),
        "TP205": (
            (rng.normal(size=(500, 5)) ** 3 * 40, FLAT, (9 * np.eye(5)[old_y] + old / 50, old_y)),
            {},
        ),
        "TP206": ((z, FLAT), {}),
        "TP301": ((z[:20], FLAT), {}),
        "TP302": ((z[:100], FLAT, q.source), {}),
        "TP303": ((z, np.array([0.4, 0.3, 0.2, 0.099, 0.001]), q.source), {}),
        "TP304": ((z, FLAT, (old[:100], old_y[:100])), {}),
        "TP401": ((apart.target * 0.1, FLAT, apart.source), {}),
        "TP403": (
            (
                np.tile(z[:2], (40, 1))[:1].repeat(60, axis=0) + np.eye(5)[np.arange(60) % 2] * 0,
                FLAT,
            ),
            {},
        ),
        "TP404": (
            (scenes.shifted(k=5, n=2000, signal=1.6, home=2.0, scale=4.0).target, FLAT, q.source),
            {},
        ),
        "TP406": ((z,), {}),
        "TP407": ((z, FLAT, q.source), {"labelled": (z[:60], (z[:60].argmax(axis=1) + 1) % 5)}),
        "TP408": ((z, FLAT), {"labelled": (z[:30], q.labels[:30])}),
        "TP501": ((np.concatenate([old[:1500], z[:500]]), FLAT, q.source), {}),
        "TP502": ((z, FLAT, (9 * np.eye(5)[old_y] + 0.1 * old, old_y)), {}),
        "TP503": ((z, FLAT, (old, rng.permutation(old_y))), {}),
        "TP504": ((1 / (1 + np.exp(-z)), FLAT), {}),
        "TP505": ((rng.normal(size=(1000, 20)), np.full(20, 0.05)), {}),
    }[code]


NOT_SHOWN = {"TP403", "TP404"}  # a constant target is TP101 first; a doubt is not a fixed scene


@pytest.mark.parametrize("code", sorted(set(CODES) - NOT_SHOWN))
def test_a_code_is_found_where_it_should_be(quiet, code):
    args, known = trigger(code, quiet)
    assert code in codes(*args, **known)


def test_quiet_data_give_no_warning(quiet):
    cal = tp.calibrate(quiet.target, FLAT, quiet.source)
    assert [f.code for f in cal.findings if f.severity != "note"] == []


def test_no_finding_tells_a_doubt_of_nothing():
    """What a page calls 'over 99%' has no finding beside it that says '0%'."""
    source, target = demo.load("source"), demo.load("rotated_60")
    cal = tp.calibrate(target.logits, demo.class_mix(), (source.logits, source.labels))
    assert cal.verdict == "improved"
    shares = [f.evidence["share"] for f in cal.findings if f.code == "TP404"]
    assert all(f"{share:.0%}" != "0%" for share in shares)


def test_nothing_is_said_of_the_mix_of_a_source_that_is_not_there(quiet):
    z, y = quiet.target, quiet.labels
    assert "TP105" not in codes(z)
    assert "TP105" not in codes(z, labelled=(z[:30], y[:30]))


def test_most_serious_first(quiet):
    cal = tp.calibrate((quiet.target + 1e3 * np.eye(5)[1])[:100], FLAT, quiet.source)
    order = [("refuse", "warn", "note").index(finding.severity) for finding in cal.findings]
    assert order == sorted(order)


def test_counts_are_of_the_rows_that_were_given():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6_000, 300)).astype(np.float32)
    assert "TP303" not in codes(z, np.full(300, 1 / 300))


def test_the_advice_on_a_multi_label_matrix_leads_to_a_fit():
    rng = np.random.default_rng(0)
    truth = rng.random((600, 5)) < 0.3
    scores = 3 * (truth - 0.5) + rng.normal(size=truth.shape)
    p = 1 / (1 + np.exp(-scores))
    first = tp.calibrate(p, np.full(5, 0.2), (p[:300], truth[:300].argmax(axis=1))).findings[0]
    assert first.code == "TP504"
    assert "temperance.binary_logits(s[:, k])" in first.advice
    for k in range(5):
        pair = tp.from_probabilities(np.stack([1 - p[:, k], p[:, k]], axis=1))  # as it says
        y = truth[:300, k].astype(int)
        from_p = tp.calibrate(pair[300:], source=(pair[:300], y))
        from_s = tp.calibrate(
            tp.binary_logits(scores[300:, k]), source=(tp.binary_logits(scores[:300, k]), y)
        )
        assert from_p.verdict != "refused"
        assert from_p.temperature.value == pytest.approx(from_s.temperature.value, rel=1e-6)

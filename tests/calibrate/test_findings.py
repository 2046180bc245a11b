"""Each finding appears where it should, and not where nothing is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scenes
from scipy.stats import chisquare

import temperance as tp
from temperance.calibrate import findings
from temperance.calibrate.findings import Scene
from temperance.calibrate.prior import exactly


def codes(cal):
    return {finding.code for finding in cal.findings}


def calibrate(s, **changes):
    given = {"target": s.target, "prior": s.prior, "source": s.source} | changes
    return tp.calibrate(given["target"], prior=given["prior"], source=given["source"])


@pytest.fixture(scope="module")
def quiet():
    """A target that differs from the source by nothing."""
    return scenes.shifted(k=5, n=2000, signal=3.0, home=3.0)


def test_nothing_is_found_where_nothing_is_wrong(quiet):
    assert codes(calibrate(quiet)) == set()


@pytest.mark.parametrize(
    ("code", "severity", "change"),
    [
        ("TP301", "refuse", lambda s: {"target": s.target[:29]}),
        ("TP302", "warn", lambda s: {"target": s.target[:150]}),
        ("TP101", "refuse", lambda s: {"target": s.target + 1e3 * np.eye(5)[1]}),
        ("TP103", "refuse", lambda _: {"prior": np.array([0.0, 0.25, 0.25, 0.25, 0.25])}),
        ("TP104", "warn", lambda s: {"target": s.target + 6 * np.eye(5)[1]}),
        ("TP102", "warn", lambda s: {"target": s.target - 1e3 * np.eye(5)[1]}),
        ("TP105", "warn", lambda _: {"prior": None}),
        ("TP202", "note", lambda s: {"target": 2 * s.target}),
        ("TP303", "note", lambda _: {"prior": np.array([0.499, 0.498, 0.001, 0.001, 0.001])}),
        ("TP304", "warn", lambda s: {"source": (s.source[0][:150], s.source[1][:150])}),
        ("TP503", "refuse", lambda s: {"source": (s.source[0], np.roll(s.source[1], 1))}),
        ("TP503", "refuse", lambda s: {"source": (s.source[0], (s.source[1] + 1) % 5)}),
        ("TP501", "warn", lambda s: {"target": np.r_[s.target, s.source[0]]}),
    ],
)
def test_each_finding_appears_with_its_cause(quiet, code, severity, change):
    cal = calibrate(quiet, **change(quiet))
    found = {finding.code: finding for finding in cal.findings}
    assert code in found
    assert found[code].severity == severity
    assert found[code].evidence
    if severity == "refuse":
        assert cal.verdict == "refused"
        assert np.array_equal(cal.map(quiet.target), quiet.target)


def test_covariate_shift_is_seen_in_the_rows():
    assert "TP201" in codes(calibrate(scenes.shifted(k=5, signal=1.2, home=3.0)))


def test_an_estimated_mix_is_refused_where_more_than_the_mix_has_changed():
    s = scenes.shifted(k=5, signal=1.2, home=3.0)
    found = calibrate(s, prior=None)
    assert "TP108" in codes(found)
    assert found.verdict == "refused"
    only = scenes.shifted(k=5, signal=3.0, home=3.0, prior=[0.5, 0.2, 0.1, 0.1, 0.1])
    assert not {"TP103", "TP108", "TP204"} & codes(calibrate(only, prior=None))


def test_label_shift_alone_is_told_from_covariate_shift():
    s = scenes.shifted(k=5, signal=3.0, home=3.0, prior=[0.5, 0.2, 0.1, 0.1, 0.1])
    found = {finding.code: finding for finding in calibrate(s).findings}
    assert "TP201" not in found
    _, labels = s.source
    apart = np.abs(np.bincount(labels) / len(labels) - s.prior).sum() / 2
    assert found["TP204"].evidence["moved"] == pytest.approx(apart)


@pytest.mark.parametrize(
    ("n", "home", "q"),
    [(1000, [0.5, 0.5], [0.8, 0.2]), (300, [0.2, 0.3, 0.5], [1 / 3] * 3)],
)
def test_label_shift_alone_is_taken_for_more_as_rarely_as_it_should(n, home, q):
    """The p-value is uniform where nothing but the class mix has changed."""
    k, told = len(q), []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        source = scenes.draw(rng, n, home, signal=2.0, scale=1.0, offset=0)
        z, _ = scenes.draw(rng, 1000, q, signal=2.0, scale=1.0, offset=0)
        scene = Scene(z, len(z), exactly(q, k), None, source, list("abc"[:k]))
        told += [found.evidence["p_value"] for found in findings._label_shift(scene)]
    assert len(told) >= 0.95 * 150  # a test at the level 0.01
    assert np.mean(told) == pytest.approx(0.5, abs=3 / np.sqrt(12 * 150))
    assert np.std(told) == pytest.approx(1 / np.sqrt(12), rel=0.15)


def test_rows_of_no_known_class_are_seen(quiet):
    strange = quiet.target.copy()
    strange[:800] = np.random.default_rng(0).normal(size=(800, 5))
    strange[:800, 4] = -25.0  # any class but one: no source row is like that
    assert "TP205" in codes(calibrate(quiet, target=strange))


def test_source_rows_that_are_all_right_are_suspect(quiet):
    z, _ = quiet.source
    assert "TP502" in codes(calibrate(quiet, source=(z, z.argmax(axis=1))))


def test_labels_in_another_order_are_told_from_those_of_a_poor_or_lopsided_model():
    rng = np.random.default_rng(0)
    refused = {True: 0, False: 0}
    for _ in range(40):
        y = (rng.random(300) < 0.05).astype(int)  # rare enough never to be predicted
        score = rng.normal(size=300) + 2 * y - 4
        z, order = np.stack([0 * score, score], axis=1), rng.permutation(300)
        target = np.stack([np.zeros(500), rng.normal(size=500) - 2], axis=1)
        for shuffled, labels in ((False, y), (True, y[order])):
            cal = tp.calibrate(target, prior=[0.9, 0.1], source=(z, labels))
            refused[shuffled] += "TP503" in codes(cal)
    assert refused[True] >= 38
    assert refused[False] <= 2


def test_a_prior_by_which_the_map_would_be_right_less_often_is_doubted():
    q, rng = np.array([0.7, 0.1, 0.1, 0.05, 0.05]), np.random.default_rng(0)
    lean = np.log(q) / 1.5  # as a model that knows the mix has it
    source = scenes.draw(rng, 1_200, q, signal=1.5, scale=2.0, offset=lean)
    z, _ = scenes.draw(rng, 2_000, q, signal=0.8, scale=2.0, offset=lean)
    offset = np.array([0.6, -0.4, 0.3, 0.0, -0.5])
    right = calibrate(scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=offset))
    assert right.verdict == "improved"  # without a map of its own there is nothing to doubt
    assert "TP107" not in codes(right)
    assert "TP107" not in codes(tp.calibrate(z, prior=q, source=source))
    cal = tp.calibrate(z, prior=np.full(5, 0.2), source=source)
    (found,) = (finding for finding in cal.findings if finding.code == "TP107")
    assert found.evidence["expected"] == pytest.approx(cal.accuracy.value)
    assert found.evidence["expected_of_model"] == cal.facts["accuracy_before"][0]
    assert "check that mix" in cal.doubt


def test_findings_tell_what_was_found(quiet):
    def evidence(code, **changes):
        return {f.code: f.evidence for f in calibrate(quiet, **changes).findings}[code]

    lean = quiet.target + 0.5 * np.eye(5)[3]
    mix = np.bincount(lean.argmax(axis=1), minlength=5) / len(lean)
    excluded = evidence("TP103", target=lean, prior=[0.0, 0.3, 0.3, 0.0, 0.4])
    assert excluded == {"share": pytest.approx(mix[0] + mix[3]), "class": "3"}

    z, y = quiet.source
    rolled = evidence("TP503", source=(z, np.roll(y, 1)))
    assert rolled["accuracy"] == np.mean(z.argmax(axis=1) == np.roll(y, 1))
    assert abs(rolled["standard_errors"]) < 3

    other = evidence("TP104", target=lean, prior=[0.2, 0.2, 0.2, 0.2, 0.2])
    peer = chisquare(len(lean) * mix, np.full(5, len(lean) / 5))
    assert other["most"] == "3"
    assert other["distance"] == pytest.approx(np.abs(mix - 0.2).sum() / 2)
    assert other["p_value"] == pytest.approx(peer.pvalue, rel=1e-6)

    rare = evidence("TP303", prior=[0.499, 0.5, 0.001, 0.0, 0.0])
    assert rare["classes"] == 1  # those that are not expected at all are not rare

    for given, share in ((z[:50], 50 / 2050), (z[:500], 500 / 2500)):
        assert evidence("TP501", target=np.r_[quiet.target, given])["share"] == share


def test_a_few_rows_of_the_source_in_the_target_are_only_noted(quiet):
    both = np.r_[quiet.target, quiet.source[0][:50]]
    (found,) = (f for f in calibrate(quiet, target=both).findings if f.code == "TP501")
    assert found.severity == "note"


def test_a_share_that_is_nothing_but_rounding_excludes_a_class(quiet):
    cal = calibrate(quiet, prior=np.array([1e-14, 0.25, 0.25, 0.25, 0.25 - 1e-14]))
    assert "TP103" in codes(cal)
    assert cal.verdict == "refused"


def test_a_poor_source_that_cannot_be_fitted_is_not_called_perfect(quiet):
    z, y = quiet.source
    assert "TP502" not in codes(calibrate(quiet, source=(z, (y + 1) % 5)))


def test_most_serious_first(quiet):
    cal = calibrate(quiet, target=(quiet.target + 1e3 * np.eye(5)[1])[:100])
    order = [("refuse", "warn", "note").index(finding.severity) for finding in cal.findings]
    assert order == sorted(order)
    assert len(set(order)) > 1


def test_the_manual_explains_every_code():
    package = Path(findings.__file__).parent
    sources = [file.read_text(encoding="utf-8") for file in package.glob("*.py")]
    found = {code for source in sources for code in re.findall(r'"(TP\d+)"', source)}
    page = Path(__file__).parents[2] / "docs" / "label-free.md"
    explained = re.findall(r"^\| (TP\d+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(found) == explained


def test_two_classes_need_a_source_and_a_known_mix():
    """One estimate is left: where it rests on a guess as well, nothing is called improved."""
    s = scenes.shifted(k=2, n=4000, signal=1.2, home=2.0, scale=6.0, offset=np.array([0.3, -0.3]))
    for given in ({"prior": s.prior}, {"source": s.source}):
        cal = tp.calibrate(s.target, **given)
        assert cal.verdict == "no-evidence"
        assert "TP405" in codes(cal)
    both = tp.calibrate(s.target, prior=s.prior, source=s.source)
    assert both.verdict == "improved"
    assert not {"TP109", "TP405"} & codes(both)


@pytest.mark.parametrize("known", ["exactly", "about"])
def test_of_two_classes_a_prior_is_not_believed_whatever_it_says(known):
    """A rare class said to be half of all would turn a third of the rows."""
    rare = np.array([0.9, 0.1])
    s = scenes.shifted(k=2, n=4000, signal=2.5, home=3.0, prior=rare)
    half = np.array([0.5, 0.5]) if known == "exactly" else tp.about([0.5, 0.5], rows=1000)
    cal = tp.calibrate(s.target, prior=half, source=s.source)
    assert cal.verdict == "refused"
    assert "TP109" in codes(cal)
    assert "TP109" not in codes(tp.calibrate(s.target, prior=rare, source=s.source))

"""A confidence to accept rows by: an estimate without labels, a guarantee with them."""

from __future__ import annotations

import numpy as np
import pytest
import scenes
from scipy.stats import binomtest

import temperance as tp

OFFSET = [0.3, 0.0, 0.0, -0.3, 0.0]


def shifted(seed=0):
    return scenes.shifted(k=5, n=1000, home=3.5, signal=2.6, scale=5.0, offset=OFFSET, seed=seed)


@pytest.fixture(scope="module")
def scene():
    return shifted()


@pytest.fixture(scope="module")
def cal(scene):
    return tp.calibrate(scene.target, prior=scene.prior, source=scene.source)


def wrong_among_accepted(found, z, y):
    p = found.map.predict_proba(z)
    return np.mean((p.argmax(axis=1) != y)[p.max(axis=1) >= found.confidence])


def test_without_labels_it_is_an_estimate(scene, cal):
    found = cal.threshold(max_error=0.1)
    assert not found.guaranteed
    assert found.map == cal.map
    assert found.error.value < found.error.high <= 0.1
    accepted = cal.predict_proba(scene.target).max(axis=1) >= found.confidence
    assert found.coverage == accepted.mean() > 0.3
    assert wrong_among_accepted(found, *scene.held_out) <= 0.1
    above = cal.expected().above(found.confidence)
    assert above.wrong == pytest.approx(found.error)


def test_more_rows_are_accepted_where_more_may_be_wrong(cal):
    coverage = [cal.threshold(max_error=e).coverage for e in (0.001, 0.03, 0.1, 0.2, 1.0)]
    assert coverage == sorted(coverage)
    assert coverage[-1] == 1
    nothing = cal.threshold(max_error=1e-6)
    assert (nothing.confidence, nothing.coverage, nothing.error) == (None, 0.0, None)


def test_the_error_of_a_workload(scene, cal):
    found = cal.threshold(coverage=0.4)
    assert found.coverage == pytest.approx(0.4, abs=0.006)
    assert found.error.low < wrong_among_accepted(found, *scene.held_out) < found.error.high
    assert cal.threshold(coverage=1).confidence == 0


def test_costs_choose_the_confidence_of_chow():
    """Where probabilities are right, a row is accepted if its risk costs less than a referral."""
    calm = scenes.shifted(k=5, n=8000, home=2.5, signal=2.5, scale=5.0)
    cal = tp.calibrate(calm.target, prior=calm.prior, source=calm.source)
    found = cal.threshold(costs=(10, 2))
    assert found.confidence == pytest.approx(0.8, abs=0.05)
    assert cal.threshold(costs=(10, 10)).coverage == 1
    assert cal.threshold(costs=(10, 0)).confidence is None


def test_with_labels_the_bound_is_that_of_clopper_and_pearson(scene, cal):
    z, y = scene.held_out
    found = cal.update(z[:300], y[:300]).threshold(coverage=0.5, level=0.95)
    assert found.guaranteed
    assert found.map == cal.map  # which has seen no label
    p = cal.predict_proba(z[:300])
    accepted = p.max(axis=1) >= found.confidence
    wrong = int((p.argmax(axis=1) != y[:300])[accepted].sum())
    exact = binomtest(wrong, int(accepted.sum())).proportion_ci(0.9, "exact")
    assert found.error == pytest.approx((wrong / accepted.sum(), exact.low, exact.high))


def test_too_few_labels_leave_an_estimate(scene, cal):
    z, y = scene.held_out
    assert not cal.update(z[:40], y[:40]).threshold(max_error=0.05).guaranteed
    assert cal.update(z[:50], y[:50]).threshold(max_error=0.05).guaranteed


@pytest.mark.slow
@pytest.mark.parametrize("known", ["a source", "nothing"])
def test_the_guarantee_holds_as_often_as_stated(known):
    held, coverage = [], []
    for seed in range(150):
        scene = shifted(seed)
        z, y = scene.held_out
        given = {"prior": scene.prior, "source": scene.source} if known == "a source" else {}
        cal = tp.calibrate(scene.target, labelled=(z[:200], y[:200]), **given)
        found = cal.threshold(max_error=0.1)
        assert found.guaranteed
        coverage.append(found.coverage)
        nothing = found.confidence is None
        held.append(nothing or wrong_among_accepted(found, z[200:], y[200:]) <= 0.1)
    assert np.mean(held) >= 0.9
    assert np.mean(coverage) > 0.7


def test_each_predicted_class_has_a_threshold_of_its_own(scene, cal):
    found = cal.thresholds(max_error=0.2)
    assert list(found) == ["0", "1", "2", "3", "4"]
    p = cal.predict_proba(scene.target)
    for name, one in found.items():
        rows = p.argmax(axis=1) == int(name)
        assert one.error.high <= 0.2
        assert one.coverage == (p.max(axis=1)[rows] >= one.confidence).mean()
    shares = cal.thresholds(coverage=0.5)
    assert all(one.coverage == pytest.approx(0.5, abs=0.01) for one in shares.values())


def test_a_class_that_is_never_predicted_has_no_threshold():
    calm = scenes.shifted(k=5, n=1000, home=3.5, signal=3.5, scale=5.0)
    z = calm.target - 1e3 * np.eye(5)[2]
    cal = tp.calibrate(z, source=calm.source)
    assert list(cal.thresholds()) == ["0", "1", "3", "4"]


@pytest.mark.slow
def test_the_guarantees_of_all_classes_hold_together():
    held, tested = [], 0
    for seed in range(60):
        scene = shifted(seed)
        z, y = scene.held_out
        cal = tp.calibrate(
            scene.target, prior=scene.prior, source=scene.source, labelled=(z[:500], y[:500])
        )
        found = cal.thresholds(max_error=0.2)
        p = next(iter(found.values())).map.predict_proba(z[500:])
        of = p.argmax(axis=1)
        broken = False
        for name, one in found.items():
            tested += one.guaranteed
            accepted = (of == int(name)) & (p.max(axis=1) >= (one.confidence or 2))
            wrong = np.mean(y[500:][accepted] != int(name)) if accepted.any() else 0.0
            broken |= one.guaranteed and wrong > 0.2
        held.append(not broken)
    assert tested == 60 * 5
    assert np.mean(held) >= 0.9


def test_what_cannot_be_asked_is_refused_with_the_way_out(scene, cal, tmp_path):
    with pytest.raises(tp.InputError, match="coverage and costs must not be given together"):
        cal.threshold(coverage=0.5, costs=(1, 2))
    with pytest.raises(tp.InputError, match="costs must be two numbers"):
        cal.threshold(costs=(1, 2, 3))
    with pytest.raises(tp.InputError, match="level must be a finite number"):
        cal.threshold(level=0.3)
    with pytest.raises(tp.InputError, match="max_error must be a finite number"):
        cal.threshold(max_error=0)
    with pytest.raises(tp.InputError, match="needs a calibration that was not refused"):
        tp.calibrate(scene.target).threshold()
    cal.save(tmp_path / "cal.json")
    with pytest.raises(tp.InputError, match=r"Call temperance\.calibrate again"):
        tp.load(tmp_path / "cal.json").threshold()


@pytest.mark.parametrize("costs", ["12", [True, 0.1], [1, None], {"wrong": 1, "referred": 2}])
def test_costs_are_two_numbers(cal, costs):
    with pytest.raises(tp.InputError, match="cost"):
        cal.threshold(costs=costs)

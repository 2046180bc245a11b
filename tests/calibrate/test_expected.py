"""What labels are expected to say, against labels drawn from known probabilities and real ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scenes
from sklearn.metrics import (
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
)

import temperance as tp

COSTS = np.array([[0.0, 1, 2, 1], [5, 0, 1, 1], [1, 3, 0, 1], [2, 2, 2, 0]])


def holds(interval, value):
    return interval.low <= value <= interval.high


@pytest.fixture(scope="module")
def scene():
    offset, mix = [0.5, 0.0, -0.5, 0.0], [0.4, 0.3, 0.2, 0.1]
    return scenes.shifted(k=4, n=1500, scale=4.0, offset=offset, prior=mix)


@pytest.fixture(scope="module")
def cal(scene):
    return tp.calibrate(scene.target, prior=scene.prior, source=scene.source)


@pytest.fixture(scope="module")
def certain(scene, cal):
    """A calibration whose only plausible map is the true one, which is not the map in use."""
    one = {
        "weights": [1.0],
        "temperatures": [scene.temperature],
        "biases": [scene.bias.tolist()],
    }
    return replace(cal, details=cal.details | {"plausible": one})


def measured(p, y):
    """The metrics of scikit-learn, by name."""
    k = p.shape[1]
    predicted = p.argmax(axis=1)
    confusion = confusion_matrix(y, predicted, labels=range(k))
    precision, recall, f1, _ = precision_recall_fscore_support(
        y, predicted, labels=range(k), zero_division=np.nan
    )
    return {
        "confusion": confusion / len(y),
        "accuracy": np.mean(predicted == y),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "auc": np.array([roc_auc_score(y == j, p[:, j]) for j in range(k)]),
    }


@pytest.mark.slow
def test_with_one_true_map_they_are_the_means_over_drawn_labels(scene, certain):
    expected = certain.expected()
    truth = tp.BiasedTemperature(scene.temperature, scene.bias).predict_proba(scene.target)
    p, rng = certain.predict_proba(scene.target), np.random.default_rng(0)
    predicted, sure = p.argmax(axis=1), p.max(axis=1) >= 0.8
    draws, costs, wrong = [], [], []
    for _ in range(200):
        y = (rng.uniform(size=(len(p), 1)) > np.cumsum(truth, axis=1)[:, :-1]).sum(axis=1)
        draws.append(measured(p, y))
        costs.append(COSTS[y, predicted].mean())
        wrong.append(np.mean((predicted != y)[sure]))
    assert expected.accuracy.value == pytest.approx(
        np.mean([d["accuracy"] for d in draws]), abs=0.003
    )
    np.testing.assert_allclose(
        expected.confusion, np.mean([d["confusion"] for d in draws], axis=0), atol=0.002
    )
    for name in ("precision", "recall", "f1", "auc"):
        values = np.array([d[name] for d in draws])
        found = getattr(expected, name)
        np.testing.assert_allclose([i.value for i in found], values.mean(axis=0), atol=0.006)
        inside = np.mean([[holds(i, v) for i, v in zip(found, row, strict=True)] for row in values])
        assert 0.87 < inside <= 1, name
    assert expected.cost(COSTS).value == pytest.approx(np.mean(costs), abs=0.01)
    assert expected.above(0.8).wrong.value == pytest.approx(np.mean(wrong), abs=0.004)
    assert expected.above(0.8).share.value == sure.mean()
    assert expected.macro_auc.value == pytest.approx(np.mean([d["auc"] for d in draws]), abs=0.003)


def test_equal_scores_count_one_half(certain):
    z = np.tile([[1.0, 0, 0, 0], [0, 2, 0, 0]], (50, 1))
    z[0] += 1e-9  # the same probabilities
    expected = certain.expected(z)
    weights = tp.BiasedTemperature(
        certain.details["plausible"]["temperatures"][0], certain.details["plausible"]["biases"][0]
    ).predict_proba(z)
    p = certain.predict_proba(z)[:, 0].round(12)
    over = (p[:, None] > p) + 0.5 * (p[:, None] == p)
    pairs = weights[:, :1] * (1 - weights[:, 0])
    np.fill_diagonal(pairs, 0)
    assert expected.auc[0].value == pytest.approx((pairs * over).sum() / pairs.sum(), abs=1e-6)


def test_under_label_shift_the_confusions_are_those_of_the_source_weighted():
    """LEAP: p(predicted, y) on the target is q(y) p(predicted | y), the latter of the source."""
    mix = np.array([0.5, 0.25, 0.15, 0.1])
    scene = scenes.shifted(k=4, n=8000, home=2.5, signal=2.5, scale=4.0, prior=mix)
    cal = tp.calibrate(scene.target, prior=mix, source=scene.source)
    z, y = scene.source
    predicted = np.asarray(cal.map(z)).argmax(axis=1)
    leap = mix[:, None] * confusion_matrix(y, predicted, normalize="true")
    np.testing.assert_allclose(cal.expected().confusion, leap, atol=0.015)


def test_a_calibration_from_a_file_needs_logits_and_says_the_same(scene, cal, tmp_path):
    cal.save(tmp_path / "cal.json")
    loaded = tp.load(tmp_path / "cal.json")
    with pytest.raises(tp.InputError, match=r"a file has none of them. Pass logits."):
        loaded.expected()
    here, there = cal.expected(), loaded.expected(scene.target)
    np.testing.assert_allclose(there.confusion, here.confusion, atol=1e-12)
    np.testing.assert_allclose(there.recall, here.recall, atol=1e-12)


def test_a_class_that_cannot_occur_is_not_known(scene):
    def with_more(z):
        return np.column_stack([z[:, :2], np.full(len(z), -1e9), z[:, 2:]])

    cal = tp.calibrate(
        with_more(scene.target), source=(with_more(scene.source[0]), OTHER[scene.source[1]])
    )
    expected = cal.expected()
    narrow = tp.calibrate(scene.target, source=scene.source).expected()
    assert expected.recall[2] is expected.precision[2] is expected.f1[2] is expected.auc[2] is None
    assert not expected.confusion[2].any()
    np.testing.assert_allclose(
        expected.confusion[np.ix_(OTHER, OTHER)], narrow.confusion, atol=1e-6
    )


OTHER = np.array([0, 1, 3, 4])


def test_what_cannot_be_asked_is_refused_with_the_way_out(scene, cal):
    refused = tp.calibrate(scene.target)
    assert refused.verdict == "refused"
    with pytest.raises(tp.InputError, match="needs a calibration that was not refused"):
        refused.expected()
    with pytest.raises(tp.InputError, match=r"matrix must be 4 x 4, .* Got shape \(3, 3\)"):
        cal.expected().cost(np.eye(3))
    with pytest.raises(tp.InputError, match="matrix must hold finite costs"):
        cal.expected().cost(np.full((4, 4), np.nan))
    with pytest.raises(tp.InputError, match=r"matrix must hold finite costs within ±1e\+100"):
        cal.expected().cost(np.full((4, 4), 1e308))
    with pytest.raises(tp.InputError, match="threshold must be a finite number"):
        cal.expected().above(1.5)
    with pytest.raises(tp.InputError, match="logits must have 4 columns"):
        cal.expected(np.zeros((5, 3)))


@pytest.mark.slow
def test_intervals_hold_the_truth_over_simulated_shifts():
    inside = {name: [] for name in ("accuracy", "precision", "recall", "f1", "auc", "cost")}
    for seed in range(scenes.UNSEEN, scenes.UNSEEN + 60):
        scene = scenes.any_shift(seed, overconfident=False)
        cal = tp.calibrate(scene.target, prior=scene.prior, source=scene.source)
        if cal.verdict == "refused":
            continue
        expected, p, y = cal.expected(), cal.predict_proba(scene.target), scene.labels
        truth = measured(p, y)
        inside["accuracy"].append(holds(expected.accuracy, truth["accuracy"]))
        costs = np.random.default_rng(seed).uniform(size=2 * p.shape[1:])
        cost = costs[y, p.argmax(axis=1)].mean()
        inside["cost"].append(holds(expected.cost(costs), cost))
        for name in ("precision", "recall", "f1", "auc"):
            pairs = zip(getattr(expected, name), truth[name], strict=True)
            known = [holds(i, v) for i, v in pairs if i is not None and np.isfinite(v)]
            inside[name].append(np.mean(known))
    assert len(inside["accuracy"]) >= 50
    assert {name: np.mean(shares) >= 0.85 for name, shares in inside.items()} == dict.fromkeys(
        inside, True
    )

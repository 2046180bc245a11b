from __future__ import annotations

from functools import partial

import array_api_strict
import numpy as np
import pytest
import torch
from simulated import draw_labels, logits, softmax

import temperance as tp
from temperance import metrics
from temperance.data import as_labelled_rows
from temperance.metrics import bootstrap

CALIBRATION = [metrics.ece, metrics.adaptive_ece, metrics.classwise_ece, metrics.smooth_ece]
MEANS = [metrics.accuracy, metrics.nll, metrics.brier]
OTHERS = [metrics.aurc, metrics.excess_aurc]


def name(metric):
    return getattr(metric, "__name__", "partial")


def hidden(metric):
    """The metric as a function that bootstrap does not know, called on resampled rows."""

    def unknown(*table):
        return metric(*table)

    return unknown


@pytest.mark.parametrize("metric", MEANS, ids=name)
def test_a_mean_has_the_interval_of_the_normal_law(metric):
    z, y = logits(1500, 5)
    each = np.array([metric(z[i : i + 1], y[i : i + 1]) for i in range(1500)])
    error = 1.96 * each.std() / np.sqrt(1500)
    value, low, high = bootstrap(metric, z, y, n_resamples=4000)
    assert value == metric(z, y) == pytest.approx(each.mean())
    assert low == pytest.approx(value - error, abs=0.08 * error)
    assert high == pytest.approx(value + error, abs=0.08 * error)


@pytest.mark.parametrize("metric", [*MEANS, *OTHERS], ids=name)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_give_what_resampled_rows_give(metric, grouped, weighted):
    z, y = logits(60, 4)
    groups = np.arange(60) // 5 if grouped else None
    w = np.random.default_rng(0).random(60) if weighted else None
    fast = bootstrap(metric, z, y, groups, sample_weight=w, n_resamples=40)
    slow = bootstrap(hidden(metric), z, y, groups, sample_weight=w, n_resamples=40)
    assert fast == pytest.approx(slow, rel=1e-12)


def test_options_travel_in_a_partial():
    z, y = logits(200, 4, sharpness=2.0)
    for metric in (
        partial(metrics.brier, per_class=False),
        *(partial(m, n_bins=7) for m in CALIBRATION[:3]),
    ):
        value, low, high = bootstrap(metric, z, y, n_resamples=50)
        assert value == metric(z, y)
        assert low < value < high
    per_class = bootstrap(metrics.brier, z, y)
    assert bootstrap(partial(metrics.brier, per_class=False), z, y) == pytest.approx(
        [4 * v for v in per_class]
    )


def covered(metric, truth, *, n, runs, groups=None, **made):
    """Share of intervals that hold the truth."""
    hits = 0
    for seed in range(runs):
        z, y = logits(n, 4, seed=seed, **made)
        _, low, high = bootstrap(metric, z, y, groups, n_resamples=200, seed=seed)
        hits += low <= truth <= high
    return hits / runs


@pytest.mark.parametrize("metric", CALIBRATION, ids=name)
def test_intervals_of_a_calibrated_model_hold_zero(metric):
    """Percentiles of the resamples would hold it never: see the next test."""
    assert covered(metric, 0.0, n=300, runs=40) >= 0.9


def test_percentiles_would_never_hold_the_error_of_a_calibrated_model():
    held = covered(hidden(metrics.ece), 0.0, n=300, runs=10)
    assert held == 0


@pytest.mark.parametrize(
    "sharpness", [1.2, *(pytest.param(s, marks=pytest.mark.slow) for s in (1.6, 3.0))]
)
@pytest.mark.parametrize("metric", CALIBRATION, ids=name)
def test_intervals_hold_a_known_error(metric, sharpness):
    big, labels = logits(100_000, 4, sharpness=sharpness, seed=12345)
    truth = metric(big, labels)
    assert covered(metric, truth, n=400, runs=40, sharpness=sharpness) >= 0.85


@pytest.mark.parametrize("metric", [*MEANS, metrics.aurc], ids=name)
def test_intervals_hold_the_true_mean(metric):
    big, labels = logits(200_000, 4, sharpness=1.3, seed=12345)
    assert covered(metric, metric(big, labels), n=300, runs=60, sharpness=1.3) >= 0.87


def clustered(n_groups, size, seed):
    """In three groups of ten the labels have nothing to do with the logits."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_groups * size, 3)) * 2
    groups = np.repeat(np.arange(n_groups), size)
    lost = (rng.random(n_groups) < 0.3)[groups]
    return z, draw_labels(softmax(np.where(lost[:, None], 0, z)), rng), groups


@pytest.mark.parametrize("metric", [*MEANS, *CALIBRATION, metrics.aurc], ids=name)
def test_groups_widen_the_interval_of_clustered_rows(metric):
    z, y, groups = clustered(40, 50, seed=0)
    rows, patients = bootstrap(metric, z, y), bootstrap(metric, z, y, groups)
    assert patients.value == rows.value
    assert patients.high - patients.low > 1.5 * (rows.high - rows.low)


def test_only_intervals_by_group_hold_the_truth_of_clustered_rows():
    z, y, _ = clustered(20_000, 5, seed=999)
    truth, held = metrics.accuracy(z, y), np.zeros(2)
    for seed in range(60):
        z, y, groups = clustered(40, 60, seed)
        for i, by in enumerate((None, groups)):
            _, low, high = bootstrap(metrics.accuracy, z, y, by, n_resamples=300)
            held[i] += low <= truth <= high
    assert held[0] / 60 < 0.7
    assert held[1] / 60 > 0.85


def test_equal_groups_of_equal_rows_are_rows():
    z, y = logits(80, 3)
    each = np.repeat(np.arange(80), 3)
    assert bootstrap(metrics.nll, z[each], y[each], each) == pytest.approx(
        bootstrap(metrics.nll, z, y), rel=1e-12
    )


@pytest.mark.parametrize("metric", [*MEANS, *CALIBRATION, *OTHERS], ids=name)
def test_seeds(metric):
    z, y = logits(100, 3, sharpness=3.0)
    first = bootstrap(metric, z, y, n_resamples=50, seed=3)
    assert first == bootstrap(metric, z, y, n_resamples=50, seed=3)
    assert first == bootstrap(metric, z, y, n_resamples=50, seed=np.random.default_rng(3))
    assert first != bootstrap(metric, z, y, n_resamples=50, seed=4)


@pytest.mark.parametrize("answer", ["x", np.ones(3), None, [1.0]])
def test_a_metric_gives_a_number(answer):
    with pytest.raises(tp.InputError, match="metric must return a number"):
        bootstrap(lambda *_: answer, *logits(50, 3), n_resamples=5)


def test_names_of_groups_are_free():
    z, y = logits(12, 3)
    numbers = np.arange(12) % 4
    by_number = bootstrap(metrics.nll, z, y, numbers)
    assert bootstrap(metrics.nll, z, y, np.array(list("abcd"))[numbers]) == by_number
    assert bootstrap(metrics.nll, z, y, torch.from_numpy(numbers)) == by_number
    mixed = [(None, 7, "a", 2.5)[i] for i in numbers]  # no order among them
    assert bootstrap(metrics.nll, z, y, mixed) == by_number


def test_any_metric_meets_the_kind_of_array_that_came():
    z, y = logits(50, 3)
    expected = bootstrap(metrics.accuracy, z, y, n_resamples=20)

    def torch_accuracy(logits, labels):
        return (logits.argmax(dim=1) == labels).double().mean()

    def strict_accuracy(logits, labels):
        hit = array_api_strict.argmax(logits, axis=1) == labels
        return array_api_strict.mean(array_api_strict.astype(hit, array_api_strict.float64))

    def numpy_accuracy(logits, labels):
        return (logits.argmax(axis=1) == labels).mean()

    for metric, arrays in (
        (torch_accuracy, (torch.from_numpy(z), torch.from_numpy(y))),
        (strict_accuracy, (array_api_strict.asarray(z), array_api_strict.asarray(y))),
        (numpy_accuracy, (z.tolist(), y.tolist())),
        (numpy_accuracy, (as_labelled_rows(z, y), None)),
    ):
        assert bootstrap(metric, *arrays, n_resamples=20) == pytest.approx(expected)


def test_weightless_rows_are_not_there():
    z, y = logits(200, 3, seed=1)
    w = np.repeat([1.0, 0.0], 100)
    with_them, without = (
        bootstrap(metrics.nll, z, y, sample_weight=w, n_resamples=500),
        bootstrap(metrics.nll, z[:100], y[:100], n_resamples=500),
    )
    assert with_them.value == pytest.approx(without.value)
    assert with_them.high - with_them.low == pytest.approx(without.high - without.low, rel=0.2)
    assert np.isfinite(bootstrap(metrics.ece, z[99:102], y[99:102], sample_weight=w[99:102])).all()


def test_an_error_of_exactly_zero():
    z = np.array([[1e4, 0.0]] * 20)
    assert bootstrap(metrics.ece, z, [0] * 20) == (0, 0, 0)
    half = np.zeros((20, 2))  # confidence 1/2, and half of the rows right: zero, but by luck
    value, low, high = bootstrap(metrics.ece, half, [0, 1] * 10)
    assert value == low == 0
    assert 0.1 < high < 0.4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"groups": [0, 1]}, r"groups must have shape \(3,\)"),
        ({"groups": [7, 7, 7]}, "at least two"),
        ({"groups": object()}, "groups"),
        ({"metric": "ece"}, "metric must be a function"),
        ({"n_resamples": 0}, "n_resamples"),
        ({"level": 1.5}, "level"),
        ({"seed": -1}, "seed"),
        ({"labels": None}, "labels"),
    ],
)
def test_bad_arguments_are_named(change, says):
    arguments = {"metric": metrics.nll, "logits": np.eye(3) + 2, "labels": [0, 1, 2]} | change
    with pytest.raises(tp.InputError, match=says):
        bootstrap(**arguments)


def test_one_row_cannot_be_resampled():
    with pytest.raises(tp.InputError, match="one row"):
        bootstrap(metrics.nll, np.array([[2.0, 0.0]]), [0])

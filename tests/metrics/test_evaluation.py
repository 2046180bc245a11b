from __future__ import annotations

import json

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from simulated import logits, softmax
from sklearn.metrics import log_loss

import temperance as tp
from temperance import metrics
from temperance.data import as_labelled_rows

METRICS = [
    metrics.accuracy,
    metrics.nll,
    metrics.brier,
    metrics.ece,
    metrics.adaptive_ece,
    metrics.classwise_ece,
    metrics.smooth_ece,
    metrics.aurc,
    metrics.excess_aurc,
]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_pass_gives_what_the_metrics_give(dtype, weighted):
    z, y = logits(60_000, 6, sharpness=1.5)
    z = z.astype(dtype)
    w = np.random.default_rng(0).random(len(y)) if weighted else None
    result = metrics.evaluate(as_labelled_rows(z, y, w))
    for name in ("accuracy", "nll", "brier", "ece"):
        assert getattr(result, name) == getattr(metrics, name)(z, y, w)
    assert result.n == (len(y) if w is None else pytest.approx(w.sum()))


def test_fast_exponentials_are_right_to_a_tenth_of_a_millionth():
    z, y = logits(200_000, 10, sharpness=1.5)
    z = z.astype(np.float32)
    fast, exact = metrics.evaluate(z, y), metrics.evaluate(z.astype(np.float64), y)
    assert np.array_equal(fast.bins.counts, exact.bins.counts)
    assert fast.accuracy == exact.accuracy
    for name in ("nll", "brier", "ece", "confidence"):
        assert getattr(fast, name) == pytest.approx(getattr(exact, name), rel=1e-7)


def test_days_add_up():
    z, y = logits(1000, 4, sharpness=2.0)
    first, second = (metrics.evaluate(z[i], y[i]) for i in (slice(0, 300), slice(300, None)))
    both, whole = first + second, metrics.evaluate(z, y)
    assert both.n == 1000
    assert np.array_equal(both.bins.counts, whole.bins.counts)
    for name in ("accuracy", "nll", "brier", "ece", "confidence"):
        assert getattr(both, name) == pytest.approx(getattr(whole, name), rel=1e-13)


def test_the_network_of_the_paper(shared_data):
    """CIFAR-100, DenseNet-40, uncalibrated: NLL 1.091 ± .003 and ECE .086 ± .002."""
    with np.load(shared_data / "logits" / "cifar100_densenet40.npz") as file:
        z, y = file["logits"], file["labels"]
    result = metrics.evaluate(z, y)
    assert result.nll == pytest.approx(1.091, abs=0.003)
    assert result.ece == pytest.approx(0.086, abs=0.002)
    assert result.nll == pytest.approx(log_loss(y, softmax(z.astype(np.float64))), rel=1e-7)


KINDS = {
    "torch": torch.from_numpy,
    "torch with gradient": lambda a: torch.from_numpy(a).requires_grad_(),
    "array API": array_api_strict.asarray,
    "list": lambda a: a.tolist(),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Fortran order": np.asfortranarray,
    "every second row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "rows": lambda a: a,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_every_kind_of_array_gives_the_same_number(metric, kind):
    z, y = logits(90, 3)
    assert metric(KINDS[kind](z), y) == metric(z, y)
    if kind == "rows":
        assert metric(as_labelled_rows(z, y)) == metric(z, y)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact(metric, half):
    z, y = logits(90, 3, scale=4.0)
    narrow = torch.from_numpy(z).to(half)
    assert metric(narrow, torch.from_numpy(y)) == pytest.approx(
        metric(narrow.double().numpy(), y), rel=1e-12
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_memory_map(metric, tmp_path):
    z, y = logits(90, 3)
    z = z.astype(np.float32)
    np.save(tmp_path / "z.npy", z)
    assert metric(np.load(tmp_path / "z.npy", mmap_mode="r"), y) == metric(z, y)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_the_answer_is_a_python_float(metric):
    z, y = logits(90, 3)
    assert type(metric(z.astype(np.float32), y)) is float


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("z", "y", "says"),
    [
        ([[0.2, 0.8], [0.5, 0.5]], [0, 1], "from_probabilities"),
        ([[1.0, np.nan], [0.0, 2.0]], [0, 1], "Row 0, class 1"),
        ([[1.0, 3.0], [0.0, 2.0]], [0, 2], "Row 1"),
        ([[1.0, 3.0], [0.0, 2.0]], [0], "shape"),
        ([[1.0, 3.0], [0.0, 2.0]], None, "labels"),
        ([1.0, 3.0], [0, 1], "binary_logits"),
    ],
)
def test_bad_input_is_named(metric, z, y, says):
    with pytest.raises(tp.InputError, match=says):
        metric(np.array(z), y)


def test_days_kept_as_json_are_the_days():
    z, y = logits(700, 4)
    weight = np.linspace(0.5, 2, len(y))
    days = [metrics.evaluate(z[i::7], y[i::7]) for i in range(7)]
    kept = [metrics.Evaluation.from_dict(json.loads(json.dumps(day.to_dict()))) for day in days]
    assert kept == days
    assert sum(kept) == sum(days[1:], start=days[0])
    assert (sum(kept).bins.counts == metrics.evaluate(z, y).bins.counts).all()
    assert sum(kept).bins.counts.dtype.kind == "i"
    weighted = metrics.evaluate(z, y, weight)
    assert metrics.Evaluation.from_dict(weighted.to_dict()) == weighted


def test_what_is_no_evaluation_is_not_added():
    day = metrics.evaluate(*logits(50, 3))
    for other in (1, None):
        with pytest.raises(TypeError, match="unsupported operand"):
            day + other
        with pytest.raises(TypeError, match="unsupported operand"):
            other + day
    with pytest.raises(tp.InputError, match=r"Evaluation\.to_dict.*'bins'"):
        metrics.Evaluation.from_dict({"n": 3})

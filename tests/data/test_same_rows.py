"""TP501: target rows that are also in the source, told from rows that happen to have its logits."""

from __future__ import annotations

import numpy as np
import pytest

import temperance as tp

N = 1500


def same_rows(target, source):
    cal = tp.calibrate(target, np.full(target.shape[1], 1 / target.shape[1]), source)
    return next((f for f in cal.findings if f.code == "TP501"), None)


def votes(rng, n):
    """A model of few outputs: five neighbours vote for one of four classes."""
    y = rng.integers(4, size=n)
    chances = 0.55 * np.eye(4)[y] + 0.45 / 4
    return np.log(np.stack([rng.multinomial(5, p) for p in chances]) + 0.1), y


def half_precision(rng, n):
    """A binary head with one logit in float16."""
    y = rng.integers(2, size=n)
    scores = (2 * (2 * y - 1) + 2 * rng.normal(size=n)).astype(np.float16)
    return tp.binary_logits(scores), y


def single_precision(rng, n):
    z, y = half_precision(rng, n)
    return z.astype(np.float32) + rng.normal(size=(n, 1)).astype(np.float32) * [0, 1], y


@pytest.mark.parametrize("model", [votes, half_precision, single_precision])
def test_equal_logits_of_different_rows_are_no_leak(model):
    source, target = (model(np.random.default_rng(seed), N) for seed in (0, 1))
    assert same_rows(target[0], source) is None


@pytest.mark.parametrize(
    ("model", "leaked", "severity"),
    [
        (half_precision, 750, "warn"),
        (single_precision, 750, "warn"),
        (single_precision, 15, "note"),
    ],
)
def test_rows_that_are_in_both_are_counted(model, leaked, severity):
    source, target = (model(np.random.default_rng(seed), N) for seed in (0, 1))
    found = same_rows(np.concatenate([target[0][leaked:], source[0][:leaked]]), source)
    assert found is not None
    assert found.severity == severity

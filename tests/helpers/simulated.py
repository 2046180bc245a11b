"""Labelled logits whose true calibration is known."""

from __future__ import annotations

import numpy as np


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw_labels(p, rng):
    """One label a row, drawn from the rows of ``p``."""
    return np.minimum((rng.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1), p.shape[1] - 1)


def logits(n, k, *, sharpness=1.0, scale=2.0, seed=0):
    """Logits that are calibrated when divided by ``sharpness``, and labels drawn accordingly."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * scale
    return z * sharpness, draw_labels(softmax(z), rng)

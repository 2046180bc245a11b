"""Calls that a type checker must refuse; checked by `make lint`, never run.

Each line carries the one complaint that it must cause. A line that the checker accepts makes its
comment unnecessary, which is an error here.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

import numpy as np

import temperance as tp


def refused_calls() -> None:
    z, y = np.zeros((3, 2)), np.zeros(3, int)
    tp.calibrate("garbage", prior=object(), source=3)  # pyright: ignore[reportArgumentType]
    tp.calibrate(z, prior=object())  # pyright: ignore[reportArgumentType]
    tp.calibrate(z, source=3)  # pyright: ignore[reportArgumentType]
    tp.calibrate(3.0)  # pyright: ignore[reportArgumentType]
    tp.calibrate(z, bias="no")  # pyright: ignore[reportArgumentType]
    tp.fit_prior_matched(z, prior=object())  # pyright: ignore[reportArgumentType]
    tp.fit_temperature(object(), y)  # pyright: ignore[reportArgumentType]
    tp.fit_uts(z, prior=object())  # pyright: ignore[reportArgumentType]
    tp.fit_transcal(z, 3)  # pyright: ignore[reportArgumentType]
    tp.metrics.ece(object(), y)  # pyright: ignore[reportArgumentType]
    tp.estimate_accuracy(z, source=3)  # pyright: ignore[reportArgumentType]
    tp.from_probabilities(object())  # pyright: ignore[reportArgumentType]


def accepted_calls() -> None:
    z, y, q = np.zeros((3, 2)), np.zeros(3, int), np.array([0.5, 0.5])
    tp.calibrate(z, q, (z, y))
    tp.calibrate(z.tolist(), {"a": 0.5, "b": 0.5}, classes=["a", "b"])
    tp.calibrate(z, tp.about(q, rows=50), (z, y), bias=False)
    tp.fit_temperature(z.tolist(), [0, 1, 0])
    tp.fit_temperature([(z, y), (z, y)])
    tp.fit_temperature("validation.npz")
    tp.fit_uts(z, q)
    tp.metrics.ece(z, y, n_bins=10)
    tp.metrics.bootstrap(tp.metrics.ece, z, y, groups=["a", "b", "b"])
    tp.from_probabilities([[0.5, 0.5]])

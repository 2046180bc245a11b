"""Binned and isotonic calibration, the neighbours that the paper names, from the package netcal.

Each class is calibrated against the rest and the rows are scaled to sum to 1. The answer is a
function from logits to log-probabilities: these methods are no affine maps. A probability of 0,
which bins without a hit give, counts as 1e-6, because its logarithm has no value; where all are 0,
every class is as likely.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SMALLEST = 1e-6
BINS = 15


def fit_rival(
    name: str, z: NDArray[np.float64], y: NDArray[np.int64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Fit histogram binning, isotonic regression or Bayesian binning into quantiles (BBQ)."""
    from netcal.binning import BBQ, HistogramBinning, IsotonicRegression

    method = {
        "histogram binning": lambda: HistogramBinning(bins=BINS),
        "isotonic": IsotonicRegression,
        "BBQ": BBQ,
    }[name]()
    with _silent():
        method.fit(softmax(z, axis=1), y)

    def calibrated(logits: NDArray[np.float64]) -> NDArray[np.float64]:
        with _silent():
            p = np.asarray(method.transform(softmax(logits, axis=1)), np.float64)
        p = np.fmax(p, SMALLEST)  # a row of zeros comes back as NaN, divided by its sum
        return np.log(p / p.sum(axis=1, keepdims=True))

    return calibrated


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep the progress bars and the warnings of the package off the terminal."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

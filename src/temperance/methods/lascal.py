"""LaSCal: calibration under label shift.

Popordanoska, Radevski, Tuytelaars and Blaschko, "LaSCal: label-shift calibration without target
labels", NeurIPS 2024. If only the class mix has changed, source rows of class y weighted by
w_y = q_y / π_y follow the target, so that the calibration error of the target can be estimated:

    CE(T) = Σ_k Σ_b | (1/n_s) Σ_i w_{y_i} 1{y_i = k, p_ik in b} - (1/n_t) Σ_j p_jk 1{p_jk in b} |

with p = softmax(z / T) on source rows i and target rows j, and b bins of equal width. The paper
smooths with a kernel where this bins; the weights are those of RLLS, as in the paper.

The search goes downhill from the temperature of the source, because the global minimum is often
at T = ∞: with equally frequent classes, a model that always says 1/K is calibrated.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from temperance._core.arrays import Floats, softmax_at
from temperance._core.checks import NotIdentified, check_prior
from temperance.data.given import read_both
from temperance.data.types import LogitsLike, PriorLike, SourceLike
from temperance.maps import Temperature
from temperance.methods.label_shift import estimate_prior
from temperance.metrics.binned import N_BINS, bin_index
from temperance.supervised.temperature import fit_temperature

FIRST_STEP = 0.1  # of the search in log T
MAX_TEMPERATURE_RATIO = 100.0  # of T and the temperature of the source


def fit_lascal(
    target_logits: LogitsLike,
    source: SourceLike,
    prior: PriorLike | None = None,
    *,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    """Fit a temperature under label shift, from a labelled source and unlabelled target rows.

    ``prior`` is the class mix of the target, by default estimated by RLLS. The other arguments are
    those of `fit_cpcs`.

    Notes
    -----
    Guarantee: consistent if only the class mix has changed.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y, y_old = rng.choice(3, p=[0.6, 0.2, 0.2], size=3000), rng.integers(3, size=3000)
    >>> z, z_old = (4 * (np.eye(3)[t] + rng.normal(size=(3000, 3))) for t in (y, y_old))
    >>> bool(tp.fit_lascal(z, (z_old, y_old)).temperature > 2)
    True
    """
    z, (s, y) = read_both(target_logits, source, seed)
    k = z.shape[1]
    q = estimate_prior(z, (s, y), method="rlls") if prior is None else check_prior(prior, k)
    share = np.bincount(y, minlength=k) / len(y)
    w = (q / np.maximum(share, 1e-12))[y]
    start = math.log(fit_temperature(s, y).temperature)

    def error(log_t: float) -> float:
        return _label_shift_error(z, s, y, w, math.exp(log_t))

    end = float(cast("Any", minimize_scalar(error, bracket=(start, start + FIRST_STEP))).x)
    if abs(end - start) > math.log(MAX_TEMPERATURE_RATIO):
        msg = "the calibration error under label shift falls without end as the temperature grows."
        raise NotIdentified(msg)
    return Temperature(math.exp(end))


def _label_shift_error(
    z: NDArray[Any], s: NDArray[Any], y: NDArray[np.int64], w: Floats, t: float
) -> float:
    """Return CE(T): weighted class frequencies of source bins against mean p of target bins."""
    p, ps = softmax_at(z, t), softmax_at(s, t)
    k = p.shape[1]
    of_label = ps[np.arange(len(y)), y]
    frequency = np.bincount(y * N_BINS + bin_index(of_label, N_BINS), w, k * N_BINS) / len(y)
    place = bin_index(p.ravel(), N_BINS).reshape(p.shape)
    place = (place + N_BINS * np.arange(k, dtype=np.intp)).ravel()
    confidence = np.bincount(place, p.ravel(), k * N_BINS) / len(p)
    return float(np.abs(frequency - confidence).sum())

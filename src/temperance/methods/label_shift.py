"""The class mix of a target when only the mix has changed (label shift).

If p(x | y) is the same in source and target, the target's class prior is identified by the model's
predictions alone:

    em     Saerens, Latinne and Decaestecker (2002), maximum likelihood of the target rows under
           p_t(y | x) ∝ p_s(y | x) q_y / π_y, after bias-corrected temperature scaling on the source
           (Alexandari, Kundaje and Shrikumar, 2020)
    bbse   Lipton, Wang and Smola (2018): solve C w = μ with C_jk = mean_s p_j 1{y = k} and
           μ = mean_t p, then q = w π
    rlls   Azizzadenesheli, Liu, Yang and Anandkumar (2019): the same with w = 1 + θ and a penalty
           on |θ| of the size of the sampling error of C
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from temperance._core.arrays import Floats
from temperance._core.checks import NotIdentified, check_choice
from temperance.data.given import read_both
from temperance.data.types import LogitsLike, SourceLike
from temperance.supervised.affine import fit_biased_temperature
from temperance.supervised.temperature import fit_temperature

PRIOR_METHODS = ("em", "bbse", "rlls")
MAX_EM_SWEEPS = 2_000  # of EM
EM_TOLERANCE = 1e-9  # sum of changes of the class shares at which EM ends
CONFIDENCE = 0.05  # level of the bound on the sampling error of C in RLLS


def estimate_prior(
    target_logits: LogitsLike,
    source: SourceLike,
    *,
    method: str = "em",
    seed: int | np.random.Generator = 0,
) -> Floats:
    r"""Estimate the class prior of a target from its logits and a labelled source.

    .. math:: q = \arg\max_q \sum_i \log \sum_k p_s(k \mid x_i) \frac{q_k}{\pi_k}

    Prefer ``"em"``; ``"bbse"`` and ``"rlls"`` need no calibrated probabilities, and RLLS has the
    smaller variance with few rows.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    source : pair (logits, labels)
    method : {"em", "bbse", "rlls"}
    seed : int or Generator
        Of the draw of rows, used where a set has more rows than a label-free method reads.

    Returns
    -------
    array of shape (K,)

    Notes
    -----
    Guarantee: consistent if only the class mix has changed and every class has source rows. Under
    any other shift the estimate is wrong, and nothing in the estimate shows that.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y_old, y = rng.integers(2, size=4000), (rng.random(4000) < 0.8).astype(int)
    >>> z_old, z = (2 * np.eye(2)[t] + rng.normal(size=(4000, 2)) for t in (y_old, y))
    >>> tp.estimate_prior(z, (z_old, y_old)).round(1)
    array([0.2, 0.8])
    """
    check_choice(method, PRIOR_METHODS, "method")
    z, (s, y) = read_both(target_logits, source, seed)
    p, ps = _calibrated(z, s, y)
    share = np.bincount(y, minlength=p.shape[1]) / len(y)
    if method == "em":
        return _em(p, share)
    c, mean = np.zeros((p.shape[1], p.shape[1])), p.mean(axis=0)
    np.add.at(c.T, y, ps)
    c /= len(y)  # C_jk = mean over source rows of p_j 1{y = k}
    w = _least_squares(c, mean) if method == "bbse" else _rlls(c, mean, len(y))
    q = np.maximum(w, 0) * share
    return q / q.sum() if q.sum() > 0 else share


def _calibrated(z: NDArray[Any], s: NDArray[Any], y: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return probabilities of target and source by the best map that the source identifies."""
    for fit in (fit_biased_temperature, fit_temperature):
        try:
            fitted = fit(s, y)
        except NotIdentified:
            continue
        wide = (np.asarray(x, dtype=np.float64) for x in (z, s))
        p, ps = (np.asarray(fitted.predict_proba(x)) for x in wide)
        return p, ps
    msg = "the source does not identify a temperature, so the prior cannot be estimated."
    raise NotIdentified(msg)


def _em(p: Floats, share: Floats) -> Floats:
    """Iterate ``q_k ← q_k mean_i r_ik / Σ_j r_ij q_j``, ``r = p_s / π``: two products a sweep."""
    ratio = p / np.maximum(share, 1e-12)
    ratio[:, share == 0] = 0.0  # a class without source rows is not identified
    q = share.copy()
    for _ in range(MAX_EM_SWEEPS):
        new = q * ((1 / np.maximum(ratio @ q, 1e-300)) @ ratio)
        new /= new.sum()
        done = np.abs(new - q).sum() < EM_TOLERANCE
        q = new
        if done:
            break
    return q


def _least_squares(c: Floats, b: Floats) -> Floats:
    """Return w with the smallest norm among those that minimise |C w - b|."""
    return np.asarray(np.linalg.lstsq(c, b, rcond=1e-8)[0], dtype=np.float64)


def _rlls(c: Floats, mean: Floats, n: int) -> Floats:
    k = len(c)
    b = mean - c.sum(axis=1)
    log = np.log(2 * k / CONFIDENCE)
    error = 2 * log / (3 * n) + np.sqrt(2 * log / n) / np.sqrt(k)

    def objective(theta: Floats) -> float:
        return float(np.linalg.norm(c @ theta - b) + error * np.linalg.norm(theta))

    start = _least_squares(c, b)
    best = min((np.zeros(k), start), key=objective)
    found = minimize(objective, best, method="L-BFGS-B", bounds=[(-1, None)] * k)
    return 1 + np.asarray(found.x)

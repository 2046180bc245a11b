"""The accuracy of a model on unlabelled data, by one of several methods.

    matched     median of the estimates of `temperance.calibrate`         prior and source
    cot, cott   optimal transport of predictions to labels (`cot`)        prior; cott: source too
    atc, atc-ne share of rows above a threshold of the source (`atc`)     source
    doc         fall of the mean confidence since the source (`doc`)      source
    confidence  mean confidence (`confidence`)                            nothing

Where a source is given, logits are divided by its temperature first; "matched" has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from temperance._core import checks
from temperance._core.arrays import Floats, softmax_at
from temperance._core.checks import InputError, NotIdentified
from temperance._core.stats import Interval, normal_interval, share_interval
from temperance.calibrate.accuracy import Source, estimate_with_source
from temperance.calibrate.problem import Logits
from temperance.data import as_rows
from temperance.data.given import LabelledSample, draw_rows, read_source
from temperance.data.types import LogitsLike, PriorLike, SourceLike
from temperance.methods.atc import estimate_atc, negative_entropy
from temperance.methods.confidence import temperature_of_accuracy
from temperance.methods.cot import estimate_cot, estimate_cott
from temperance.methods.doc import estimate_doc
from temperance.supervised.temperature import fit_temperature

METHODS = ("matched", "cot", "cott", "atc", "atc-ne", "doc", "confidence")
NEED_SOURCE = ("matched", "cott", "atc", "atc-ne", "doc")
NEED_PRIOR = ("matched", "cot", "cott")


def estimate_accuracy(
    target_logits: LogitsLike,
    prior: PriorLike | None = None,
    source: SourceLike | None = None,
    *,
    method: str = "matched",
    seed: int | np.random.Generator = 0,
) -> Interval:
    r"""Estimate the accuracy of the model's predictions on unlabelled data.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
    prior : array of shape (K,)
        The target's class mix; for "matched", "cot" and "cott".
    source : pair (logits, labels)
        For all methods but "cot" and "confidence", which use its temperature where given.
    method : {"matched", "cot", "cott", "atc", "atc-ne", "doc", "confidence"}
    seed : int or Generator
        Of the draw of rows, used where a set has more rows than a label-free method reads.

    Returns
    -------
    Interval
        With the 90 % interval of the *sampling* error alone; the error of the method itself is
        larger. `temperance.calibrate` accounts for both.

    Notes
    -----
    Guarantee: none. No estimate can be right for every shift (Garg et al., 2022, Proposition 1).

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> z = 2 * np.eye(3)[y] + rng.normal(size=(3000, 3))
    >>> estimate = tp.estimate_accuracy(z[:1500], source=(z[1500:], y[1500:]), method="atc")
    >>> bool(abs(estimate.value - (z[:1500].argmax(1) == y[:1500]).mean()) < 0.05)
    True
    """
    checks.check_choice(method, METHODS, "method")
    generator = checks.check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    z = draw_rows(rows, generator).logits
    sample = None if source is None else read_source(source, rows.n_classes, seed=generator)
    q = checks.check_prior(prior, rows.n_classes) if method in NEED_PRIOR else np.empty(0)
    if sample is None:
        if method in NEED_SOURCE:
            msg = f"source must be a pair (logits, labels) for method {method!r}. Got None instead."
            raise InputError(msg)
        return estimate_cot(z, q, 1.0) if method == "cot" else _mean_confidence(z, 1.0)
    return _with_source(method, z, q, sample)


def _with_source(method: str, z: NDArray[Any], q: Floats, source: LabelledSample) -> Interval:
    if method == "matched":
        found = estimate_with_source(Logits.of(z), Source.of(source), q)
        value = float(expit(found.median))
        return share_interval(value, len(z), len(source.labels))
    try:
        temperature = fit_temperature(*source).temperature
    except NotIdentified:
        temperature = temperature_of_accuracy(*source)
    by_name: dict[str, Callable[[], Interval]] = {
        "cot": lambda: estimate_cot(z, q, temperature),
        "cott": lambda: estimate_cott(z, q, source, temperature),
        "atc": lambda: estimate_atc(z, source, temperature),
        "atc-ne": lambda: estimate_atc(z, source, temperature, negative_entropy),
        "doc": lambda: estimate_doc(z, source, temperature),
        "confidence": lambda: _mean_confidence(z, temperature),
    }
    return by_name[method]()


def _mean_confidence(z: NDArray[Any], temperature: float) -> Interval:
    """Return the mean confidence, which is the accuracy of a model that is calibrated."""
    top = softmax_at(z, temperature).max(axis=1)
    return normal_interval(float(top.mean()), float(top.std()) / math.sqrt(len(top)))

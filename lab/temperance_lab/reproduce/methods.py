"""Every method of the comparison, as a function from what it may see to a map."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance import (
    NotIdentified,
    Temperature,
    calibrate,
    fit_attended,
    fit_matrix,
    fit_prior_matched,
    fit_temperature,
    fit_uts,
    fit_vector,
)
from temperance_lab.reproduce.rivals import fit_rival

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from temperance.maps import Map

    Fitted = Map | Callable[[NDArray[np.float64]], NDArray[np.float64]]

__all__ = ["METHODS", "FitInput", "fit"]

PENALTY = 1.0  # of penalised matrix scaling
EARLY = 5e-3  # penalty in the place of an optimiser that stops early
LIMITS = (1e-4, 1e-3, 1e-2)  # the first with a fit stands for none where there is no maximum
FEW = 50  # labelled rows of the target
UNIFORM = 1e4  # temperature at which every class is as likely


@dataclass(frozen=True, slots=True)
class FitInput:
    """Rows drawn for a fit.

    ``labels`` are those of the target rows, as the labeller gave them; ``source`` are labelled rows
    from before a shift, without which TS reads the target's labels.
    """

    target: NDArray[np.float64]
    labels: NDArray[np.int64]
    prior: NDArray[np.float64]
    source: tuple[NDArray[np.float64], NDArray[np.int64]] | None = None


def _uts_counted(given: FitInput) -> Map:
    """UTS as in the authors' code: its prior is counted from the labels of the very rows."""
    k = given.target.shape[1]
    counts = np.bincount(given.labels, minlength=k)
    return fit_uts(given.target, counts / counts.sum(), bag_size=None)


def _penalised(penalty: float) -> Callable[[FitInput], Map]:
    return lambda given: fit_matrix(given.target, given.labels, penalty=penalty)


def _attended(form: str) -> Callable[[FitInput], Map]:
    return lambda given: fit_attended(given.target, given.labels, form=form)


def _prior_matched(*, bias: bool) -> Callable[[FitInput], Map]:
    return lambda given: fit_prior_matched(
        given.target, given.prior, source=given.source, bias=bias
    )


def _few_labels(given: FitInput) -> Map:
    """The product with labels of fifty rows of the target, drawn at random."""
    few = given.target[:FEW], given.labels[:FEW]
    return calibrate(given.target, given.prior, given.source, labelled=few).map


METHODS: dict[str, Callable[[FitInput], Fitted]] = {
    "uncalibrated": lambda _: Temperature(1.0),
    "TS": lambda given: fit_temperature(*(given.source or (given.target, given.labels))),
    "UTS": lambda given: fit_uts(given.target, given.prior, bag_size=None),
    "UTS, mix of the draw": _uts_counted,
    "UTS in bags": lambda given: fit_uts(given.target, given.prior),
    "vector": lambda given: fit_vector(given.target, given.labels),
    "matrix": lambda given: fit_matrix(given.target, given.labels),
    "matrix, penalty 0.005": _penalised(EARLY),
    "penalised matrix": _penalised(PENALTY),
    "ATS": _attended("paper"),
    "ATS (authors' code)": _attended("reference"),
    "prior-matched, T only": _prior_matched(bias=False),
    "prior-matched": _prior_matched(bias=True),
    "calibrate, 50 labels": _few_labels,
    "TS-Target": lambda given: fit_temperature(given.target, given.labels),
    "histogram binning": lambda given: fit_rival("histogram binning", given.target, given.labels),
    "isotonic": lambda given: fit_rival("isotonic", given.target, given.labels),
    "BBQ": lambda given: fit_rival("BBQ", given.target, given.labels),
}

AFFINE = {"vector": fit_vector, "matrix": fit_matrix}


def fit(method: str, given: FitInput) -> tuple[Fitted, str]:
    """Return the map, and what stands for it where the method has no answer.

    Vector and matrix scaling have none where rows can be separated or a class has no row. Labels
    that contradict the network (fewer right than by chance) have one in the limit, that every
    class is as likely. Otherwise the network is left as it is.
    """
    try:
        return METHODS[method](given), ""
    except NotIdentified:
        pass
    if method in AFFINE:
        return _smallest_penalty(AFFINE[method], given)
    if method in {"TS", "TS-Target"} and _worse_than_chance(given, method):
        return Temperature(UNIFORM), "every class as likely, for labels that contradict the network"
    return Temperature(1.0), "the network as it is for want of an answer"


def _smallest_penalty(fit_affine: Callable[..., Map], given: FitInput) -> tuple[Map, str]:
    """Return the fit under the smallest penalty that has one: rows nearly separate at 1e-4."""
    for penalty in LIMITS[:-1]:
        with suppress(NotIdentified):
            fitted = fit_affine(given.target, given.labels, penalty=penalty)
            return fitted, f"a penalty of {penalty:g} for want of a maximum"
    fitted = fit_affine(given.target, given.labels, penalty=LIMITS[-1])
    return fitted, f"a penalty of {LIMITS[-1]:g} for want of a maximum"


def _worse_than_chance(given: FitInput, method: str) -> bool:
    z, y = (given.source if method == "TS" else None) or (given.target, given.labels)
    centred = z - z.mean(axis=1, keepdims=True)
    return float(centred[np.arange(len(y)), y].mean()) <= 0

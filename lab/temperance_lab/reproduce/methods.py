"""Every method of the comparison, as a function from what it may see to a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance._core.checks import NotIdentified
from temperance.maps import Temperature
from temperance.methods.prior_matched import fit_prior_matched
from temperance.methods.uts import fit_uts
from temperance.supervised.affine import fit_matrix, fit_vector
from temperance.supervised.attended import fit_attended
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from temperance.maps import Map

__all__ = ["METHODS", "Case", "fit"]

PENALTY = 1.0  # of penalised matrix scaling
EARLY = 5e-3  # penalty in the place of an optimiser that stops early
LIMIT = 1e-4  # penalty that stands for none where the likelihood has no maximum
UNIFORM = 1e4  # temperature at which every class is as likely


@dataclass(frozen=True, slots=True)
class Case:
    """Rows drawn for a fit.

    ``labels`` are those of the target rows, as the labeller gave them; ``source`` are labelled rows
    from before a shift, without which TS reads the target's labels.
    """

    target: NDArray[np.float64]
    labels: NDArray[np.int64]
    prior: NDArray[np.float64]
    source: tuple[NDArray[np.float64], NDArray[np.int64]] | None = None


def _uts_counted(case: Case) -> Map:
    """UTS as in the authors' code: its prior is counted from the labels of the very rows."""
    k = case.target.shape[1]
    counts = np.bincount(case.labels, minlength=k)
    return fit_uts(case.target, counts / counts.sum(), bag_size=None)


def _penalised(penalty: float) -> Callable[[Case], Map]:
    return lambda case: fit_matrix(case.target, case.labels, penalty=penalty)


def _attended(form: str) -> Callable[[Case], Map]:
    return lambda case: fit_attended(case.target, case.labels, form=form)


def _prior_matched(*, bias: bool) -> Callable[[Case], Map]:
    return lambda case: fit_prior_matched(case.target, case.prior, source=case.source, bias=bias)


METHODS: dict[str, Callable[[Case], Map]] = {
    "uncalibrated": lambda _: Temperature(1.0),
    "TS": lambda case: fit_temperature(*(case.source or (case.target, case.labels))),
    "UTS": lambda case: fit_uts(case.target, case.prior, bag_size=None),
    "UTS, mix of the draw": _uts_counted,
    "UTS in bags": lambda case: fit_uts(case.target, case.prior),
    "vector": lambda case: fit_vector(case.target, case.labels),
    "matrix": lambda case: fit_matrix(case.target, case.labels),
    "matrix, penalty 0.005": _penalised(EARLY),
    "penalised matrix": _penalised(PENALTY),
    "ATS": _attended("paper"),
    "ATS (authors' code)": _attended("reference"),
    "prior-matched, T only": _prior_matched(bias=False),
    "prior-matched": _prior_matched(bias=True),
    "TS-Target": lambda case: fit_temperature(case.target, case.labels),
}

AFFINE = {"vector": fit_vector, "matrix": fit_matrix}


def fit(method: str, case: Case) -> tuple[Map, str]:
    """Return the map, and what stands for it where the method has no answer.

    Vector and matrix scaling have none where rows can be separated or a class has no row. Labels
    that contradict the network (fewer right than by chance) have one in the limit, that every
    class is as likely. Otherwise the network is left as it is.
    """
    try:
        return METHODS[method](case), ""
    except NotIdentified:
        pass
    if method in AFFINE:
        note = f"a penalty of {LIMIT:g} for want of a maximum"
        return AFFINE[method](case.target, case.labels, penalty=LIMIT), note
    if method in {"TS", "TS-Target"} and _worse_than_chance(case, method):
        return Temperature(UNIFORM), "every class as likely, for labels that contradict the network"
    return Temperature(1.0), "the network as it is for want of an answer"


def _worse_than_chance(case: Case, method: str) -> bool:
    z, y = (case.source if method == "TS" else None) or (case.target, case.labels)
    centred = z - z.mean(axis=1, keepdims=True)
    return float(centred[np.arange(len(y)), y].mean()) <= 0

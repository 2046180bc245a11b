"""What a policy would do: measured on the validation rows, expected on the cases seen here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp
from temperance_skin_lesion.classes import MELANOMA
from temperance_skin_lesion.decision import RULES, decide_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_skin_lesion.assistant import Active
    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.model import Source

__all__ = ["Effect", "changed", "curves", "expected", "measured"]

POINTS = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens to 1,000 cases under a policy."""

    rows: int
    referred: float
    wrong: float
    melanomas: float
    melanomas_missed: float
    cost: float
    by_rule: dict[str, float]


def measured(p: NDArray[np.float64], labels: NDArray[np.int64], policy: Policy) -> Effect:
    """Effect on rows whose diagnosis is known."""
    truth = np.zeros_like(p)
    truth[np.arange(len(labels)), labels] = 1
    return _effect(p, truth, policy)


def expected(p: NDArray[np.float64], policy: Policy) -> Effect:
    """Effect on unlabelled rows, if their probabilities are calibrated."""
    return _effect(p, p, policy)


def changed(
    old: NDArray[np.float64], new: NDArray[np.float64], policy: Policy
) -> dict[str, Effect]:
    """What becomes of unlabelled rows before and after a new map, if the new one is right."""
    return {"before": _effect(old, new, policy), "after": _effect(new, new, policy)}


def _effect(p: NDArray[np.float64], truth: NDArray[np.float64], policy: Policy) -> Effect:
    rule, _ = decide_all(p, policy)
    answered, predicted = rule == 0, p.argmax(axis=1)
    rows = np.arange(len(p))
    cost = (truth @ policy.costs.matrix())[rows, predicted]
    per = 1000 / len(p)
    missed = answered & (predicted != MELANOMA)
    return Effect(
        rows=len(p),
        referred=per * float((~answered).sum()),
        wrong=per * float((1 - truth[rows, predicted])[answered].sum()),
        melanomas=per * float(truth[:, MELANOMA].sum()),
        melanomas_missed=per * float(truth[missed, MELANOMA].sum()),
        cost=per * float(np.where(answered, cost, policy.costs.referral).sum()),
        by_rule={name: per * float((rule == i).sum()) for i, name in enumerate(RULES) if i},
    )


def curves(source: Source, active: Active, recent: NDArray[np.float64]) -> dict[str, Any]:
    """Risk against coverage: measured on validation rows, expected on the recent cases here."""
    p = active.probabilities(source.logits)
    known = tp.metrics.risk_coverage(tp.from_probabilities(p), source.labels)
    found = {"validation": _thinned(known.coverage, known.risk)}
    if len(recent):
        top = np.sort(active.probabilities(recent).max(axis=1))[::-1]
        n = np.arange(1, len(top) + 1)
        found["here"] = _thinned(n / len(top), np.cumsum(1 - top) / n)
    return found


def _thinned(coverage: Any, risk: Any) -> list[tuple[float, float]]:
    """A few points of a curve, its ends among them."""
    x, y = np.asarray(coverage), np.asarray(risk)
    keep = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
    return [(round(float(x[i]), 4), round(float(y[i]), 4)) for i in keep]

"""What a policy would do: measured on the validation rows, expected on the cases seen here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

import temperance as tp
from temperance_skin_lesion.classes import MALIGNANT, MELANOMA
from temperance_skin_lesion.decision import RULES, URGENCIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance_skin_lesion.assistant import Active, Judged
    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.model import Source
    from temperance_skin_lesion.monitor import Recent

__all__ = ["Effect", "changed", "curves", "expected", "measured", "over_maps", "share_interval"]

POINTS = 60


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens to 1,000 cases under a policy.

    ``malignant_missed`` are malignant lesions answered as benign ones. ``missed`` is the share of
    the melanomas that are answered as something else, ``risk`` the share of the answers that are
    wrong, both with 90 % intervals. ``lesions`` is how many lesions the rows show, as far as known:
    pictures of one lesion are not independent.
    """

    rows: int
    lesions: int
    referred: float
    wrong: float
    melanomas: float
    melanomas_missed: float
    malignant_missed: float
    missed: tuple[float, float, float]
    cost: float
    coverage: float
    risk: tuple[float, float, float]
    by_rule: dict[str, float]
    by_urgency: dict[str, float]


def measured(
    rows: Judged,
    labels: NDArray[np.int64],
    policy: Policy,
    lesions: NDArray[np.int64] | None = None,
) -> Effect:
    """Effect on rows whose diagnosis is known; intervals are by ``lesions``, where given."""
    truth = np.zeros_like(rows.p)
    truth[np.arange(len(labels)), labels] = 1
    return _effect(rows, truth, policy, lesions)


def expected(rows: Judged, policy: Policy) -> Effect:
    """Effect on unlabelled rows, if their probabilities are calibrated."""
    return _effect(rows, rows.p, policy)


def changed(old: Judged, new: Judged, policy: Policy) -> dict[str, Effect]:
    """What becomes of unlabelled rows before and after a new map, if the new one is right."""
    return {"before": _effect(old, new.p, policy), "after": _effect(new, new.p, policy)}


def share_interval(
    found: float, of: float, lesions: float | None = None, level: float = 0.9
) -> tuple[float, float, float]:
    """Share with its Clopper-Pearson interval; counts may be expected ones, and none is 0 to 1.

    Where the ``of`` pictures show fewer ``lesions``, the interval is that of so many lesions.
    """
    if of <= 0:
        return 0.0, 0.0, 1.0
    share, n, tail = found / of, of if lesions is None else lesions, (1 - level) / 2
    k = share * n
    low = beta.ppf(tail, k, n - k + 1) if found > 0 else 0.0
    high = beta.ppf(1 - tail, k + 1, n - k) if found < of else 1.0
    return share, float(low), float(high)


def over_maps(
    weights: NDArray[np.float64], values: NDArray[np.float64], count: float | None = None
) -> tuple[float, float, float]:
    """Return a share and its interval over maps; ``count`` lesions add their chance to it."""
    order = np.argsort(values, kind="stable")
    weight = weights[order] / weights.sum()
    low, high = np.interp([0.05, 0.95], np.cumsum(weight) - weight / 2, values[order])
    value, error = float(weight @ values[order]), 0.0
    if count is not None:
        smooth = (count * value + 1) / (count + 2)  # all of ten is not all of a thousand
        error = 1.645 * float(np.sqrt(smooth * (1 - smooth) / (count + 2)))
    down, up = (float(np.hypot(max(d, 0.0), error)) for d in (value - low, high - value))
    return value, max(value - down, 0.0), min(value + up, 1.0)


def _effect(
    judged: Judged,
    truth: NDArray[np.float64],
    policy: Policy,
    lesions: NDArray[np.int64] | None = None,
) -> Effect:
    p = judged.p
    different = np.arange(len(p)) if lesions is None else lesions
    found = judged.examined(policy)
    answered, predicted = found.answered, found.predicted
    rows = np.arange(len(p))
    cost = (truth @ policy.costs.matrix())[rows, predicted]
    per = 1000 / len(p)
    wrong = float((1 - truth[rows, predicted])[answered].sum())
    melanomas = float(truth[:, MELANOMA].sum())
    missed = float(truth[answered & (predicted != MELANOMA), MELANOMA].sum())
    benign = answered & ~np.isin(predicted, MALIGNANT)
    # Expected melanomas are a sum of probabilities, each of another lesion.
    n = melanomas if lesions is None else len(np.unique(lesions[truth[:, MELANOMA] > 0]))
    return Effect(
        rows=len(p),
        lesions=len(np.unique(different)),
        referred=per * float((~answered).sum()),
        wrong=per * wrong,
        melanomas=per * melanomas,
        melanomas_missed=per * missed,
        malignant_missed=per * float(truth[benign][:, MALIGNANT].sum()),
        missed=share_interval(missed, melanomas, n),
        cost=per * float(np.where(answered, cost, policy.costs.referral).sum()),
        coverage=float(answered.mean()),
        risk=share_interval(wrong, float(answered.sum()), len(np.unique(different[answered]))),
        by_rule={name: per * float(found.fired[:, i].sum()) for i, name in enumerate(RULES)},
        by_urgency={
            name: per * float((found.urgency == i).sum()) for i, name in enumerate(URGENCIES[:3])
        },
    )


def curves(source: Source, active: Active, recent: Recent | None) -> dict[str, Any]:
    """Risk against coverage: measured on validation rows, expected on the recent cases here.

    The curve of the cases here ends where only pictures are left that are never answered.
    """
    p = active.probabilities(source.logits)
    known = tp.metrics.risk_coverage(tp.from_probabilities(p), source.labels)
    found = {"validation": _thinned(known.coverage, known.risk)}
    if recent is not None and not recent.dark.all():
        logits = recent.logits[~recent.dark]
        top = np.sort(active.probabilities(logits).max(axis=1))[::-1]
        n = np.arange(1, len(top) + 1)
        found["here"] = _thinned(n / len(recent.ids), np.cumsum(1 - top) / n)
    return found


def _thinned(coverage: Any, risk: Any) -> list[tuple[float, float]]:
    """A few points of a curve, its ends among them."""
    x, y = np.asarray(coverage), np.asarray(risk)
    keep = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
    return [(round(float(x[i]), 4), round(float(y[i]), 4)) for i in keep]

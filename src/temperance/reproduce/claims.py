"""The paper's claims, each with a rule that the records decide.

A rule counts the cases in which the claim is true. "Holds" means in every case, "does not hold" in
fewer than half; what is between is said with its count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance.reproduce.lookup import Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from temperance.reproduce.record import Record

    Cases = Iterable[bool | np.bool_]

__all__ = ["CLAIMS", "Claim", "Verdict", "check"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said, where, and the rule that decides it. ``ours`` marks what the paper lacks."""

    item: str
    says: str
    rule: str
    cases: Callable[[Lookup], Cases]
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and the cases in which it is true."""

    claim: Claim
    true: int
    n: int

    @property
    def word(self) -> str:
        """Return the verdict in words."""
        if self.n == 0:
            return "not run"
        if self.true == self.n:
            return f"holds in all {self.n}"
        share = f"in {self.true} of {self.n}"
        return f"holds {share}" if 2 * self.true >= self.n else f"does not hold: {share}"


def check(records: Mapping[str, Iterable[Record]]) -> list[Verdict]:
    """Return the verdict on every claim, from the records of each item."""
    tables = {item: Lookup(some) for item, some in records.items()}
    out = []
    for claim in CLAIMS:
        cases = list(claim.cases(tables[claim.item])) if claim.item in tables else []
        out.append(Verdict(claim, int(sum(map(bool, cases))), len(cases)))
    return out


def _against(
    better: str, worse: str, metric: str, margin: float = 0.0
) -> Callable[[Lookup], Cases]:
    """Cases in which one method is below another, or above it by less than a margin."""

    def cases(t: Lookup) -> Cases:
        for group in t.groups():
            for x in t.degrees(group) or [None]:
                if x == 0 and t.degrees(group):
                    continue  # no shift, no noise: another claim
                a, b = t.value(group, better, metric, x), t.value(group, worse, metric, x)
                if not np.isnan([a, b]).any():
                    yield a < b + margin

    return cases


def _all_of(
    better: str, rivals: tuple[str, ...], metric: str, margin: float = 0.0
) -> Callable[[Lookup], Cases]:
    """Cases in which a method is below every rival that was measured."""

    def cases(t: Lookup) -> Cases:
        for group in t.groups():
            for x in t.degrees(group) or [None]:
                a = t.value(group, better, metric, x)
                others = np.array([t.value(group, m, metric, x) for m in rivals])
                if not np.isnan(a) and not np.isnan(others).all():
                    yield a <= np.nanmin(others) + margin

    return cases


def _accuracy_kept(t: Lookup) -> Cases:
    for group in t.groups():
        for method in ("TS", "UTS"):
            a, b = (t.value(group, m, "accuracy") for m in (method, "uncalibrated"))
            if not np.isnan([a, b]).any():
                yield bool(np.isclose(a, b, atol=1e-9))


def _printed(t: Lookup) -> Cases:
    return (r.agrees for r in t.records.values() if r.agrees is not None)


def _crosses(share: float) -> Callable[[Lookup], Cases]:
    """TS on labels of which a share is wrong is worse than no calibration."""

    def cases(t: Lookup) -> Cases:
        for group in t.groups():
            ts = t.value(group, "TS", "nll", share)
            if not np.isnan(ts):
                yield ts > t.value(group, "uncalibrated", "nll", 0.0)

    return cases


def _settled(method: str, low: float, high: float) -> Callable[[Lookup], Cases]:
    """T changes by less than a twentieth between two numbers of rows."""

    def cases(t: Lookup) -> Cases:
        for group in t.groups():
            a, b = (t.value(group, method, "temperature", x) for x in (low, high))
            if not np.isnan([a, b]).any():
                yield abs(np.log(b / a)) < 0.05

    return cases


def _steadier(method: str, than: str, metric: str) -> Callable[[Lookup], Cases]:
    """Its spread over draws is smaller, at up to 200 rows."""

    def cases(t: Lookup) -> Cases:
        for group in t.groups():
            for x in t.degrees(group):
                a, b = t.spread(group, method, metric, x), t.spread(group, than, metric, x)
                if x <= 200 and not np.isnan([a, b]).any():
                    yield a < b

    return cases


PAPER = ("uncalibrated", "UTS", "vector", "matrix")
OTHERS = ("uncalibrated", "TS", "ll-Dropout", "SVI", "ensemble")

CLAIMS = (
    Claim(
        "table-1",
        "UTS improves calibration for all dataset-models (5.1)",
        "NLL of UTS below uncalibrated, by row",
        _against("UTS", "uncalibrated", "nll"),
    ),
    Claim(
        "table-1",
        "TS calibrates better than all the other methods (5.1)",
        "NLL of TS lowest of the paper's five columns, by row",
        _all_of("TS", PAPER, "nll"),
    ),
    Claim(
        "table-1",
        "Vector scaling overfits (5.1)",
        "NLL of TS below vector scaling, by row",
        _against("TS", "vector", "nll"),
    ),
    Claim(
        "table-1",
        "Matrix scaling overfits (5.1)",
        "NLL of TS below matrix scaling, by row",
        _against("TS", "matrix", "nll"),
    ),
    Claim(
        "table-1",
        "Methods of the TS family keep the accuracy (C.1)",
        "accuracy of TS and of UTS equal to uncalibrated, by row",
        _accuracy_kept,
    ),
    Claim(
        "table-1",
        "Its own numbers, CIFAR-100 DenseNet-40 (C.1)",
        "difference to print within the tolerance, by cell",
        _printed,
    ),
    Claim(
        "figure-shift",
        "UTS is better than the uncalibrated model under shift (5.2)",
        "Brier of UTS below uncalibrated, by degree",
        _against("UTS", "uncalibrated", "brier"),
    ),
    Claim(
        "figure-shift",
        "UTS is better than TS under shift (5.2)",
        "Brier of UTS below TS, by degree",
        _against("UTS", "TS", "brier"),
    ),
    Claim(
        "figure-shift",
        "The gap between UTS and TS-Target is small (5.2)",
        "Brier of UTS less than .01 above TS-Target, by degree",
        _against("UTS", "TS-Target", "brier", 0.01),
    ),
    Claim(
        "figure-corruptions",
        "UTS is better than the uncalibrated model under shift (C.2)",
        "Brier of UTS below uncalibrated, by severity",
        _against("UTS", "uncalibrated", "brier"),
    ),
    Claim(
        "figure-corruptions",
        "UTS is better than TS under shift (C.2)",
        "Brier of UTS below TS, by severity",
        _against("UTS", "TS", "brier"),
    ),
    Claim(
        "figure-corruptions",
        "UTS follows TS-Target with a small gap (C.2)",
        "Brier of UTS less than .01 above TS-Target, by severity",
        _against("UTS", "TS-Target", "brier", 0.01),
    ),
    Claim(
        "probabilistic",
        "UTS beats every probabilistic method (5.2)",
        "Brier of UTS lowest but for TS-Target, by setting",
        _all_of("UTS", OTHERS, "brier"),
    ),
    Claim(
        "probabilistic",
        "TS-Target is the best calibrated of all (5.2)",
        "Brier of TS-Target lowest of the paper's methods, by setting",
        _all_of("TS-Target", (*OTHERS, "UTS"), "brier"),
    ),
    Claim(
        "label-noise",
        "Even a small percentage of noise: TS cannot calibrate (5.3)",
        "NLL of TS at 10 % noise above uncalibrated, by network",
        _crosses(0.1),
    ),
    Claim(
        "label-noise",
        "TS is extremely sensitive to the noise of labels (5.3)",
        "NLL of TS at 50 % noise above uncalibrated, by network",
        _crosses(0.5),
    ),
    Claim(
        "label-noise",
        "ATS is much more robust to noise than TS (supplement)",
        "NLL of ATS below TS, by network and share of noise",
        _against("ATS", "TS", "nll"),
    ),
    Claim(
        "sample-size",
        "At 500 rows UTS has reached its optimum (C.4)",
        "T of UTS at 2,000 rows within 5 % of 500, by network",
        _settled("UTS", 500, 2_000),
    ),
    Claim(
        "sample-size",
        "More rows do not change UTS (C.4)",
        "T of UTS at 10,000 rows within 5 % of 2,000, by network",
        _settled("UTS", 2_000, 10_000),
    ),
    Claim(
        "sample-size",
        "ATS is more stable than TS for few rows (supplement)",
        "spread of NLL over draws below that of TS, by network and number of rows up to 200",
        _steadier("ATS", "TS", "nll"),
    ),
    Claim(
        "sample-size",
        "Bags of 2,000 rows: T does not depend on n",
        "T of UTS in bags at 10,000 rows within 5 % of 2,000, by network",
        _settled("UTS in bags", 2_000, 10_000),
        ours=True,
    ),
    Claim(
        "table-1",
        "Prior-matched scaling without labels improves every network",
        "NLL of prior-matched, T only, below uncalibrated, by row",
        _against("prior-matched, T only", "uncalibrated", "nll"),
        ours=True,
    ),
    Claim(
        "table-1",
        "A penalty on matrix scaling cures its overfitting",
        "NLL of penalised matrix below matrix scaling, by row",
        _against("penalised matrix", "matrix", "nll"),
        ours=True,
    ),
    Claim(
        "figure-shift",
        "Prior-matched scaling is better than UTS under shift",
        "Brier of prior-matched below UTS, by degree",
        _against("prior-matched", "UTS", "brier"),
        ours=True,
    ),
    Claim(
        "figure-corruptions",
        "Prior-matched scaling is better than UTS under shift",
        "Brier of prior-matched below UTS, by severity",
        _against("prior-matched", "UTS", "brier"),
        ours=True,
    ),
    Claim(
        "figure-corruptions",
        "Prior-matched scaling beats the temperature of target labels",
        "Brier of prior-matched below TS-Target, by severity",
        _against("prior-matched", "TS-Target", "brier"),
        ours=True,
    ),
    Claim(
        "combination",
        "Prior-matched scaling improves an ensemble under shift",
        "Brier of ensemble + prior-matched below ensemble, by setting",
        _against("ensemble + prior-matched", "ensemble", "brier"),
        ours=True,
    ),
    Claim(
        "combination",
        "UTS improves an ensemble under shift",
        "Brier of ensemble + UTS below ensemble, by setting",
        _against("ensemble + UTS", "ensemble", "brier"),
        ours=True,
    ),
)

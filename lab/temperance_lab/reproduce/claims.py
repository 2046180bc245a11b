"""The paper's claims, each with a rule that the records decide.

A rule counts the cases in which the claim is true. "Holds" means in every given, "does not hold" in
fewer than half, "partly" what is between; a claim about some cases names how many. Claims of the
paper are counted on its own rows, claims of ours on the networks beside them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from temperance_lab.reproduce.paper_rows import BESIDE
from temperance_lab.reproduce.probabilistic import BASELINES, EQUAL_ACCURACY
from temperance_lab.reproduce.probabilistic import PAPER as SETTINGS_OF_PAPER
from temperance_lab.reproduce.record_table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from temperance_lab.reproduce.record import Record

    Cases = Iterable[bool | np.bool_]

__all__ = ["CLAIMS", "Claim", "Verdict", "check"]

NOTHING = "uncalibrated"
SMALL = 0.01  # gap of two Brier scores
NAME = {"nll": "NLL", "brier": "Brier", "ece": "ECE"}
# What decides a claim about an experiment, and what is one case.
SCORE = {"table-1": "nll", "label-noise": "nll"} | dict.fromkeys(
    ("figure-shift", "figure-corruptions", "probabilistic", "combination"), "brier"
)
CASE = {
    "table-1": "row",
    "label-noise": "network and share of noise",
    "figure-shift": "degree",
    "figure-corruptions": "severity",
    "probabilistic": "setting",
    "combination": "setting",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said, where, and the rule that decides it. ``ours`` marks what the paper lacks.

    A claim about some cases, not about all, names the ``least`` number of them; one about some
    groups names these groups in ``among``.
    """

    experiment: str
    says: str
    rule: str
    cases: Callable[[RecordTable], Cases]
    ours: bool = False
    least: int = 0
    among: tuple[str, ...] = ()


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
        if self.claim.least:
            held = self.true >= self.claim.least
            return f"holds: {share}" if held else f"does not hold: {share}"
        return f"partly: {share}" if 2 * self.true >= self.n else f"does not hold: {share}"


def check(records: Mapping[str, Iterable[Record]]) -> list[Verdict]:
    """Return the verdict on every claim, from the records of each experiment."""
    every = {name: RecordTable(some) for name, some in records.items()}
    paper = {name: t.only(g for g in t.groups() if g not in BESIDE) for name, t in every.items()}
    out = []
    for claim in CLAIMS:
        table = (every if claim.ours else paper).get(claim.experiment)
        table = table.only(claim.among) if table and claim.among else table
        cases = list(claim.cases(table)) if table else []
        out.append(Verdict(claim, int(sum(map(bool, cases))), len(cases)))
    return out


def _below(
    experiment: str,
    says: str,
    better: str,
    worse: str,
    *,
    metric: str = "",
    margin: float = 0.0,
    least: int = 0,
    ours: bool = False,
) -> Claim:
    """One method is below another, or above it by less than a margin, in the experiment's score."""
    metric = metric or SCORE[experiment]

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group) or [None]:
                if x == 0:
                    continue  # no shift, no noise: another claim
                a, b = t.value(group, better, metric, x), t.value(group, worse, metric, x)
                if not np.isnan([a, b]).any():
                    yield a < b + margin

    than = f"less than {margin:g} above" if margin else "below"
    rule = f"{NAME[metric]} of {better} {than} {worse}, by {CASE[experiment]}"
    return Claim(experiment, says, rule, cases, ours, least)


def _lowest(
    experiment: str,
    says: str,
    best: str,
    rivals: tuple[str, ...],
    *,
    among: tuple[str, ...] = (),
    ours: bool = False,
) -> Claim:
    """A method is below every rival that was measured."""
    metric = SCORE[experiment]

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group) or [None]:
                a = t.value(group, best, metric, x)
                others = np.array([t.value(group, m, metric, x) for m in rivals])
                if not np.isnan(a) and not np.isnan(others).all():
                    yield a <= np.nanmin(others)

    of = " of the paper" if among else ""
    rule = f"{NAME[metric]} of {best} lowest of {', '.join((best, *rivals))}, by {CASE[experiment]}"
    return Claim(experiment, says, f"{rule}{of}", cases, ours, among=among)


def _ordered(experiment: str, says: str, methods: tuple[str, ...], *, ours: bool = False) -> Claim:
    """Each method is below the next one."""
    metric = SCORE[experiment]

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group):
                values = np.array([t.value(group, m, metric, x) for m in methods])
                if x > 0 and not np.isnan(values).any():
                    yield (np.diff(values) > 0).all()

    rule = f"{NAME[metric]} of {' < '.join(methods)}, by {CASE[experiment]}"
    return Claim(experiment, says, rule, cases, ours)


def _at_equal_accuracy(says: str, best: str, *, ours: bool = False) -> Claim:
    """A method on one network is below every probabilistic method that is as accurate."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group):
                for rival in BASELINES:
                    a, b, acc, other = (
                        t.value(group, m, metric, x)
                        for metric in ("brier", "accuracy")
                        for m in (best, rival)
                    )
                    if abs(acc - other) <= EQUAL_ACCURACY:
                        yield a < b

    rule = (
        f"Brier of {best} below {', '.join(BASELINES)}, by setting and method whose accuracies are "
        f"within {EQUAL_ACCURACY:g} points"
    )
    return Claim("probabilistic", says, rule, cases, ours)


def _raises_accuracy(says: str, *methods: str) -> Claim:
    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            before = t.value(group, "uncalibrated", "accuracy")
            after = [t.value(group, m, "accuracy") for m in methods]
            if not np.isnan([before, *after]).any():
                yield max(after) > before

    rule = f"accuracy of {' or of '.join(methods)} above uncalibrated, by row"
    return Claim("table-1", says, rule, cases, least=2)


def _keeps_accuracy(says: str, *methods: str) -> Claim:
    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for method in methods:
                a, b = (t.value(group, m, "accuracy") for m in (method, "uncalibrated"))
                if not np.isnan([a, b]).any():
                    yield bool(np.isclose(a, b, atol=1e-9))

    return Claim(
        "table-1", says, f"accuracy of {' and of '.join(methods)} unchanged, by row", cases
    )


def _printed(says: str, *methods: str, ours: bool = False) -> Claim:
    """Cells of the authors' own logits are as printed."""

    def cases(t: RecordTable) -> Cases:
        found = (r for r in t.records.values() if r.method in methods)
        return (r.agrees for r in found if r.agrees is not None)

    rule = f"{' and '.join(methods)} on the authors' logits within the tolerance of print, by cell"
    return Claim("table-1", says, rule, cases, ours)


def _noisy(says: str, share: float) -> Claim:
    """TS on labels of which a share is wrong is worse than no calibration."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            ts = t.value(group, "TS", "nll", share)
            if not np.isnan(ts):
                yield ts > t.value(group, "uncalibrated", "nll", 0.0)

    rule = f"NLL of TS at {100 * share:.0f} % noise above uncalibrated, by network"
    return Claim("label-noise", says, rule, cases)


def _unmoved(says: str, method: str, than: str, share: float) -> Claim:
    """Wrong labels change the NLL of a method by less."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            a, b = (
                abs(t.value(group, m, "nll", share) - t.value(group, m, "nll", 0.0))
                for m in (method, than)
            )
            if not np.isnan([a, b]).any():
                yield a < b

    rule = (
        f"change of NLL by {100 * share:.0f} % noise smaller for {method} than {than}, by network"
    )
    return Claim("label-noise", says, rule, cases)


def _settled(says: str, method: str, low: int, high: int, *, ours: bool = False) -> Claim:
    """T changes by less than a twentieth between two numbers of rows."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            a, b = (t.value(group, method, "temperature", x) for x in (low, high))
            if not np.isnan([a, b]).any():
                yield abs(np.log(b / a)) < 0.05

    rule = f"T of {method} at {high:,} rows within 5 % of {low:,}, by network"
    return Claim("sample-size", says, rule, cases, ours)


def _steadier(says: str, method: str, than: str, most: int, *, relative: bool) -> Claim:
    """Its spread over draws is smaller, at few rows: that of the NLL, or of T over its mean."""
    metric = "temperature" if relative else "nll"

    def spread(t: RecordTable, group: str, m: str, x: float) -> float:
        return t.spread(group, m, metric, x) / (t.value(group, m, metric, x) if relative else 1)

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group):
                a, b = (spread(t, group, m, x) for m in (method, than))
                if x <= most and not np.isnan([a, b]).any():
                    yield a < b

    of = "T, over its mean," if relative else "NLL"
    rule = f"spread of {of} of {method} below {than}, by network and number of rows up to {most}"
    return Claim("sample-size", says, rule, cases)


def _most_stable(says: str, method: str, rivals: tuple[str, ...], most: int) -> Claim:
    """Under shift, its Brier score varies least over draws of few rows."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            for x in t.degrees(group):
                a, *others = (t.spread(group, m, "brier", x) for m in (method, *rivals))
                record = t.get(group, method, "brier", x)
                if x <= most and record and record.answered and not np.isnan([a, *others]).any():
                    yield a < min(others)

    rule = f"spread of Brier of {method} below {' and '.join(rivals)}, by shift, up to {most} rows"
    return Claim("sample-size", says, rule, cases)


def _stable(says: str, method: str, low: int, high: int) -> Claim:
    """Under shift, its Brier score at few rows is hardly above that at many."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            few, many = (t.value(group, method, "brier", x) for x in (low, high))
            shifted = t.get(group, "TS-Target", "brier", high)
            if shifted and not np.isnan([few, many]).any():
                yield few < 1.05 * many

    rule = f"Brier of {method} at {low} rows less than 5 % above that at {high:,}, by shift"
    return Claim("sample-size", says, rule, cases)


def _same_order(says: str, metric: str) -> Claim:
    """UTS costs less than ten times as much as the fit of the NLL."""

    def cases(t: RecordTable) -> Cases:
        for group in t.groups():
            yield t.value(group, "UTS", metric) < 10 * t.value(group, "TS", metric)

    return Claim("cost", says, f"{metric} of UTS less than ten times those of TS, by row", cases)


PAPER = ("uncalibrated", "UTS", "vector", "matrix")
OTHERS = ("uncalibrated", "TS", *BASELINES)
ORDER = ("TS-Target", "prior-matched, T only", "UTS", "TS", "uncalibrated")
IN_ORDER = "TS-Target, prior-matched, UTS, TS and uncalibrated come in this order"
UNDER_SHIFT = "Prior-matched scaling is better than UTS under shift"

CLAIMS = (
    _below("table-1", "UTS improves calibration for all dataset-models (5.1)", "UTS", NOTHING),
    _below(
        "table-1", "The same, with the prior of its code (5.1)", "UTS, mix of the draw", NOTHING
    ),
    _lowest("table-1", "TS calibrates better than all the other methods (5.1)", "TS", PAPER),
    _below("table-1", "Vector scaling overfits (5.1)", "TS", "vector"),
    _below("table-1", "Matrix scaling overfits (5.1)", "TS", "matrix"),
    _below("table-1", "UTS improves ECE (5.1, C.1)", "UTS", NOTHING, metric="ece"),
    _below("table-1", "UTS improves the Brier score (5.1, C.1)", "UTS", NOTHING, metric="brier"),
    _below(
        "table-1",
        "UTS is better than TS in ECE, in two rows (C.1)",
        "UTS",
        "TS",
        metric="ece",
        least=2,
    ),
    _raises_accuracy(
        "Vector or matrix scaling raises the accuracy, in two rows (C.1)", "vector", "matrix"
    ),
    _same_order("UTS takes the order of time of the NLL (1)", "seconds"),
    _same_order("UTS takes the order of memory of the NLL (1)", "megabytes"),
    _keeps_accuracy("Methods of the TS family keep the accuracy (C.1)", "TS", "UTS"),
    _printed("Its own numbers, without and with TS (C.1)", NOTHING, "TS"),
    _printed("Its own numbers, UTS with the prior of its code (C.1)", "UTS, mix of the draw"),
    _printed("Its own numbers, UTS with the prior of its text (C.1)", "UTS"),
    _printed("Its own numbers, vector and matrix (C.1)", "vector", "matrix"),
    _below(
        "figure-shift",
        "UTS is better than the uncalibrated model under shift (5.2)",
        "UTS",
        NOTHING,
    ),
    _below("figure-shift", "UTS is better than TS under shift (5.2)", "UTS", "TS"),
    _below(
        "figure-shift",
        "The gap between UTS and TS-Target is small (5.2)",
        "UTS",
        "TS-Target",
        margin=SMALL,
    ),
    _below(
        "figure-corruptions",
        "UTS is better than the uncalibrated model under shift (C.2)",
        "UTS",
        NOTHING,
    ),
    _below("figure-corruptions", "UTS is better than TS under shift (C.2)", "UTS", "TS"),
    _below(
        "figure-corruptions",
        "UTS follows TS-Target with a small gap (C.2)",
        "UTS",
        "TS-Target",
        margin=SMALL,
    ),
    _lowest(
        "probabilistic",
        "UTS beats every probabilistic method (5.2)",
        "UTS",
        tuple(BASELINES),
        among=tuple(SETTINGS_OF_PAPER),
    ),
    _at_equal_accuracy("The same, at equal accuracies (5.2)", "UTS"),
    _lowest(
        "probabilistic",
        "TS-Target is the best calibrated of all (5.2)",
        "TS-Target",
        (*OTHERS, "UTS"),
        among=tuple(SETTINGS_OF_PAPER),
    ),
    _noisy("Even a small percentage of noise: TS cannot calibrate (5.3)", 0.1),
    _noisy("TS is extremely sensitive to the noise of labels (5.3)", 0.5),
    _unmoved("ATS is much more robust to noise than TS (supplement)", "ATS", "TS", 0.5),
    _below("label-noise", "ATS calibrates better than TS under noise (supplement)", "ATS", "TS"),
    _settled("At 500 rows UTS has reached its optimum (C.4)", "UTS", 500, 2_000),
    _settled("More rows do not change UTS (C.4)", "UTS", 2_000, 10_000),
    _stable("UTS is stable from 20 % to 2.5 % of the test rows (5.2, C.4)", "UTS", 200, 2_000),
    _most_stable("TS-Target is the most stable at few rows (C.4)", "TS-Target", ("TS", "UTS"), 50),
    _steadier(
        "ATS is more stable than TS for few rows (supplement)", "ATS", "TS", 200, relative=False
    ),
    _steadier("The same, its temperature (supplement)", "ATS", "TS", 200, relative=True),
    _printed(
        "A small penalty on matrix scaling gives what the paper prints",
        "matrix, penalty 0.005",
        ours=True,
    ),
    _settled("Bags of 2,000 rows: T does not depend on n", "UTS in bags", 2_000, 10_000, ours=True),
    _below(
        "table-1",
        "Prior-matched scaling without labels improves every network",
        "prior-matched, T only",
        NOTHING,
        ours=True,
    ),
    _below(
        "table-1",
        "Without shift and source, prior-matched scaling is better than UTS",
        "prior-matched, T only",
        "UTS",
        ours=True,
    ),
    _below(
        "table-1",
        "A penalty makes matrix scaling better than TS",
        "penalised matrix",
        "TS",
        ours=True,
    ),
    _ordered("figure-shift", IN_ORDER, ORDER, ours=True),
    _ordered("figure-corruptions", IN_ORDER, ORDER, ours=True),
    _below("figure-shift", UNDER_SHIFT, "prior-matched", "UTS", ours=True),
    _below("figure-corruptions", UNDER_SHIFT, "prior-matched", "UTS", ours=True),
    _below(
        "figure-corruptions",
        "Prior-matched scaling beats the temperature of target labels",
        "prior-matched",
        "TS-Target",
        ours=True,
    ),
    _lowest(
        "probabilistic",
        "Prior-matched scaling beats every method without labels of the target",
        "prior-matched",
        (*OTHERS, "UTS"),
        ours=True,
    ),
    *(
        _lowest(
            "probabilistic",
            f"UTS beats {name} over the last layer",
            "UTS",
            (f"ll-{name}",),
            ours=True,
        )
        for name in ("Laplace", "MCMC")
    ),
    _at_equal_accuracy(
        "Prior-matched scaling, T only, beats probabilistic methods at equal accuracies",
        "prior-matched, T only",
        ours=True,
    ),
    *(
        _below(
            "combination",
            f"{name} improves {what} under shift",
            f"{baseline} + {method}",
            baseline,
            ours=True,
        )
        for baseline, what in (("ensemble", "an ensemble"), ("ll-Dropout", "ll-Dropout"))
        for method, name in (("UTS", "UTS"), ("prior-matched", "Prior-matched scaling"))
    ),
)

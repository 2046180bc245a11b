"""Findings: what a reader should know about the data, one check for each code.

``findings.toml`` lists the codes: severity, title and advice, with the numbers of a finding in
braces. A finding of severity "refuse" takes the map back.

How to add one: a paragraph there, a check that yields ``found("TPnnn", number=...)``, the check in
`CHECKS`. The manual's page of codes is made from `CODES`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from temperance._core.stats import Z90
from temperance.calibrate.accuracy import Source, log_odds, share_similar
from temperance.calibrate.constants import POLICY
from temperance.calibrate.problem import Problem, row_keys, thin
from temperance.calibrate.result import Finding
from temperance.calibrate.uncertainty import Plausible
from temperance.calibrate.verdict import Judgement

UNRELATED = 3.0  # standard errors above chance at which labels belong to their logits
STRAY_PREDICTIONS = 0.02  # share of predictions of excluded classes above which a warning is given
SCALE_RATIO = 1.5  # factor of the logit scale from which a finding is given
DISSIMILAR_ROWS = 0.2  # share of rows less similar than 999 in 1,000 source rows
SHARED_ROWS = 0.1  # share of target rows that are also in the source
SURE = 0.995  # probability of a gain from which no doubt is told: it would be shown as 0%
ESTIMATES_APART = 2.0  # log-odds between two estimates from which a finding is given
SEVERITY = ("refuse", "warn", "note")


class Code(NamedTuple):
    """One kind of finding."""

    severity: str
    title: str
    advice: str


_TABLE = files("temperance.calibrate").joinpath("findings.toml").read_text("utf-8")
CODES = {code: Code(**texts) for code, texts in tomllib.loads(_TABLE).items()}


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the checks look at."""

    problem: Problem
    source: Source | None
    plausible: Plausible | None = None
    judgement: Judgement | None = None
    before_labels: Judgement | None = None


def found(code: str, severity: str | None = None, **numbers: Any) -> Finding:
    """Return a finding with its numbers filled in."""
    kind = CODES[code]
    title, advice = kind.title.format(**numbers), kind.advice.format(**numbers)
    return Finding(code, title, numbers, advice, severity or kind.severity)


def find(evidence: Evidence, *, fatal: bool) -> list[Finding]:
    """Return the findings, most serious first: those that refuse any map, or all others."""
    checks = FATAL if fatal else CHECKS
    listed = [finding for check in checks for finding in check(evidence)]
    return sorted(listed, key=lambda one: SEVERITY.index(one.severity))


# ------------------------------------------------------------------------ reasons to refuse


def _too_few_rows(e: Evidence) -> Iterator[Finding]:
    if e.problem.n < POLICY.least_rows:
        yield found("TP301", rows=e.problem.n, least=POLICY.least_rows, enough=POLICY.few_rows)


def _one_class(e: Evidence) -> Iterator[Finding]:
    mix = e.problem.predicted_mix
    if np.count_nonzero(mix) < 2:
        yield found("TP101", class_name=_name(e.problem, int(mix.argmax())))


def _nothing_known(e: Evidence) -> Iterator[Finding]:
    p = e.problem
    if p.prior is None and p.source is None and p.labelled is None:
        yield found("TP406")


def _labels_of_other_rows(e: Evidence) -> Iterator[Finding]:
    """Yield source labels that might as well be those of other rows, by a permutation test.

    Over all orders of the labels, Σ_i p_{i, y_i} has mean n Σ_k π_k mean p_k and the variance of
    Hoeffding, "A combinatorial central limit theorem", 1951.
    """
    if e.source is None:
        return
    some = thin(e.source.rows)
    rows, labels = e.source.rows.take(some), e.source.labels[some]
    n, p = len(rows), rows.probabilities(rows.scale or 1.0)
    mix = np.bincount(labels, minlength=rows.n_classes) / n
    mean, of_row = p.mean(axis=0), p @ mix
    p -= mean
    p += (float(mean @ mix) - of_row)[:, None]
    error = float(np.sqrt(n / max(n - 1, 1) * np.einsum("ij,ij,j->", p, p, mix)))
    above = float(np.sum(p[np.arange(n), labels]))
    if above <= UNRELATED * error:
        yield found(
            "TP503",
            accuracy=float((e.source.rows.predicted == e.source.labels).mean()),
            standard_errors=above / error if error > 0 else 0.0,
        )


# ----------------------------------------------------------------------------- the class mix


def _mix_unstated(e: Evidence) -> Iterator[Finding]:
    if e.problem.prior is None and e.problem.source is not None:
        yield found("TP105")


def _mix_differs(e: Evidence) -> Iterator[Finding]:
    mix = None if e.plausible is None or e.problem.prior is None else e.plausible.mix
    if mix is None or mix.shrinkage == 0:
        return
    yield found("TP104", distance=mix.distance, followed=mix.shrinkage)
    if mix.probability < POLICY.doubted_mix:
        yield found("TP106", probability=mix.probability, confidence_rise=mix.confidence_rise)


def _excluded_but_predicted(e: Evidence) -> Iterator[Finding]:
    p = e.problem
    if p.prior is None:
        return
    none = p.prior.value <= POLICY.excluded
    share = float(p.predicted_mix[none].sum())
    if share > STRAY_PREDICTIONS:
        worst = int(np.where(none, p.predicted_mix, -1).argmax())
        yield found("TP103", share=share, class_name=_name(p, worst))


def _expected_but_absent(e: Evidence) -> Iterator[Finding]:
    p = e.problem
    if p.prior is None:
        return
    expected = p.prior.value * len(p.target)
    missing = np.flatnonzero((p.predicted_mix == 0) & (expected >= POLICY.rows_per_class))
    if len(missing):
        names = [_name(p, int(k)) for k in missing]
        yield found("TP102", listed=", ".join(map(repr, names[:5])), classes=names)


# --------------------------------------------------------------------------------- the shift


def _no_source(e: Evidence) -> Iterator[Finding]:
    if e.source is None:
        yield found("TP206")


def _rows_unlike_source(e: Evidence) -> Iterator[Finding]:
    if e.source is None or e.plausible is None or not e.plausible.estimates:
        return
    estimates = e.plausible.estimates[0]
    if not 1 / SCALE_RATIO < estimates.scale_ratio < SCALE_RATIO:
        yield found("TP202", factor=estimates.scale_ratio)
    if e.problem.n_classes == 2:
        return
    mix = None if e.problem.prior is None else e.plausible.mix
    weight = e.source.weights(None if mix is None else mix.value)
    error = e.source.error(weight)
    home, here = 1 - error, share_similar(e.problem.sample, e.source, weight, error)
    noise = home * (1 - home) * (1 / len(e.source.labels) + 1 / len(e.problem.sample))
    if home - here > 2 * np.sqrt(noise):
        yield found("TP201", target=here, source=home)
    similarity = e.source.similarity_of(e.problem.sample)
    share = float(np.mean(similarity < np.quantile(e.source.similarity, 0.001)))
    if share > DISSIMILAR_ROWS:
        yield found("TP205", share=share)


# ------------------------------------------------------------------------- the amount of data


def _few_rows(e: Evidence) -> Iterator[Finding]:
    if POLICY.least_rows <= e.problem.n < POLICY.few_rows:
        yield found("TP302", rows=e.problem.n, enough=POLICY.few_rows)
    if e.source is not None and len(e.source.labels) < POLICY.few_rows:
        yield found("TP304", rows=len(e.source.labels))


def _rare_classes(e: Evidence) -> Iterator[Finding]:
    p = e.problem
    if p.prior is None:
        return
    expected = p.n * p.prior.value
    rare = int(np.sum((p.prior.value > POLICY.excluded) & (expected < POLICY.rows_per_class)))
    if rare:
        yield found(
            "TP303",
            classes=rare,
            n_classes=p.n_classes,
            least=POLICY.rows_per_class,
            rows=p.n,
        )


# ------------------------------------------------------------------- the estimates and labels


def _estimates_disagree(e: Evidence) -> Iterator[Finding]:
    if e.plausible is None or e.problem.labelled is not None:
        return
    for estimates in e.plausible.estimates[:1]:
        values = list(estimates.values.values())
        low, high = min(values), max(values)
        if log_odds(high) - log_odds(low) > ESTIMATES_APART:
            yield found("TP401", low=low, high=high, estimates=estimates.values)


def _may_be_worse(e: Evidence) -> Iterator[Finding]:
    judged = e.judgement
    if judged is not None and judged.verdict == "improved" and judged.probability < SURE:
        yield found("TP404", share=1 - judged.probability, gain_low=judged.gain.low)


def _labels_used(e: Evidence) -> Iterator[Finding]:
    few, before = e.problem.labelled, e.before_labels
    if few is None:
        return
    yield found("TP408", rows=len(few.labels))
    if before is None:
        return
    right = float((few.logits.argmax(axis=1) == few.labels).mean())
    low, high = before.accuracy_before.low, before.accuracy_before.high
    expected = before.accuracy_before.value
    sampling = np.sqrt(expected * (1 - expected) / len(few.labels))
    width = np.hypot((high - low) / 2, Z90 * sampling)
    if abs(right - expected) > 1.5 * width:
        yield found("TP407", measured=right, rows=len(few.labels), low=low, high=high)


# ------------------------------------------------------------------------- the rows themselves


def _source_all_right(e: Evidence) -> Iterator[Finding]:
    if e.source is not None and (e.source.rows.predicted == e.source.labels).all():
        yield found("TP502", source_rows=len(e.source.labels))


def _rows_shared(e: Evidence) -> Iterator[Finding]:
    """Yield target rows that are also source rows.

    Neighbours and trees vote, half precision and one-logit heads know few numbers: different rows
    then have the same logits. As many of the target do as source rows find a second one like them.
    """
    if e.problem.source is None:
        return
    own = row_keys(e.problem.source.logits)
    here = row_keys(e.problem.raw[:, e.problem.active])
    _, times = np.unique(own, return_counts=True)
    share = float(np.isin(here, own).mean())
    chance = float(times[times > 1].sum()) / len(own)
    error = np.sqrt((chance + 1 / len(own)) / len(here))
    if share - chance > UNRELATED * error:
        severity = "warn" if share - chance > SHARED_ROWS else "note"
        yield found("TP501", severity, share=share - chance, by_chance=chance)


def _looks_multi_label(e: Evidence) -> Iterator[Finding]:
    z = e.problem.raw
    inside = bool((z >= 0).all() and (z <= 1).all())
    if inside and float(np.ptp(z)) > 0.5:
        yield found("TP504", sums_from=float(z.sum(axis=1).min()), to=float(z.sum(axis=1).max()))


def _looks_like_noise(e: Evidence) -> Iterator[Finding]:
    """Yield columns that are independent of each other: a trained model's logits never are.

    Independent columns of n rows have squared correlations of mean 1/n once the row mean, which
    ties them together, is given back. Labels of a source tell more: see TP503.
    """
    if e.source is not None:
        return
    k = len(e.problem.active)
    z = e.problem.raw[:2_000, e.problem.active[:200]].astype(np.float64)
    n = len(z)
    largest = float(np.abs(z).max())
    if k < 5 or n < 100 or not 0 < largest < np.inf:
        return
    z /= largest  # so that no square overflows
    scale = z.std(axis=0)
    if (scale == 0).any():
        return
    u = (z - z.mean(axis=0)) / scale
    squares = (u.T @ u / n) ** 2
    m = squares.shape[0]
    mean = (squares.sum() - m) / (m * (m - 1))
    if mean < 1.5 / n:
        yield found("TP505", mean_squared_correlation=float(mean), by_chance=1 / n)


def _name(problem: Problem, place: int) -> str:
    return problem.names[int(problem.active[place])]


FATAL = (_too_few_rows, _one_class, _nothing_known, _labels_of_other_rows)
CHECKS = (
    _looks_multi_label,  # first: nothing else that is said of such columns is true
    _mix_unstated,
    _mix_differs,
    _excluded_but_predicted,
    _expected_but_absent,
    _no_source,
    _rows_unlike_source,
    _few_rows,
    _rare_classes,
    _estimates_disagree,
    _may_be_worse,
    _labels_used,
    _source_all_right,
    _rows_shared,
    _looks_like_noise,
)

"""`calibrate`: from logits, and whatever else is known, to a map with an honest verdict.

The modules in the order in which they work: `problem` reads what was given, `accuracy` estimates,
`solve` finds the map of an accuracy and a class mix, `uncertainty` gathers the maps that
may be right, `labels` lets labelled rows choose among them, `verdict` judges, `findings` explains,
`result` holds the answer. `constants` has every number that decides something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from temperance._core.checks import InputError, NotIdentified
from temperance._core.stats import Interval
from temperance.calibrate.accuracy import Source
from temperance.calibrate.findings import Evidence, find, found
from temperance.calibrate.labels import learn, nothing_known
from temperance.calibrate.problem import Problem, read_problem, restrict
from temperance.calibrate.result import INTERVALS, Calibration, Finding, describe
from temperance.calibrate.solve import LARGEST_BIAS, BiasAt
from temperance.calibrate.uncertainty import Plausible, allow_class_mix, plausible_maps
from temperance.calibrate.verdict import judge
from temperance.data.given import LabelledSample, read_source
from temperance.data.types import FeaturesLike, LabelsLike, LogitsLike, PriorLike, SourceLike
from temperance.maps import IDENTITY, BiasedTemperature, Map, Temperature

__all__ = ["Calibration", "Finding", "calibrate"]

MOST_SIMULATED = 4096  # labels; beyond, the width of an interval falls as one over their root


def calibrate(
    target_logits: LogitsLike,
    prior: PriorLike | None = None,
    source: SourceLike | None = None,
    *,
    labelled: SourceLike | None = None,
    features: FeaturesLike | None = None,
    classes: Sequence[Any] | None = None,
    bias: bool = True,
    seed: int | np.random.Generator = 0,
) -> Calibration:
    """Calibrate a model on shifted data, and say how far to trust the result.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
        Scores before the softmax on the shifted data; no labels.
    prior : array of shape (K,) or (K, 2), dict or pandas Series by class, or `about`, optional
        The class mix of the target: probabilities, a range (low, high) for each class, or
        ``temperance.about(q, rows=...)``. Without it few predictions change: the
        class mix of the source is one possibility among others.
    source : pair (logits, labels), optional
        Labelled rows from before the shift.
    labelled : pair (logits, labels), optional
        A few labelled rows of the target: random ones, or those of `Calibration.label_next`. They
        may be part of the target or not.
    features : pair (target features, source features), optional
        The layer before the logits, a row for each row of logits, as
        ``temperance.torch.collect_logits(features=True)`` returns it. One more estimate of the
        accuracy, which counts where no class mix is known.
    classes : sequence of K names, optional
        In the order of the columns. A prior may go by them, and labels in words are looked up.
    bias : bool
        Whether the map may move predictions.
    seed : int or Generator
        Seed for drawing rows, used where there are more than are read. Stored in the result if it
        is an int.

    Returns
    -------
    Calibration
        With ``verdict``, ``map``, ``findings`` and estimates with 90 % intervals.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y, y_old = rng.integers(5, size=4000), rng.integers(5, size=2000)
    >>> z_old = 9 * (2 * np.eye(5)[y_old] + rng.normal(size=(2000, 5)))
    >>> z = 9 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # shifted to class 0
    >>> tp.calibrate(z, prior=np.full(5, 0.2), source=(z_old, y_old)).verdict
    'improved'
    """
    problem = read_problem(
        target_logits, prior, source, labelled, classes, features=features, bias=bias, seed=seed
    )
    return solve_problem(problem)


def recalibrate(problem: Problem, logits: LogitsLike, labels: LabelsLike) -> Calibration:
    """Return the calibration of a problem with more labelled rows; see `Calibration.update`."""
    few = read_source((logits, labels), len(problem.names), problem.names, name="labelled")
    absent = np.setdiff1d(few.labels, problem.active)
    if len(absent):
        raise InputError(
            f"labels must be of classes that can occur in the target. Got "
            f"{problem.names[int(absent[0])]!r}, which its prior or its logits exclude. Call "
            f"temperance.calibrate again with labelled=(logits, labels)."
        )
    return solve_problem(problem.with_labels(restrict(few, problem.active)))


def count_labels(problem: Problem, width: float, of: str) -> int:
    """Return how many more labels make an interval that narrow; see `Calibration.labels_needed`."""

    def wide(problem: Problem, plausible: Plausible) -> float:
        found = getattr(judge(problem, plausible), of)
        return float(found.high - found.low)

    source = _profile(problem)
    start = _maps_before_labels(problem, source, plausible_maps(problem, source))
    now = start if problem.labelled is None else learn(problem, start)
    p, generator = problem.sample.probabilities(*now.centre), np.random.default_rng(0)
    rows = generator.integers(len(p), size=MOST_SIMULATED)
    above = generator.random((MOST_SIMULATED, 1)) > p[rows].cumsum(axis=1)
    labels = np.minimum(above.sum(axis=1), problem.n_classes - 1)
    few, before = 1.0, wide(problem, now)
    if before <= width:
        return 0
    for many in 2 ** np.arange(3, int(np.log2(MOST_SIMULATED)) + 1):
        simulated = LabelledSample(problem.sample.z[rows[:many]], labels[:many])
        more = problem.with_labels(simulated)
        after = wide(more, learn(more, start))
        if after <= width:
            share = np.log(before / width) / np.log(before / after)
            return int(np.ceil(few * (many / few) ** share))
        few, before = float(many), after
    return int(np.ceil(few * (before / width) ** 2))


def solve_problem(problem: Problem) -> Calibration:
    """Return the answer to a problem."""
    source, plausible, judgement, before = None, None, None, None
    try:
        source = _profile(problem)
        findings = find(Evidence(problem, source), fatal=True)
        if not findings:
            plausible = plausible_maps(problem, source)
            if problem.labelled is not None:
                unlabelled = replace(problem, labelled=None)
                before = None if plausible is None else judge(unlabelled, plausible)
                plausible = learn(problem, _maps_before_labels(problem, source, plausible))
            assert plausible is not None  # noqa: S101 - TP406 was found otherwise
            judgement = judge(problem, plausible)
    except NotIdentified as error:
        findings, plausible, judgement = [found("TP403", reason=str(error))], None, None
    evidence = Evidence(problem, source, plausible, judgement, before)
    return _answer(evidence, [*findings, *find(evidence, fatal=False)])


def _maps_before_labels(
    problem: Problem, source: Source | None, plausible: Plausible | None
) -> Plausible:
    """Return the maps that labels choose among."""
    if plausible is None:
        return nothing_known(problem.n_classes)
    return allow_class_mix(problem, source, plausible)


def _profile(problem: Problem) -> Source | None:
    """Return the source as the estimates use it."""
    return None if problem.source is None else Source.of(problem.source, problem.source_features)


def _answer(evidence: Evidence, findings: list[Finding]) -> Calibration:
    problem, source = evidence.problem, evidence.source
    plausible, judged = evidence.plausible, evidence.judgement
    used, method = BiasAt(1.0, np.zeros(problem.n_classes)), "identity"
    if plausible is not None:
        used, method = plausible.centre, "matched" if problem.labelled is None else "labelled"
    elif source is not None and source.identified:
        used, method = used._replace(temperature=source.temperature), "source temperature"
    details = describe(problem, source, used, method, plausible, judged, evidence.before_labels)
    intervals: dict[str, Any] = {"temperature": Interval(*[used.temperature] * 3)}
    if judged is not None:
        intervals = {name: getattr(judged, name) for name in INTERVALS}
    return Calibration(
        verdict="refused" if judged is None else judged.verdict,
        map=_as_map(problem, used),
        findings=tuple(findings),
        details=details,
        _problem=problem,
        **intervals,
    )


def _as_map(problem: Problem, used: BiasAt) -> Map:
    """Return the map of all classes; those that cannot occur are given no probability."""
    if not used.bias.any():
        return IDENTITY if used.temperature == 1.0 else Temperature(used.temperature)
    absent = float(used.bias.min()) - LARGEST_BIAS
    return BiasedTemperature(used.temperature, problem.widen(used.bias, absent))

"""The front door: one call from logits to a map with an honest verdict.

`calibrate` fits the map for the accuracy that the evidence tells and for what else it may be
(`beliefs`), looks for reasons not to believe it (`findings`), and gives one of three verdicts:

    refused       a finding makes the map meaningless: too few rows, one predicted class, a prior
                  that the data contradict, no identified temperature, estimates that disagree
    improved      over what the accuracy may be, the expected calibration error of the model's own
                  confidence exceeds 1.75 times that of the map by at least one point, and is
                  larger everywhere where the map is the surer of the two or classes are two
    no-evidence   neither: the source temperature is kept where there is one, unless by the same
                  measure the model's own confidence is better; else the identity
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks import NotIdentified, check_classes, check_seed
from temperance._core.sample import probabilities
from temperance._core.stats import Interval
from temperance.calibrate.audit import Z90, row_keys
from temperance.calibrate.details import N_BINS, describe_confidence, describe_sizes
from temperance.calibrate.findings import (
    Scene,
    about_amount,
    about_classes,
    about_estimates,
    about_prior,
    about_rows,
    about_shift,
    reasons_to_refuse,
)
from temperance.calibrate.prior import Prior, exactly
from temperance.calibrate.result import Calibration, Finding
from temperance.calibrate.uncertainty import Beliefs, believe
from temperance.data import as_rows
from temperance.data.source import as_source_rows, draw_labelled, draw_rows
from temperance.maps import IDENTITY, Map, Temperature
from temperance.methods.source import SourceProfile
from temperance.metrics.binned import bin_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from temperance.calibrate.result import Verdict
    from temperance.methods.evidence import Evidence

    Matrix = NDArray[np.float64]
    Pair = tuple[NDArray[Any], NDArray[np.int64]]

QUADRATURE = np.array([4, 1, 1]) / 6  # of a normal error at its centre and the ends of its interval
MARGIN, WORTH = 1.75, 0.01  # the error before is this often that after, and so much more: improved
# (three points make too little of the error after, by 0.8 · 6 / (2 · 1.645) = 1.46: see below)
WORSE = 0.02  # accuracy that a map is expected to lose, beyond which its prior is doubtful
TO_LABEL = 200
GOLDEN = (5**0.5 - 1) / 2
SEVERITY = ("refuse", "warn", "note")


def calibrate(
    target_logits: object,
    prior: object = None,
    source: object = None,
    *,
    classes: object = None,
    bias: bool = True,
    seed: int | np.random.Generator = 0,
) -> Calibration:
    """Calibrate a model on unlabelled, shifted data, and say whether to believe it.

    Parameters
    ----------
    target_logits : array of shape (n, K) or rows
        Scores before the softmax on the shifted data; no labels.
    prior : array of shape (K,) or (K, 2), dict or pandas Series by class, or `about`, optional
        The class mix of the target: probabilities, a range (low, high) for each class, or
        ``temperance.about(q, rows=...)``. Without it, it is estimated from the source, as if only
        the class mix had changed, and the result says so.
    source : pair (logits, labels), optional
        Labelled rows from before the shift.
    classes : sequence of K names, optional
        In the order of the columns. A prior may go by them, and labels in words are looked up.
    bias : bool
        Whether the map may move predictions; see `fit_prior_matched`.
    seed : int or Generator
        Of the rows that are read when there are more than enough; only a number is recorded.

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
    generator = check_seed(seed)
    rows = as_rows(target_logits, name="target_logits")
    k = rows.n_classes
    called = None if classes is None else check_classes(classes, k)
    labelled = None if source is None else as_source_rows(source, k, called)
    names = [str(c) for c in called or range(k)]
    index, z = draw_rows(rows, generator)
    pair = None if labelled is None else draw_labelled(labelled, generator)
    scene, findings = _look(z, rows.n, prior, pair, names)
    findings += reasons_to_refuse(scene)
    beliefs, evidence = None, None
    if not findings:
        try:
            evidence, beliefs = believe(scene, generator, bias=bias)
        except NotIdentified as error:
            findings.append(_not_identified(error))
    findings += [*about_amount(scene), *about_rows(scene), *about_classes(scene)]
    if beliefs is not None:
        findings += [*about_prior(scene, evidence), *about_shift(scene, evidence)]
        findings += about_estimates(evidence)
    if any(finding.severity == "refuse" for finding in findings):
        beliefs = None  # what is believed under a refused assumption is not told
    return _answer(scene, beliefs, evidence, findings, index=index, seed=seed)


def _look(
    z: NDArray[Any], n: int, prior: object, pair: Pair | None, names: list[str]
) -> tuple[Scene, list[Finding]]:
    """Return what is known of target and source, and what of it is not identified."""
    findings: list[Finding] = []
    known, profile = None, None
    try:
        known = _known_or_estimated(prior, z, pair, names)
        profile = None if pair is None else SourceProfile.of(*pair, known.value)
    except NotIdentified as error:
        findings.append(_not_identified(error))
    if known is None:  # the mix of the source stands in: anything is possible
        assert pair is not None  # noqa: S101 - an estimate was tried
        share = np.bincount(pair[1], minlength=z.shape[1]) / len(pair[1])
        known = Prior(share, "estimated", 0 * share, 0 * share + 1, rows=1.0)
    return Scene(z=z, n=n, prior=known, profile=profile, source=pair, names=names), findings


def _known_or_estimated(
    prior: object, z: NDArray[Any], pair: Pair | None, names: list[str]
) -> Prior:
    if prior is not None or pair is None:
        return exactly(prior, z.shape[1], names)
    from temperance.methods.label_shift import prior_interval

    value, low, high = prior_interval(z, pair)
    return Prior(value, "estimated", low, high, rows=float(min(len(z), len(pair[1]))))


def _not_identified(error: NotIdentified) -> Finding:
    return Finding(
        "TP403",
        "The temperature is not identified.",
        {"reason": str(error)},
        f"Why: {error} Give rows that vary; leave out a class that is masked by giant logits.",
        "refuse",
    )


# ------------------------------------------------------------------------------ the answer


def _answer(
    scene: Scene,
    beliefs: Beliefs | None,
    evidence: Evidence | None,
    findings: list[Finding],
    *,
    index: NDArray[np.int64],
    seed: int | np.random.Generator,
) -> Calibration:
    z = scene.z
    own = probabilities(z, 1.0)
    if beliefs is None:
        chosen, verdict, method, imagined = IDENTITY, "refused", "identity", None
    else:
        imagined = [_apply(m, z) for m in beliefs.maps]
        alone = evidence is not None and len(evidence.estimates) == 1
        chosen, verdict, method, why = _choose(scene, beliefs, own, imagined, alone=alone)
        findings = [*findings, *why]
    p = _apply(chosen, z)
    worth = _worth_labelling(p)
    return Calibration(
        verdict=verdict,
        map=chosen,
        temperature=_temperatures(chosen, beliefs),
        accuracy=_expected_accuracy(p, imagined),
        ece_before=_expected_error(own, imagined),
        ece_after=_expected_error(p, imagined),
        findings=tuple(sorted(findings, key=lambda one: SEVERITY.index(one.severity))),
        facts={
            **describe_sizes(scene, None if beliefs is None else beliefs.accuracy, evidence),
            **describe_confidence(scene, own, p, imagined),
            "method": method,
            "label_next": index[worth].tolist(),
            "label_next_keys": row_keys(z[worth]),
            "seed": None if isinstance(seed, np.random.Generator) else int(seed),
        },
    )


def _choose(
    scene: Scene, beliefs: Beliefs, own: Matrix, imagined: list[Matrix], *, alone: bool
) -> tuple[Map, Verdict, str, list[Finding]]:
    """Return the map that was found if it is worth it, or what was there before, and the verdict.

    A shift costs a model more than it admits, so that one is too modest must be certain; and so
    must be what a single estimate says ``alone``.
    """
    before, after = _errors(own, imagined), _errors(imagined[0], imagined)
    surer = bool(imagined[0].max(axis=1).mean() > own.max(axis=1).mean())
    certain = not (surer or alone) or bool((before >= after).all())
    lacking = _lacking(scene)
    if certain and not lacking and _exceeds(before, after):
        method = "uts" if scene.profile is None else "prior-matched"
        why = [*_contradiction(beliefs, imagined[0]), *_reservation(before, after, imagined)]
        return beliefs.maps[0], "improved", method, why
    chosen, method, why = _fall_back(scene, before, imagined)
    return chosen, "no-evidence", method, [*lacking, *why]


def _lacking(scene: Scene) -> list[Finding]:
    """Return what is missing to believe the one estimate that two classes leave."""
    given = scene.profile is not None and scene.prior.kind != "estimated"
    if len(scene.prior.value) > 2 or given:
        return []
    what = "a labelled source" if scene.profile is None else "a class mix that was not estimated"
    return [
        Finding(
            "TP405",
            f"With two classes there is one estimate of the accuracy, and it needs {what}.",
            {"classes": 2},
            "Give both a labelled source and the class mix you expect.",
        )
    ]


def _apply(fitted: Map, z: NDArray[Any]) -> Matrix:
    return np.asarray(fitted.predict_proba(z.astype(np.float64)))


def _exceeds(worse: Matrix, better: Matrix) -> bool:
    """Return whether an expected error exceeds another by enough to act on it."""
    return float((worse - MARGIN * better) @ QUADRATURE) > WORTH


def _contradiction(beliefs: Beliefs, p: Matrix) -> list[Finding]:
    """Return that a map whose class mix is right could not be right less often than the model."""
    own, mapped = beliefs.accuracy.value, float(p.max(axis=1).mean())
    if mapped >= own - WORSE:
        return []
    return [
        Finding(
            "TP107",
            f"With this class mix {mapped:.0%} of the map's predictions would be right, of the "
            f"model's own {own:.0%}. If the mix were right, the map's would be no worse.",
            {"expected": mapped, "expected_of_model": own},
            "Check the prior and the order of its classes; labels of a few rows would tell.",
            "warn",
        )
    ]


def _reservation(own: Matrix, after: Matrix, imagined: list[Matrix]) -> list[Finding]:
    """Return where, within what is believed, the model's own confidence is the better one."""
    end = int(np.argmax(after - own))
    if after[end] <= own[end]:
        return []
    told, other = (_accuracy(imagined[0].argmax(axis=1), imagined[i]) for i in (0, end))
    return [
        Finding(
            "TP404",
            f"The map expects {told:.0%} of its predictions to be right. If {other:.0%} are, which "
            f"is possible, the model's own confidence was nearer to the truth.",
            {
                "expected": told,
                "possible": other,
                "error": float(after[end]),
                "error_of_model": float(own[end]),
            },
            "The probabilities are expected to gain even so; labels of a few rows would tell.",
        )
    ]


def _fall_back(scene: Scene, own: Matrix, imagined: list[Matrix]) -> tuple[Map, str, list[Finding]]:
    """Return the source's temperature, or the identity where that is the better of the two."""
    profile = scene.profile
    if profile is None or not profile.identified:
        return IDENTITY, "identity", []
    kept = Temperature(profile.temperature)
    errors = _errors(_apply(kept, scene.z), imagined)
    if not _exceeds(errors, own):
        return kept, "source temperature", []
    unfit = Finding(
        "TP203",
        f"The temperature of the source, {kept.temperature:.3g}, does not suit these rows.",
        {"error": float(errors @ QUADRATURE), "error_of_the_model": float(own @ QUADRATURE)},
        "The model's own confidence is kept: it is expected to be much nearer to the truth.",
    )
    return IDENTITY, "identity", [unfit]


def _errors(p: Matrix, imagined: list[Matrix]) -> Matrix:
    """Calibration error of ``p`` if each of the imagined maps were the truth."""
    predicted, top = p.argmax(axis=1), p.max(axis=1)
    place = bin_index(top, N_BINS)
    rows = np.arange(len(p))
    return np.array(
        [
            np.abs(np.bincount(place, top - truth[rows, predicted], N_BINS)).sum() / len(p)
            for truth in imagined
        ]
    )


def _expected_error(p: Matrix, imagined: list[Matrix] | None) -> Interval:
    """Calibration error over the imagined truths; the ends of a 90 % interval and their mean."""
    if imagined is None:
        return Interval(0.5, 0.0, 1.0)
    errors = _errors(p, imagined)
    middle, *ends = errors
    # Three points see too little of |error| where it is least in the middle: for a normal error its
    # mean is 0.8 standard errors, and an end of the interval is 1.645 of them.
    valley = np.hypot(middle, 0.8 / Z90 * np.mean(ends))
    value = float(valley if middle < min(ends) else errors @ QUADRATURE)
    return Interval(value, float(min(middle, *ends)), float(max(value, *ends)))


def _expected_accuracy(p: Matrix, imagined: list[Matrix] | None) -> Interval:
    if imagined is None:
        return Interval(0.5, 0.0, 1.0)
    value, *ends = (_accuracy(p.argmax(axis=1), truth) for truth in imagined)
    return Interval(value, min(value, *ends), max(value, *ends))


def _accuracy(predicted: NDArray[np.intp], truth: Matrix) -> float:
    return float(truth[np.arange(len(truth)), predicted].mean())


def _temperatures(chosen: Map, beliefs: Beliefs | None) -> Interval:
    value = float(chosen.parameters()["temperature"])
    if beliefs is None:
        return Interval(value, value, value)
    others = [float(m.parameters()["temperature"]) for m in beliefs.maps]
    return Interval(value, min(value, *others), max(value, *others))


def _worth_labelling(p: Matrix) -> NDArray[np.int64]:
    """Rows spread evenly over the confidence, however few of them are taken from the start.

    Their order of confidence is walked by steps of the golden ratio, so every beginning of the list
    is a stratified sample: measured on it, a mean is unbiased and varies less than on random rows.
    """
    order = np.argsort(p.max(axis=1), kind="stable")
    n = min(TO_LABEL, len(p))
    places = (np.modf((np.arange(n) + 0.5) * GOLDEN)[0] * len(p)).astype(np.int64)
    return order[np.array(list(dict.fromkeys(places.tolist())), dtype=np.int64)]

"""Reasons to believe, or not to believe, a calibration without labels: one function a topic.

Codes: TP1xx the class mix, TP2xx the shift, TP3xx the amount of data, TP4xx the estimates, TP5xx
the rows themselves. A finding of severity "refuse" takes the map back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincc

from temperance._core.sample import probabilities
from temperance.calibrate.audit import Z90
from temperance.calibrate.result import Finding
from temperance.methods.evidence import (
    Evidence,
    jointly,
    log_odds,
    noise_floor,
    shrinkage,
    total_variation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from temperance.calibrate.prior import Prior
    from temperance.methods.source import SourceProfile

    Vector = NDArray[np.float64]

LEAST_ROWS = 30  # below this nothing is fitted
FEW_ROWS = 200  # below this intervals are wide and the map mostly the source's
ROWS_PER_CLASS = 5  # expected rows below which a class mix says nothing about a class
EXCLUDED = 1e-9  # share of a class that as good as never occurs
IMPOSSIBLE = 0.02  # share of predictions of such classes, beyond which the prior is wrong
UNRELATED = 3.0  # standard errors above chance that labels have to be to belong to their logits,
# and rows of the target with the logits of a source row to be the same rows
CONTRADICTED = 1.0  # log-odds that the prior demands beyond twice what the rows show
HALF_KNOWN = 0.25  # share of wrong predictions that is believed to a prior alone, of two classes
BOUND = 5.0  # log-odds between the estimates beyond which none is believed
NOVEL = 0.2  # share of rows less typical than 999 in 1,000 source rows
SAME = 0.1  # share of rows of the target that are also in the source
RESCALED = 1.5  # factor of the length of the logits worth a word


@dataclass(frozen=True)
class Scene:
    """What was read: a sample of target rows, their prior, and the source where there is one."""

    z: NDArray[Any]
    n: int
    prior: Prior
    profile: SourceProfile | None
    source: tuple[NDArray[Any], NDArray[np.int64]] | None
    names: list[str]

    @property
    def predicted(self) -> NDArray[np.intp]:
        """Return the predicted class of each row."""
        return self.z.argmax(axis=1)

    @property
    def mix(self) -> Vector:
        """Return the share of predictions of each class."""
        return np.bincount(self.predicted, minlength=self.z.shape[1]) / len(self.z)


def reasons_to_refuse(scene: Scene) -> Iterator[Finding]:
    """Yield what makes any map meaningless, before one is fitted."""
    mix, q = scene.mix, scene.prior.value
    if scene.n < LEAST_ROWS:
        yield Finding(
            "TP301",
            f"{scene.n} target rows are too few.",
            {"rows": scene.n, "least": LEAST_ROWS},
            f"Collect at least {LEAST_ROWS} rows, better {FEW_ROWS} or more.",
            "refuse",
        )
    if np.count_nonzero(mix) < 2:
        k = int(mix.argmax())
        yield Finding(
            "TP101",
            f"Every target row is predicted as {scene.names[k]!r}.",
            {"class": scene.names[k]},
            "Check the input of the model: this looks like broken preprocessing.",
            "refuse",
        )
    excluded = float(mix[q <= EXCLUDED].sum())
    if excluded > IMPOSSIBLE:
        worst = int(np.where(q <= EXCLUDED, mix, -1).argmax())
        estimated = scene.prior.kind == "estimated"
        yield Finding(
            "TP103",
            f"{excluded:.0%} of the predictions are of classes that the prior excludes.",
            {"share": excluded, "class": scene.names[worst]},
            "The prior was estimated, as if nothing but the class mix had changed; more has. Give "
            "the mix you expect."
            if estimated
            else "Give these classes a positive prior, or check the order of the classes.",
            "refuse",
        )
    missing = 0.5 * float(np.abs(mix - q).sum())
    if len(q) == 2 and missing > HALF_KNOWN:
        yield Finding(
            "TP109",
            f"By this class mix at least {missing:.0%} of the predictions are wrong, and with two "
            f"classes nothing else tells whether they are.",
            {"share": missing, "most": HALF_KNOWN},
            "Check the prior, that it is of the target and in the order of the classes; if it is "
            "right, label some rows.",
            "refuse",
        )
    if scene.source is not None and scene.profile is not None:
        yield from _unrelated(*scene.source, scene.profile.spread)


def _unrelated(logits: NDArray[Any], labels: NDArray[np.int64], scale: float) -> Iterator[Finding]:
    """Yield labels that might as well be those of other rows, by a permutation test.

    Over all orders of the labels, Σ_i p_{i, y_i} has mean n Σ_k π_k mean p_k and the variance of
    Hoeffding, "A combinatorial central limit theorem", 1951.
    """
    n, p = len(logits), probabilities(logits, scale)
    share = np.bincount(labels, minlength=p.shape[1]) / n
    d = p - p.mean(axis=0) - (p @ share)[:, None] + p.mean(axis=0) @ share
    error = float(np.sqrt(n / max(n - 1, 1) * np.sum(d * d * share)))
    above = float(np.sum(d[np.arange(n), labels]))
    if above <= UNRELATED * error:
        hits: NDArray[np.bool_] = logits.argmax(axis=1) == labels
        right = float(hits.mean())
        yield Finding(
            "TP503",
            f"The labels of the source do not go with its logits: {right:.0%} of the predictions "
            f"are right, and any other order of the labels would do as well.",
            {"accuracy": right, "standard_errors": above / error if error > 0 else 0.0},
            "Check that rows and classes have the same order in logits and labels.",
            "refuse",
        )


def about_amount(scene: Scene) -> Iterator[Finding]:
    """Yield what the number of rows does not allow."""
    if LEAST_ROWS <= scene.n < FEW_ROWS:
        yield Finding(
            "TP302",
            f"{scene.n} target rows are few: intervals are wide.",
            {"rows": scene.n, "enough": FEW_ROWS},
            "Add rows before relying on the map.",
            "warn",
        )
    per_class = len(scene.z) * scene.prior.value
    rare = int(np.sum((per_class > 0) & (per_class < ROWS_PER_CLASS)))
    if rare:
        yield Finding(
            "TP303",
            f"{rare} of {len(per_class)} classes are expected in fewer than {ROWS_PER_CLASS} rows.",
            {
                "classes": rare,
                "effective_rows": float(1 / np.sum(scene.prior.value**2 / len(scene.z))),
            },
            "The class mix says little about these classes; their bias is mostly left alone.",
        )
    if scene.profile is not None and scene.profile.n < FEW_ROWS:
        yield Finding(
            "TP304",
            f"The source has only {scene.profile.n} labelled rows.",
            {"rows": scene.profile.n},
            "Its accuracy, and so every estimate, is uncertain.",
            "warn",
        )


def about_classes(scene: Scene) -> Iterator[Finding]:
    """Yield how the predicted mix compares with the prior."""
    q, mix, n = scene.prior.value, scene.mix, len(scene.z)
    distance = total_variation(scene.predicted, q)
    floor = noise_floor(q, jointly(n, scene.prior.worth))
    here = q > EXCLUDED
    chi2 = float(n * np.sum((mix[here] - q[here]) ** 2 / q[here]))
    p_value = _tail(chi2, max(1, int(here.sum()) - 1))
    if shrinkage(scene.predicted, q, scene.prior.worth) > 0:
        most = int(np.argmax(mix - q))
        check = "" if scene.prior.kind == "estimated" else " Check the prior first."
        yield Finding(
            "TP104",
            f"The model predicts another class mix than the prior: {distance:.0%} of the rows "
            f"would have to change class, {floor:.1%} is expected by chance.",
            {"distance": distance, "noise": floor, "p_value": p_value, "most": scene.names[most]},
            f"At least {distance - floor:.0%} of the predictions are wrong if the prior is right; "
            f"{scene.names[most]!r} is predicted too often.{check}",
            "warn",
        )
    if scene.prior.kind == "estimated":
        yield Finding(
            "TP105",
            "The class mix was not given: it was estimated, as if nothing but the mix had changed.",
            {"low": scene.prior.low.tolist(), "high": scene.prior.high.tolist()},
            "Give the mix you expect; an estimate is not knowledge.",
            "warn",
        )
    missing = np.flatnonzero((mix == 0) & (q * n >= ROWS_PER_CLASS))
    if len(missing):
        listed = ", ".join(repr(scene.names[int(k)]) for k in missing[:5])
        yield Finding(
            "TP102",
            f"Never predicted although expected: {listed}.",
            {"classes": [scene.names[int(k)] for k in missing]},
            "Their rows are hidden among other classes; a bias brings back at most a part.",
            "warn",
        )


def about_shift(scene: Scene, evidence: Evidence | None) -> Iterator[Finding]:
    """Yield what kind of shift the rows show against the source."""
    profile = scene.profile
    if profile is None or scene.source is None or evidence is None:
        return
    scale = evidence.undone / profile.temperature
    if not 1 / RESCALED < scale < RESCALED:
        yield Finding(
            "TP202",
            f"The logits are {scale:.2g} times as large as on the source.",
            {"factor": scale},
            "Confidence alone misleads then; typicality and class mix decide.",
        )
    here, typical = evidence.estimates.get("typical", 1.0), 1 - profile.error
    drop = typical - here
    if drop > 2 * np.sqrt(typical * (1 - typical) * (1 / profile.n + 1 / len(scene.z))):
        yield Finding(
            "TP201",
            f"{here:.0%} of the rows look like rows the model gets right; on the "
            f"source it is {typical:.0%}.",
            {"target": here, "source": typical},
            "The inputs themselves have changed (covariate shift).",
            "warn",
        )
        if scene.prior.kind == "estimated":
            yield Finding(
                "TP108",
                "The class mix was estimated as if nothing else had changed, but the rows have.",
                {"target": here, "source": typical},
                "Give the mix you expect; if it is only roughly known, say so with about() or a "
                "range for each class.",
                "refuse",
            )
    novel = float(np.mean(profile.typicality(scene.z) < np.quantile(profile.scores, 0.001)))
    if novel > NOVEL:
        yield Finding(
            "TP205",
            f"{novel:.0%} of the rows are unlike any source row: perhaps unknown classes.",
            {"share": novel},
            "Look at these rows. No map can calibrate a class that the model cannot predict.",
            "warn",
        )
    if scene.prior.kind != "estimated":  # which a change of the mix explains by construction
        yield from _label_shift(scene)


def _label_shift(scene: Scene) -> Iterator[Finding]:
    """Compare the predicted mix with the one that a change of the class mix alone would give."""
    assert scene.source is not None  # noqa: S101
    logits, labels = scene.source
    k, q = scene.z.shape[1], scene.prior.value
    confusion = np.zeros((k, k))
    np.add.at(confusion, (labels, logits.argmax(axis=1)), 1)
    count = confusion.sum(axis=1)
    if (count[q > 0] < ROWS_PER_CLASS).any():
        return
    expected = q @ (confusion / np.maximum(count, 1)[:, None])
    error = expected * (1 - expected) / len(scene.z) + (q**2 / np.maximum(count, 1)) @ (
        (confusion / np.maximum(count, 1)[:, None])
        * (1 - confusion / np.maximum(count, 1)[:, None])
    )
    chi2 = float(np.sum((scene.mix - expected) ** 2 / np.maximum(error, 1e-12)))
    p_value = _tail(chi2 * (k - 1) / k, k - 1)  # K terms of mean 1, but their roots sum to zero
    moved = 0.5 * float(np.abs(count / count.sum() - q).sum())
    only = p_value > 0.01
    if moved > 2 * noise_floor(q, int(count.sum())) and only:
        yield Finding(
            "TP204",
            f"The class mix differs from the source's by {moved:.0%}, and that alone explains the "
            f"predictions (label shift).",
            {"moved": moved, "p_value": p_value},
            "A class bias is the right correction.",
        )


def _tail(chi2: float, freedom: int) -> float:
    """Probability of a larger chi-squared; scipy.stats has it too but takes seconds to import."""
    return float(gammaincc(freedom / 2, chi2 / 2))


def about_prior(scene: Scene, evidence: Evidence | None) -> Iterator[Finding]:
    """Yield a prior by which more predictions are wrong than the rows show.

    At least the distance between predicted mix and prior is wrong, if the prior is right. Whether
    rows look like rows that the model knows does not depend on the prior. A shift that shows in the
    class mix shows in the rows too, in log-odds at least half as much; where it does not, the prior
    is wrong.
    """
    if evidence is None or scene.profile is None or "typical" not in evidence.estimates:
        return
    typical, allowed = evidence.estimates["typical"], evidence.allowed
    noise = typical * (1 - typical) * (1 / len(scene.z) + 1 / scene.profile.effective)
    seen = log_odds(typical - Z90 * float(np.sqrt(noise)))
    home = max(log_odds(1 - scene.profile.error), seen)
    gap = (home - log_odds(allowed)) - 2 * (home - seen)
    if gap > CONTRADICTED:
        yield Finding(
            "TP106",
            f"The prior contradicts the data: it allows at most {allowed:.0%} right predictions, "
            f"but {typical:.0%} of the rows look like rows the model gets right.",
            {"typical": typical, "allowed": allowed, "gap": gap, "bound": CONTRADICTED},
            "Check the prior and the order of its classes. Say how well it is known, with about() "
            "or a range for each class.",
            "refuse",
        )


def about_estimates(evidence: Evidence | None) -> Iterator[Finding]:
    """Yield how far the independent estimates of accuracy agree."""
    if evidence is None:
        return
    spread = evidence.spread
    numbers = {**evidence.estimates, "spread": spread}
    if spread > BOUND:
        yield Finding(
            "TP402",
            "The estimates of the accuracy contradict each other.",
            numbers | {"bound": BOUND},
            "Label some rows, from the list of rows to label first, and audit the calibration.",
            "refuse",
        )
    elif spread > BOUND / 2:
        yield Finding(
            "TP401",
            "The estimates of the accuracy disagree.",
            numbers,
            "The intervals are wide for that reason; labels of a few rows would narrow them.",
            "warn",
        )


def about_rows(scene: Scene) -> Iterator[Finding]:
    """Yield what is odd about the rows themselves."""
    if scene.source is None:
        return
    logits, labels = scene.source
    if (logits.argmax(axis=1) == labels).all():
        yield Finding(
            "TP502",
            "Every source row is predicted right: these may be training rows.",
            {"source_rows": len(labels)},
            "Use rows that the model was not trained on.",
            "warn",
        )
    share, chance = _shared_rows(logits, scene.z)
    error = np.sqrt((chance + 1 / len(logits)) / len(scene.z))
    if share - chance > UNRELATED * error:
        yield Finding(
            "TP501",
            f"{share - chance:.1%} of the target rows are also in the source.",
            {"share": share, "by_chance": chance},
            "The target must not contain source rows, or nothing is learned about it.",
            "warn" if share - chance > SAME else "note",
        )


def _shared_rows(source: NDArray[Any], target: NDArray[Any]) -> tuple[float, float]:
    """Share of target rows whose logits a source row has, and how many have them by chance.

    Neighbours and trees vote, half precision and one-logit heads know few numbers: different rows
    then have the same logits. As many of the target do as source rows find a second one like them.
    """
    with np.errstate(over="ignore"):  # rows that overflow alike are counted as the same
        rows, others = (np.ascontiguousarray(z, dtype=np.float32) for z in (source, target))
    times = Counter(row.tobytes() for row in rows)
    share = float(np.mean([row.tobytes() in times for row in others]))
    return share, sum(count for count in times.values() if count > 1) / len(rows)

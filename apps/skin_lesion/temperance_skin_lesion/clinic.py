"""Maps for a clinic: surveys of unlabelled pictures, and proposals of a map made from them.

`temperance_skin_lesion.changes` says how a proposal comes into use.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import select

import temperance as tp
from temperance_skin_lesion import audit, thresholds
from temperance_skin_lesion import store as db
from temperance_skin_lesion.assistant import judged_with, load_map, reference, store_map
from temperance_skin_lesion.changes import Kind, NotAcceptable, existing
from temperance_skin_lesion.classes import CODES, NAMES
from temperance_skin_lesion.decision import ORIENTATIONS
from temperance_skin_lesion.store import MapRow, Survey, SurveyImage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.assistant import Active, Assistant, Judged
    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.intake import Picture
    from temperance_skin_lesion.monitor import Recent

__all__ = [
    "MAPS",
    "Rows",
    "add_pictures",
    "as_rows",
    "closer",
    "gap",
    "last_mix",
    "open_survey",
    "propose",
    "propose_from_cases",
    "propose_from_survey",
    "stated_mix",
    "stated_shares",
    "survey_rows",
]

SAME = 0.005
"""Largest change of any probability below which a new map is the map in use."""


NO_PICTURES = "There are no pictures to calibrate on; add some first."

ROUGHLY = 100
"""Cases that somebody who knows a mix roughly is taken to have counted."""


def open_survey(assistant: Assistant, note: str = "") -> int:
    """Begin a collection of pictures."""
    with assistant.store.writing() as session:
        survey = Survey(note=note[:200])
        session.add(survey)
        session.flush()
        return survey.id


def add_pictures(
    assistant: Assistant, survey_id: int, pictures: Sequence[Picture]
) -> tuple[int, list[str]]:
    """Add pictures to a survey, each once and only what looks like a lesion.

    Returns how many different ones the survey now has, and a sentence for each left out.
    """
    seen = assistant.look(pictures) if pictures else None
    strangers = seen.foreign if seen else []
    with assistant.store.writing() as session:
        existing(session, Survey, survey_id)
        for i, picture in enumerate(pictures):
            if seen is None or strangers[i]:
                continue
            numbers = [[float(v) for v in row] for row in (seen.logits[i], *seen.views[i])]
            session.merge(SurveyImage(survey_id=survey_id, sha256=picture.sha256, logits=numbers))
        session.flush()
        images = select(SurveyImage).where(SurveyImage.survey_id == survey_id)
        return db.count(session, images), [
            f"{picture.name}: this does not look like a dermatoscopic picture; it was left out."
            for picture, stranger in zip(pictures, strangers, strict=True)
            if stranger
        ]


def stated_mix(row: MapRow) -> Any:
    """Return the class mix that was stated for a map, as `temperance.calibrate` takes it."""
    kind, shares = row.summary.get("prior_kind"), stated_shares(row)
    if shares is None:
        return None
    return np.array(shares) if kind == "given" else tp.about(shares, rows=ROUGHLY)


def stated_shares(row: MapRow) -> list[float] | None:
    """Return the shares that were stated for a map; None where none were.

    Older versions kept what the calibration made of them, which adds half a case to each diagnosis.
    """
    if row.summary.get("prior_kind") not in {"given", "about"}:
        return None
    return row.summary.get("stated") or row.summary.get("prior")


def last_mix(session: Session) -> dict[str, Any] | None:
    """Return the class mix that was stated last, and for which map; None where none ever was."""
    rows = session.scalars(select(MapRow).order_by(MapRow.id.desc()).limit(50))
    for row in rows:
        if (shares := stated_shares(row)) is not None:
            return {"map": row.id, "shares": dict(zip(CODES, shares, strict=True))}
    return None


def survey_rows(session: Session, survey_id: int) -> Rows:
    """Logits of a survey's pictures and of their orientations, ordered by their hashes."""
    existing(session, Survey, survey_id)
    rows = session.scalars(
        select(SurveyImage.logits)
        .where(SurveyImage.survey_id == survey_id)
        .order_by(SurveyImage.sha256)
    ).all()
    # Surveys of older versions hold one row of logits for each picture.
    logits = [row[0] if isinstance(row[0], list) else row for row in rows]
    views = [row[1:] if isinstance(row[0], list) else [row] * ORIENTATIONS for row in rows]
    return as_rows(logits, views)


class Rows(NamedTuple):
    """Logits of pictures ``(n, 7)`` and of their orientations ``(n, 8, 7)``.

    ``dark`` says which of them are never answered; None where that is not known.
    """

    logits: NDArray[np.float64]
    views: NDArray[np.float64]
    dark: NDArray[np.bool_] | None = None

    @property
    def fitted(self) -> Rows:
        """The rows that a calibration is fitted to."""
        return self if self.dark is None else Rows(self.logits[~self.dark], self.views[~self.dark])


def as_rows(logits: Sequence[Any], views: Sequence[Any]) -> Rows:
    """Return lists of numbers as arrays, of no rows too."""
    return Rows(
        np.array(logits, dtype=np.float64).reshape(-1, len(CODES)),
        np.array(views, dtype=np.float64).reshape(-1, ORIENTATIONS, len(CODES)),
    )


def propose_from_cases(
    assistant: Assistant, recent: Recent, prior: object, agreement: Agreement, *, by: str
) -> int:
    """Calibrate on logged cases, which are kept as a survey: change is measured from them.

    Pictures of dark skin are never answered: they take no part in the fit, and count in what
    changes.
    """
    if recent.dark.all():
        raise NotAcceptable(NO_PICTURES)
    survey_id = open_survey(assistant, "logged cases")
    with assistant.store.writing() as session:
        for i in np.flatnonzero(~recent.dark):
            numbers = [recent.logits[i].tolist(), *recent.views[i].tolist()]
            image = SurveyImage(survey_id=survey_id, sha256=recent.hashes[i], logits=numbers)
            session.add(image)
    rows = Rows(recent.logits, recent.views, recent.dark)
    return propose(assistant, rows, prior, agreement, origin="cases", survey_id=survey_id, by=by)


def propose_from_survey(
    assistant: Assistant, survey_id: int, prior: object, agreement: Agreement, *, by: str
) -> int:
    """Calibrate on a survey; return the number of the proposed map."""
    with assistant.store.reading() as session:
        rows = survey_rows(session, survey_id)
    return propose(assistant, rows, prior, agreement, origin="survey", survey_id=survey_id, by=by)


def propose(
    assistant: Assistant,
    rows: Rows,
    prior: object,
    agreement: Agreement,
    *,
    origin: str,
    by: str,
    survey_id: int | None = None,
) -> int:
    """Calibrate on unlabelled rows; ``prior`` is whatever `temperance.calibrate` takes.

    A map that the calibration refuses, that is outside the agreed range or that says the same as
    the map in use is put on record with its reason, and there is nothing to decide about it.
    """
    fitted = rows.fitted
    if not len(fitted.logits):
        raise NotAcceptable(NO_PICTURES)
    source = assistant.model.source
    cal = tp.calibrate(
        fitted.logits, prior=prior, source=(source.logits, source.labels), classes=NAMES
    )
    row = MapRow(
        by=by,
        origin=origin,
        survey_id=survey_id,
        model=assistant.model.id,
        artefact=store_map(cal),
        verdict=cal.verdict,
        summary=_summary(cal, rows=len(fitted.logits)),
        report=cal.to_html(),
    )
    row.summary["dark"] = len(rows.logits) - len(fitted.logits)
    if prior is not None:  # `temperance.about` keeps the shares under "value"
        row.summary["stated"] = np.asarray(getattr(prior, "value", prior)).tolist()
    new = judged_with(row, fitted.logits, fitted.views)
    row.reference = reference(new.p)
    with assistant.store.reading() as session:
        active = assistant.active(session)
    row.summary["compared_with"] = active.map_id
    if cal.verdict == "refused":
        row.status = "refused"
    else:
        old = active.judged(fitted.logits, fitted.views)
        every = [judged_with(one, rows.logits, rows.views) for one in (active.map_row, row)]
        every = [replace(one, dark=rows.dark) for one in every]
        known, here = _missed(assistant, active.policy, row, every[1])
        in_use, _ = _missed(assistant, active.policy, active.map_row)
        truths, weights = plausible(cal, fitted.logits)
        row.summary |= _comparison(old, new, truths, weights) | _effects(active, *every)
        row.summary |= {
            "validation": {"now": asdict(in_use), "then": asdict(known)},
            "warning": agreement.warning_of_missed(known, here),
            "objection": agreement.objection_to_map(cal.map, len(fitted.logits))
            or _stricter_first(agreement.objection_to_missed(known, here)),
        }
        same = row.summary["largest_change"] < SAME
        row.status = "outside" if row.summary["objection"] else "same" if same else "proposed"
    row.decided = None if row.status == "proposed" else db.now()
    with assistant.store.writing() as session:
        session.add(row)
        session.flush()
        about = {"map": row.id, "artefact": audit.digest(row.artefact), "verdict": row.verdict}
        audit.enter(session, by, "map proposed", about | {"status": row.status})
        return row.id


def _missed(
    assistant: Assistant, policy: Policy, row: MapRow, here: Judged | None = None
) -> tuple[thresholds.Effect, thresholds.Effect | None]:
    """What a policy does with a map: measured on validation pictures, expected ``here``."""
    source = assistant.model.source
    known = judged_with(row, source.logits, source.views)
    expected = None if here is None else thresholds.expected(here, policy)
    return thresholds.measured(known, source.labels, policy, source.lesions), expected


def _stricter_first(objection: str) -> str:
    return objection and f"{objection} Stricter rules may allow it: propose such rules first."


def _effects(active: Active, old: Judged, new: Judged) -> dict[str, Any]:
    """Say what becomes of all pictures, those that are never answered among them."""
    effects = thresholds.changed(old, new, active.policy)
    before, after = (judged.examined(active.policy) for judged in (old, new))
    return {
        "changes": {when: asdict(effect) for when, effect in effects.items()},
        "changed_decisions": float((before.answered != after.answered).mean()),
        "changed_classes": float((before.predicted != after.predicted).mean()),
    }


def plausible(
    cal: tp.Calibration, logits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each map that may be right says of rows ``(maps, n, 7)``, and their weights."""
    maps = cal.details["plausible"]
    both = zip(maps["temperatures"], maps["biases"], strict=True)
    truths = [tp.BiasedTemperature(t, np.array(b)).predict_proba(logits) for t, b in both]
    return np.array(truths), np.array(maps["weights"])


def _comparison(
    old: Judged, new: Judged, truths: NDArray[np.float64], weights: NDArray[np.float64]
) -> dict[str, Any]:
    """Say what a new map changes beside the map in use.

    The gap between confidence and share right, of both, is what the maps that may be right say.
    """

    def gaps(p: NDArray[np.float64]) -> tuple[float, float, float]:
        right = truths[:, np.arange(len(p)), p.argmax(axis=1)]
        return thresholds.over_maps(weights, np.array([gap(p.max(axis=1), one) for one in right]))

    return {
        "closer": closer(old.p, new.p, truths, weights),
        "largest_change": float(np.abs(new.p - old.p).max()),
        "confidence": [float(old.p.max(axis=1).mean()), float(new.p.max(axis=1).mean())],
        "gaps": [gaps(old.p), gaps(new.p)],
        "melanoma": [float(old.p[:, 0].mean()), float(new.p[:, 0].mean())],
    }


def closer(
    old: NDArray[np.float64],
    new: NDArray[np.float64],
    truths: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Return the probability that ``new`` probabilities are closer to the truth than ``old``.

    It is the weight of the ``truths`` ``(maps, n, 7)`` that may be right and are nearer to the new,
    by the mean squared difference: the expected difference of Brier scores.
    """
    far = [((p - truths) ** 2).sum(axis=2).mean(axis=1) for p in (old, new)]
    return float(weights[far[1] < far[0]].sum() / weights.sum())


def gap(claimed: NDArray[np.float64], right: NDArray[np.float64], bins: int = 15) -> float:
    """Mean difference between claimed and right over bins of equal width, as of the ECE."""
    place = np.minimum((claimed * bins).astype(int), bins - 1)
    sums = [np.bincount(place, weights=w, minlength=bins) for w in (claimed, right)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(claimed))


def _objection_now(assistant: Assistant, row: MapRow, agreement: Agreement) -> str:
    """Object to a map of another model, outside the range, or with which the rules miss too many.

    The range may be another one since the server was started anew.
    """
    if row.model != assistant.model.id:
        return f"it was made for the model {row.model}, not for {assistant.model.id}."
    if objection := outside(row, agreement):
        return objection
    with assistant.store.reading() as session:
        policy = assistant.active(session).policy
        rows = survey_rows(session, row.survey_id) if row.survey_id else None
    here = judged_with(row, rows.logits, rows.views) if rows else None
    return _stricter_first(agreement.objection_to_missed(*_missed(assistant, policy, row, here)))


def outside(row: MapRow, agreement: Agreement) -> str:
    """Say what of a map is outside the range; the first map, fitted to labels, never is."""
    if row.origin == "shipped":
        return ""
    return agreement.objection_to_map(load_map(row.artefact), row.summary["rows"])


MAPS = Kind("map", MapRow, _objection_now)


def _summary(cal: tp.Calibration, *, rows: int) -> dict[str, Any]:
    """What pages and interface show of a calibration, as plain facts."""
    facts = cal.to_dict()
    more = facts.get("details") or facts.get("facts") or {}
    shown = ("temperature", "accuracy", "ece_before", "ece_after", "findings", "meaning")
    assumed = ("prior", "prior_kind", "assumptions", "would_change", "guarantee")
    return {
        **{name: facts.get(name) for name in shown},
        **{name: more.get(name) for name in assumed},
        "bias": facts["map"].get("bias"),
        "rows": rows,
    }

"""Maps for a clinic: surveys of unlabelled pictures, proposals, and who is in force.

A map changes what the assistant says, so it is handled like a change to a device: proposed from
evidence, compared with a range agreed beforehand, accepted or rejected by a person, kept for ever,
and undone with one click.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

import temperance as tp
from temperance_skin_lesion import store as db
from temperance_skin_lesion import thresholds
from temperance_skin_lesion.assistant import calibrated, reference
from temperance_skin_lesion.classes import CODES, NAMES
from temperance_skin_lesion.store import Activation, Conflict, MapRow, Survey, SurveyImage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.intake import Picture

__all__ = [
    "Agreement",
    "NotAcceptable",
    "accept",
    "add_pictures",
    "former_map",
    "open_survey",
    "propose",
    "propose_from_survey",
    "reject",
    "restore",
    "survey_logits",
]


class NotAcceptable(ValueError):
    """A map that may not come into use; the message says why."""


class Agreement(BaseModel):
    """The range inside which a person may accept a new map; agreed when the server is set up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: tuple[float, float] = (0.5, 5.0)
    bias: float = Field(6.0, description="largest difference between two class offsets, in logits")
    rows: int = Field(100, description="least number of different pictures")

    def objection(self, fitted: Any, rows: int) -> str:
        """Say what is outside the range; empty when nothing is."""
        low, high = self.temperature
        if rows < self.rows:
            return f"{rows} different pictures are fewer than the {self.rows} agreed on."
        if not low <= fitted.temperature <= high:
            return (
                f"The temperature {fitted.temperature:.2f} is outside the agreed range "
                f"{low:g} to {high:g}."
            )
        spread = float(np.ptp(getattr(fitted, "bias", np.zeros(1))))
        if spread > self.bias:
            return f"Class offsets differ by {spread:.2f}, more than the agreed {self.bias:g}."
        return ""


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
    logits, foreign = assistant.look(pictures) if pictures else ([], [])
    with assistant.store.writing() as session:
        _existing(session, Survey, survey_id)
        for picture, z, stranger in zip(pictures, logits, foreign, strict=True):
            if stranger:
                continue
            session.merge(
                SurveyImage(
                    survey_id=survey_id, sha256=picture.sha256, logits=[float(v) for v in z]
                )
            )
        session.flush()
        images = select(SurveyImage).where(SurveyImage.survey_id == survey_id)
        return db.count(session, images), [
            f"{picture.name}: this does not look like a dermatoscopic picture; it was left out."
            for picture, stranger in zip(pictures, foreign, strict=True)
            if stranger
        ]


def survey_logits(session: Session, survey_id: int) -> NDArray[np.float64]:
    """Logits of a survey's pictures, ordered by their hashes."""
    _existing(session, Survey, survey_id)
    rows = session.scalars(
        select(SurveyImage.logits)
        .where(SurveyImage.survey_id == survey_id)
        .order_by(SurveyImage.sha256)
    )
    return np.array(rows.all(), dtype=np.float64).reshape(-1, len(CODES))


def propose_from_survey(
    assistant: Assistant, survey_id: int, prior: object, agreement: Agreement
) -> int:
    """Calibrate on a survey; return the number of the proposed map."""
    with assistant.store.reading() as session:
        logits = survey_logits(session, survey_id)
    return propose(assistant, logits, prior, agreement, origin="survey", survey_id=survey_id)


def propose(
    assistant: Assistant,
    logits: NDArray[np.float64],
    prior: object,
    agreement: Agreement,
    *,
    origin: str,
    survey_id: int | None = None,
) -> int:
    """Calibrate on unlabelled logits; ``prior`` is whatever `temperance.calibrate` takes."""
    if not len(logits):
        raise NotAcceptable("There are no pictures to calibrate on; add some first.")
    source = (assistant.model.source.logits, assistant.model.source.labels)
    cal = tp.calibrate(logits, prior=prior, source=source, classes=NAMES)
    with tempfile.TemporaryDirectory() as directory:
        cal.save(Path(directory) / "map.json")
        cal.to_html(Path(directory) / "report.html")
        artefact = (Path(directory) / "map.json").read_text("utf-8")
        report = (Path(directory) / "report.html").read_text("utf-8")
    objection = agreement.objection(cal.map, len(logits))
    p = calibrated(artefact, logits)
    with assistant.store.reading() as session:
        active = assistant.active(session)
    effects = thresholds.changed(active.probabilities(logits), p, active.policy)
    summary = _summary(cal, rows=len(logits), objection=objection)
    row = MapRow(
        origin=origin,
        survey_id=survey_id,
        model=assistant.model.id,
        artefact=artefact,
        verdict=cal.verdict,
        summary=summary | {"changes": {when: asdict(e) for when, e in effects.items()}},
        reference=reference(p),
        within_agreement=not objection,
        report=report,
    )
    with assistant.store.writing() as session:
        session.add(row)
        session.flush()
        return row.id


def accept(assistant: Assistant, map_id: int, seen: int) -> None:
    """Bring a proposed map into use, if activation ``seen`` is still the newest one."""
    with assistant.store.writing() as session:
        row = _existing(session, MapRow, map_id)
        _check_seen(session, seen)
        if row.status != "proposed":
            raise Conflict(f"Map {map_id} was {row.status} already, at {row.decided}.")
        if row.verdict == "refused":
            raise NotAcceptable(f"Map {map_id} was refused by the calibration; see its findings.")
        if not row.within_agreement:
            raise NotAcceptable(
                f"Map {map_id} is outside the range agreed for this clinic: "
                f"{row.summary['objection']}"
            )
        if row.model != assistant.model.id:
            raise NotAcceptable(
                f"Map {map_id} was made for the model {row.model}, not for {assistant.model.id}."
            )
        row.status, row.decided = "accepted", db.now()
        session.add(Activation(map_id=map_id))


def reject(assistant: Assistant, map_id: int) -> None:
    """Put a proposed map aside."""
    with assistant.store.writing() as session:
        row = _existing(session, MapRow, map_id)
        if row.status != "proposed":
            raise Conflict(f"Map {map_id} was {row.status} already, at {row.decided}.")
        row.status, row.decided = "rejected", db.now()


def restore(assistant: Assistant, map_id: int, seen: int) -> None:
    """Bring a map back into use that was in use before."""
    with assistant.store.writing() as session:
        row = _existing(session, MapRow, map_id)
        _check_seen(session, seen)
        if row.status != "accepted":
            raise NotAcceptable(f"Map {map_id} was never in use; it is {row.status}.")
        if row.model != assistant.model.id:
            raise NotAcceptable(
                f"Map {map_id} was made for the model {row.model}, not for {assistant.model.id}."
            )
        session.add(Activation(map_id=map_id))


def former_map(session: Session) -> int | None:
    """Return the map that was in use before the current one."""
    ids = session.scalars(select(Activation.map_id).order_by(Activation.id.desc()))
    current = None
    for map_id in ids:
        current = current or map_id
        if map_id != current:
            return map_id
    return None


def _existing(session: Session, table: type[Any], key: int) -> Any:
    row = session.get(table, key)
    if row is None:
        raise LookupError(f"There is no {table.__tablename__} {key}.")
    return row


def _check_seen(session: Session, seen: int) -> None:
    newest = db.active_map(session)
    if newest is not None and newest.id != seen:
        raise Conflict(
            f"In the meantime, at {newest.at}, map {newest.map_id} came into use. Look at it, "
            f"then decide again."
        )


def _summary(cal: tp.Calibration, *, rows: int, objection: str) -> dict[str, Any]:
    """What pages and interface show of a calibration, as plain facts."""
    facts = cal.to_dict()
    shown = ("temperature", "accuracy", "ece_before", "ece_after", "findings", "meaning")
    assumed = ("prior", "prior_kind", "accuracy_before", "assumptions", "would_change", "guarantee")
    return {
        **{name: facts[name] for name in shown},
        **{name: facts["details"][name] for name in assumed},
        "bias": facts["map"].get("bias"),
        "rows": rows,
        "objection": objection,
    }

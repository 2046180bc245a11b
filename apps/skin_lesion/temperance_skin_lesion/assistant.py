"""What the assistant does, whoever asks: the pages, the HTTP interface or the command line.

An answer is given only after its case is on record; when the record cannot be written, nobody gets
an answer.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CODES, NAMES
from temperance_skin_lesion.decision import Policy, decide
from temperance_skin_lesion.store import Activation, Case, MapRow, PolicyRow, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.intake import Picture
    from temperance_skin_lesion.model import Model

__all__ = ["Active", "Assistant", "load_map", "softmax", "store_map"]


@dataclass(frozen=True, slots=True)
class Active:
    """What is in force at one moment: the map, when it came into use, and the policy."""

    activation: int
    since: str
    map_id: int
    map_row: MapRow
    policy_id: int
    policy: Policy

    def probabilities(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Calibrated probabilities of logits ``(n, 7)``."""
        return calibrated(self.map_row.artefact, logits)


class Assistant:
    """A model with its record."""

    def __init__(self, model: Model, store: Store, keep: Path | None = None) -> None:
        self.model, self.store, self.keep = model, store, keep
        # One network, one core: waiting here is faster than sharing the core.
        self._thinking = threading.Lock()
        with store.writing() as session:
            if db.active_map(session) is None:
                session.add(Activation(map=first_map(model)))
            if db.active_policy(session) is None:
                session.add(PolicyRow(policy=Policy().model_dump()))

    def active(self, session: Session) -> Active:
        """Return what is in force."""
        activation, policy = db.active_map(session), db.active_policy(session)
        if activation is None or policy is None:  # only a damaged file has neither
            msg = "The record holds no map or no policy; restore it from a copy."
            raise RuntimeError(msg)
        return Active(
            activation=activation.id,
            since=activation.at,
            map_id=activation.map_id,
            map_row=activation.map,
            policy_id=policy.id,
            policy=Policy.model_validate(policy.policy),
        )

    def look(self, pictures: Sequence[Picture]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """What the network says of pictures, and which of them are nothing it knows."""
        with self._thinking:
            return self.model.look(np.stack([picture.pixels for picture in pictures]))

    def judge(self, pictures: Sequence[Picture], contents: Sequence[bytes] = ()) -> list[Case]:
        """Judge pictures and put them on record, all or none; ``contents`` are kept if asked to."""
        if not pictures:
            return []
        logits, foreign = self.look(pictures)
        if self.keep is not None:  # before the record, which then never names a missing picture
            for picture, content in zip(pictures, contents, strict=True):
                _keep(self.keep, picture, content)
        with self.store.writing() as session:
            active = self.active(session)
            probabilities = active.probabilities(logits)
            cases = [
                _case(picture, z, p, active, self.model.id, foreign=bool(f))
                for picture, z, p, f in zip(pictures, logits, probabilities, foreign, strict=True)
            ]
            session.add_all(cases)
        return cases


def first_map(model: Model) -> MapRow:
    """Temperature scaling on the labelled validation rows: what can be said before any clinic."""
    source = model.source
    fitted = tp.fit_temperature(source.logits, source.labels)
    p = fitted.predict_proba(source.logits.astype(np.float64))
    return MapRow(
        origin="shipped",
        model=model.id,
        artefact=store_map(fitted, prior=source.prior),
        verdict="labelled",
        summary={
            "temperature": [fitted.temperature] * 3,
            "bias": None,
            "prior": source.prior.tolist(),
            "rows": len(source.labels),
            "findings": [],
        },
        reference=reference(p),
        within_agreement=True,
        report="",
        status="accepted",
        decided=db.now(),
    )


def reference(p: NDArray[np.float64]) -> dict[str, Any]:
    """Predicted mix and confidence of the rows a map was made from: where drift starts."""
    top = p.max(axis=1)
    mix = np.bincount(p.argmax(axis=1), minlength=len(CODES)) / len(p)
    return {
        "rows": len(p),
        "mix": mix.tolist(),
        "confidence": float(top.mean()),
        "deviation": float(top.std()),
    }


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities of the network as it is."""
    return tp.Temperature(1.0).predict_proba(np.asarray(logits, dtype=np.float64))


def store_map(fitted: Any, **facts: Any) -> str:
    """Return a map or a calibration as the text of its artefact."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "map.json"
        tp.save(fitted, path, classes=list(NAMES), **facts)
        return path.read_text("utf-8")


@lru_cache(maxsize=64)
def load_map(artefact: str) -> Any:
    """Return the map in an artefact; the text is checked against its own hash."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "map.json"
        path.write_text(artefact, "utf-8")
        loaded = tp.load(path)
    return loaded.map if hasattr(loaded, "map") else loaded


def calibrated(artefact: str, logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities after a stored map."""
    return load_map(artefact).predict_proba(np.asarray(logits, dtype=np.float64))


def _case(
    picture: Picture,
    logits: NDArray[np.float32],
    p: NDArray[np.float64],
    active: Active,
    model: str,
    *,
    foreign: bool,
) -> Case:
    decision = decide(p, active.policy, foreign=foreign)
    return Case(
        sha256=picture.sha256,
        width=picture.width,
        height=picture.height,
        model=model,
        map_id=active.map_id,
        policy_id=active.policy_id,
        logits=[float(z) for z in logits],
        probabilities=[float(v) for v in p],
        predicted=decision.predicted,
        decision=decision.word,
        rule=decision.rule,
        why=decision.why,
    )


def _keep(directory: Path, picture: Picture, content: bytes) -> None:
    """Store a picture under its hash, whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{picture.sha256}.{picture.format.lower()}"
    partial = target.with_suffix(f".{os.getpid()}-{threading.get_ident()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)  # a full disk needs its space

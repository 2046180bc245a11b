"""What the assistant does, whoever asks: the pages, the HTTP interface or the command line.

An answer is given only after its case is on record; when the record cannot be written, nobody gets
an answer.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.special import expit
from sqlalchemy import func, select

import temperance as tp
from temperance_skin_lesion import audit, quality
from temperance_skin_lesion import store as db
from temperance_skin_lesion.classes import CODES, MALIGNANT, NAMES
from temperance_skin_lesion.decision import Policy, decide, examine
from temperance_skin_lesion.store import Activation, Case, MapRow, PolicyRow, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.decision import Decision, Examined
    from temperance_skin_lesion.intake import Picture
    from temperance_skin_lesion.model import Look, Model

__all__ = [
    "Active",
    "Assistant",
    "Judged",
    "Origin",
    "facts_of",
    "judged_with",
    "load_map",
    "softmax",
    "store_map",
]

SYSTEM = "set-up"
"""Who brought the first map and the first policy into force."""

STRAY_SECONDS = 3600
"""Age from which a picture without a case belongs to no request that is under way."""

QUANTILE = 1.6449
"""Of the normal distribution, for intervals of 90 %."""


REMEMBERED = 8
"""Answers that are kept for those who ask again."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where pictures come from; pseudonyms, never names."""

    lesion: str = ""
    site: str = ""
    camera: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows after a map: probabilities, orientations that agree, P(malignant) with interval."""

    p: NDArray[np.float64]
    agreement: NDArray[np.int64]
    malignant: NDArray[np.float64]
    dark: NDArray[np.bool_] | None = None

    def examined(self, policy: Policy) -> Examined:
        """What every rule says of the rows."""
        return examine(self.p, policy, self.agreement, self.dark)


@dataclass(frozen=True, slots=True)
class Active:
    """What is in force at one moment: the map, the policy, and since when."""

    activation: int
    since: str
    by: str
    map_id: int
    map_row: MapRow
    policy_id: int
    policy: Policy

    def probabilities(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Calibrated probabilities of logits ``(n, 7)``."""
        return calibrated(self.map_row.artefact, logits)

    def judged(self, logits: NDArray[Any], views: NDArray[Any]) -> Judged:
        """Rows after the map in force."""
        return judged_with(self.map_row, logits, views)


def judged_with(row: MapRow, logits: NDArray[Any], views: NDArray[Any]) -> Judged:
    """Return rows after a map.

    The interval of P(malignant), on the scale of log odds, joins two errors: how much the answer
    depends on the orientation of the picture, and how well the temperature is known.
    """
    p = calibrated(row.artefact, logits)
    n, ways = views.shape[:2]
    turned = calibrated(row.artefact, views.reshape(n * ways, -1)).reshape(n, ways, -1)
    agreement = (turned.argmax(axis=2) == p.argmax(axis=1)[:, None]).sum(axis=1)
    centre = _log_odds(p)
    by_view = _log_odds(turned).std(axis=1, ddof=1)
    temperature, low, high = row.summary["temperature"]
    # A temperature T' instead of T multiplies the differences between calibrated logits by T / T'.
    calm = tp.from_probabilities(p)
    ends = [_log_odds(tp.Temperature(end / temperature).predict_proba(calm)) for end in (low, high)]
    by_map = np.abs(ends[1] - ends[0]) / (2 * QUANTILE)
    width = QUANTILE * np.hypot(by_view, by_map)
    interval = np.stack([expit(centre), expit(centre - width), expit(centre + width)], axis=1)
    return Judged(p=p, agreement=agreement, malignant=interval)


class Assistant:
    """A model with its record."""

    def __init__(self, model: Model, store: Store, keep: Path | None = None) -> None:
        self.model, self.store, self.keep = model, store, keep
        # One network, one core: waiting here is faster than sharing the core.
        self._thinking = threading.Lock()
        self._remembered: dict[Any, Future[Any]] = {}
        self._remembering = threading.Lock()
        with store.writing() as session:
            active = db.in_force(session)
            if active is None or active.map.model != model.id:
                policy = active.policy if active else first_policy()
                row = first_map(model)
                session.add(Activation(map=row, policy=policy, by=SYSTEM))
                session.flush()
                about = {"model": model.id, "map": row.id, "policy": policy.policy}
                about["artefact"] = audit.digest(row.artefact)
                audit.enter(session, SYSTEM, "set up", about)
        if keep is not None and keep.is_dir():
            self._forget_strays(keep)

    def _forget_strays(self, keep: Path) -> None:
        """Delete old pictures without a case: a process was killed before it wrote the cases."""
        old = time.time() - STRAY_SECONDS
        strays = [path for path in keep.iterdir() if path.stat().st_mtime < old]
        with self.store.reading() as session:
            known = set(session.scalars(select(Case.sha256).where(Case.kept.is_not(None))))
        for path in strays:
            if path.name.partition(".")[0] not in known or path.suffix == ".partial":
                path.unlink(missing_ok=True)

    def active(self, session: Session) -> Active:
        """Return what is in force."""
        activation = db.in_force(session)
        if activation is None:  # only a damaged file has none
            msg = "The record holds no map or no policy; restore it from a copy."
            raise RuntimeError(msg)
        return Active(
            activation=activation.id,
            since=activation.at,
            by=activation.by,
            map_id=activation.map_id,
            map_row=activation.map,
            policy_id=activation.policy_id,
            policy=Policy.model_validate(activation.policy.policy),
        )

    def remember(self, key: tuple[Any, ...], make: Callable[[], Answer]) -> Answer:
        """Return what ``make`` returns, or what it returned for this key a short while ago.

        For answers that take longer than a moment; the newest few are kept. Of several who ask at
        once, one makes the answer and the others wait for it.
        """
        with self._remembering:
            asked_before = key in self._remembered
            answer = self._remembered.setdefault(key, Future())
            while len(self._remembered) > REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
        if not asked_before:
            try:
                answer.set_result(make())
            except BaseException as error:  # noqa: BLE001 - told to whoever waits
                with self._remembering:
                    self._remembered.pop(key, None)
                answer.set_exception(error)
        return answer.result()

    def look(self, pictures: Sequence[Picture]) -> Look:
        """What the network says of pictures, and which of them are nothing it knows."""
        with self._thinking:
            return self.model.look(np.stack([picture.pixels for picture in pictures]))

    def judge(
        self,
        pictures: Sequence[Picture],
        contents: Iterable[bytes] = (),
        *,
        by: str = "local",
        origin: Origin | None = None,
        hidden: bool = False,
    ) -> list[Case]:
        """Judge pictures and put them on record, all or none.

        ``contents`` are kept if the server keeps pictures.
        """
        if not pictures:
            return []
        origin = origin or Origin()
        seen = self.look(pictures)
        with _kept(self.keep, pictures, contents), self.store.writing() as session:
            active = self.active(session)
            rows = active.judged(seen.logits, seen.views)
            first = _first_cases(session, [picture.sha256 for picture in pictures])
            cases = []
            for i, picture in enumerate(pictures):
                case = self._case(picture, seen, rows, i, active)
                case.by, case.hidden = by, hidden
                case.lesion = origin.lesion or f"picture-{picture.sha256[:16]}"
                case.site, case.camera = origin.site, origin.camera
                case.kept = picture.format.lower() if self.keep else None
                case.repeats = first.get(picture.sha256)
                session.add(case)
                session.flush()
                first.setdefault(picture.sha256, case.id)
                cases.append(case)
            covered = audit.digest([audit.case_facts(case) for case in cases])
            about = {"cases": [case.id for case in cases], "digest": covered}
            audit.enter(session, by, "judged", about)
        return cases

    def _case(self, picture: Picture, seen: Look, rows: Judged, i: int, active: Active) -> Case:
        measured = quality.measure(picture.pixels)
        decision = decide(
            rows.p[i],
            active.policy,
            agreement=int(rows.agreement[i]),
            foreign=bool(seen.foreign[i]),
            dark=quality.is_dark(measured),
            faults=quality.faults(measured),
        )
        return Case(
            sha256=picture.sha256,
            width=picture.width,
            height=picture.height,
            quality=measured._asdict(),
            **facts_of(decision, rows, i, seen.logits, seen.views, self.model.id, active),
        )


def facts_of(
    decision: Decision,
    rows: Judged,
    i: int,
    logits: NDArray[Any],
    views: NDArray[Any],
    model: str,
    active: Active,
) -> dict[str, Any]:
    """Return the columns of a case that say how row ``i`` was judged."""
    return {
        "model": model,
        "map_id": active.map_id,
        "policy_id": active.policy_id,
        "logits": [float(z) for z in logits[i]],
        "views": [[round(float(z), 4) for z in view] for view in views[i]],
        "probabilities": [float(v) for v in rows.p[i]],
        "malignant": [float(v) for v in rows.malignant[i]],
        "agreement": int(rows.agreement[i]),
        "predicted": decision.predicted,
        "decision": decision.word,
        "urgency": decision.urgency,
        "rule": decision.fired[0].rule if decision.fired else "answer",
        "why": decision.summary,
        "rules": [[fired.rule, fired.why] for fired in decision.fired],
    }


def first_policy() -> PolicyRow:
    """Return the policy of a new installation."""
    return PolicyRow(
        by=SYSTEM,
        policy=Policy().model_dump(),
        reason="rules of a new installation",
        comparison={},
        status="accepted",
        decided=db.now(),
        decided_by=SYSTEM,
    )


def first_map(model: Model) -> MapRow:
    """Temperature scaling on the labelled validation rows: what can be said before any clinic."""
    source = model.source
    value, low, high = model.facts["temperature"]
    fitted = tp.Temperature(value)
    p = fitted.predict_proba(source.logits.astype(np.float64))
    return MapRow(
        by=SYSTEM,
        origin="shipped",
        model=model.id,
        artefact=store_map(fitted, prior=source.prior),
        verdict="labelled",
        summary={
            "temperature": [value, low, high],
            "bias": None,
            "prior": source.prior.tolist(),
            "rows": model.facts["validation"]["rows"],
            "findings": [],
        },
        reference=reference(p),
        report="",
        status="accepted",
        decided=db.now(),
        decided_by=SYSTEM,
    )


def reference(p: NDArray[np.float64]) -> dict[str, Any]:
    """Number and predicted mix of the rows that a map was made from."""
    mix = np.bincount(p.argmax(axis=1), minlength=len(CODES)) / len(p)
    return {"rows": len(p), "mix": mix.tolist()}


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities of the network as it is."""
    return tp.Temperature(1.0).predict_proba(np.asarray(logits, dtype=np.float64))


def store_map(fitted: Any, **facts: Any) -> str:
    """Return a map or a calibration as the text of its artefact."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "map.json"
        if isinstance(fitted, tp.Calibration):
            fitted.save(path)
        else:
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


def _log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log odds of any malignant class, over the last axis."""
    benign = [k for k in range(p.shape[-1]) if k not in MALIGNANT]
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(p[..., MALIGNANT].sum(-1), tiny)) - np.log(
        np.maximum(p[..., benign].sum(-1), tiny)
    )


def _first_cases(session: Session, hashes: list[str]) -> dict[str, int]:
    """Return the first case of each picture that was judged before."""
    rows = session.execute(
        select(Case.sha256, func.min(Case.id).label("first"))
        .where(Case.sha256.in_(hashes))
        .group_by(Case.sha256)
    )
    return {row.sha256: row.first for row in rows}


@contextmanager
def _kept(
    directory: Path | None, pictures: Sequence[Picture], contents: Iterable[bytes]
) -> Iterator[None]:
    """Keep pictures under their hashes while their cases are written; none if that fails.

    Whoever sends a picture that is there already touches it: it stays although the first fails.
    """
    new: dict[Path, int] = {}
    try:
        if directory is not None:
            db.private_directory(directory)
            for picture, content in zip(pictures, contents, strict=True):
                target = directory / f"{picture.sha256}.{picture.format.lower()}"
                if target in new:
                    continue
                if target.exists():
                    target.touch()
                else:
                    _write_private(target, content)
                    new[target] = target.stat().st_mtime_ns
        yield
    except BaseException:
        for path, written in new.items():  # cases that are not on record have no pictures
            if path.exists() and path.stat().st_mtime_ns == written:
                path.unlink(missing_ok=True)
        raise


def _write_private(target: Path, content: bytes) -> None:
    """Write a file of its owner's, whole or not at all."""
    partial = target.with_suffix(f".{os.getpid()}-{threading.get_ident()}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)  # a full disk needs its space

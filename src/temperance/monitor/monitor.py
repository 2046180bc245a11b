"""`Monitor`: a model in use, window by window."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from temperance._core.arrays import to_numpy
from temperance._core.checks import (
    InputError,
    check_classes,
    check_number,
    check_order,
    check_same_classes,
    shown,
)
from temperance._core.files import MAX_REASON, ascii_words, shown_path
from temperance._version import __version__
from temperance.calibrate import calibrate
from temperance.calibrate.constants import POLICY
from temperance.calibrate.problem import Prior, as_prior
from temperance.calibrate.result import MOST_CLASSES, Calibration
from temperance.data import as_rows
from temperance.data.given import LabelledSample, draw_rows, fingerprint, read_source
from temperance.data.types import LogitsLike, PriorLike, SourceLike
from temperance.io import artefact
from temperance.io.npy import unpack_npz
from temperance.maps import IDENTITY, Map
from temperance.monitor import export, state
from temperance.monitor.alarms import Alarm, Limits, Timeline
from temperance.monitor.change import Ranks
from temperance.monitor.reference import Reference
from temperance.monitor.state import Record, instant, moment, place_of
from temperance.monitor.window import MOST_NAMED, SHARED, Window, describe, interval, restored, slim

MOST_SEGMENTS = 25  # in one window, which stays below 20 kB with them
NOT_OF_SEGMENTS = ("precision", "f1", "proposed")
START = "start"  # name of the map that is in use before any was accepted


@dataclass(frozen=True)
class Proposal:
    """A calibration that may take the place of the map in use: the answer of `Monitor.propose`.

    Attributes
    ----------
    calibration : Calibration
        Of the last window.
    within_limits : bool
        Whether the estimates of the proposed map keep every limit, and a gain over the map in use
        is expected.
    compare : dict
        ``accuracy`` and ``ece``, each with ``in_use`` and ``proposed``, and ``gain``, the expected
        fall of the Brier score against the map in use. Intervals of 90 %.
    at : str
        Date of the window.
    """

    calibration: Calibration
    within_limits: bool
    compare: dict[str, Any]
    at: str
    window: str
    in_use: str


class Monitor:
    """A model in use: estimates without labels for each window, and alarms at a stated rate.

    Parameters
    ----------
    source : pair (logits, labels)
        Labelled rows from before any shift: the reference. They are kept in the saved state.
    prior : class mix of the windows, optional
        As `temperance.calibrate` takes it.
    classes : sequence of K names, optional
        In the order of the columns.
    limits : Limits, optional
        What the model has to keep to.
    false_alarms_per : float
        Windows in which one false alarm is accepted, as long as nothing changes.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> def rows(n, signal):
    ...     y = rng.integers(4, size=n)
    ...     return 4 * (signal * np.eye(4)[y] + rng.normal(size=(n, 4))), y
    >>> mon = tp.Monitor(source=rows(2000, 3.0), limits=tp.Limits(accuracy=0.85))
    >>> [len(mon.add(rows(800, 3.0)[0], at=f"2026-11-0{day}").alarms) for day in (1, 2, 3)]
    [0, 0, 0]
    >>> window = mon.add(rows(800, 1.0)[0], at="2026-11-04")
    >>> loudest = window.alarms[0]
    >>> loudest.kind, loudest.what, loudest.severity
    ('change', 'confidence, similarity', 'medium')
    """

    def __init__(
        self,
        source: SourceLike,
        prior: PriorLike | None = None,
        classes: Sequence[Any] | None = None,
        limits: Limits | None = None,
        false_alarms_per: float = 365,
    ) -> None:
        if not (isinstance(source, (tuple, list)) and len(source) == 2):
            msg = f"source must be a pair (logits, labels). Got {type(source).__name__} instead."
            raise InputError(msg)
        k = as_rows(source[0], name="source logits").n_classes
        names = None if classes is None else check_classes(classes, k, as_text=True)
        if k > MOST_CLASSES:
            msg = f"source must have at most {MOST_CLASSES:,} classes for a monitor. Got {k:,}."
            raise InputError(f"{msg} Call temperance.calibrate on each window instead.")
        sample = read_source(source, k, names)
        if len(sample.labels) < POLICY.least_rows:
            msg = f"source must have at least {POLICY.least_rows} rows. Got {len(sample.labels)}"
            raise InputError(f"{msg}: a reference of fewer rows tells no change from chance.")
        mix = None if prior is None else as_prior(prior, k, names)
        check_number(false_alarms_per, "false_alarms_per", low=1, high=1e9)
        if not isinstance(limits, Limits | None):
            msg = "limits must be like temperance.Limits(accuracy=0.85). Got"
            raise InputError(f"{msg} {type(limits).__name__} instead.")
        self._open(
            {
                "format": state.STATE_FORMAT,
                "version": state.STATE_VERSION,
                "package": __version__,
                "classes": [str(name) for name in names or range(k)],
                "prior": None if mix is None else _prior_facts(mix),
                "limits": asdict(limits or Limits()),
                "false_alarms_per": float(false_alarms_per),
                "source": _packed(sample),
            }
        )

    def _open(self, header: Record) -> None:
        self.classes: list[str] = header["classes"]
        self.limits = Limits(**header["limits"])
        self.limits.check_classes(self.classes)
        self.false_alarms_per = float(header["false_alarms_per"])
        self._prior = None if header["prior"] is None else _prior(header["prior"])
        self._sample = _unpacked(header["source"], len(self.classes))
        self._ranks = Ranks(self._sample)
        self._reference = Reference(self._sample, self._ranks)
        self._records: dict[str, Record] = {state.digest(header): header}
        self._calibrations: dict[str, Calibration] = {}  # with their rows, while the process lives
        self._timeline: Timeline | None = None

    def add(
        self,
        logits: LogitsLike | None,
        at: object = None,
        segments: Any = None,
        labelled: SourceLike | None = None,
    ) -> Window:
        """Add a window, or labels of a window that was added before.

        Parameters
        ----------
        logits : array of shape (n, K) or rows, or None
            The model's own logits. None where only labels of an earlier window are added; they
            then count for accuracy, calibration error and recall. With the rows of that window they
            count for everything.
        at : date or datetime, or a string in ISO 8601, optional
            Of the window; windows may come in any order. The present without it.
        segments : array of shape (n,), or dict of such arrays by column, optional
            Each value gets its own estimates and alarms.
        labelled : pair (logits, labels), optional
            Labelled rows of this window.

        Returns
        -------
        Window
            Fewer than thirty rows are refused; their change is pooled with the next window.
        """
        when = _now() if at is None else moment(at)
        if logits is None:
            return self._add_labels(when, labelled)
        rows = as_rows(logits)
        check_same_classes(rows.n_classes, len(self.classes), "logits")
        check_order(logits, self.classes, "logits")
        columns = _columns(segments, rows.n)
        drawn = draw_rows(rows, np.random.default_rng(0))
        z = to_numpy(drawn.logits)
        key = hashlib.sha256(f"{when} {fingerprint(z)}".encode()).hexdigest()[:16]
        known = self._by_id().get(key)
        if segments is None and labelled is None and known is not None:
            return self._window(key)
        name, used = self._in_use(instant(when))
        cal = calibrate(rows, self._prior, self._sample, labelled=labelled, classes=self.classes)
        self._calibrations = {key: cal}
        same_mix = None
        if self._prior is None and labelled is None and len(self.classes) > 2:
            mix = self._reference.mix
            same_mix = calibrate(z, mix, self._sample, classes=self.classes)
        facts = {
            "kind": "window",
            "id": key,
            "at": when,
            "written": _now(precise=True),
            "in_use": name,
            "n_labelled": cal.details["n_labelled"],
            "calibration": slim(cal),
            **self._estimated(cal, same_mix, z, used, POLICY.level),
            "segments": self._segments(z, drawn.numbers, columns, used),
        }
        if segments is None and known is not None:  # labels of a window that is there
            facts["segments"] = known["segments"]
        self._append(state.rounded(facts))
        return self._window(key)

    def _estimated(
        self,
        cal: Calibration,
        same_mix: Calibration | None,
        z: NDArray[Any],
        used: Map,
        level: float,
    ) -> dict[str, Any]:
        """Return the estimates of some rows, and their sums for the comparison with others."""
        tally = self._ranks.tally(z)
        joined = self._reference.join(cal, same_mix, z, tally)
        estimates = describe(joined, z, used, list(self.limits.recall), level)
        return {"estimates": estimates, "change": tally.to_dict()}

    def _segments(
        self, z: NDArray[Any], drawn: NDArray[Any], columns: dict[str, NDArray[Any]], used: Map
    ) -> dict[str, Any]:
        """Return the facts of each segment; its intervals hold together with all others."""
        found = {
            f"{column}={value}": np.flatnonzero(values[drawn] == value)
            for column, values in columns.items()
            for value in np.unique(values[drawn])
        }
        if len(found) < sum(len(np.unique(values[drawn])) for values in columns.values()):
            msg = "segments must differ in column or value. Got two that are both written"
            raise InputError(f"{msg} column=value alike: leave '=' out of the name of a column.")
        if len(found) > MOST_SEGMENTS:
            msg = f"segments must have at most {MOST_SEGMENTS} values in a window. Got {len(found)}"
            raise InputError(f"{msg}: join rare values, or cut numbers into ranges.")
        level = 1 - (1 - POLICY.level) / max(len(found), 1)
        facts: dict[str, Any] = {}
        for key, places in found.items():
            cal = calibrate(z[places], source=self._sample, classes=self.classes)
            part = self._estimated(cal, None, z[places], used, level)
            estimates, recall = part["estimates"], part["estimates"].get("recall", {})
            estimates["recall"] = {name: recall[name] for name in self.limits.recall if recall}
            shorter = {"by_class": []} | ({} if len(self.classes) <= MOST_NAMED else {"counts": []})
            facts[key] = {
                "estimates": {n: v for n, v in estimates.items() if n not in NOT_OF_SEGMENTS},
                "findings": [one.to_dict() for one in cal.findings if one.severity == "refuse"],
                "label_next": [int(drawn[places[row]]) for row in cal.details["label_next"][:5]],
                "change": part["change"] | shorter,
            }
        return facts

    def _add_labels(self, when: str, labelled: SourceLike | None) -> Window:
        held = [window for window in self.windows if instant(window.at) == instant(when)]
        if not held or labelled is None:
            dates = ", ".join(w.at for w in self.windows[-3:]) or "none"
            msg = f"add needs logits, or labelled rows of a window that is there. Got {when}, and "
            raise InputError(f"{msg}the last windows are: {dates}.")
        few = read_source(labelled, len(self.classes), self.classes, name="labelled")
        _, used = self._in_use(instant(when))
        right = np.asarray(used(few.logits)).argmax(axis=1) == few.labels
        by_class = {
            self.classes[k]: [int((few.labels == k).sum()), int(right[few.labels == k].sum())]
            for k in np.unique(few.labels)
        }
        facts = {
            "kind": "labels",
            "window": held[-1].id,
            "rows": fingerprint(few.logits, few.labels)[:16],
            "n": len(right),
            "hits": int(right.sum()),
            "by_class": by_class,
        }
        if not any(facts.items() <= one.items() for one in self._records.values()):
            self._append(facts | {"written": _now(precise=True)})
        return self._window(held[-1].id)

    @property
    def windows(self) -> list[Window]:
        """Return the windows in the order of their dates."""
        return list(self._replayed().windows)

    @property
    def alarms(self) -> list[Alarm]:
        """Return all alarms in the order of their dates, the loudest of a window first."""
        return [alarm for window in self._replayed().windows for alarm in window.alarms]

    @property
    def map(self) -> Map:
        """Return the map in use; the identity until a calibration is accepted."""
        return self._in_use(None)[1]

    @property
    def history(self) -> list[dict[str, Any]]:
        """Return the decisions on the map in use, oldest first."""
        names = ("kind", "written", "after", "window", "map")
        return [{name: one.get(name) for name in names} for one in self._decisions()]

    def propose(self) -> Proposal:
        """Return the calibration of the last window, compared with the map in use."""
        name, _ = self._in_use(None)
        held = [one for one in self._by_id().values() if "proposed" in one["estimates"]]
        records = [one for one in held if one["in_use"] == name]
        if not records:
            msg = "propose needs a window that was estimated with the map in use. Got none since "
            raise InputError(f"{msg}the last decision: add a window first.")
        last = max(records, key=place_of)
        return self._proposal(last, self._window(last["id"]))

    def _proposal(self, record: Record, window: Window) -> Proposal:
        """Return what a window proposes."""
        new = record["estimates"]["proposed"]
        compare: dict[str, Any] = {
            what: {"in_use": getattr(window, what), "proposed": interval(new[what])}
            for what in ("accuracy", "ece")
        }
        kept = all(
            found is not None and (found[0] <= limit if "error" in what else found[0] >= limit)
            for what, found, limit in self.limits.of(new["accuracy"], new["ece"], new["recall"])
        )
        cal = self._calibrations.get(record["id"])
        return Proposal(
            calibration=cal or restored(record["calibration"], self._shared()),
            within_limits=kept and new["gain"][0] > 0,
            compare=compare | {"gain": interval(new["gain"])},
            at=record["at"],
            window=record["id"],
            in_use=record["in_use"],
        )

    def accept(self, proposal: Proposal | Calibration | Map) -> None:
        """Take a map into use for later windows; change is measured from its window on.

        A calibration or a map in place of a proposal says what the model had in use from the
        beginning.
        """
        if isinstance(proposal, Proposal) and proposal.in_use != self._in_use(None)[0]:
            msg = "proposal must be compared with the map in use. The map in use has changed since:"
            raise InputError(f"{msg} call propose() again.")
        window = proposal.window if isinstance(proposal, Proposal) else None
        given = proposal.calibration if isinstance(proposal, Proposal) else proposal
        new = given.map if isinstance(given, Calibration) else given
        if not isinstance(new, Map):
            msg = "proposal must be that of propose(), a calibration or a map. Got "
            raise InputError(f"{msg}{type(new).__name__} instead.")
        if new.n_classes is not None:
            check_same_classes(new.n_classes, len(self.classes), "the map")
        self._decide("accept", map=artefact.describe_map(new), window=window)

    def rollback(self) -> None:
        """Take the map that was in use before into use again."""
        if self._in_use(None)[0] == START:
            raise InputError("rollback needs a map that was accepted. Got none: nothing to undo.")
        self._decide("rollback")

    def _decide(self, kind: str, **facts: Any) -> None:
        windows = self.windows
        after = windows[-1].at if windows else None
        self._append({"kind": kind, "written": _now(precise=True), "after": after} | facts)

    def _decisions(self) -> list[Record]:
        kinds = ("accept", "rollback")
        found = [r for r in self._records.values() if r.get("kind") in kinds]
        return sorted(found, key=lambda r: instant(r["written"]))

    def _in_use(self, when: dt.datetime | None) -> tuple[str, Map]:
        """Return the map in use at a moment, or now, and its name."""
        stack: list[tuple[str, Map]] = [(START, IDENTITY)]
        for one in self._decisions():
            if when is not None and one["after"] is not None and instant(one["after"]) >= when:
                continue
            if one["kind"] == "accept":
                stack.append((state.digest(one), artefact.build_map(one["map"])))
            elif len(stack) > 1:
                stack.pop()
        return stack[-1]

    def _append(self, record: Record) -> None:
        self._records[state.digest(record)] = record
        line = self._timeline
        if line is None:
            return
        if record["kind"] == "window" and (line.last is None or line.last < place_of(record)):
            line.step(record, [])
        else:  # late, or a decision: all is computed again
            self._timeline = None

    def _by_id(self) -> dict[str, Record]:
        """Return the windows by name; of two with the same rows and date, the one written last."""
        found = [r for r in self._records.values() if r.get("kind") == "window"]
        return {r["id"]: r for r in sorted(found, key=lambda r: instant(r["written"]))}

    def _replayed(self) -> Timeline:
        if self._timeline is not None:
            return self._timeline
        line = Timeline(
            self._ranks, self._reference.accuracy, self.limits, self.false_alarms_per, self.classes
        )
        held = self._by_id()
        labels = [r for r in self._records.values() if r.get("kind") == "labels"]
        accepted = [r for r in self._decisions() if r.get("window") in held]
        for record in sorted(held.values(), key=place_of):
            while accepted and instant(accepted[0]["after"]) < instant(record["at"]):
                line.restart(held[accepted.pop(0)["window"]])
            late = [one for one in labels if one["window"] == record["id"]]
            line.step(record, [one for one in late if one["written"] > record["written"]])
        self._timeline = line
        return line

    def _shared(self) -> dict[str, Any]:
        """Return what the calibrations of all windows have in common."""
        prior, ends = self._prior, (None, None)
        if prior is not None and not prior.exact:
            ends = prior.low.tolist(), prior.high.tolist()
        known = (None, "unknown") if prior is None else (prior.value.tolist(), prior.kind)
        return dict(zip(SHARED, (self.classes, known[0], *ends, known[1]), strict=True))

    def _window(self, key: str) -> Window:
        return next(window for window in self._replayed().windows if window.id == key)

    def merge(self, other: Monitor) -> None:
        """Take over the windows, labels and decisions of a monitor with the same beginning."""
        theirs = other._records if isinstance(other, Monitor) else {}
        if [*theirs][:1] != [*self._records][:1]:
            msg = "other must be a monitor with the same source and settings. Got another one."
            raise InputError(f"{msg} Begin both from one saved state.")
        self._records |= theirs
        self._timeline = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file what it lacks; a file of the same monitor keeps what it has.

        Once this returns, the windows are on the disk, and those of other processes that write to
        the same file are there too.
        """
        state.write(path, self._records)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the monitor that `save` wrote, without an incomplete last line, with a warning."""
        records = state.read(path)
        if not records:
            msg = f"path must be the state of a monitor. Got {shown_path(path)}, which is empty."
            raise InputError(msg)
        self = cls.__new__(cls)
        try:
            self._open(next(iter(records.values())))
            self._records = records
            self._read_all()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            name, reason = shown_path(path), ascii_words(str(error))[:MAX_REASON]
            msg = f"path must be the state of a monitor. {name} lacks a fact, or one is wrong"
            raise InputError(f"{msg} ({type(error).__name__}: {reason}).") from None
        return self

    def _read_all(self) -> None:
        """Read each record as later calls read it: what is wrong in one is told when it is loaded.

        Checksums find damage. This finds facts that no version of this class has written.
        """
        self._in_use(None)
        held = self._by_id()
        for window in self.windows:
            if "proposed" in held[window.id]["estimates"]:
                self._proposal(held[window.id], window)
        json.dumps([asdict(window) for window in self.windows], allow_nan=False)
        self.prometheus()

    def frame(self) -> Any:
        """Return one row for each window and segment, in a pandas or a polars data frame."""
        return export.frame(self.windows)

    def prometheus(self) -> str:
        """Return the last window with estimates or alarms, in the text format of Prometheus."""
        return export.prometheus(self)

    def to_html(self, path: str | os.PathLike[str] | None = None, **words: str | None) -> str:
        """Return the page with a time axis, and write it when a path is given.

        Parameters
        ----------
        path : path of the file, optional
        **words : str, optional
            ``title``, ``model`` and ``date``, as in `Calibration.to_html`.
        """
        from temperance.report.monitor_page import monitor_html

        return monitor_html(self, path, **words)

    def __str__(self) -> str:
        """Return the last window and the number of alarms."""
        windows = self.windows
        if not windows:
            return "no windows yet"
        return f"{len(windows)} windows, {len(self.alarms)} alarms; last:\n{windows[-1]}"


def _now(*, precise: bool = False) -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds" if precise else "seconds")


def _columns(segments: Any, n: int) -> dict[str, NDArray[Any]]:
    """Return the values of each column of segments as text."""
    if segments is None:
        return {}
    if hasattr(segments, "columns"):  # a data frame
        segments = {column: segments[column] for column in segments.columns}
    elif not isinstance(segments, Mapping):
        segments = {"segment": segments}
    try:
        found = {str(column): np.asarray(value).astype(str) for column, value in segments.items()}
        "".join(text for values in found.values() for text in np.unique(values)).encode()
    except (TypeError, ValueError):  # objects, or bytes of a name in another encoding
        msg = "segments must be numbers, or text that UTF-8 can write. Got others: give each value"
        raise InputError(f"{msg} a name.") from None
    for column, values in found.items():
        if values.shape != (n,):
            msg = f"segments must have one value for each of the {n:,} rows. Got shape "
            raise InputError(f"{msg}{values.shape} for {shown(column)}.")
    return found


def _prior_facts(prior: Prior) -> dict[str, Any]:
    rows = prior.rows if np.isfinite(prior.rows) else None
    ends = {"value": prior.value, "low": prior.low, "high": prior.high}
    return {"kind": prior.kind, "rows": rows} | {n: v.tolist() for n, v in ends.items()}


def _prior(facts: dict[str, Any]) -> Prior:
    value, low, high = (np.array(facts[name], float) for name in ("value", "low", "high"))
    rows = np.inf if facts["rows"] is None else check_number(facts["rows"], "rows", low=1)
    return Prior(value, facts["kind"], low, high, rows)


def _packed(sample: LabelledSample) -> str:
    file = io.BytesIO()
    np.savez_compressed(file, logits=to_numpy(sample.logits), labels=sample.labels)
    return base64.b64encode(file.getvalue()).decode()


def _unpacked(text: str, n_classes: int) -> LabelledSample:
    packed = base64.b64decode(text, validate=True)
    logits, labels = unpack_npz(packed, ("logits", "labels"), "the source in the state")
    return read_source((logits, labels), n_classes)

"""Numbers of a monitor for others: data frames and Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from temperance._core.checks import InputError
from temperance.monitor.alarms import SEVERITIES
from temperance.monitor.state import instant
from temperance.monitor.window import Window

if TYPE_CHECKING:
    from temperance.monitor.monitor import Monitor

ENDS = ("", "_low", "_high")


def facts_of(window: Window) -> Iterator[dict[str, Any]]:
    """Yield the numbers of a window and of its segments."""
    for name, held in {None: window, **window.segments}.items():
        alarms = [alarm for alarm in window.alarms if alarm.segment == name]
        yield {
            "at": window.at,
            "segment": name,
            "rows": held.rows,
            "labelled": window.n_labelled if name is None else 0,
            "verdict": held.verdict,
            "confidence": held.confidence,
            **{
                f"{what}{end}": None if found is None else found[place]
                for what in ("accuracy", "ece", "auc")
                for found in [getattr(held, what)]
                for place, end in enumerate(ENDS)
            },
            "alarms": len(alarms),
            "severity": alarms[0].severity if alarms else None,
        }


def frame(windows: Sequence[Window]) -> Any:
    """Return windows and segments as a pandas or a polars data frame."""
    rows = [facts for window in windows for facts in facts_of(window)]
    with suppress(ImportError):
        import pandas as pd

        return pd.DataFrame(rows)
    with suppress(ImportError):
        import polars as pl

        return pl.DataFrame(rows, infer_schema_length=None)
    raise InputError("frame needs pandas or polars. Neither is installed: pip install pandas.")


GAUGES = {
    "rows": "Rows of the last window.",
    "confidence": "Mean confidence of the map in use.",
    "accuracy": "Estimated accuracy, with the ends of its 90% interval.",
    "ece": "Estimated calibration error, with the ends of its 90% interval.",
}


def prometheus(monitor: Monitor) -> str:
    """Return the last window of which something is known, its segments and alarms, as gauges."""
    windows = monitor.windows
    lines = _gauge("windows", "Windows so far.", [("", float(len(windows)))])
    if not windows:
        return "".join(lines)
    last = next((w for w in reversed(windows) if w.accuracy or w.alarms), windows[-1])
    rows = list(facts_of(last))
    for name, words in GAUGES.items():
        for end in ENDS if name in {"accuracy", "ece"} else ENDS[:1]:
            values = [(_labels(segment=row["segment"] or ""), row[name + end]) for row in rows]
            lines += _gauge(name + end, words, values)
    classes = [(_labels(**{"class": name}), share) for name, share in last.mix.items()]
    lines += _gauge("predicted_share", "Share of the predictions by class.", classes)
    counts = [
        (_labels(severity=name), float(sum(one.severity == name for one in last.alarms)))
        for name in SEVERITIES
    ]
    lines += _gauge("alarms", "Alarms of the last window.", counts)
    loss = max((alarm.loss or 0.0 for alarm in last.alarms), default=0.0)
    lines += _gauge("loss", "Largest estimated loss of an alarm.", [("", loss)])
    when = instant(last.at).timestamp()
    lines += _gauge("window_timestamp_seconds", "Date of the last window.", [("", when)])
    return "".join(lines)


def _gauge(name: str, words: str, values: Sequence[tuple[str, float | None]]) -> list[str]:
    full = f"temperance_{name}"
    known = [f"{full}{labels} {value:.10g}\n" for labels, value in values if value is not None]
    return [f"# HELP {full} {words}\n# TYPE {full} gauge\n", *known] if known else []


def _labels(**pairs: str) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in pairs.items()) + "}"

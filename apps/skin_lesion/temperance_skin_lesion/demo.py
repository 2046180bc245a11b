"""Fill a record with cases drawn by code, so that every page of the demo has something to show.

The pictures show no disease, and the "later diagnoses" are drawn at random from the assistant's own
probabilities: they demonstrate the pages, not the model.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from temperance_skin_lesion import audit, intake
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.drawings import lesion_file
from temperance_skin_lesion.store import DiagnosisRow

if TYPE_CHECKING:
    from temperance_skin_lesion.assistant import Assistant

__all__ = ["drawn", "fill"]

WEEKS = 2
PER_WEEK = 32


def drawn(seeds: range) -> list[intake.Picture]:
    """Pictures drawn by code, read like any other file."""
    return [intake.read(lesion_file(seed, side=128), f"drawn-{seed:04d}.jpg") for seed in seeds]


def fill(assistant: Assistant) -> None:
    """Judge drawn pictures as if over the last weeks, and diagnose most of them at random."""
    rng = np.random.default_rng(0)
    today = datetime.now(UTC)
    ages = [
        timedelta(weeks=WEEKS - 1 - i // PER_WEEK, minutes=PER_WEEK - i % PER_WEEK)
        for i in range(WEEKS * PER_WEEK)
    ]
    times = [(today - age).isoformat(timespec="milliseconds") for age in ages]
    cases = assistant.judge(drawn(range(WEEKS * PER_WEEK)), by="demo", times=times)
    with assistant.store.writing() as session:
        for case in cases:
            if rng.random() >= 0.7:
                continue
            p = np.array(case.probabilities)
            code = CODES[int(rng.choice(len(CODES), p=p / p.sum()))]
            row = DiagnosisRow(
                case_id=case.id, lesion=case.lesion, by="demo", code=code, source="histology"
            )
            session.add(row)
            about = {"case": case.id, "lesion": case.lesion, "diagnosis": code}
            about |= {"other": "", "source": "histology"}
            audit.enter(session, "demo", "diagnosis", about)

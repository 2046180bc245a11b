"""Fill a record with cases drawn by code, so that every page of the demo has something to show.

The pictures show no disease, and the "later diagnoses" are drawn at random from the assistant's own
probabilities: they demonstrate the pages, not the model.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from temperance_skin_lesion import intake
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.drawings import lesion_file

if TYPE_CHECKING:
    from temperance_skin_lesion.assistant import Assistant

__all__ = ["drawn", "fill"]

WEEKS = 3
PER_WEEK = 32


def drawn(seeds: range) -> list[intake.Picture]:
    """Pictures drawn by code, read like any other file."""
    return [intake.read(lesion_file(seed, side=128), f"drawn-{seed:04d}.jpg") for seed in seeds]


def fill(assistant: Assistant) -> None:
    """Judge drawn pictures as if over the last weeks, and diagnose half of them at random."""
    rng = np.random.default_rng(0)
    cases = assistant.judge(drawn(range(WEEKS * PER_WEEK)))
    today = datetime.now(UTC)
    with assistant.store.writing() as session:
        for number, case in enumerate(cases):
            age = timedelta(
                weeks=WEEKS - 1 - number // PER_WEEK, minutes=PER_WEEK - number % PER_WEEK
            )
            case.created = (today - age).isoformat(timespec="milliseconds")
            if rng.random() < 0.5:
                p = np.array(case.probabilities)
                case.diagnosis = int(rng.choice(len(CODES), p=p / p.sum()))
                case.diagnosed = today.isoformat(timespec="milliseconds")
            session.merge(case)

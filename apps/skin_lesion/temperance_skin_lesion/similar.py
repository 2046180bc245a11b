"""Validated lesions that the network scores most alike: what became of cases like this one.

Likeness is the Hellinger distance between the mean probabilities over the orientations; each
validation lesion counts once, with its nearest picture. The diagnoses are known (histology,
follow-up or consensus), so the counts need no calibration; they are of the training sites, not of
this clinic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from temperance_skin_lesion.classes import CODES, MALIGNANT
from temperance_skin_lesion.thresholds import share_interval

if TYPE_CHECKING:
    from temperance_skin_lesion.model import Source

__all__ = ["NEIGHBOURS", "Similar", "similar"]

NEIGHBOURS = 30


class Similar(NamedTuple):
    """Diagnoses of the most similar validated lesions, the most frequent first."""

    lesions: int
    diagnoses: list[tuple[str, int]]
    malignant: int
    share: tuple[float, float, float]


def similar(source: Source, logits: Any, leave_out: int | None = None) -> Similar:
    """Count the diagnoses of the `NEIGHBOURS` lesions whose scores are most like ``logits``.

    ``leave_out`` is a lesion not to count: the one itself, when validation lesions are compared.
    """
    here = np.sqrt(softmax(np.asarray(logits, dtype=np.float64)))
    there = np.sqrt(softmax(source.logits.astype(np.float64), axis=1))
    order = np.argsort(-(there @ here), kind="stable")
    if leave_out is not None:
        order = order[source.lesions[order] != leave_out]
    _, first = np.unique(source.lesions[order], return_index=True)
    labels = source.labels[order[np.sort(first)[:NEIGHBOURS]]]
    counts = np.bincount(labels, minlength=len(CODES))
    malignant = int(counts[MALIGNANT].sum())
    ranked = [(CODES[k], int(counts[k])) for k in np.argsort(-counts, kind="stable") if counts[k]]
    return Similar(len(labels), ranked, malignant, share_interval(malignant, len(labels)))

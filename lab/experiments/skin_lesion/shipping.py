"""Store a trained network as the application loads it: weights, validation logits, description."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

import temperance as tp
from temperance_skin_lesion import appearance, network
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import ORIENTATIONS
from temperance_skin_lesion.model import APPEARANCE, combined, orientations

if TYPE_CHECKING:
    from pathlib import Path

    from ham10000 import Lesions
    from numpy.typing import NDArray

__all__ = ["describe", "ship", "store_source"]

DRAWS = 500


def ship(net: network.LesionNet, train: Lesions, validation: Lesions, directory: Path) -> None:
    """Store a trained network with its validation logits and the facts about it."""
    network.save_tail(net, directory)
    # The logits are those of the stored weights, rounding included.
    stored = network.load_tail(net, directory)
    turned = orientations(validation.images).reshape(-1, *validation.images.shape[1:])
    views = network.look(stored, turned)[1].reshape(len(validation), ORIENTATIONS, len(CODES))
    appearance.fit(network.look(net, train.images)[0]).save(directory / APPEARANCE)
    store_source(views, validation, directory)


def store_source(views: NDArray[np.float32], validation: Lesions, directory: Path) -> None:
    """Write the validation rows, from the logits ``(n, 8, 7)`` of their orientations."""
    logits = combined(views)
    np.savez_compressed(
        directory / "source.npz",
        logits=logits,
        views=views.astype(np.float16),
        labels=validation.labels,
        groups=validation.lesions,
        classes=np.array(CODES),
    )
    describe(validation, logits, directory)


def temperature(
    logits: NDArray[np.float32], labels: NDArray[np.int64], lesions: NDArray[np.int64]
) -> list[float]:
    """Temperature of the validation rows with its 90 % interval over lesions drawn again."""
    rng = np.random.default_rng(0)
    _, place = np.unique(lesions, return_inverse=True)
    rows = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
    drawn = []
    for _ in range(DRAWS):
        again = np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))])
        drawn.append(tp.fit_temperature(logits[again], labels[again]).temperature)
    value = tp.fit_temperature(logits, labels).temperature
    return [round(float(t), 4) for t in (value, *np.quantile(drawn, [0.05, 0.95]))]


def describe(validation: Lesions, logits: NDArray[np.float32], directory: Path) -> None:
    """Write the facts about the files of a model."""
    files = {
        path.name: _sha256(path.read_bytes())
        for path in sorted(directory.glob("*"))
        if path.suffix in {".safetensors", ".npz"}
    }
    facts = {
        "name": "lite0-ham10000",
        "licence": "CC-BY-NC-4.0",
        "classes": CODES,
        "side": network.SIDE,
        "first_trained_block": network.FIRST_TRAINED_BLOCK,
        "validation": {
            "rows": len(validation),
            "lesions": len(np.unique(validation.lesions)),
            "accuracy": round(float(np.mean(logits.argmax(1) == validation.labels)), 4),
        },
        "temperature": temperature(logits, validation.labels, validation.lesions),
        "files": files,
        # Maps belong to logits: what only decides who gets an answer leaves the name as it is.
        "sha256": _sha256("".join(h for f, h in files.items() if f != APPEARANCE).encode()),
    }
    (directory / "model.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

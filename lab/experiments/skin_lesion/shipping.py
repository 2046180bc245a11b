"""Store a trained network as the application loads it: weights, validation logits, description."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

from temperance_skin_lesion import appearance, network
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.model import APPEARANCE

if TYPE_CHECKING:
    from pathlib import Path

    from ham10000 import Lesions
    from numpy.typing import NDArray

__all__ = ["describe", "ship"]


def ship(net: network.LesionNet, train: Lesions, validation: Lesions, directory: Path) -> None:
    """Store a trained network with its validation logits and the facts about it."""
    network.save_tail(net, directory)
    # The logits are those of the stored weights, rounding included.
    logits = network.logits(network.load_tail(net, directory), validation.images)
    np.savez_compressed(
        directory / "source.npz",
        logits=logits,
        labels=validation.labels,
        groups=validation.lesions,
        classes=np.array(CODES),
    )
    appearance.fit(network.look(net, train.images)[0]).save(directory / APPEARANCE)
    describe(validation, logits, directory)


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
        "files": files,
        # Maps belong to logits: what only decides who gets an answer leaves the name as it is.
        "sha256": _sha256("".join(h for f, h in files.items() if f != APPEARANCE).encode()),
    }
    (directory / "model.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

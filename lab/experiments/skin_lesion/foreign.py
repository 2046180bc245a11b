"""Learn what a lesion looks like, and measure who is referred for looking otherwise.

    python lab/experiments/skin_lesion/foreign.py [--out DIRECTORY]

writes appearance.npz beside the shipped weights, from the lesions that they were trained on, and
records/foreign.json: the share of the validation lesions of each site that look foreign; the same
for each site when nothing of it was seen; and what becomes of pictures that are no lesions, with
the policy of a new installation alone and with this test before it. The manual quotes the record.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ham10000
import numpy as np
import torch
from PIL import Image
from run import write
from shipping import describe
from sklearn.datasets import load_sample_images
from train import divide

import temperance as tp
from temperance_skin_lesion import appearance, model, network
from temperance_skin_lesion.decision import Policy, examine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

PICTURES = 2000
CROPS = 200


def pictures(arrays: Iterable[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Pictures of any size as the assistant reads them."""
    size = (network.SIDE, network.SIDE)
    return np.stack(
        [
            np.asarray(Image.fromarray(a).convert("RGB").resize(size, Image.Resampling.LANCZOS))
            for a in arrays
        ]
    )


def photographs(seed: int = 0) -> Iterable[NDArray[np.uint8]]:
    """Squares of random size and place from the two photographs that scikit-learn ships."""
    rng = np.random.default_rng(seed)
    for image in load_sample_images().images:
        for _ in range(CROPS):
            side = rng.integers(network.SIDE, min(image.shape[:2]) + 1)
            top, left = (rng.integers(n - side + 1) for n in image.shape[:2])
            yield image[top : top + side, left : left + side]


def no_lesions(directory: Path) -> dict[str, NDArray[np.uint8]]:
    """Pictures that show anything else."""
    with (
        np.load(directory / "cifar10_small.npz") as cifar,
        np.load(directory / "mnist.npz") as digit,
    ):
        return {
            "CIFAR-10 (animals and vehicles)": pictures(cifar["x_test"][:PICTURES]),
            "MNIST (digits)": pictures(digit["x_test"][:PICTURES]),
            "parts of two photographs (a temple, a flower)": pictures(photographs()),
        }


def share(found: NDArray[np.bool_]) -> dict[str, int]:
    """How many of how many."""
    return {"pictures": len(found), "foreign": int(found.sum())}


def judged(net: network.LesionNet, images: NDArray[np.uint8], known: Any) -> dict[str, int]:
    """What becomes of pictures that are no lesions."""
    features, logits = network.look(net, images)
    with np.load(model.SHIPPED / "source.npz") as rows:
        shipped = tp.fit_temperature(rows["logits"], rows["labels"])
    settled = examine(shipped.predict_proba(logits.astype(float)), Policy()).answered
    foreign = known.is_foreign(features)
    answered = {"answered_before": settled, "answered": settled & ~foreign}
    return share(foreign) | {name: int(rows.sum()) for name, rows in answered.items()}


def main() -> None:
    """Write statistics and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=model.SHIPPED)
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    shared = Path(os.environ["TEMPERANCE_DATA"])
    data = ham10000.load(shared / "ham10000_64")
    net = network.load_tail(network.LesionNet(), model.SHIPPED)
    features, _ = network.look(net, data.images)

    train, validation, _ = divide(data, None)
    known = appearance.fit(features[train.rows])
    known.save(arguments.out / model.APPEARANCE)
    with np.load(model.SHIPPED / "source.npz") as rows:
        describe(validation, rows["logits"], arguments.out)
    seen, unseen = {}, {}
    for site in ham10000.SITES:
        here = validation.rows[validation.sites == site]
        seen[site] = share(known.is_foreign(features[here]))
        elsewhere, _, there = divide(data, site)
        stranger = appearance.fit(features[elsewhere.rows])
        unseen[site] = share(stranger.is_foreign(features[there.rows]))
    record = {
        "familiar": appearance.FAMILIAR,
        "limit": known.limit,
        "validation": seen,
        "unseen": unseen,
        "no_lesions": {name: judged(net, x, known) for name, x in no_lesions(shared).items()},
    }
    write(Path(__file__).parent / "records" / "foreign.json", record)


if __name__ == "__main__":
    main()

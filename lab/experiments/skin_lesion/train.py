"""Train the lesion network with each acquisition site left out in turn, and on all of them.

For each site, the lesions of the other sites are divided 80/20 by lesion; the network is fine-tuned
on the larger part and read on the smaller one (the labelled *source*) and on the whole unseen site
(the *target*). A lesion photographed at two sites belongs to the unseen one only.

    python lab/experiments/skin_lesion/train.py OUT [--ship DIRECTORY]

writes OUT/ham_{site}.npz (source_logits, source_labels, source_groups, source_rows, target_...,
classes; rows count the lines of the metadata file). With --ship, the network of all sites goes to
DIRECTORY in half precision, together with its own validation logits.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import fine_tuning
import ham10000
import numpy as np
import torch
from shipping import ship

from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.network import LesionNet

if TYPE_CHECKING:
    from ham10000 import Lesions
    from numpy.typing import NDArray


def shared_features(data: Lesions, path: Path) -> NDArray[np.float16]:
    """Features of the trunk, the same for every site; kept in a file, as they take a while."""
    if not path.exists():
        partial = path.with_suffix(".partial.npy")
        np.save(partial, fine_tuning.features(LesionNet(), data.images))
        partial.replace(path)
    return np.load(path, mmap_mode="r")


def divide(data: Lesions, site: str | None) -> tuple[Lesions, Lesions, Lesions]:
    """Training, validation and unseen rows; without a site nothing is unseen."""
    unseen = data.sites == site
    source = data[~np.isin(data.lesions, data.lesions[unseen])]
    train, validation = ham10000.split(source, held_out=0.2)
    return train, validation, data[unseen]


def main() -> None:
    """Run the training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--ship", type=Path, help="directory of the network of all sites")
    parser.add_argument("--sites", nargs="*", default=ham10000.SITES)
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = ham10000.load(Path(os.environ["TEMPERANCE_DATA"]) / "ham10000_64")
    views = shared_features(data, arguments.out / "ham_features.npy")

    def logits(net: LesionNet, part: Lesions) -> NDArray[np.float32]:
        return fine_tuning.predict(net, views[0, part.rows])

    for site in arguments.sites:
        train, validation, unseen = divide(data, site)
        net = fine_tuning.fine_tune(views[:, train.rows], train.labels)
        parts = {"source": validation, "target": unseen}
        arrays = {}
        for name, part in parts.items():
            arrays |= {
                f"{name}_logits": logits(net, part),
                f"{name}_labels": part.labels.astype(np.int16),
                f"{name}_groups": part.lesions.astype(np.int16),
                f"{name}_rows": part.rows.astype(np.int16),
            }
        np.savez_compressed(arguments.out / f"ham_{site}.npz", classes=np.array(CODES), **arrays)
        right = {
            name: np.mean(arrays[f"{name}_logits"].argmax(1) == part.labels)
            for name, part in parts.items()
        }
        print(
            f"{site}: accuracy at the other sites {right['source']:.3f}, here {right['target']:.3f}"
        )
    if arguments.ship:
        train, validation, _ = divide(data, None)
        net = fine_tuning.fine_tune(views[:, train.rows], train.labels)
        ship(net, train, validation, arguments.ship)


if __name__ == "__main__":
    main()

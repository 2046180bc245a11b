"""Train the supplement's ResNet-200 on HAM10000 at 224 px; needs a GPU and the full-size images.

    python experiments/skin_lesion/supplement.py OUT --weights resnet200.pth [--device cuda]

reads the data set under TEMPERANCE_DATA (see `temperance_lab.datasets.load`), trains by the
supplement's recipe with a checkpoint after every epoch, and writes OUT/isic_resnet200.npz: logits,
labels and lesions of the validation fifth and of the rest of the test part.
A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from temperance_lab import datasets, networks
from temperance_skin_lesion import supplement


def main() -> None:
    """Run the training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="ImageNet weights")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = datasets.load("ham10000", size=supplement.SIDE)
    network = supplement.build(arguments.weights).to(arguments.device)
    checkpoint = arguments.out / "isic_resnet200.safetensors"
    networks.train(network, data.x_train, data.y_train, supplement.RECIPE, checkpoint=checkpoint)
    logits = networks.predict_logits(network, data.x_test, batch_size=64)
    lesions = data.groups["lesion_id"].test
    # The supplement validates on a fifth of the test part.
    parts = GroupShuffleSplit(1, test_size=0.2, random_state=0).split(logits, groups=lesions)
    test, validation = next(parts)
    arrays = {}
    for name, rows in (("source", validation), ("target", test)):
        arrays |= {
            f"{name}_logits": logits[rows],
            f"{name}_labels": data.y_test[rows],
            f"{name}_groups": lesions[rows],
        }
    np.savez(arguments.out / "isic_resnet200.npz", classes=np.array(data.classes), **arrays)


if __name__ == "__main__":
    main()

"""How far corruptions lead from the original, beside the published package: root mean squares.

Both sides get the same constants and the same real images: 60 of CIFAR-10 at 32 pixels (from the
directory that TEMPERANCE_DATA names), twelve cuttings of the two photographs of scikit-learn at
224. The published package needs an interpreter of its own, see benchmarks/shifts.py:

    python benchmarks/severity.py --peer old/bin/python

Where a severity of the published package does not lead further than the one before, its constants
are the reason, and ours agree. Its elastic transform is another one and is left out. Writes
benchmarks/records/severity.json, which the tests read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from shifts import PEER, listed
from sklearn.datasets import load_sample_images

from temperance_lab import shifts
from temperance_lab.shifts.registry import SMALL, TABLE

RECORD = Path(__file__).parent / "records" / "severity.json"
OUR_OWN = ("elastic_transform",)
SEVERITIES = range(1, 6)
# The peer of benchmarks/shifts.py, but that it saves what it makes.
SAVING = PEER.partition("    start = ")[0] + (
    "    made = [[np.asarray(corrupt(image, corruption_name=name, severity=severity))\n"
    "             for image in images] for severity in range(1, 6)]\n"
    "    np.save(path, np.array(made).astype(np.float32))\n"
    "    print(flush=True)\n"
)


def photographs() -> dict[int, np.ndarray]:
    """Real images by their size."""
    with np.load(Path(os.environ["TEMPERANCE_DATA"]) / "cifar10_small.npz") as data:
        small = data["x_test"][:60]
    corners = [(top, left) for top in (0, 203) for left in (0, 208, 416)]
    large = [
        image[top : top + 224, left : left + 224]
        for image in load_sample_images().images
        for top, left in corners
    ]
    return {32: small, 224: np.stack(large)}


def distance(images: np.ndarray, corrupted: np.ndarray) -> float:
    """Root of the mean square, in grey levels."""
    return float(np.sqrt(np.mean((corrupted.astype(np.float64) - images) ** 2)))


def theirs(python: str, images: np.ndarray, name: str, constants: str, folder: Path) -> list[float]:
    """Distances of the published package by severity."""
    path = folder / "images.npy"
    np.save(path, images)
    subprocess.run(  # noqa: S603 - the interpreter that the user names
        [python, "-c", SAVING],
        input=f"{name} {path} {constants}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return [distance(images, corrupted) for corrupted in np.load(path)]


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default=sys.executable, help="interpreter with imagecorruptions")
    python = parser.parse_args().peer
    if subprocess.run([python, "-c", "import imagecorruptions"], check=False).returncode:  # noqa: S603
        print("imagecorruptions does not load there; how to install it: benchmarks/shifts.py")
        return
    sizes: dict[int, dict[str, dict[str, list[float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for side, images in photographs().items():
            sizes[side] = {}
            for name in shifts.CORRUPTIONS:
                if name in OUR_OWN:
                    continue
                constants = TABLE[name].cifar if side <= SMALL else TABLE[name].imagenet
                row = {
                    "ours": [distance(images, shifts.corrupt(images, name, s)) for s in SEVERITIES],
                    "peer": theirs(python, images, name, listed(name, constants), Path(folder)),
                }
                sizes[side][name] = row
                print(side, name, *(f"{a:.1f}/{b:.1f}" for a, b in zip(*row.values(), strict=True)))
    what = "root mean square distance from the original, imagecorruptions 1.1.2 and ours"
    RECORD.write_text(json.dumps({"what": what, "sizes": sizes}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Corruptions of a whole batch beside the published package, image by image: ratios of time.

The package (imagecorruptions 1.1.2) does not run on NumPy 2, so it gets an interpreter of its own:

    python3.9 -m venv old && old/bin/pip install "numpy<1.24" "scipy<1.12" "scikit-image==0.18.3" \
        "opencv-python-headless<4.9" "imageio<2.30" pillow setuptools
    old/bin/pip install --no-deps imagecorruptions
    python benchmarks/shifts.py --peer old/bin/python

The package knows the constants of ImageNet-C alone; for small images it is given those of
CIFAR-10-C, so that both sides do the same work (its elastic transform is simpler and keeps its
own). All five severities, CPU time of one thread, the fastest of several alternating rounds; before
its clock starts, each side changes its images once. Writes benchmarks/records/shifts.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import scipy
from scipy import ndimage

from temperance_lab import shifts
from temperance_lab.shifts.registry import SMALL, TABLE

RECORD = Path(__file__).parent / "records" / "shifts.json"
SEVERITIES = range(1, 6)
# Pixels a side: images in our batch, images the package is given one by one.
SIZES = {32: (100, 10), 224: (4, 1)}
PEER = """
import re, sys, time, warnings
warnings.simplefilter("ignore")
import cv2, numpy as np
from imagecorruptions import corrupt, corruption_dict, corruptions
cv2.setNumThreads(1)
np.random.seed(0)
source = open(corruptions.__file__).read()
for line in sys.stdin:
    name, path, constants = line.split(maxsplit=2)
    if name != "elastic_transform":
        opening = r"(def %s\\(.*?\\n    c = )\\[.*?\\](\\s*\\[\\s*severity - 1\\])" % name
        patched, found = re.subn(opening, r"\\g<1>" + constants.strip() + r"\\2", source, 1, re.S)
        assert found == 1, name
        exec(compile(patched, corruptions.__file__, "exec"), vars(corruptions))
        corruption_dict[name] = getattr(corruptions, name)
    images = np.load(path)
    for image in images:
        corrupt(image, corruption_name=name, severity=1)
    start = time.process_time()
    for severity in range(1, 6):
        for image in images:
            corrupt(image, corruption_name=name, severity=severity)
    print((time.process_time() - start) / (5 * len(images)), flush=True)
"""


def clouds(n: int, side: int) -> np.ndarray:
    """Smooth colour images; what they show does not matter here."""
    noise = np.random.default_rng(0).normal(size=(n, side, side, 3))
    smooth = ndimage.gaussian_filter(noise, (0, 2, 2, 0))
    return np.clip(128 + 50 * smooth / smooth.std(), 0, 255).astype(np.uint8)


def constants_of(name: str, side: int) -> tuple[Any, ...]:
    """Constants of the five severities."""
    return TABLE[name].cifar if side <= SMALL else TABLE[name].imagenet


def listed(name: str, constants: tuple[Any, ...]) -> str:
    """Constants as they stand in the source of the package."""
    if name != "zoom_blur":
        return repr(list(constants))
    factors = ", ".join(f"np.arange(1, {limit}, {step})" for limit, step in constants)
    return f"[{factors}]"


def ours(images: np.ndarray, name: str) -> float:
    """Seconds of CPU per image."""
    shifts.corrupt(images, name, 1)
    start = time.process_time()
    for severity in SEVERITIES:
        shifts.corrupt(images, name, severity)
    return (time.process_time() - start) / (len(SEVERITIES) * len(images))


class Peer:
    """The published package in its own process, asked for one corruption after another."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - the interpreter that the user names
            [python, "-c", PEER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            text=True,
        )

    def seconds(self, name: str, path: Path, constants: tuple[Any, ...]) -> float:
        """Seconds of CPU per image."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("no pipe to the peer")
        self.process.stdin.write(f"{name} {path} {listed(name, constants)}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process by ending its input."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def compare(peer: Peer, side: int, rounds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Microseconds per image on both sides and their ratio, by corruption."""
    batch, single = SIZES[side]
    images = clouds(batch, side)
    path = folder / f"{side}.npy"
    np.save(path, images[:single])
    rows = {}
    for name in shifts.CORRUPTIONS:
        constants = constants_of(name, side)
        times = [(ours(images, name), peer.seconds(name, path, constants)) for _ in range(rounds)]
        mine, theirs = (round(1e6 * min(column), 1) for column in zip(*times, strict=True))
        rows[name] = {"ours_us": mine, "peer_us": theirs, "ratio": round(theirs / mine, 2)}
        print(f"{side:4d} px  {name:18s} {theirs / mine:7.1f} x", flush=True)
    return rows


def geometric_mean(rows: dict[str, dict[str, float]]) -> float:
    """Geometric mean of the ratios of all corruptions."""
    return round(float(np.exp(np.mean([np.log(row["ratio"]) for row in rows.values()]))), 2)


def main() -> None:
    """Compare, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default=sys.executable, help="interpreter with imagecorruptions")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if subprocess.run([arguments.peer, "-c", "import imagecorruptions"], check=False).returncode:  # noqa: S603
        print("imagecorruptions does not load there; how to install it stands atop this file")
        return
    peer = Peer(arguments.peer)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        sizes = {side: compare(peer, side, arguments.rounds, Path(folder)) for side in SIZES}
    peer.close()
    record = {
        "what": "CPU time per image, imagecorruptions 1.1.2 over temperance_lab.shifts",
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "opencv": cv2.__version__,
        "sizes": sizes,
        "geometric_mean": {side: geometric_mean(rows) for side, rows in sizes.items()},
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()

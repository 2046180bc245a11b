"""Corruptions of a whole batch beside the published package, image by image: ratios of time.

The package (imagecorruptions 1.1.2) does not run on NumPy 2, so it gets an interpreter of its own:

    python3.9 -m venv old && old/bin/pip install "numpy<1.24" "scipy<1.12" "scikit-image==0.18.3" \
        "opencv-python-headless<4.9" "imageio<2.30" pillow setuptools
    old/bin/pip install --no-deps imagecorruptions
    python benchmarks/shifts.py --peer old/bin/python

It knows the constants of ImageNet-C alone; for small images it is given those of CIFAR-10-C, so
that both sides do the same work (its elastic transform is simpler and keeps its own). All five
severities, the fastest of several alternating rounds: CPU time of one thread each, and then, for an
idle machine, clock time with as many threads as there are processors on our side; the package has
one. As the sides take turns, each finds the caches full of the other's data; so before its clock
starts, each side changes its images once, at the first severity.

Also the time of all corruptions one after the other; what a copy of an image takes, and of JPEG the
two conversions of colour alone, below which no JPEG of ours can be; and how long libjpeg itself,
which the package calls, takes to write and to read an image. Writes benchmarks/records/shifts.json.
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
import timeit
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
from scipy import ndimage
from threadpoolctl import threadpool_limits

from temperance_lab import shifts
from temperance_lab.shifts.compiled import jpeg
from temperance_lab.shifts.registry import SMALL, TABLE

RECORD = Path(__file__).parent / "records" / "shifts.json"
SEVERITIES = range(1, 6)
THREADS = os.cpu_count() or 1
TIMING = {"timer": time.process_time, "number": 3, "repeat": 9}
# Pixels a side: images in our batch, images the package is given one by one.
SIZES = {32: (1000, 10), 224: (48, 1)}
PEER = """
import io, json, re, sys, time, warnings
warnings.simplefilter("ignore")
import cv2, numpy as np
from PIL import Image
from imagecorruptions import corrupt, corruption_dict, corruptions
cv2.setNumThreads(1)
np.random.seed(0)
source = open(corruptions.__file__).read()
def libjpeg(images, qualities):
    pictures, spent = [Image.fromarray(image) for image in images], []
    for _ in range(20):
        start = time.process_time()
        for quality in qualities:
            for picture in pictures:
                file = io.BytesIO()
                picture.save(file, "JPEG", quality=quality)
                Image.open(file).load()
        spent.append((time.process_time() - start) / (len(qualities) * len(pictures)))
    return min(spent)
for line in sys.stdin:
    name, path, constants = line.split(maxsplit=2)
    if name == "libjpeg":
        print(libjpeg(np.load(path), json.loads(constants)), flush=True)
        continue
    if name != "elastic_transform":
        opening = r"(def %s\\(.*?\\n    c = )\\[.*?\\](\\s*\\[\\s*severity - 1\\])" % name
        patched, found = re.subn(opening, r"\\g<1>" + constants.strip() + r"\\2", source, 1, re.S)
        assert found == 1, name
        exec(compile(patched, corruptions.__file__, "exec"), vars(corruptions))
        corruption_dict[name] = getattr(corruptions, name)
    images = np.load(path)
    for image in images:
        corrupt(image, corruption_name=name, severity=1)
    start, clock = time.process_time(), time.perf_counter()
    for severity in range(1, 6):
        for image in images:
            corrupt(image, corruption_name=name, severity=severity)
    spent, passed = time.process_time() - start, time.perf_counter() - clock
    print(spent / (5 * len(images)), passed / (5 * len(images)), flush=True)
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


def ours(images: np.ndarray, name: str, threads: int) -> float:
    """Seconds per image: of CPU for one thread, by the clock for more."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    timer = time.process_time if threads == 1 else time.perf_counter
    shifts.corrupt(images, name, 1)
    start = timer()
    for severity in SEVERITIES:
        shifts.corrupt(images, name, severity)
    return (timer() - start) / (len(SEVERITIES) * len(images))


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

    def seconds(self, name: str, path: Path, constants: tuple[Any, ...]) -> list[float]:
        """Seconds per image: of CPU, and by the clock."""
        return self._ask(f"{name} {path} {listed(name, constants)}")

    def libjpeg(self, path: Path, qualities: tuple[int, ...]) -> float:
        """Seconds of CPU per image that is only written and read."""
        return self._ask(f"libjpeg {path} {json.dumps(qualities)}")[0]

    def _ask(self, question: str) -> list[float]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("no pipe to the peer")
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return [float(number) for number in self.process.stdout.readline().split()]

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
        ours(images[:1], name, 1)  # code, tables and textures are made once
        times = [
            (
                ours(images, name, 1),
                ours(images, name, THREADS),
                *peer.seconds(name, path, constants),
            )
            for _ in range(rounds)
        ]
        mine, shared, theirs, clock = (1e6 * min(column) for column in zip(*times, strict=True))
        rows[name] = {"ours_us": mine, "peer_us": theirs, "ratio": theirs / mine}
        rows[name] |= {
            "ours_clock_us": shared,
            "peer_clock_us": clock,
            "clock_ratio": clock / shared,
        }
        print(
            f"{side:4d} px  {name:18s} {theirs / mine:7.1f} x {clock / shared:7.1f} x", flush=True
        )
    return rows


def together(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """Ratios for an image that goes through all corruptions, with and without the slowest."""
    words = {}
    for key, clock in (("", ""), ("clock_", "_clock")):
        mine, theirs = (
            np.array([row[f"{who}{clock}_us"] for row in rows.values()]) for who in ("ours", "peer")
        )
        rest = np.arange(len(theirs)) != theirs.argmax()
        words |= {
            f"{key}ratio": theirs.sum() / mine.sum(),
            f"{key}ratio_without_the_slowest": theirs[rest].sum() / mine[rest].sum(),
            f"{key}geometric_mean": np.exp(np.log(theirs / mine).mean()),
        }
    return {name: float(ratio) for name, ratio in words.items()}


def floors(peer: Peer, side: int, folder: Path) -> dict[str, float]:
    """Microseconds per image for a copy, for JPEG without a transform, for libjpeg; one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    n = SIZES[side][0]
    images = clouds(n, side)
    out = np.empty_like(images)
    flat, done = (x.reshape(n, side, -1) for x in (images, out))
    luma = np.empty((side, side), np.float32)
    blue, red = (np.empty((side // 2, side // 2), np.float32) for _ in range(2))

    def copy() -> None:
        np.copyto(out, images)

    def convert() -> None:
        for image, converted in zip(flat, done, strict=True):
            jpeg.split(image, luma, blue, red)
            jpeg.join(luma, blue, red, converted)

    qualities = constants_of("jpeg_compression", side)
    return {
        "libjpeg_us": 1e6 * peer.libjpeg(folder / f"{side}.npy", qualities),
        "copy_us": 1e6 / (3 * n) * min(timeit.repeat(copy, **TIMING)),
        "jpeg_colour_us": 1e6 / (3 * n) * min(timeit.repeat(convert, **TIMING)),
    }


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
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        sizes = {side: compare(peer, side, arguments.rounds, Path(folder)) for side in SIZES}
        least = {side: floors(peer, side, Path(folder)) for side in SIZES}
    peer.close()
    record = {
        "what": "time per image, imagecorruptions 1.1.2 over temperance_lab.shifts",
        "threads_by_the_clock": THREADS,
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "sizes": sizes,
        "together": {side: together(rows) for side, rows in sizes.items()},
        "floors": least,
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

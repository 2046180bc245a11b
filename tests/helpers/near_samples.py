"""How far `calibrate` moves when one row in a hundred is replaced by another of its kind.

``python tests/helpers/near_samples.py 60 [DIRECTORY]`` prints, for each combination of what users
know, how often the verdict of such neighbours differs, and the largest steps of temperature, class
bias and probabilities: on so many simulated shifts and on the logits in the directory. A verdict
may differ in under 3 % of the pairs; no step of log T may reach the width of its interval.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scenes

import temperance as tp

ROWS, SOURCE_ROWS = 2000, 3000


class Step(NamedTuple):
    """The difference between the calibrations of two neighbours."""

    flip: bool
    """Whether the verdict differs."""
    temperature: float
    """Of log T, over the width of its interval."""
    bias: float
    """Of the class whose bias moves most."""
    moved: float
    """Mean distance (total variation) of the probabilities of other rows."""


def replaced(s, seed):
    """Return the target with one row in a hundred replaced by another row of its kind."""
    rng = np.random.default_rng(seed)
    z = s.target.copy()
    m = max(1, len(z) // 100)
    z[scenes.LABELLED + rng.choice(len(z) - scenes.LABELLED, m, replace=False)] = s.held_out[0][:m]
    return z


def bias(cal, k):
    b = cal.map.parameters().get("bias", np.zeros(k))
    return b - b.mean()


def step(one, other, rows):
    """Compare two calibrations."""
    width = np.log(one.temperature.high / one.temperature.low)
    p, q = (cal.predict_proba(rows) for cal in (one, other))
    return Step(
        one.verdict != other.verdict,
        abs(np.log(other.temperature.value / one.temperature.value)) / width,
        np.abs(bias(one, rows.shape[1]) - bias(other, rows.shape[1])).max(),
        np.abs(p - q).sum(axis=1).mean() / 2,
    )


def steps(s, seed):
    """Yield the step to a neighbour for each combination of what users know."""
    near = replaced(s, seed)
    for name, known in scenes.what_users_know(s):
        yield name, step(*(tp.calibrate(z, **known) for z in (s.target, near)), s.held_out[0])


def simulated(seed):
    """Return a shift whose verdict no constant was chosen by."""
    return scenes.any_shift(scenes.UNSEEN + seed, overconfident=True)


def real(directory):
    """Yield scenes of the logits in a directory, with a name."""
    for file in sorted(Path(directory).glob("*.npz")):
        with np.load(file) as data:
            shifts = [n.removeprefix("target_logits_") for n in data if "target_logits_" in n]
            for name in shifts:
                pairs = (f"target_logits_{name}", f"target_labels_{name}"), SOURCE
                yield f"{file.stem} {name}", scene(*(tuple(data[k] for k in p) for p in pairs))
            if not shifts and "source_logits" in data:
                pairs = ("target_logits", "target_labels"), SOURCE
                yield file.stem, scene(*(tuple(data[k] for k in p) for p in pairs))


SOURCE = ("source_logits", "source_labels")


def scene(target, source):
    """Return a scene of real rows, of which the first are calibrated on."""
    (z, y), k = target, target[0].shape[1]
    n = min(ROWS, len(z) * 2 // 3)
    mix = np.bincount(y, minlength=k) / len(y)
    made = scenes.shifted(k=2, n=10)
    old = tuple(part[:SOURCE_ROWS] for part in source)
    return replace(made, source=old, target=z[:n], labels=y[:n], held_out=(z[n:], y[n:]), prior=mix)


def _main():
    found = defaultdict(list)
    cases = ((f"simulated {i}", simulated(i)) for i in range(int(sys.argv[1])))
    named = [("simulated", cases), *(("real", real(d)) for d in sys.argv[2:])]
    for kind, given in named:
        for i, (case, s) in enumerate(given):
            for name, one in steps(s, i):
                found[kind, name].append(one)
            print(f"\r\033[K{case}", end="", file=sys.stderr)  # noqa: T201
    print(f"{'':34}   pairs    flips  log T / width   bias  probabilities")  # noqa: T201
    for (kind, name), some in found.items():
        flips, *largest = np.mean([s.flip for s in some]), *np.max(some, axis=0)[1:]
        numbers = "{:14.3f} {:6.2f} {:14.3f}".format(*largest)
        print(f"{kind:12}{name:22} {len(some):7} {flips:8.1%} {numbers}")  # noqa: T201
    every = [one.flip for some in found.values() for one in some]
    print(f"{'all':34} {len(every):7} {np.mean(every):8.1%}")  # noqa: T201


if __name__ == "__main__":
    _main()

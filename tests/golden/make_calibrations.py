"""Record the numbers of `Calibration.to_dict` and of the fits behind it, on thirty data sets.

``python tests/golden/make_calibrations.py`` writes ``calibrations.json``; the rest is as in
``make.py``. These results change on purpose when the label-free estimate changes: this file, its
record and ``tests/test_golden_calibrations.py`` go together.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import temperance as tp

sys.path.insert(0, str(Path(__file__).parent))

from make import HERE, answer, scenes, write

WORDS = {"verdict", "code", "kind", "target", "source", "prior_kind"}
"""Strings that are results; all other strings are prose."""


def numbers_of(calibration):
    """Return what `Calibration.to_dict` holds, without prose, names and versions."""
    facts = calibration.to_dict()
    facts["details"] = facts.pop("facts", None) or facts.pop("details")
    del facts["details"]["versions"], facts["details"]["classes"]

    def without_prose(value):
        if isinstance(value, dict):
            kept = ((k, without_prose(v)) for k, v in value.items())
            return {k: v for k, v in kept if not isinstance(v, str) or k in WORDS}
        if isinstance(value, list):
            return [without_prose(v) for v in value if not isinstance(v, str)]
        return value

    return without_prose(facts)


def ranges(q):
    """Return a range around each share."""
    return np.column_stack([np.maximum(0, q - 0.1), np.minimum(1, q + 0.1)])


def problems():
    """Return thirty calls of `calibrate` by name."""
    s2 = scenes.shifted(k=2, n=800, home=2.5, signal=1.5, scale=4.0, prior=[0.6, 0.4], seed=11)
    s3 = scenes.shifted(k=3, n=700, scale=5.0, offset=[0.5, 0.0, -0.2], seed=12)
    s5 = scenes.shifted(k=5, n=900, scale=6.0, prior=[0.3, 0.25, 0.2, 0.15, 0.1], seed=13)
    s10 = scenes.shifted(k=10, n=1000, home=4.0, signal=2.5, scale=8.0, seed=14)
    s30 = scenes.shifted(k=30, n=800, home=4.0, signal=3.0, scale=5.0, seed=15)
    s100 = scenes.shifted(k=100, n=1000, home=5.0, signal=4.0, scale=6.0, seed=16)
    calm = scenes.shifted(k=5, n=900, home=2.0, signal=2.0, scale=2.0, seed=17)
    calls = {}
    for name, s in {"2": s2, "3": s3, "5": s5, "10": s10, "30": s30, "100": s100}.items():
        calls[f"{name} classes, source"] = (s.target, s.prior, s.source, True)
    for name, s in {"2": s2, "5": s5, "10": s10, "30": s30}.items():
        calls[f"{name} classes, prior only"] = (s.target, s.prior, None, True)
    for name, s in {"2": s2, "5": s5, "10": s10}.items():
        calls[f"{name} classes, about"] = (s.target, tp.about(s.prior, rows=100), s.source, True)
        calls[f"{name} classes, estimated"] = (s.target, None, s.source, True)
    calls |= {
        "3 classes, range": (s3.target, ranges(s3.prior), s3.source, True),
        "5 classes, range": (s5.target, ranges(s5.prior), s5.source, True),
        "5 classes, about, no source": (s5.target, tp.about(s5.prior, rows=50), None, True),
        "3 classes, no bias": (s3.target, s3.prior, s3.source, False),
        "10 classes, no bias": (s10.target, s10.prior, s10.source, False),
        "5 classes, no bias, no source": (s5.target, s5.prior, None, False),
        "5 classes, no bias, estimated": (s5.target, None, s5.source, False),
        "unshifted": (calm.target, calm.prior, calm.source, True),
        "unshifted, estimated": (calm.target, None, calm.source, True),
        "12 rows": (s5.target[:12], s5.prior, s5.source, True),
        "40 rows": (s5.target[:40], s5.prior, s5.source, True),
        "100 rows, no source": (s10.target[:100], s10.prior, None, True),
        "float32": (s5.target.astype(np.float32), s5.prior, s5.source, True),
        "wrong prior": (s5.target, s5.prior[::-1].copy(), s5.source, True),
    }
    return calls


def record():
    """Return all results by name."""
    found = {}
    for name, (z, prior, source, bias) in problems().items():
        found[f"calibrate | {name}"] = answer(
            lambda z=z, prior=prior, source=source, bias=bias: numbers_of(
                tp.calibrate(z, prior, source, bias=bias)
            )
        )
        found[f"fit_prior_matched | {name}"] = answer(
            tp.fit_prior_matched, z, prior, source, bias=bias
        )
        if source is not None:
            found[f"matched | {name}"] = answer(tp.estimate_accuracy, z, prior, source)
    return found


if __name__ == "__main__":
    write(record(), HERE / "calibrations.json")

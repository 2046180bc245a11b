"""Record what every fit, estimate and metric returns on a gallery of logits.

``python tests/golden/make.py`` writes ``functions.json`` beside this file; ``--print`` writes the
record to the standard output instead. `tests/test_golden.py` compares the two. Set
``TEMPERANCE_NUMBA=0`` to record the NumPy path. Record again only for a change that is meant to
change results, and say so in the CHANGELOG.

A result is reduced to plain numbers. A long array is kept as its first four numbers, its sum, its
sum of squares and its length.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np

import temperance as tp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))

import scenes  # noqa: E402
import simulated  # noqa: E402

LONGEST = 12
DIGITS = 10  # of a number in the record


def plain(result):
    """Return a result as numbers, and lists and dictionaries of numbers."""
    if result is None or isinstance(result, bool | int | str):
        return result
    if isinstance(result, float | np.floating | np.integer):
        return float(result)
    if isinstance(result, dict):
        return {key: plain(value) for key, value in result.items()}
    if isinstance(result, tp.Interval):
        return [float(result.value), float(result.low), float(result.high)]
    if isinstance(result, np.ndarray):
        return numbers(result.ravel().tolist())
    if isinstance(result, list | tuple):
        if all(isinstance(value, int | float) for value in result):
            return numbers(list(result))
        return [plain(value) for value in result]
    if dataclasses.is_dataclass(result):
        return {f.name: plain(getattr(result, f.name)) for f in dataclasses.fields(result)}
    raise TypeError(type(result))


def numbers(values):
    """Return a short list as it is, a long one as a digest."""
    if len(values) <= LONGEST:
        return values
    squares = (float(value) ** 2 for value in values)
    return [*values[:4], math.fsum(values), math.fsum(squares), len(values)]


def answer(call, *args, **kwargs):
    """Return the result of a call, or the name of the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(call(*args, **kwargs))
    except (tp.InputError, tp.NotIdentified) as error:
        return type(error).__name__


def labelled():
    """Return labelled logits by name: two classes to a hundred, sharp, flat, narrow and few."""
    z, y = simulated.logits(400, 5, sharpness=2.0, seed=1)
    wide = simulated.logits(1500, 100, sharpness=0.7, seed=2)
    rng = np.random.default_rng(3)
    return {
        "two classes": (*simulated.logits(300, 2, sharpness=3.0, seed=4), None),
        "five classes": (z, y, None),
        "weights": (z, y, rng.exponential(size=len(z))),
        "soft labels": (z, simulated.softmax(z / 2), None),
        "float32": (z.astype(np.float32), y, None),
        "float16": (z.astype(np.float16), y, None),
        "integers": (np.round(z * 3).astype(np.int32), y, None),
        "ties": (np.round(z / 2), y, None),
        "a masked class": (np.where(np.arange(5) == 2, -1e30, z), np.where(y == 2, 0, y), None),
        "an offset": (z + 100.0, y, None),
        "tiny": (z * 1e-30, y, None),
        "ten rows": (z[:10], y[:10], None),
        "one class": (z, np.zeros(len(z), int), None),
        "all right": (z, z.argmax(axis=1), None),
        "all wrong": (z, z.argmin(axis=1), None),
        "a hundred classes": (*wide, None),
        "a hundred classes, float32": (wide[0].astype(np.float32), wide[1], None),
    }


def shifts():
    """Return a target, its class mix and a labelled source by name."""
    mix = np.array([0.4, 0.3, 0.2, 0.1])
    drawn = {
        "two classes": scenes.shifted(k=2, n=600, prior=[0.7, 0.3], seed=1),
        "four classes": scenes.shifted(k=4, n=800, prior=mix, stretch=1.5, seed=2),
        "an offset": scenes.shifted(k=4, n=800, offset=[0.6, 0, 0, -0.3], seed=3),
        "ten classes": scenes.shifted(k=10, n=1000, home=4.0, signal=2.5, scale=6.0, seed=4),
        "thirty classes": scenes.shifted(k=30, n=1500, home=4.0, signal=3.0, seed=5),
        "few rows": scenes.shifted(k=4, n=60, prior=mix, seed=6),
    }
    return {name: (s.target, s.prior, s.source) for name, s in drawn.items()}


FITS = {
    "temperature": tp.fit_temperature,
    "biased": tp.fit_biased_temperature,
    "vector": tp.fit_vector,
    "vector, penalty": lambda z, y, w: tp.fit_vector(z, y, w, penalty=0.1),
    "matrix, penalty": lambda z, y, w: tp.fit_matrix(z, y, w, penalty=0.1),
    "attended": lambda z, y, w: tp.fit_attended(z, y, w, threshold=0.05),
    "attended, reference": lambda z, y, w: tp.fit_attended(
        z, y, w, threshold=0.05, form="reference"
    ),
}
METRICS = {
    "accuracy": tp.metrics.accuracy,
    "nll": tp.metrics.nll,
    "brier": tp.metrics.brier,
    "brier, sum": lambda z, y, w: tp.metrics.brier(z, y, w, per_class=False),
    "ece": tp.metrics.ece,
    "ece, 7 bins": lambda z, y, w: tp.metrics.ece(z, y, w, n_bins=7),
    "adaptive_ece": tp.metrics.adaptive_ece,
    "classwise_ece": tp.metrics.classwise_ece,
    "smooth_ece": tp.metrics.smooth_ece,
    "aurc": tp.metrics.aurc,
    "excess_aurc": tp.metrics.excess_aurc,
    "risk_coverage": tp.metrics.risk_coverage,
    "evaluate": lambda z, y, w: evaluated(tp.metrics.evaluate(z, y, w)),
}
METHODS = {
    "uts": lambda z, q, _: tp.fit_uts(z, q),
    "uts, paper": lambda z, q, _: tp.fit_uts(z, q, form="main-text", bag_size=None),
    "cpcs": lambda z, _, s: tp.fit_cpcs(z, s),
    "transcal": lambda z, _, s: tp.fit_transcal(z, s),
    "lascal": lambda z, _, s: tp.fit_lascal(z, s),
    "lascal, prior": lambda z, q, s: tp.fit_lascal(z, s, q),
    "em": lambda z, _, s: tp.estimate_prior(z, s),
    "bbse": lambda z, _, s: tp.estimate_prior(z, s, method="bbse"),
    "rlls": lambda z, _, s: tp.estimate_prior(z, s, method="rlls"),
    "cot": lambda z, q, s: tp.estimate_accuracy(z, q, s, method="cot"),
    "cot, no source": lambda z, q, _: tp.estimate_accuracy(z, q, method="cot"),
    "atc": lambda z, _, s: tp.estimate_accuracy(z, source=s, method="atc"),
    "doc": lambda z, _, s: tp.estimate_accuracy(z, source=s, method="doc"),
    "confidence": lambda z, _, s: tp.estimate_accuracy(z, source=s, method="confidence"),
    "confidence, no source": lambda z, *_: tp.estimate_accuracy(z, method="confidence"),
    "match_confidence": lambda z, *_: tp.match_confidence(z, 0.7),
}


def evaluated(found):
    """Return the sums of an evaluation under the names that the record has for them."""
    names = ("n_classes", "n", "correct_sum", "nll_sum", "brier_sum")
    scores = {"weight" if name == "n" else name: getattr(found, name) for name in names}
    return {"scores": scores, "bins": found.bins}


def two_layers(x):
    """Return logits of a fixed network without state."""
    return np.tanh(x @ np.array([[1.0, -1, 0.5], [0.3, 2, -1]])) @ np.diag([4.0, 5, 6])


def record():
    """Return all results by name."""
    found = {}
    for name, (z, y, w) in labelled().items():
        for fit, call in FITS.items():
            if not (fit == "matrix, penalty" and "hundred" in name):  # seconds, nothing new
                found[f"{fit} | {name}"] = answer(call, z, y, w)
        for metric, call in METRICS.items():
            found[f"{metric} | {name}"] = answer(call, z, y, w)
    for name, (z, q, source) in shifts().items():
        for method, call in METHODS.items():
            found[f"{method} | {name}"] = answer(call, z, q, source)
    z, y, _ = labelled()["five classes"]
    groups = np.arange(len(z)) // 8
    found["bootstrap"] = answer(tp.metrics.bootstrap, tp.metrics.ece, z, y)
    found["bootstrap, groups"] = answer(tp.metrics.bootstrap, tp.metrics.nll, z, y, groups)
    x = np.random.default_rng(7).normal(size=(500, 2))
    found["pseudocal"] = answer(tp.fit_pseudocal, two_layers, x)
    labels = simulated.draw_labels(simulated.softmax(two_layers(x) / 2), np.random.default_rng(8))
    found["perturbed"] = answer(tp.fit_perturbed, two_layers, x, labels)
    return found


def rounded(value):
    """Return a result with the digits that every processor agrees on."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def write(results, file):
    """Write a record, one result a line, to a file or with ``--print`` to the standard output."""
    if "--print" in sys.argv:
        json.dump(results, sys.stdout)
        return
    lines = (
        f"{json.dumps(key)}:{json.dumps(rounded(value), separators=(',', ':'))}"
        for key, value in results.items()
    )
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write(record(), HERE / "functions.json")

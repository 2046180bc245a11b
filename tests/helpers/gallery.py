"""One gallery of nasty inputs that every method meets: legal ones, and ones to be refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse
from simulated import logits, softmax

import temperance as tp

N, K = 60, 4
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
SOURCE = logits(500, K, sharpness=2.0, seed=9)

FITS = {
    "fit_temperature": tp.fit_temperature,
    "fit_biased_temperature": tp.fit_biased_temperature,
    "fit_vector": tp.fit_vector,
    "fit_vector penalised": lambda z, y, w=None: tp.fit_vector(z, y, w, penalty=0.1),
    "fit_matrix": tp.fit_matrix,
    "fit_matrix penalised": lambda z, y, w=None: tp.fit_matrix(z, y, w, penalty=0.1),
    "fit_attended": lambda z, y, w=None: tp.fit_attended(z, y, w, threshold=0.05),
    "fit_attended reference": lambda z, y, w=None: tp.fit_attended(
        z, y, w, threshold=0.05, form="reference"
    ),
}
"""Every way to turn logits, labels and weights into a map."""

ESTIMATORS = [
    tp.TemperatureScaling(),
    tp.BiasedTemperatureScaling(),
    tp.VectorScaling(),
    tp.VectorScaling(penalty=0.1),
    tp.MatrixScaling(),
    tp.MatrixScaling(penalty=0.1),
    tp.AttendedTemperatureScaling(threshold=0.05),
    tp.AttendedTemperatureScaling(threshold=0.05, form="reference"),
    tp.UnsupervisedTemperatureScaling(PRIOR),
    tp.PriorMatchedScaling(PRIOR),
    tp.PriorMatchedScaling(PRIOR, bias=False),
    tp.PriorMatchedScaling(PRIOR, source=SOURCE),
    tp.PriorMatchedScaling(PRIOR, bias=False, source=SOURCE),
]
"""Every exported estimator, in every form."""

MAPS = {
    "temperature": lambda k: tp.Temperature(1.7),  # noqa: ARG005
    "biased": lambda k: tp.BiasedTemperature(0.6, np.linspace(-1, 1, k)),
    "vector": lambda k: tp.VectorMap(np.linspace(0.5, 2, k), np.linspace(1, -1, k)),
    "matrix": lambda k: tp.MatrixMap(np.eye(k) + 0.1, np.linspace(-1, 1, k)),
}
"""A map of each kind, over k classes."""


def _memmap(z):
    file = Path(tempfile.mkdtemp()) / "z.npy"
    np.save(file, z)
    return np.load(file, mmap_mode="r")


def _frozen(z):
    z.flags.writeable = False
    return z


def _spoilt(z, value):
    z[7, 1] = value
    return z


def _masked_row(z):
    z[7] = -np.inf
    return z


def problem(k=K, n=N):
    return logits(n, k, sharpness=2.0, seed=3)


def nasty():
    """Name, logits and labels of legal problems that break careless code."""
    z, y = problem()
    rows = np.arange(N)
    few = y != K - 1
    return {
        "two classes": problem(k=2),
        "a thousand classes": problem(k=1000),
        "float16": (z.astype(np.float16), y),
        "float32": (z.astype(np.float32), y),
        "integers": (np.round(z * 10).astype(np.int16), y),
        "uint8 labels": (z, y.astype(np.uint8)),
        "boolean labels": (z[:, :2], problem(k=2)[1].astype(bool)),
        "logits of 1e5": (z / np.abs(z).max() * 1e5, y),
        "logits of 1e100": (z / np.abs(z).max() * 1e100, y),
        "logits of 1e-99": (z / np.abs(z).max() * 1e-99, y),
        "subnormal logits": (np.round(z * 5) * 5e-324, y),
        "an offset of 1e9": (z + 1e9, y),
        "float16 at its limit": ((z / np.abs(z).max() * 60_000).astype(np.float16), y),
        "constant rows": (np.zeros((N, K)), y),
        "constant columns": (np.tile(np.arange(K) * 1.0, (N, 1)) * [[1, -1, 1, -1]], y),
        "some constant rows": (z * (rows % 2)[:, None], y),
        "one row": (z[:1], y[:1]),
        "two rows": (z[:2], y[:2]),
        "one row, wrong": (z[:1], (z[:1].argmax(axis=1) + 1) % K),
        "all right": (z, z.argmax(axis=1)),
        "all wrong": (z, z.argmin(axis=1)),
        "one class": (z, np.zeros(N, int)),
        "missing class": (z[few], y[few]),
        "ties everywhere": (np.round(z / 5), y),
        "one giant logit": (_spoilt(z.copy(), 1e30), y),
        "a masked class": (np.where(np.arange(K) == 2, -1e30, z), np.where(y == 2, 0, y)),
        "a class of -inf": (np.where(np.arange(K) == 2, -np.inf, z), np.where(y == 2, 0, y)),
        "memory map": (_memmap(z), y),
        "not contiguous": (np.repeat(z, 3, axis=1)[::-1, ::3], y[::-1]),
        "column-major": (np.asfortranarray(z), y),
        "read-only": (_frozen(z.copy()), _frozen(y.copy())),
        "big-endian": (z.astype(">f4"), y.astype(">i8")),
        "lists": (z.tolist(), y.tolist()),
        "long double": (z.astype(np.longdouble), y),
        "objects": (z.astype(object), y.astype(object)),
        "a column of labels": (z, y[:, None]),
        "soft labels": (z, softmax(z / 2)),
        "one-hot labels": (z, np.eye(K, dtype=np.float32)[y]),
    }


def refused():
    """Name, logits, and the message with which every function refuses them."""
    z, _ = problem()
    return {
        "probabilities": (softmax(z), f"all {N} rows .* sum to 1.*from_probabilities"),
        "float16 probabilities": (softmax(z).astype(np.float16), "from_probabilities"),
        "scores": (z[:, 0], rf"one-dimensional scores of shape \({N},\).*binary_logits"),
        "one column": (z[:, :1], r"at least two columns.*shape=\(60, 1\).*binary_logits"),
        "no rows": (z[:0], r"at least one row. Got shape \(0, 4\)"),
        "no columns": (z[:, :0], "at least two columns"),
        "a number": (3.0, r"at least one row. Got shape \(\)"),
        "NaN": (_spoilt(z.copy(), np.nan), "finite. Row 7, class 1 is NaN"),
        "inf": (_spoilt(z.copy(), np.inf), "finite. Row 7, class 1 is inf"),
        "NaN and inf alone": (
            np.array([[np.nan, np.inf], [np.inf, np.inf]]),
            "Row 0, class 0 is NaN",
        ),
        "only -inf": (_masked_row(z.copy()), "Row 7 is -inf in every class"),
        "too large": (
            _spoilt(z.copy(), -1.7e308),
            r"within ±1e\+100.*Row 7, class 1 is -1.7e\+308",
        ),
        "images": (
            np.ones((2, 3, 8, 8)),
            r"shape \(2, 3, 8, 8\).*moveaxis\(z, 1, -1\).reshape\(-1, 3\)",
        ),
        "sequences": (np.ones((2, 3, 5)), r"shape \(2, 3, 5\)"),
        "words": (np.full((3, 3), "a"), "real numbers. Got an array of dtype <U1"),
        "numbers in words": (z.astype(str).tolist(), "real numbers"),
        "complex": (z + 0j, "Complex data not supported"),
        "dates": (np.zeros((3, 3), "datetime64[s]"), "real numbers"),
        "ragged": ([[1.0, 2.0], [3.0]], "real numbers. Got list"),
        "nothing": (None, "real numbers. Got NoneType"),
        "a string": ("logits.npz", "(real numbers. Got str|nothing at 'logits.npz')"),
        "a dict": ({"logits": z}, "real numbers. Got dict"),
        "sparse": (scipy.sparse.csr_array(z), "sparse input is not supported"),
        "masked": (np.ma.masked_greater(z, 2), "masked array with missing values"),
        "records": (np.zeros(3, dtype=[("a", float), ("b", float)]), "real numbers"),
    }


def refused_by_fits():
    """Logits that a fit refuses; a map, which may see one row at a time, cannot judge them."""
    z, _ = problem()
    return {
        "sorted": (-np.sort(-z, axis=1), "fall from the first column to the last.*top-k"),
        "sorted upwards": (np.sort(z, axis=1), "rise from the first column to the last.*top-k"),
        "top-k": (-np.sort(-z, axis=1)[:, :3], r"shape \(60, 3\).*--topk 0"),
    }


def bad_labels():
    """Name, labels, and the message with which a fit refuses them."""
    _, y = problem()
    first = np.arange(N) == 5
    return {
        "none": (None, "requires labels to be passed"),
        "K": (np.where(first, K, y), r"lie in 0..3 \(logits have 4 columns\). Row 5 holds 4"),
        "-1": (np.where(first, -1, y), "Row 5 holds -1; drop rows to be ignored"),
        "floats": (y + 0.0, "integers 0..3 that index the columns. Got continuous float64"),
        "strings": (np.array(list("abcd"))[y], "Got <U1 with first value.*classes="),
        "too few": (y[:-1], r"shape \(60,\), one per row of logits. Got shape \(59,\)"),
        "a number": (1, r"Got shape \(\)"),
        "multi-label": (np.ones((N, K)), r"sum to 1 in each row. Row 0 does not \(sum 4\)"),
        "one-hot integers": (np.eye(K, dtype=int)[y], r"Got shape \(60, 4\)"),
        "soft of another K": (np.full((N, 2), 0.5), r"shape \(60, 4\).*Got shape \(60, 2\)"),
        "soft with NaN": (np.full((N, K), np.nan), "Row 0 does not"),
        "soft and negative": (np.tile([2.0, -1.0, 0.0, 0.0], (N, 1)), "Row 0 does not"),
        "objects": (np.array([{}] * N), "labels must be"),
        "a dict": ({"labels": y}, "array-like of numbers or names. Got dict"),
        "complex": (y + 0j, "integers"),
    }


def bad_weights():
    """Name, weights, and the message with which a fit refuses them."""
    one = np.ones(N)
    return {
        "negative": (-one, "not negative. Row 0 holds -1"),
        "NaN": (np.where(np.arange(N) == 4, np.nan, 1), "finite.*Row 4 holds nan"),
        "infinite": (one * np.inf, "finite"),
        "zero": (one * 0, "not be all zero"),
        "next to nothing": (one * 5e-324, "sum between 1e-100"),
        "huge": (one * 1e308, "sum between"),
        "too few": (one[1:], r"60 numbers, one per row. Got shape \(59,\)"),
        "words": (np.full(N, "a"), "Got shape .* of <U1"),
        "a number": (2.0, r"Got shape \(\)"),
    }


def bad_priors():
    """Name, prior over K classes, and the message with which every function refuses it."""
    q = np.full(K, 1 / K)
    return {
        "sum": (q * 1.1, "sum to 1. Got 1.1"),
        "counts": (np.array([10, 20, 30, 40]), "sum to 1. Got 100; divide by the sum"),
        "negative": (np.array([0.5, 0.7, -0.2, 0.0]), "not negative. Class 2 holds -0.2"),
        "NaN": (q * np.nan, "finite"),
        "length": (np.full(3, 1 / 3), r"4 numbers, one per class. Got shape \(3,\)"),
        "matrix": (np.eye(K), r"Got shape \(4, 4\)"),
        "words": (np.array(list("abcd")), "Got shape .* of text"),
        "none": (None, "class probabilities. Got None"),
    }

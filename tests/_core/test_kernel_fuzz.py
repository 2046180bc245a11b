"""Every compiled kernel against its NumPy twin on random and hostile rows, with bounds checked.

A subprocess sets ``NUMBA_BOUNDSCHECK=1``, under which an index outside an array raises IndexError.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", exc_type=ImportError)

from temperance._core import kernels_numba, kernels_numpy

NUMBA = kernels_numba.__name__
EDGES = np.arange(16) / 15
SPECIAL = (np.nan, np.inf, -np.inf, 1e308, -1e308, float(np.finfo(np.float32).min), 1e50, 1e-300)


def problem(seed):
    """Return logits, labels and weights: any shape, dtype and scale; some with hostile values."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 90)), int(rng.choice([2, 3, 10, 31, 32, 33, 100, 257]))
    if seed % 100 == 99:
        n, k = 1 + n % 3, 30_000
    z = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-2, 2) + rng.normal()
    if rng.random() < 0.2:
        z = np.round(z)  # ties
    if rng.random() < 0.4:
        few = rng.random((n, k)) < rng.choice([0.01, 0.3])
        z[few] = rng.choice(SPECIAL, size=int(few.sum()))
    if rng.random() < 0.1:
        z[rng.integers(n)] = rng.choice(SPECIAL)  # a row that is nothing but masks
    with np.errstate(over="ignore"):
        z = z.astype(rng.choice([np.float32, np.float64]))
    return z, rng.integers(k, size=n), rng.exponential(size=n), rng


def fit_to_compute(z):
    """Return which logits are fit; minus infinity is a mask."""
    wide = z.astype(np.float64)
    return (np.abs(wide) <= 1e100) | (
        np.isneginf(wide) & (wide.max(axis=1, keepdims=True) > -1e100)
    )


def of_moments(m, z, y, w, rng):
    found = m.temperature_moments(z, y, w if rng.random() < 0.5 else None, 0.3)
    sums = *found.relative, found.slope_at_zero, found.slope_at_infinity, found.logit_range
    return np.array(sums) / max(1.0, abs(found.logit_range)) ** np.array([1, *range(1, 7), 1, 1, 1])


def of_evaluation(m, z, y, w, rng):
    found = m.evaluation_sums(z, y, w if rng.random() < 0.5 else None, EDGES)
    return [*found.scores[[0, 1, 3]], *found.bins.ravel()]


def of_residuals(m, z, y, w, rng):
    v = z.astype(np.float64)
    loss, missed = m.residuals(v, y, w if rng.random() < 0.5 else None)
    return [*missed, *v.ravel(), loss / max(1.0, float(np.abs(z).max()))]


def of_weights(m, z, y, w, rng):  # noqa: ARG001
    odds, counts = m.non_predicted_log_odds(z)
    v = 10.0 ** rng.uniform(-2, 1)
    mass, gap = m.weight_mass(z, odds, v)
    tables = m.weight_derivatives(odds, v), m.weight_doublings(odds, v, 5)
    return [
        *counts,
        *mass,
        *gap / max(1.0, gap.max()),
        *(x for table in tables for x in table.ravel()),
    ]


KERNELS = {
    "outcomes": lambda m, z, y, w, rng: m.outcomes(z, y),  # noqa: ARG005
    "moments": of_moments,
    "evaluation": of_evaluation,
    "residuals": of_residuals,
    "weights": of_weights,
}
ANY_VALUE = {"outcomes", "moments", "evaluation"}  # kernels that are given unchecked logits


def answer_of(module, name, seed, *, checked):
    """Return the numbers that a module computes from a problem."""
    z, y, w, rng = problem(seed)
    if checked:
        z = np.where(fit_to_compute(z), z, 0).astype(z.dtype)
    with np.errstate(all="ignore"):
        answer = KERNELS[name](module, z, y, w, rng)
    return np.concatenate([np.ravel(part) for part in answer])


def compare(name, seed):
    """Raise where the two modules differ, and where a compiled one leaves its arrays."""
    checked = name not in ANY_VALUE
    found = [answer_of(m, name, seed, checked=checked) for m in (kernels_numpy, kernels_numba)]
    if checked:  # whatever the numbers, no index may lead outside
        answer_of(kernels_numba, name, seed, checked=False)
    np.testing.assert_allclose(
        found[1], found[0], rtol=1e-9, atol=1e-9, equal_nan=True, err_msg=f"{name}, seed {seed}"
    )


def run(n_problems):
    env = os.environ | {"NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(n_problems)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_compiled_kernels_agree_with_numpy_and_stay_in_their_arrays():
    run(500)


def test_every_kernel_is_here():
    compiled = {
        name
        for name, function in vars(kernels_numba).items()
        if callable(getattr(kernels_numpy, name, None)) and function.__module__ == NUMBA
    }
    assert len(compiled) >= 8
    assert compiled <= set(re.findall(r"m\.(\w+)", Path(__file__).read_text("utf-8")))


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_kernels_agree_with_numpy(name):
    for seed in range(20):
        compare(name, seed)


@pytest.mark.parametrize("label", [-1, 10, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("k", [10, 100])
def test_a_label_without_a_column_is_never_an_index(label, k):
    z, y = np.random.default_rng(0).normal(size=(90, k)), np.arange(90) % k
    y[41] = label if label != 10 else k
    for module in (kernels_numpy, kernels_numba):
        for call in (
            lambda m=module: m.evaluation_sums(z, y, None, EDGES),
            lambda m=module: m.outcomes(z, y),
            lambda m=module: m.temperature_moments(z, y, None, 0.3),
            lambda m=module: m.residuals(z.copy(), y, None),
        ):
            with pytest.raises(IndexError, match="a label must be the number of a column"):
                call()


def test_a_hostile_row_does_not_touch_the_others():
    z, y = np.random.default_rng(0).normal(size=(90, 10)), np.arange(90) % 10
    for module in (kernels_numpy, kernels_numba):
        alone = np.array(module.outcomes(z, y))
        for value in SPECIAL:
            hurt = z.copy()
            hurt[41, 3] = value
            with np.errstate(all="ignore"):
                found = np.array(module.outcomes(hurt, y))
            others = np.arange(90) != 41
            np.testing.assert_array_equal(found[:, others], alone[:, others])
            assert math.isnan(found[0, 41]) == (not value < np.inf)


if __name__ == "__main__":
    for kernel in KERNELS:
        for number in range(int(sys.argv[1])):
            compare(kernel, number)
        print(f"{kernel}: {sys.argv[1]} problems agree", flush=True)  # noqa: T201

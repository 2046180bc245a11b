"""One pass gives value and derivatives; mpmath is the referee, of NumPy and of machine code."""

from __future__ import annotations

import os
import subprocess
import sys

import array_api_strict
import mpmath as mp
import numba
import numpy as np
import pytest
import torch
from simulated import logits

from temperance._core import kernels_numba, kernels_numpy

mp.mp.dps = 30
N, K = 12, 4
Z, Y = logits(N, K, sharpness=2.0)
RNG = np.random.default_rng(0)
SOFT = RNG.dirichlet(np.ones(K), size=N) * RNG.uniform(0.5, 2, size=(N, 1))  # any weights will do
WEIGHT = RNG.exponential(size=N)

TARGETS = {
    "hard": (Y, None, np.eye(K)[Y]),
    "hard, weighted": (Y, WEIGHT, np.eye(K)[Y] * WEIGHT[:, None]),
    "soft": (SOFT, None, SOFT),
    "soft, weighted": (SOFT, WEIGHT, SOFT * WEIGHT[:, None]),
}


MODULES = {"compiled": kernels_numba, "numpy": kernels_numpy}


def loss(z, w, beta):
    return mp.fsum(
        mp.fsum(map(mp.mpf, weights)) * mp.log(mp.fsum(mp.exp(beta * x) for x in row))
        - beta * mp.fsum(mp.mpf(a) * mp.mpf(x) for a, x in zip(weights, row, strict=True))
        for row, weights in zip(z.tolist(), w.tolist(), strict=True)
    )


KINDS = {  # how the logits come, and the module that sums them
    "compiled": (np.asarray, kernels_numba),
    "numpy": (np.asarray, kernels_numpy),
    "strict": (array_api_strict.asarray, kernels_numba),
    "torch": (torch.tensor, kernels_numba),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("beta", [0.01, 0.7, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_the_derivatives_of_the_loss(kind, beta, target):
    (as_kind, module), (y, w, weights) = KINDS[kind], TARGETS[target]
    got = module.temperature_moments(as_kind(Z), y, w, beta)
    # Derivatives by mpmath of the loss written out; the r-th is multiplied by β^r.
    wanted = [mp.diff(lambda b: loss(Z, weights, b), beta, r) * mp.mpf(beta) ** r for r in range(7)]
    assert got.relative == pytest.approx([float(x) for x in wanted], rel=1e-10)
    top, mean = Z.max(axis=1, keepdims=True), Z.mean(axis=1, keepdims=True)
    mass = weights.sum(axis=1, keepdims=True)
    assert got.slope_at_zero == pytest.approx(float(np.sum(weights * (mean - Z))), rel=1e-12)
    assert got.slope_at_infinity == pytest.approx(float(np.sum(weights * (top - Z))), rel=1e-12)
    assert got.logit_range == pytest.approx(float(np.sum(mass * (top - mean))), rel=1e-12)
    assert got.weight == pytest.approx(float(mass.sum()), rel=1e-12)


def strided(z):
    return np.repeat(z, 2, axis=0)[::2]


def frozen(z):
    z = z.copy()
    z.flags.writeable = False
    return z


@pytest.mark.parametrize("change", [np.asfortranarray, strided, frozen])
def test_how_an_array_lies_in_memory_does_not_matter(change):
    moments, given = kernels_numba.temperature_moments, (Z, Y, WEIGHT)
    assert moments(*map(change, given), 0.7) == moments(*given, 0.7)


@numba.njit
def polynomials(x, s):
    return (
        np.array([kernels_numba.two_to(v) for v in x]),
        np.array([kernels_numba.logarithm(v) for v in s]),
    )


def test_polynomials_are_right_to_a_few_units_of_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.concatenate([[0.0], rng.exponential(size=2000) * 5, np.linspace(0, 1021, 1000)])
    s = np.concatenate([1 + rng.exponential(size=2000) ** 4, 2.0 ** np.arange(100), 1 + x**2])
    powers, logarithms = polynomials(x, s)
    assert powers[0] == 1
    exact = (mp.mpf(2) ** v for v in x.tolist()), map(mp.log, s.tolist())
    for got, wanted, tolerance in zip((powers, logarithms), exact, (8e-16, 3e-16), strict=True):
        for a, b in zip(got.tolist(), wanted, strict=True):
            assert abs(a - b) <= tolerance * abs(b)


@pytest.mark.parametrize("module", MODULES)
def test_beyond_the_range_of_exp_there_is_nothing(module):
    z = np.array([[0.0, -1e5, -1e5], [1e90, 0.0, 0.0]])
    got = MODULES[module].temperature_moments(z, np.array([1, 0]), None, 1.0)
    assert got.relative == pytest.approx((1e5, 1e5, *[0] * 5), abs=1e-200)


@pytest.mark.parametrize("module", MODULES)
def test_a_mask_adds_nothing(module):
    mask = float(np.finfo(np.float32).min)
    z = np.column_stack([Z, np.full(N, mask)]).astype(np.float32)
    moments = MODULES[module].temperature_moments
    got = moments(z, Y, None, 0.7)
    wanted = moments(Z.astype(np.float32), Y, None, 0.7)
    assert got.relative == pytest.approx(wanted.relative, rel=1e-9)
    assert got.are_valid


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("k", [2, 10, 33, 600])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e101, -1e101, 1e308])
def test_a_value_unfit_to_compute_with_is_told(bad, k, module):
    moments, rng = MODULES[module].temperature_moments, np.random.default_rng(0)
    z, y = rng.normal(size=(70, k)), rng.integers(k, size=70)
    for row, column in ((0, 0), (69, k - 1), (33, k // 2)):
        hurt = z.copy()
        hurt[row, column] = bad
        weight = np.ones(70)
        weight[row] = 0
        for w in (None, weight):
            assert not moments(hurt, y, w, 0.7).are_valid
    large = moments(z * 1e98, y, None, 1e-98)  # sound, though a sum of the logits is too large
    plain = moments(z, y, None, 1.0)
    assert large.relative == pytest.approx(plain.relative, rel=1e-9)
    assert large.logit_range == pytest.approx(plain.logit_range * 1e98)


SWITCHES = {
    "TEMPERANCE_NUMBA": "0",
    "NUMBA_DISABLE_JIT": "1",
    "TEMPERANCE_TEST_HIDE": "numba",
}


@pytest.mark.parametrize("variable", SWITCHES)
def test_without_numba_everything_runs_on_numpy(variable):
    script = """
import os, sys
if os.environ.get("TEMPERANCE_TEST_HIDE"):
    sys.modules["numba"] = None  # an import of it fails, as where it is not installed
import numpy as np, temperance as tp
z = np.array([[2.0, 0.0]] * 4)
assert round(tp.fit_temperature(z, [0, 0, 0, 1]).temperature, 6) == 1.820478
assert "temperance._core.kernels_numba" not in sys.modules
"""
    environment = {**os.environ, variable: SWITCHES[variable]}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_numba_waits_until_it_is_needed():
    script = "import sys, temperance; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_sums_of_float16_do_not_saturate():
    z = np.tile(np.array([[0.0, 1.0]], dtype=np.float16), (200_000, 1))
    y = np.zeros(200_000, int)
    for module in MODULES.values():
        got = module.temperature_moments(z, y, None, 1.0).relative
        one = module.temperature_moments(z[:1].astype(np.float64), y[:1], None, 1.0).relative
        assert got[:3] == pytest.approx([x * 200_000 for x in one[:3]], rel=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3, -700.0])
def test_an_offset_changes_no_moment(offset):
    z = np.round(Z * 64) / 64  # so that the offset rounds nothing
    for module in MODULES.values():
        plain = module.temperature_moments(z, Y, None, 1.0)
        moved = module.temperature_moments(z + offset, Y, None, 1.0)
        assert moved.relative == pytest.approx(plain.relative, rel=1e-12)


def test_slopes_at_the_ends_are_limits_of_the_slope():
    for module in MODULES.values():
        moments = module.temperature_moments(Z, Y, None, 1.0)
        for beta, slope in ((1e-9, moments.slope_at_zero), (1e4, moments.slope_at_infinity)):
            first = module.temperature_moments(Z, Y, None, beta).derivatives[0] / beta
            assert first == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("label", [-1, -(1 << 62), K, 1 << 40])
def test_a_label_without_a_column_is_no_index(module, label):
    kernels, y = MODULES[module], Y.copy()
    y[N // 2] = label
    edges = np.array([0.0, 1.0])
    for call in (
        lambda: kernels.evaluation_sums(Z, y, None, edges),
        lambda: kernels.temperature_moments(Z, y, None, 1.0),
        lambda: kernels.outcomes(Z, y),
        lambda: kernels.residuals(Z.copy(), y, None),
    ):
        with pytest.raises(IndexError, match="a label must be the number of a column"):
            call()

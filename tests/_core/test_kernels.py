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

from temperance._core.fused import elementary, sample
from temperance._core.kernels import SWITCH, fused, temperature_moments
from temperance.data import Block

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


@pytest.fixture
def numpy_only(monkeypatch):
    """Kernels as they are without Numba."""
    monkeypatch.setenv(SWITCH, "0")
    fused.cache_clear()
    yield
    fused.cache_clear()


def loss(z, w, beta):
    return mp.fsum(
        mp.fsum(map(mp.mpf, weights)) * mp.log(mp.fsum(mp.exp(beta * x) for x in row))
        - beta * mp.fsum(mp.mpf(a) * mp.mpf(x) for a, x in zip(weights, row, strict=True))
        for row, weights in zip(z.tolist(), w.tolist(), strict=True)
    )


KINDS = {
    "compiled": np.asarray,
    "numpy": np.asarray,
    "strict": array_api_strict.asarray,
    "torch": torch.tensor,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("beta", [0.01, 0.7, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_the_derivatives_of_the_loss(kind, beta, target, request):
    if kind == "numpy":
        request.getfixturevalue("numpy_only")
    y, w, weights = TARGETS[target]
    got = temperature_moments(Block(KINDS[kind](Z), y, w), beta)
    # Derivatives by mpmath of the loss written out; the r-th is multiplied by β^r.
    orders = range(len(got) - 4)
    wanted = [mp.diff(lambda b: loss(Z, weights, b), beta, r) * mp.mpf(beta) ** r for r in orders]
    assert len(got) == (13 if kind == "compiled" else 11)
    assert got[:-4] == pytest.approx([float(x) for x in wanted], rel=1e-10)
    top, mean = Z.max(axis=1, keepdims=True), Z.mean(axis=1, keepdims=True)
    mass = weights.sum(axis=1, keepdims=True)
    edges = [weights * (top - Z), weights * (Z - mean), mass * (top - mean), mass]
    assert got[-4:] == pytest.approx([float(np.sum(x)) for x in edges], rel=1e-12)


SHAPES = [(1, 2), (63, 3), (64, 10), (130, 32), (1, 33), (37, 100), (20, 1001)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target", ["hard", "soft", "weighted", "none"])
def test_machine_code_agrees_with_numpy(shape, dtype, target, monkeypatch):
    (n, k), rng = shape, np.random.default_rng(2)
    z = (rng.normal(size=shape) * 4 + 10).astype(dtype)
    y = rng.dirichlet(np.ones(k), size=n) if target == "soft" else rng.integers(k, size=n)
    block = Block(
        z, None if target == "none" else y, rng.random(n) if target == "weighted" else None
    )
    compiled = np.delete(temperature_moments(block, 0.8), [7, 8])  # NumPy has no such derivatives
    with monkeypatch.context() as patch:
        patch.setattr("temperance._core.kernels.fused", lambda: None)
        reference = np.array(temperature_moments(block, 0.8))
    # A cumulant is a difference of moments; what is left of it is as exact as they are large.
    scale = np.maximum(np.abs(reference), n * 10.0 ** np.array([0, *range(7), 0, 0, 0]) / 1e3)
    assert np.all(np.abs(compiled - reference) <= 1e-12 * scale)


def strided(z):
    return np.repeat(z, 2, axis=0)[::2]


def frozen(z):
    z = z.copy()
    z.flags.writeable = False
    return z


@pytest.mark.parametrize("change", [np.asfortranarray, strided, frozen])
def test_how_an_array_lies_in_memory_does_not_matter(change):
    block, beta = Block(Z, Y, WEIGHT), 0.7
    assert temperature_moments(Block(*map(change, block)), beta) == temperature_moments(block, beta)


@numba.njit
def polynomials(x, s, f):
    return (
        np.array([elementary.exp2(v) for v in x]),
        np.array([elementary.log(v) for v in s]),
        np.array([elementary.twice_artanh(v) for v in f]),
    )


def test_polynomials_are_right_to_a_few_units_of_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.concatenate([[0.0], rng.exponential(size=2000) * 5, np.linspace(0, 1021, 1000)])
    s = np.concatenate([1 + rng.exponential(size=2000) ** 4, 2.0 ** np.arange(100), 1 + x**2])
    f = np.concatenate([np.linspace(0, 1 / 3, 1000), 0.5 ** np.arange(2, 60)])
    powers, *logarithms = polynomials(x, s, f)
    assert powers[0] == 1
    exact = [
        (mp.mpf(2) ** v for v in x.tolist()),
        map(mp.log, s.tolist()),
        (2 * mp.atanh(v) for v in f.tolist()),
    ]
    tolerances = (8e-16, 3e-16, 4e-16)
    for got, wanted, tolerance in zip((powers, *logarithms), exact, tolerances, strict=True):
        for a, b in zip(got.tolist(), wanted, strict=True):
            assert abs(a - b) <= tolerance * abs(b)


@numba.njit
def short_powers(x):
    return np.array([sample.exp2(v) for v in x])


def test_the_short_exponential_is_right_to_float32():
    x = -np.random.default_rng(0).exponential(size=3000).astype(np.float32) * np.float32(5)
    x = np.concatenate([[np.float32(0)], x, np.linspace(-126, 0, 1000, dtype=np.float32)])
    power = short_powers(x)
    assert power.dtype == np.float32
    assert power[0] == 1
    np.testing.assert_allclose(power, np.exp2(x.astype(np.float64)), rtol=2e-7)


def test_beyond_the_range_of_exp_there_is_nothing():
    z = np.array([[0.0, -1e5, -1e5], [1e90, 0.0, 0.0]])
    value, *derivatives = temperature_moments(Block(z, np.array([1, 0]), None), 1.0)[:-4]
    assert (value, *derivatives) == pytest.approx((1e5, 1e5, *[0] * 7), abs=1e-200)


@pytest.mark.parametrize("kind", ["compiled", "numpy"])
@pytest.mark.parametrize("k", [2, 10, 33, 600])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e101, -1e101])
def test_a_value_unfit_to_compute_with_shows_in_the_spread(bad, k, kind, request):
    if kind == "numpy":
        request.getfixturevalue("numpy_only")
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(70, k)), rng.integers(k, size=70)
    for row, column in ((0, 0), (69, k - 1), (33, k // 2)):
        hurt = z.copy()
        hurt[row, column] = bad
        weight = np.ones(70)
        weight[row] = 0
        for w in (None, weight):
            assert np.isnan(temperature_moments(Block(hurt, y, w), 0.7)[-2])
    sound = temperature_moments(Block(z * 1e98, y, None), 1e-98)  # a sum of them would be too large
    plain = temperature_moments(Block(z, y, None), 1.0)
    assert sound[:-4] == pytest.approx(plain[:-4], rel=1e-9)
    assert sound[-2] == pytest.approx(plain[-2] * 1e98)


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
assert "temperance._core.fused" not in sys.modules
"""
    environment = {**os.environ, variable: SWITCHES[variable]}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_numba_waits_until_it_is_needed():
    script = "import sys, temperance; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


CALLER = """
from numba import float64
from temperance._core.fused.elementary import jit
from callee import times

def scaled(x):
    return times(x)

print(jit(scaled, (float64,))(1.0))
"""
CALLEE = """
from temperance._core.fused.elementary import inlined

@inlined()
def times(x):
    return {factor} * x
"""


def test_kept_machine_code_knows_what_it_calls(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    command = [sys.executable, str(tmp_path / "caller.py")]
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    for factor in (2.0, 3.0):  # as an upgrade would change it: the caller stays as it is
        (tmp_path / "callee.py").write_text(CALLEE.format(factor=factor))
        out = subprocess.run(command, check=True, capture_output=True, env=environment)
        assert float(out.stdout) == factor
    assert list((tmp_path / "__pycache__").glob("*.nbc"))


def test_sums_of_float16_do_not_saturate():
    z = np.tile(np.array([[0.0, 1.0]], dtype=np.float16), (200_000, 1))
    y = np.zeros(200_000, int)
    value, first, second, *_ = temperature_moments(Block(z, y, None), 1.0)
    one = temperature_moments(Block(z[:1].astype(np.float64), y[:1], None), 1.0)
    assert (value, first, second) == pytest.approx([x * 200_000 for x in one[:3]], rel=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3, -700.0])
def test_an_offset_changes_no_moment(offset):
    z = np.round(Z * 64) / 64  # so that the offset rounds nothing
    plain = temperature_moments(Block(z, Y, None), 1.0)
    moved = temperature_moments(Block(z + offset, Y, None), 1.0)
    assert moved == pytest.approx(plain, rel=1e-12)


def test_edges_are_the_slopes_at_the_ends():
    """At β -> 0 the slope is -(Σ own - mean); at β -> ∞ it is Σ (top - own)."""
    *_, below, above, _, _ = temperature_moments(Block(Z, Y, None), 1.0)
    for beta, slope in ((1e-9, -above), (1e4, below)):
        first = temperature_moments(Block(Z, Y, None), beta)[1] / beta
        assert first == pytest.approx(slope, rel=1e-5)

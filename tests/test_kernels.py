"""One pass gives value, gradient, curvature and third derivative; mpmath is the referee."""

from __future__ import annotations

import array_api_strict
import mpmath as mp
import numpy as np
import pytest
import torch
from simulated import logits

from temperance._kernels import edges, temperature_moments
from temperance.rows import Block

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


def loss(z, w, beta):
    return mp.fsum(
        mp.fsum(map(mp.mpf, weights)) * mp.log(mp.fsum(mp.exp(beta * x) for x in row))
        - beta * mp.fsum(mp.mpf(a) * mp.mpf(x) for a, x in zip(weights, row, strict=True))
        for row, weights in zip(z.tolist(), w.tolist(), strict=True)
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("beta", [0.01, 0.7, 5.0])
@pytest.mark.parametrize(
    "convert", [np.asarray, array_api_strict.asarray, torch.tensor], ids=["np", "strict", "torch"]
)
def test_moments_are_the_derivatives_of_the_loss(convert, beta, target):
    y, w, weights = TARGETS[target]
    got = temperature_moments(Block(convert(Z), y, w), beta, exact=True)
    # Derivatives by mpmath of the loss written out; the r-th is multiplied by β^r.
    wanted = [mp.diff(lambda b: loss(Z, weights, b), beta, r) * mp.mpf(beta) ** r for r in range(4)]
    assert got == pytest.approx([float(x) for x in wanted], rel=1e-10)


def test_float32_exponentials_are_close_and_float64_ones_exact():
    z = Z.astype(np.float32)
    exact = temperature_moments(Block(z, Y, None), 1.3, exact=True)
    rough = temperature_moments(Block(z, Y, None), 1.3, exact=False)
    wide = temperature_moments(Block(z.astype(np.float64), Y, None), 1.3, exact=True)
    assert exact == pytest.approx(wide, rel=1e-15)
    assert rough == pytest.approx(exact, rel=1e-4)
    assert rough != exact


def test_sums_of_float16_do_not_saturate():
    z = np.tile(np.array([[0.0, 1.0]], dtype=np.float16), (200_000, 1))
    y = np.zeros(200_000, int)
    value, first, second, _ = temperature_moments(Block(z, y, None), 1.0, exact=False)
    one = temperature_moments(Block(z[:1].astype(np.float64), y[:1], None), 1.0, exact=True)
    assert (value, first, second) == pytest.approx([x * 200_000 for x in one[:3]], rel=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3, -700.0])
def test_an_offset_changes_no_moment(offset):
    z = np.round(Z * 64) / 64  # so that the offset rounds nothing
    plain = temperature_moments(Block(z, Y, None), 1.0, exact=True)
    moved = temperature_moments(Block(z + offset, Y, None), 1.0, exact=True)
    assert moved == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("convert", [np.asarray, array_api_strict.asarray])
def test_edges_are_their_definition(convert, target):
    y, w, weights = TARGETS[target]
    if y.ndim == 2:  # edges take soft labels that sum to one, as a fit passes them
        y = y / y.sum(axis=1, keepdims=True)
        weights = y * (1 if w is None else w[:, None])
    top, mean = Z.max(axis=1, keepdims=True), Z.mean(axis=1, keepdims=True)
    mass = weights.sum(axis=1, keepdims=True)
    wanted = [
        np.sum(weights * (top - Z)),
        np.sum(weights * (Z - mean)),
        np.sum(mass * (top - mean)),
        mass.sum(),
    ]
    assert edges(Block(convert(Z), y, w)) == pytest.approx([float(x) for x in wanted], rel=1e-12)


def test_edges_are_the_slopes_at_the_ends():
    """At β -> 0 the slope is -(Σ own - mean); at β -> ∞ it is Σ (top - own)."""
    below, above, _, _ = edges(Block(Z, Y, None))
    for beta, slope in ((1e-9, -above), (1e4, below)):
        first = temperature_moments(Block(Z, Y, None), beta, exact=True)[1] / beta
        assert first == pytest.approx(slope, rel=1e-5)

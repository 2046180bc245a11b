"""Transport labels against POT and SciPy, which solve the same problem on all n K arcs."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import temperance as tp
from temperance.methods.transport import fit_transport, transport_labels


def problem(n, k, *, sharpness=1.0, shift=1.0, seed=0):
    """Logits of a model that favours some classes, and another class mix."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 1.5 + rng.normal(size=k) * shift
    z[np.arange(n), rng.integers(k, size=n)] += rng.normal(4, 2, size=n)
    return z * sharpness, rng.dirichlet(np.full(k, 2.0))


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def exact(z, q):
    """Largest mean p of a plan with column sums q, by the network simplex."""
    n = len(z)
    return 1 - ot.emd2(np.full(n, 1 / n), q, 1 - softmax(z), numItermax=10**7)


@pytest.mark.parametrize(
    ("n", "k", "sharpness", "shift"),
    [
        (30, 3, 1, 1),
        (200, 10, 1, 1),
        (200, 10, 5, 3),
        (60, 120, 1, 1),
        (1500, 20, 2, 2),
        (300, 50, 0.1, 1),
        (50, 2, 1, 0),
        (800, 5, 20, 2),
    ],
)
def test_the_value_is_that_of_the_network_simplex(n, k, sharpness, shift):
    z, q = problem(n, k, sharpness=sharpness, shift=shift)
    assert fit_transport(z, q).value == pytest.approx(exact(z, q), abs=1e-5)


@pytest.mark.parametrize(("n", "k"), [(40, 3), (150, 10), (90, 60)])
def test_labels_are_those_of_the_assignment_problem(n, k):
    z, q = problem(n, k, sharpness=2, shift=2)
    p, labels = softmax(z), transport_labels(z, q)
    quota = np.bincount(labels, minlength=k)
    rows, slots = linear_sum_assignment(p[:, np.repeat(np.arange(k), quota)], maximize=True)
    best = p[:, np.repeat(np.arange(k), quota)][rows, slots].sum()
    assert p[np.arange(n), labels].sum() == pytest.approx(best, abs=1e-3)
    assert np.abs(quota - n * q).max() < 1


def test_a_large_problem_keeps_its_quotas_and_closes_the_duality_gap():
    # More probabilities than are assigned exactly: the last rows are settled directly.
    n, k = 22_000, 200
    z, q = problem(n, k, sharpness=1.5)
    p, labels = softmax(z), transport_labels(z, q)
    v = fit_transport(z, q).potentials
    share = np.bincount(labels, minlength=k) / n
    assert np.abs(share - q).max() < 1 / n
    bound = (p + v).max(axis=1).mean() - share @ v
    assert 0 <= bound - p[np.arange(n), labels].mean() < 5e-4


def test_rows_go_to_the_largest_sum_of_probability_and_potential():
    z, q = problem(2000, 6)
    labels, v = transport_labels(z, q), fit_transport(z, q).potentials
    assert (labels == (softmax(z) + v).argmax(axis=1)).mean() > 0.99


def test_a_prior_that_is_met_costs_nothing():
    z, _ = problem(500, 4)
    share = np.bincount(z.argmax(axis=1), minlength=4) / 500
    assert fit_transport(z, share).value == pytest.approx(softmax(z).max(axis=1).mean(), abs=1e-6)
    np.testing.assert_array_equal(transport_labels(z, share), z.argmax(axis=1))


def test_a_class_without_mass_gets_no_row():
    z, _ = problem(300, 4)
    q = np.array([0.5, 0.0, 0.2, 0.3])
    labels = transport_labels(z, q)
    np.testing.assert_array_equal(np.bincount(labels, minlength=4), [150, 0, 60, 90])
    assert fit_transport(z, q).value == pytest.approx(exact(z, q), abs=1e-5)


@pytest.mark.parametrize("z", [np.zeros((40, 3)), np.tile([1.0, 2.0, 0.0], (40, 1))])
def test_tied_rows_are_divided_by_quota(z):
    q = np.array([0.25, 0.25, 0.5])
    np.testing.assert_array_equal(np.bincount(transport_labels(z, q)), [10, 10, 20])
    assert fit_transport(z, q).value == pytest.approx(softmax(z)[0] @ q)


def test_saturated_rows_of_one_class_are_moved_together():
    z = np.zeros((5000, 3))
    z[:, 1] = 200.0
    q = np.array([0.3, 0.2, 0.5])
    np.testing.assert_array_equal(np.bincount(transport_labels(z, q)), [1500, 1000, 2500])
    assert fit_transport(z, q).value == pytest.approx(0.2)


def test_temperature_divides():
    z, q = problem(200, 5)
    assert fit_transport(z, q, temperature=2.0).value == fit_transport(z / 2, q).value
    with pytest.raises(tp.InputError, match="temperature must be"):
        fit_transport(z, q, temperature=0)


def test_the_standard_error_is_that_of_the_bootstrap():
    z, q = problem(1000, 4)
    rng = np.random.default_rng(1)
    draws = [fit_transport(z[rng.integers(1000, size=1000)], q).value for _ in range(40)]
    assert fit_transport(z, q).error == pytest.approx(np.std(draws), rel=0.3)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_value_is_at_most_the_mean_confidence(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 60)), int(rng.integers(2, 8))
    z, q = problem(n, k, sharpness=float(rng.uniform(0.1, 5)), seed=seed)
    value = fit_transport(z, q).value
    assert value <= softmax(z).max(axis=1).mean() + 1e-6
    assert value == pytest.approx(exact(z, q), abs=1e-5)

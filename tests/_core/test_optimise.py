"""The solvers, on functions whose answer is known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import temperance as tp
from temperance._core.optimise import minimise_in_scale, root_in_scale, search_in_scale


def logarithmic(a, derivatives=6):
    """β - a log β: convex on β > 0, least at β = a; its Taylor series ends nowhere."""

    def moments(beta):
        higher = [a * (-1) ** r * math.factorial(r - 1) for r in range(2, derivatives + 1)]
        return (beta - a * math.log(beta), beta - a, *higher)

    return moments


@pytest.mark.parametrize("derivatives", [3, 4, 6])
@given(st.floats(-280, 280), st.floats(-6, 6))
def test_the_minimum_is_found_from_any_start(derivatives, exponent, wrong_by):
    a = 10.0**exponent
    solution = minimise_in_scale(logarithmic(a, derivatives), a * 10.0**wrong_by)
    assert solution.converged
    assert solution.x == pytest.approx(a, rel=1e-10)
    assert solution.steps <= 25


@pytest.mark.parametrize(("wrong_by", "passes"), [(1.015, 1), (1.3, 2), (0.75, 2), (10, 8)])
def test_a_good_start_needs_one_pass_and_a_bad_one_few(wrong_by, passes):
    assert minimise_in_scale(logarithmic(3.0), 3.0 * wrong_by).steps <= passes


def test_a_tolerance_is_kept():
    for wrong_by in np.geomspace(0.5, 2, 30):
        solution = minimise_in_scale(logarithmic(3.0), 3.0 * wrong_by, tolerance=1e-3)
        assert solution.x == pytest.approx(3.0, rel=2e-3)


def test_a_minimum_hit_exactly_stops_at_once():
    solution = minimise_in_scale(logarithmic(2.0), 2.0)
    assert (solution.x, solution.steps, solution.converged) == (2.0, 1, True)


def test_flat_curvature_does_not_stop_it():
    """A quartic has no curvature at its minimum's neighbourhood: Newton alone would crawl."""

    def quartic(beta):
        d = beta - 2
        return d**4, 4 * d**3 * beta, 12 * d**2 * beta**2, 24 * d * beta**3

    assert minimise_in_scale(quartic, 50.0).x == pytest.approx(2, rel=1e-2)


def test_what_is_no_number_is_no_solution():
    assert not minimise_in_scale(lambda _: (math.nan,) * 4, 1.0).converged


def test_steps_run_out_without_pretending():
    solution = minimise_in_scale(lambda b: (-b, -b, 0.0, 0.0), 1.0)  # falls for ever
    assert not solution.converged


@given(st.floats(-3, 3))
def test_a_root_in_scale(exponent):
    root = 10.0**exponent
    solution = root_in_scale(lambda x: math.log(x / root), 1e-4, 1e4)
    assert solution.converged
    assert solution.x == pytest.approx(root, rel=1e-8)


def test_no_sign_change_is_not_identified():
    with pytest.raises(tp.NotIdentified, match=r"no solution between 0\.1 and 10"):
        root_in_scale(lambda x: x + 1, 0.1, 10)


def test_rows_that_hardly_differ_are_solved_from_a_start_far_off():
    """Three rows of forty are not constant, and the slope has no bend where the search begins."""
    z = np.ones((40, 4))
    z[0, :3] = z[1, 0] = z[6, 3] = 0.0
    y = np.full(40, 3)
    y[1] = 2
    t = tp.fit_temperature(z, y).temperature
    around = [tp.metrics.nll(z / s, y) for s in t * np.geomspace(0.99, 1.01, 21)]
    assert tp.metrics.nll(z / t, y) <= min(around)


@pytest.mark.parametrize("start", [1e-6, 1e-3, 1.0, 30.0, 1e3])
def test_a_slope_that_hardly_bends_is_left_in_a_few_steps(start):
    """Of log(1 + e^-β) + β/4, whose curvature is e^-β: steps from β = 1000 have length 1."""

    def moments(beta):
        p = 1 / (1 + math.exp(min(beta, 700)))
        return (
            math.log1p(math.exp(-beta)) + beta / 4,
            beta * (0.25 - p),
            beta**2 * p * (1 - p),
            -(beta**3) * p * (1 - p) * (1 - 2 * p),
        )

    solution = minimise_in_scale(moments, start)
    assert solution.converged
    assert solution.x == pytest.approx(np.log(3), rel=1e-9)
    assert solution.steps < 30


@given(st.floats(-2.5, 2.5))
def test_the_global_minimum_among_several(exponent):
    best = 10.0**exponent

    def wells(x):
        u = np.log(x / best)
        return u**2 - 0.5 * np.cos(6 * u)  # local minima on both sides, least at u = 0

    solution = search_in_scale(wells, 1e-3, 1e3)
    assert solution.x == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize(("sign", "way"), [(1, "falls"), (-1, "grows")])
def test_an_optimum_at_the_edge_is_not_an_answer(sign, way):
    with pytest.raises(tp.NotIdentified, match=f"improves as the scale {way}"):
        search_in_scale(lambda x: sign * x, 0.01, 100)


def test_a_plain_that_reaches_the_edge_is_no_valley():
    with pytest.raises(tp.NotIdentified, match="improves as the scale grows"):
        search_in_scale(lambda x: 1 + np.exp(-50 * x), 0.01, 100)


def test_an_objective_without_numbers_is_not_identified():
    with pytest.raises(tp.NotIdentified, match="no minimum inside"):
        search_in_scale(lambda x: np.full(len(x), np.nan), 0.01, 100)

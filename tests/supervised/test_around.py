"""`fit_biased_temperature` around a known map: limits, the stationary point, odd inputs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import temperance as tp
from temperance.supervised.around import KnownMix, fit_around

KNOWN = tp.BiasedTemperature(2.0, np.array([0.3, -0.2, -0.1]))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    return 3 * (np.eye(3)[y] + rng.normal(size=(600, 3)) + [0.5, 0, 0]), y


def test_wide_errors_leave_what_the_labels_say(rows):
    near = tp.fit_biased_temperature(*rows, around=KNOWN, temperature_error=1e4, bias_error=1e4)
    alone = tp.fit_biased_temperature(*rows)
    assert near.temperature == pytest.approx(alone.temperature, rel=1e-3)
    assert near.bias == pytest.approx(alone.bias, abs=1e-3)


def test_narrow_errors_leave_the_known_map(rows):
    near = tp.fit_biased_temperature(*rows, around=KNOWN, temperature_error=1e-5, bias_error=1e-5)
    assert near.temperature == pytest.approx(2.0, rel=1e-4)
    assert near.bias == pytest.approx(KNOWN.bias, abs=1e-4)


@pytest.mark.parametrize("n", [2, 20, 600])
def test_no_step_in_any_direction_lowers_the_objective(rows, n):
    z, y = rows[0][:n], rows[1][:n]
    near = tp.fit_biased_temperature(z, y, around=KNOWN, temperature_error=0.5, bias_error=0.3)

    def objective(theta):
        terms = log_softmax(z / np.exp(theta[0]) + theta[1:], axis=1)[np.arange(n), y]
        away = theta - np.r_[np.log(2.0), KNOWN.bias]
        return -terms.sum() + (away**2 / (2 * np.r_[0.5, 0.3, 0.3, 0.3] ** 2)).sum()

    best = np.r_[np.log(near.temperature), near.bias]
    for step in (*np.eye(4), *-np.eye(4)):
        assert objective(best) < objective(best + 0.02 * step)


def test_a_class_needs_no_label_and_a_temperature_will_do():
    z = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    near = tp.fit_biased_temperature(z, [1, 1], around=tp.Temperature(1.5))
    assert near.bias.argmax() == 1
    assert near.temperature > 1.5


def test_a_weight_of_two_is_the_row_twice(rows):
    z, y = rows[0][:10], rows[1][:10]
    twice = tp.fit_biased_temperature(np.r_[z, z], np.r_[y, y], around=KNOWN)
    weighed = tp.fit_biased_temperature(z, y, np.full(10, 2.0), around=KNOWN)
    assert weighed.temperature == pytest.approx(twice.temperature, rel=1e-6)


def test_what_is_no_map_of_these_classes_is_refused(rows):
    with pytest.raises(tp.InputError, match="around must be a Temperature"):
        tp.fit_biased_temperature(*rows, around=2.0)
    with pytest.raises(tp.InputError, match="a map of 3 classes"):
        tp.fit_biased_temperature(*rows, around=tp.BiasedTemperature(1.0, np.zeros(4)))
    with pytest.raises(tp.InputError, match="bias_error"):
        tp.fit_biased_temperature(*rows, around=KNOWN, bias_error=0)


@pytest.mark.parametrize("beta", [0.0, 0.15, 1.0])
def test_a_robust_loss_has_the_optimum_of_the_log_score_where_a_map_is_right(beta):
    """Labels drawn from a map: every exponent finds that map (Fisher consistency)."""
    rng = np.random.default_rng(3)
    z = 3 * rng.normal(size=(40_000, 3))
    p = softmax(z / 1.5 + [0.4, 0.0, -0.4], axis=1)
    y = (rng.random((len(z), 1)) > p.cumsum(axis=1)).sum(axis=1)
    found = fit_around(z, y, np.zeros(4), 1e-6 * np.eye(4), robustness=beta).centre
    assert np.exp(found[0]) == pytest.approx(1.5, rel=0.04)
    assert found[1:] - found[1:].mean() == pytest.approx([0.4, 0.0, -0.4], abs=0.04)


def test_the_loss_at_an_exponent_of_one_is_half_the_brier_score(rows):
    z, y = rows
    p = softmax(z, axis=1)
    half = 0.5 * ((p - np.eye(3)[y]) ** 2).sum(axis=1).sum()
    # An infinitely narrow prior leaves θ₀; the evidence is then minus the loss there.
    at = fit_around(z, y, np.zeros(4), 1e12 * np.eye(4), robustness=1.0)
    assert -at.evidence == pytest.approx(half, rel=1e-6)


def test_a_known_mix_is_met_as_well_as_its_rows_say(rows):
    z, y = rows
    q = np.array([0.5, 0.3, 0.2])
    wide = np.eye(4) / 4

    def missed(count):
        mix = KnownMix(z, q, count)
        theta = fit_around(z[:10], y[:10], np.zeros(4), wide, mix=mix).centre
        return np.abs(softmax(z / np.exp(theta[0]) + theta[1:], axis=1).mean(axis=0) - q).max()

    assert missed(1.0) > missed(100.0) > missed(1e5)
    assert missed(1e5) < 1e-3

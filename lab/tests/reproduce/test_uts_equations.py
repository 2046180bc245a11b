"""Every statement of docs/concepts/uts.md about the printed equations, checked by numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from temperance import NotIdentified, fit_attended, fit_temperature, fit_uts
from temperance.metrics import nll
from temperance_lab.reproduce.uts_equations import log_odds, objective, true_weights, weights

N = 400_000


def draw(z, seed=1):
    """Labels from the softmax of the logits: a calibrated model."""
    p = softmax(z, axis=1).cumsum(axis=1)
    return (p < np.random.default_rng(seed).random((len(z), 1))).sum(axis=1)


def model(n, k, scale=2.0, seed=0):
    return scale * np.random.default_rng(seed).normal(size=(n, k)) + np.linspace(-1, 1, k)


@pytest.fixture(scope="module")
def calibrated():
    z = model(N, 5)
    return z, draw(z)


def test_stationarity_of_temperature_scaling():
    """Equation 2: the logits of the labels sum to the expected logits at T*."""
    z = model(3000, 4)
    y = draw(z / 2)
    p = softmax(z / fit_temperature(z, y).temperature, axis=1)
    assert z[np.arange(3000), y].sum() == pytest.approx((p * z).sum(), rel=1e-6)


def test_nll_is_a_sum_over_classes():
    """Equation 3."""
    z = model(500, 4)
    y = draw(z)
    log_p = log_softmax(z, axis=1)
    by_class = -sum(log_p[y == k, k].sum() for k in range(4))
    assert nll(z, y) == pytest.approx(by_class / 500)


def test_bayes_identity(calibrated):
    """Equation 5: rows of other classes, weighted by the odds, stand for rows of class k."""
    z, y = calibrated
    odds = np.exp(log_odds(z))
    g = 1 + np.tanh(z[:, 0])  # any function of x
    for k in range(5):
        own, borrowed = np.mean((y == k) * g), np.mean((y != k) * odds[:, k] * g)
        assert borrowed == pytest.approx(own, rel=0.05)


def test_the_mean_weight_is_twice_the_prior(calibrated):
    """E[W_k] = 2 q_k, where the proof of Proposition 1 has q_k."""
    z, y = calibrated
    ratio = true_weights(z, y).mean(axis=0) / softmax(z, axis=1).mean(axis=0)
    np.testing.assert_allclose(ratio, 2, atol=0.05)


def test_where_labels_are_certain_the_mean_weight_is_the_prior():
    """The condition of Proposition A: a posterior of 0 and 1 has no row to borrow."""
    z = 1e6 * model(500, 5)  # probabilities of 0 and 1 in floating point
    y = z.argmax(axis=1)
    with np.errstate(divide="ignore"):
        found = true_weights(z, y).mean(axis=0)
    np.testing.assert_allclose(found, np.bincount(y, minlength=5) / 500, rtol=1e-9)


def test_rows_pull_the_temperature_towards_their_labels():
    """Equation 2: one more row moves T by the sign of its logit over the mean of its logits."""
    z = model(300, 4)
    y = draw(z)
    t = fit_temperature(z, y).temperature
    above = z[np.arange(300), y] > (softmax(z / t, axis=1) * z).sum(axis=1)
    for row in (np.flatnonzero(above)[0], np.flatnonzero(~above)[0]):
        twice = np.append(np.arange(300), row)
        moved = fit_temperature(z[twice], y[twice]).temperature - t
        assert moved < -1e-6 if above[row] else moved > 1e-6


def test_the_weighted_nll_is_twice_the_nll(calibrated):
    """Proposition A: with the weights of equation 6, at every T."""
    z, y = calibrated
    w = true_weights(z, y)
    for t in (0.5, 1.0, 3.0):
        weighted = -(w * log_softmax(z / t, axis=1)).sum(axis=1).mean()
        assert weighted == pytest.approx(2 * nll(z / t, y), rel=0.01)


def test_with_predictions_for_labels_the_mean_weight_exceeds_the_prior(calibrated):
    """Proposition B: at the true w, equation 8 is not zero for any model that errs."""
    z, _ = calibrated
    q = softmax(z, axis=1).mean(axis=0)
    assert (weights(z, 1.0, "appendix").mean(axis=0) > 1.1 * q).all()


@pytest.mark.parametrize("form", ["main text", "appendix"])
@pytest.mark.parametrize("prior", ["uniform", "skewed"])
def test_one_square_is_least_at_w_zero_for_every_model(form, prior):
    for seed, scale in enumerate((0.5, 2.0, 8.0)):
        z = model(400, 6, scale, seed)
        q = np.full(6, 1 / 6) if prior == "uniform" else np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
        values = [objective(z, q, w, form, "literal") for w in (0.01, 0.1, 0.3, 1.0, 3.0)]
        assert (np.diff(values) > 0).all()
        assert values[0] < 1e-6 * values[-1]


def test_one_square_does_not_read_the_prior():
    z = model(400, 6)
    even, odd = np.full(6, 1 / 6), np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    assert objective(z, even, 0.7, reading="literal") == pytest.approx(
        objective(z, odd, 0.7, reading="literal")
    )


@pytest.mark.parametrize("form", ["main text", "appendix"])
def test_a_square_for_each_class_has_nothing_to_fill(form):
    """Where classes are predicted as often as they occur, J grows with w from 0; noise stays."""
    z = model(400, 6)
    counts = np.bincount(z.argmax(axis=1), minlength=6) / 400
    values = [objective(z, counts, w, form) for w in (0.01, 0.1, 0.3, 1.0, 3.0)]
    assert (np.diff(values) > 0).all()
    assert values[0] < 1e-6 * values[-1]
    noise = np.sum((counts - 1 / 6) ** 2)
    assert objective(z, np.full(6, 1 / 6), 0.01, form) == pytest.approx(noise, rel=1e-3)


def test_a_power_does_not_move_through_a_sum():
    """Appendix A takes (Σ a^w)^(1/w) for Σ a: equal for K = 2 alone, else too large a weight."""
    for k in (2, 3, 10):
        f = model(200, k)
        w = 2.5
        claimed, odds = weights(w * f, w, "appendix"), np.exp(log_odds(f))
        rest = np.ones_like(f, dtype=bool)
        rest[np.arange(200), f.argmax(axis=1)] = False
        ratio = claimed[rest] / odds[rest]
        if k == 2:
            np.testing.assert_allclose(ratio, 1, rtol=1e-9)
        else:
            assert (ratio > 1).all()
            assert ratio.max() <= (k - 1) ** (1 - 1 / w) * (1 + 1e-12)


def test_with_two_classes_the_main_text_does_not_depend_on_w():
    z = model(100, 2)
    np.testing.assert_allclose(weights(z, 0.2), weights(z, 5.0), rtol=1e-9)


def test_with_two_classes_and_true_odds_step_two_is_exact():
    """Proposition C: the normalised weights are q(y|x), so the weighted NLL is least at T = 1."""
    z = model(5000, 2)
    w = weights(z, 1.0, "appendix")
    t = np.geomspace(0.25, 4, 33)
    value = [-(w * log_softmax(z / each, axis=1)).sum() for each in t]
    assert t[np.argmin(value)] == pytest.approx(1)


@pytest.mark.parametrize("k", [3, 10])
def test_with_more_classes_step_two_is_too_sure(k):
    """Proposition C: every row pulls T below the true one, by a covariance."""
    z = model(2000, k)
    p, w, row = softmax(z, axis=1), weights(z, 1.0, "appendix"), np.arange(2000)
    top = z.argmax(axis=1)
    pull = (w * (z - (p * z).sum(axis=1, keepdims=True))).sum(axis=1)  # derivative by 1/T, at T = 1
    c = w * p[row, top][:, None] / p
    covariance = (p * c * z).sum(axis=1) - (p * c).sum(axis=1) * (p * z).sum(axis=1)
    np.testing.assert_allclose(pull, covariance / p[row, top], rtol=1e-6, atol=1e-12)
    assert (pull > 0).all()
    t = np.geomspace(0.25, 4, 65)
    value = [-(w * log_softmax(z / each, axis=1)).sum() for each in t]
    assert t[np.argmin(value)] < 1


def test_under_exact_covariate_shift_the_source_temperature_is_right():
    """Corollary 1: with q_s(y|x) = q_t(y|x) labels of the source already calibrate the target."""
    source, target = model(N // 4, 5, seed=3), model(N // 4, 5, 4.0, seed=4) + 0.5
    fitted = [fit_temperature(3 * z, draw(z, 7)).temperature for z in (source, target)]
    assert fitted == pytest.approx([3, 3], rel=0.02)


@pytest.mark.parametrize("form", ["main-text", "appendix"])
def test_the_printed_equations_do_not_identify_a_temperature(form):
    z = 3 * model(2000, 10)
    with pytest.raises(NotIdentified):
        fit_uts(z, np.full(10, 0.1), form=form)


def test_with_two_classes_one_square_of_the_main_text_is_the_same_at_every_w():
    z, q = model(100, 2), np.array([0.3, 0.7])
    values = [objective(z, q, w, "main text", "literal") for w in (0.01, 0.3, 1.0, 5.0)]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)


def test_where_two_classes_share_all_probability_the_weight_does_not_fall():
    """The one case in which odds of a class that is not predicted are not below 1."""
    z = np.array([[3.0, 3.0, -800.0], [3.0, 2.0, 1.0]])
    for w in (0.05, 1.0, 4.0):
        tie, other = weights(z, w, "appendix")
        assert tie[1] == pytest.approx(1)
        assert (other[1:] < 1).all()


def attended(z, eta, beta, form):
    """Expected loss of ATS over the labels of each row, all rows in all sets, pair by pair."""
    log_s = log_softmax(beta * z, axis=1)
    log_rest = log_s - log_odds(beta * z)
    total = np.zeros(len(z))
    for k in range(z.shape[1]):
        for y in range(z.shape[1]):
            attention = log_rest[:, y] if form == "paper" else log_s[:, k]
            lent = log_s[:, k] + attention - log_rest[:, k]
            total -= eta[:, y] * (log_s[:, k] if y == k else lent)
    return total


@pytest.mark.parametrize("form", ["paper", "reference"])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_lemma_of_the_supplement_fails_where_every_row_is_borrowed(form, k):
    """Proposition D: in every row the expected loss falls as T grows, beyond the right T = 1."""
    z = model(300, k)
    eta = softmax(z, axis=1)
    values = [attended(z, eta, beta, form) for beta in np.geomspace(0.01, 5, 30)]
    assert (np.diff(values, axis=0) > 0).all()
    with pytest.raises(NotIdentified, match="as the scale falls"):
        fit_attended(z, draw(z), threshold=0, form=form)


@pytest.mark.parametrize("form", ["paper", "reference"])
def test_the_threshold_decides_the_attended_temperature(form):
    z = model(5000, 10)  # calibrated: T = 1 is right
    y = draw(z)
    assert fit_temperature(z, y).temperature == pytest.approx(1, abs=0.05)
    assert fit_attended(z, y, threshold=0.01, form=form).temperature > 3
    assert fit_attended(z, y, threshold=0.3, form=form).temperature < 0.6

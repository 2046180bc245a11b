"""Bias-corrected temperature, vector and matrix scaling, against optimisers that are not ours."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from simulated import draw_labels, logits, softmax
from sklearn.linear_model import LogisticRegression

import temperance as tp


def miscalibrated(n, k, seed=0):
    """Logits whose classes have different gains and biases, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    truth = z * rng.uniform(0.3, 1.2, size=k) + rng.normal(size=k) * 0.5
    return z, draw_labels(softmax(truth), rng)


def nll(fitted, z, y):
    p = softmax(np.asarray(fitted(z), dtype=np.float64))
    return -np.mean(np.log(p[np.arange(len(y)), y]))


def autograd_optimum(objective, size, start):
    """The least value that SciPy's trust region finds with the derivatives of torch, in float64."""

    def value_and_gradient(x):
        t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        loss = objective(t)
        loss.backward()
        return loss.item(), t.grad.numpy()

    def hessian(x):
        t = torch.tensor(x, dtype=torch.float64)
        return torch.autograd.functional.hessian(objective, t).numpy()

    x0 = np.zeros(size)
    x0[:start] = 1
    options = {"gtol": 1e-10, "maxiter": 500}
    return minimize(
        value_and_gradient, x0, jac=True, hess=hessian, method="trust-ncg", options=options
    )


def cross_entropy(v, y):
    return torch.nn.functional.cross_entropy(v, y)


@pytest.mark.parametrize(("n", "k"), [(400, 2), (1_500, 4)])
def test_vector_is_the_optimum_of_a_trust_region(n, k):
    z, y = miscalibrated(n, k)
    zt, yt = torch.tensor(z), torch.tensor(y)
    best = autograd_optimum(lambda x: cross_entropy(x[:k] * zt + x[k:], yt), 2 * k, k)
    assert nll(tp.fit_vector(z, y), z, y) == pytest.approx(best.fun, abs=1e-9)


def test_biased_temperature_is_the_optimum_of_a_trust_region():
    z, y = miscalibrated(1_500, 4)
    zt, yt = torch.tensor(z), torch.tensor(y)
    best = autograd_optimum(lambda x: cross_entropy(x[0] * zt + x[1:], yt), 5, 1)
    fitted = tp.fit_biased_temperature(z, y)
    assert nll(fitted, z, y) == pytest.approx(best.fun, abs=1e-9)
    assert 1 / fitted.temperature == pytest.approx(best.x[0], rel=1e-5)
    assert fitted.bias == pytest.approx(best.x[1:] - best.x[1:].mean(), abs=1e-5)


@pytest.mark.parametrize(("n", "k"), [(400, 3), (3_000, 8)])
def test_matrix_is_the_logistic_regression_of_scikit_learn(n, k):
    z, y = miscalibrated(n, k)
    peer = LogisticRegression(C=np.inf, tol=1e-8, solver="newton-cg", max_iter=1000).fit(z, y)
    best = -np.mean(peer.predict_log_proba(z)[np.arange(n), y])
    assert nll(tp.fit_matrix(z, y), z, y) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("penalty", [0.03, 1.0])
def test_a_penalised_fit_is_the_optimum_of_its_definition(penalty):
    k = 3
    z, y = miscalibrated(600, k)
    unit = 1 / tp.fit_temperature(z, y).temperature
    zt, yt = torch.tensor(z * unit), torch.tensor(y)

    def matrix_loss(x):
        w, b = x[: k * k].reshape(k, k), x[k * k :]
        away = w - torch.eye(k) * torch.trace(w) / k
        return cross_entropy(zt @ w.T + b, yt) + penalty * ((away**2).sum() + (b**2).sum())

    def vector_loss(x):
        away = x[:k] - x[:k].mean()
        v = x[:k] * zt + x[k:]
        return cross_entropy(v, yt) + penalty * ((away**2).sum() + (x[k:] ** 2).sum())

    best = autograd_optimum(matrix_loss, k * k + k, 0)
    fitted = tp.fit_matrix(z, y, penalty=penalty)
    assert fitted.weight == pytest.approx(best.x[: k * k].reshape(k, k) * unit, abs=1e-5)
    assert fitted.bias == pytest.approx(best.x[k * k :], abs=1e-5)
    best = autograd_optimum(vector_loss, 2 * k, k)
    fitted = tp.fit_vector(z, y, penalty=penalty)
    assert fitted.scale == pytest.approx(best.x[:k] * unit, abs=1e-5)
    assert fitted.bias == pytest.approx(best.x[k:], abs=1e-5)


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_a_bias_makes_mean_probabilities_equal_class_frequencies(fit):
    z, y = miscalibrated(900, 5)
    p = softmax(fit(z, y)(z))
    assert p.mean(axis=0) == pytest.approx(np.bincount(y) / 900, abs=1e-6)


@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_a_large_penalty_leads_to_temperature_scaling(fit):
    z, y = miscalibrated(500, 4)
    p = tp.fit_temperature(z, y).predict_proba(z)
    assert fit(z, y, penalty=1e7).predict_proba(z) == pytest.approx(p, abs=1e-5)


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_soft_one_hot_labels_and_weights_agree_with_hard_ones_repeated(fit):
    z, y = miscalibrated(300, 3)
    weight = np.arange(300) % 3
    repeated = fit(np.repeat(z, weight, axis=0), np.repeat(y, weight)).predict_proba(z)
    assert fit(z, y, sample_weight=weight).predict_proba(z) == pytest.approx(repeated, abs=1e-6)
    soft = fit(z, np.eye(3)[y], sample_weight=weight).predict_proba(z)
    assert soft == pytest.approx(repeated, abs=1e-6)


@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_scaled_logits_get_the_same_probabilities(fit):
    z, y = miscalibrated(300, 3)
    p = fit(z, y, penalty=0.1).predict_proba(z)
    for c in (1e-6, 1e6):
        assert fit(z * c, y, penalty=0.1).predict_proba(z * c) == pytest.approx(p, abs=1e-7)


# ------------------------------------------------------------------------- no finite optimum


def separable(n=60):
    """Wrong as they stand, but right after a shift of one class: a bias separates them."""
    y = np.arange(n) % 3
    z = np.eye(3)[y] * 4.0 + np.random.default_rng(0).uniform(-1, 1, size=(n, 3))
    z[:, 0] += 2.5
    return z, y


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_separable_rows_have_no_optimum(fit):
    z, y = separable()
    assert (z.argmax(axis=1) != y).any()
    with pytest.raises(tp.NotIdentified, match="can be separated"):
        fit(z, y)


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_rows_that_can_be_separated_but_for_a_tie_have_no_optimum(fit):
    z, y = separable()
    tie = [5.5, 3.0, -2.0]  # on the border that separates the others
    z, y = np.vstack([z, tie, tie]), np.append(y, [0, 1])
    with pytest.raises(tp.NotIdentified, match=r"can be separated.*set a penalty"):
        fit(z, y)
    weight = np.ones(len(y))
    weight[-1] = 0  # the other one can be told
    with pytest.raises(tp.NotIdentified, match="can be separated"):
        fit(z, np.eye(3)[y], weight)


@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_one_class_that_can_be_separated_is_enough(fit):
    z, y = miscalibrated(600, 4)
    z[:, 3] = np.where(y == 3, 1.5, -1.5) + np.random.default_rng(1).uniform(-1, 1, size=600)
    assert nll(tp.fit_biased_temperature(z, y), z, y) > 0  # a gain of its own would separate it
    with pytest.raises(tp.NotIdentified, match="can be separated"):
        fit(z, y)


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_a_few_rows_among_the_others_identify_the_map(fit):
    z, y = separable()
    strays = np.random.default_rng(3).choice(len(y), size=9, replace=False)
    y[strays] = (y[strays] + 1 + np.arange(9) % 2) % 3
    assert not has_a_direction(z, y, fit)
    fitted = fit(z, y)
    assert np.isfinite(fitted.bias).all()
    assert 0 < nll(fitted, z, y) < nll(tp.fit_temperature(z, y), z, y)


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_a_row_of_two_classes_is_a_row_of_each(fit):
    """Whether the others can be separated, and where they cannot, in what they make of the map."""
    z, y = separable()
    soft, tie = np.eye(3)[y], [5.5, 3.0, -2.0]  # on the border that separates the others
    with pytest.raises(tp.NotIdentified, match="can be separated"):
        fit(np.vstack([z, tie]), np.vstack([soft, [0.3, 0.7, 0.0]]))
    strays = np.random.default_rng(3).choice(len(y), size=9, replace=False)
    other = (y[strays] + 1 + np.arange(9) % 2) % 3
    soft[strays] = 0.4 * np.eye(3)[y[strays]] + 0.6 * np.eye(3)[other]
    rows, classes = np.nonzero(soft)
    hard = fit(z[rows], classes, sample_weight=soft[rows, classes])
    assert fit(z, soft).predict_proba(z) == pytest.approx(hard.predict_proba(z), abs=1e-6)


def has_a_direction(z, y, fit):
    """Whether a linear programme finds margins that are never negative, and somewhere positive."""
    k = z.shape[1]
    rows, others = np.nonzero(np.arange(k) != y[:, None])
    sign = np.eye(k)[y[rows]] - np.eye(k)[others]
    gains = {
        tp.fit_matrix: (sign[:, :, None] * z[rows][:, None, :]).reshape(len(rows), -1),
        tp.fit_vector: sign * z[rows],
        tp.fit_biased_temperature: np.sum(sign * z[rows], axis=1, keepdims=True),
    }
    margins = np.hstack([gains[fit], sign])
    found = linprog(-margins.sum(axis=0), -margins, np.zeros(len(margins)), bounds=(-1, 1))
    return -found.fun > 1e-6


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_a_map_is_refused_where_a_linear_programme_finds_a_direction(fit):
    verdicts = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 5))
        n = 3 * k * (1 + (fit is tp.fit_matrix))
        z = rng.normal(size=(n, k)) * 2
        noise = rng.gumbel(size=z.shape)
        y = np.append(np.arange(k), (z * rng.choice([0.5, 9]) + noise).argmax(axis=1)[k:])
        z += rng.normal(size=k) * 2  # which a bias takes back
        z = [z, np.vstack([z[:1], z[:1], z[2:]]), np.round(z)][seed % 3]
        try:
            fit(z, y)
            refused = False
        except tp.NotIdentified as error:
            if "can be separated" not in str(error):
                continue
            refused = True
        assert refused == has_a_direction(z, y, fit)
        verdicts.append(refused)
    assert 2 <= sum(verdicts) <= len(verdicts) - 6


@pytest.mark.parametrize("fit", [tp.fit_biased_temperature, tp.fit_vector, tp.fit_matrix])
def test_a_class_without_rows_has_no_bias(fit):
    z, y = logits(200, 4, sharpness=2.0)
    with pytest.raises(tp.NotIdentified, match="class 3 has no labelled row"):
        fit(z[y < 3], y[y < 3])


@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_a_penalty_identifies_what_the_rows_do_not(fit):
    z, y = logits(200, 4, sharpness=2.0)
    assert np.isfinite(fit(z[y < 3], y[y < 3], penalty=0.1).bias).all()
    assert nll(fit(*separable(), penalty=0.1), *separable()) < nll(tp.Temperature(1), *separable())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "k"), [(300, 2), (301, 10), (70, 100), (9, 1_100)])
@pytest.mark.parametrize("module", ["kernels_numpy", "kernels_numba"])
def test_residuals_are_those_of_a_long_softmax(module, n, k, weighted):
    kernels = pytest.importorskip(f"temperance._core.{module}", exc_type=ImportError)
    rng = np.random.default_rng(k)
    v, y = rng.normal(size=(n, k)) * 3, rng.integers(k, size=n)
    v[::7] *= 1e3  # rows that are sure, and rows that are surely wrong
    w = rng.integers(3, size=n) * 0.7 if weighted else np.ones(n)
    long, own = v.astype(np.longdouble), (np.arange(n), y)
    p, is_missed = softmax(long), (softmax(long)[own] <= 0.5) & (w > 0)
    loss, missed = kernels.residuals(v, y, w if weighted else None)
    wanted = (w[:, None] * (p - np.eye(k)[y])).astype(float)
    np.testing.assert_allclose(v, wanted, rtol=1e-12, atol=1e-14)
    assert loss == pytest.approx(float(w @ (np.logaddexp.reduce(long, axis=1) - long[own])), 1e-13)
    np.testing.assert_array_equal(missed, np.bincount(y[is_missed], minlength=k))


@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_the_layout_of_the_logits_does_not_matter(fit):
    z, y = miscalibrated(600, 4)
    plain = fit(z, y)(z)
    for same in (np.asfortranarray(z), np.repeat(z, 2, axis=1)[:, ::2], z[::-1][::-1]):
        np.testing.assert_allclose(fit(same, y)(z), plain, atol=1e-7)


def test_a_matrix_has_no_part_that_changes_nothing():
    z, y = miscalibrated(800, 4)
    unit = 1 / tp.fit_temperature(z, y).temperature
    np.testing.assert_allclose(tp.fit_matrix(z, y).weight.sum(axis=0), unit, rtol=1e-12)


def test_a_negative_penalty_is_refused():
    z, y = logits(50, 3)
    with pytest.raises(tp.InputError, match=r"penalty must be a finite number in \[0, 1e\+100\]"):
        tp.fit_matrix(z, y, penalty=-1.0)


# --------------------------------------------------------------------------- many classes


def of_every_class(k):
    """Three rows of each of k classes."""
    y = np.tile(np.arange(k), 3)
    z = np.random.default_rng(0).normal(size=(len(y), k)).astype(np.float32)
    z[np.arange(len(y)), y] += 2
    return z, y


@pytest.mark.slow
def test_the_optimum_of_thousands_of_classes_meets_their_frequencies():
    """The gradient of the biases is the mean probability less the frequency, plus the penalty's."""
    z, y = of_every_class(2_100)
    z[:, ::2] += 1
    for penalty in (0, 0.01):
        fitted = (
            tp.fit_vector(z, y, penalty=penalty) if penalty else tp.fit_biased_temperature(z, y)
        )
        met = fitted.predict_proba(z.astype(np.float64)).mean(axis=0)
        wanted = 1 / 2_100 - 2 * penalty * fitted.bias
        np.testing.assert_allclose(met, wanted, rtol=1e-3)


def test_thirty_thousand_classes_stay_in_bounded_memory():
    z, y = of_every_class(10)
    z, y = np.repeat(z, 3_000, axis=1), y * 3_000
    tracemalloc.start()
    fitted = tp.fit_vector(z, y, penalty=1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(fitted.scale) == 30_000
    assert peak < 512 << 20
    for fit in (tp.fit_matrix, partial(tp.fit_biased_temperature, around=tp.Temperature(2.0))):
        with pytest.raises(tp.InputError, match="at most 2,000 classes"):
            fit(z, y)


# ----------------------------------------------------------------------------- held-out rows


def test_the_plain_matrix_loses_to_one_temperature_and_the_penalised_one_wins():
    z, y = miscalibrated(20_300, 10)
    here, there = slice(0, 300), slice(300, None)
    one, plain, penalised = (
        nll(fitted, z[there], y[there])
        for fitted in (
            tp.fit_temperature(z[here], y[here]),
            tp.fit_matrix(z[here], y[here]),
            tp.fit_matrix(z[here], y[here], penalty=0.1),
        )
    )
    assert penalised < one < plain


def test_the_penalised_matrix_wins_on_cifar100_where_the_plain_one_has_no_optimum(shared_data):
    with np.load(shared_data / "logits" / "cifar100_densenet40.npz") as data:
        z, y = data["logits"], data["labels"]
    order = np.random.default_rng(0).permutation(len(y))
    here, there = order[:2_000], order[5_000:]
    with pytest.raises(tp.NotIdentified, match="can be separated"):
        tp.fit_matrix(z[here], y[here])
    one, vector, matrix = (
        nll(fitted, z[there], y[there])
        for fitted in (
            tp.fit_temperature(z[here], y[here]),
            tp.fit_vector(z[here], y[here], penalty=1.0),
            tp.fit_matrix(z[here], y[here], penalty=3.0),
        )
    )
    assert vector < one - 5e-4
    assert matrix < one - 5e-4

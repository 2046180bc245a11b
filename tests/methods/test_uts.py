"""UTS against a literal implementation in plain loops, and on the authors' own logits."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import simulated
from scipy.optimize import minimize_scalar

import temperance as tp
from temperance.data import as_rows
from temperance.methods import uts

NETWORKS = [
    f"{data}_{net}"
    for data in ("cifar10", "cifar100")
    for net in ("densenet40", "resnet56", "vgg16_bn")
]


def leaning(n=400, k=4, seed=0):
    """Logits that favour class 0, so that the other classes fall short of a flat prior."""
    z, _ = simulated.logits(n, k, sharpness=2.0, seed=seed)
    return z + 2.0 * np.eye(k)[0]


def hidden(n=400):
    """Logits of three classes: of many rows of class 1, only, class 0 takes the first place."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    z = 6 * np.eye(3)[y] + rng.normal(size=(n, 3))
    z[:, 0] += 6.5 * ((y == 1) & (rng.random(n) < 0.5))
    return z


def softmax_row(row, t):
    top = max(row)
    e = [math.exp((v - top) / t) for v in row]
    return [v / sum(e) for v in e]


def brute_force(z, q, form="reference"):
    """The objective, row by row and class by class, searched on a fine grid.

    Reference: as the authors' code has it. Paper, appendix: equations 4, 7 and 8, with S(x; 1/w) or
    S(x; 1) inside the weight.
    """
    n, k = z.shape
    hat = [max(range(k), key=row.__getitem__) for row in z.tolist()]
    short = [max(0.0, 1 - 0.99 * hat.count(c) / (n * q[c])) for c in range(k)]

    def weights(w):
        p = [softmax_row(row, 1 / w if form == "main-text" else 1.0) for row in z.tolist()]
        return [[(x / (1 - x)) ** (1 / w) if x < 1 else 0.0 for x in row] for row in p]

    def objective(log_w):
        total, weight = 0.0, weights(math.exp(log_w))
        for c in range(k):
            mean = sum(weight[i][c] for i in range(n) if hat[i] != c) / n
            predicted = hat.count(c) / n
            total += (mean - short[c] if form == "reference" else predicted + mean - q[c]) ** 2
        return total

    grid = np.linspace(-4, 4, 81)
    best = grid[int(np.argmin([objective(g) for g in grid]))]
    bounds = (best - 0.1, best + 0.1)
    weight = weights(math.exp(minimize_scalar(objective, bounds=bounds, method="bounded").x))
    share = 1 / (k - 1) if form == "reference" else 1

    def loss(log_t):
        total = 0.0
        for row, own, w in zip(z.tolist(), hat, weight, strict=True):
            s = [math.log(x) for x in softmax_row(row, math.exp(log_t))]
            total -= s[own] + share * sum(w[c] * s[c] for c in range(k) if c != own)
        return total

    return math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)


def test_reference_form_is_the_authors_objective():
    z, q = leaning(), np.full(4, 0.25)
    fitted = tp.fit_uts(z, q, bag_size=None).temperature
    assert fitted == pytest.approx(brute_force(z, q), rel=2e-3)


@pytest.mark.parametrize("form", ["main-text", "appendix"])
def test_printed_forms_are_the_printed_equations(form):
    """Where they answer: there is a class to fill, and rows near to it."""
    z, q = hidden(), np.full(3, 1 / 3)
    fitted = tp.fit_uts(z, q, form=form, bag_size=None).temperature
    assert fitted == pytest.approx(brute_force(z, q, form), rel=2e-3)


def test_with_two_classes_the_weight_of_the_main_text_does_not_depend_on_w():
    """The logit of S(x; 1/w) is w times that of S(x; 1), and the power 1/w takes that back."""
    rows, q = as_rows(leaning(k=2)), np.full(2, 0.5)
    objective = uts.weight_objective(rows, uts.Shortfall.of(rows, q, None), "main-text")
    values = objective(np.array([0.1, 1.0, 10.0]))
    assert values == pytest.approx(values[0], rel=1e-9)
    with pytest.raises(tp.NotIdentified, match="no optimal weight"):
        tp.fit_uts(leaning(k=2), q, form="main-text")


@pytest.mark.parametrize("form", ["reference", "main-text", "appendix"])
def test_rows_in_blocks_are_fitted_like_an_array(form):
    z, q = hidden(600), np.full(3, 1 / 3)
    blocks = tp.fit_uts(lambda: iter([z[:250], z[250:]]), q, form=form, bag_size=None)
    whole = tp.fit_uts(z, q, form=form, bag_size=None)
    assert blocks.temperature == pytest.approx(whole.temperature, rel=1e-6)


def test_a_class_that_is_not_expected_may_be_missing():
    z, q = np.column_stack([hidden(), np.full(400, -1e3)]), np.array([1 / 3, 1 / 3, 1 / 3, 0.0])
    with_it = tp.fit_uts(z, q, form="appendix", bag_size=None)
    without = tp.fit_uts(hidden(), q[:3], form="appendix", bag_size=None)
    assert with_it.temperature == pytest.approx(without.temperature, rel=1e-6)
    assert uts.Shortfall.of(as_rows(z), q, None).missing[3] == 0
    assert tp.fit_uts(z, q).temperature > 0


def test_deviations_of_few_rows_are_shrunk_to_those_of_a_full_bag():
    """Over draws, the relative deviations of 200 predictions have the mean square of 2,000."""
    rng, q = np.random.default_rng(0), np.array([0.1, 0.2, 0.3, 0.4])

    def squares(mix):
        full = rng.multinomial(2000, mix, size=4000) / (2000 * q) - 1
        few = rng.multinomial(200, mix, size=4000) / (200 * q)
        factor = np.array([uts._shrinkage(ratio, q, 200, 2000) for ratio in few])
        assert (factor <= 1).all()
        return [np.mean(d**2) for d in (full, few - 1, factor[:, None] * (few - 1))]

    full, few, shrunk = squares(np.array([0.2, 0.3, 0.3, 0.2]))
    assert shrunk == pytest.approx(full, rel=0.03)
    assert few > 1.04 * full
    full, few, shrunk = squares(q)  # nothing but noise: what is left of it is a part
    assert full < shrunk < few / 2


@pytest.mark.parametrize("k", [6, 60])
def test_machine_code_agrees_with_numpy(k, request):
    z, q = (1.5 * leaning(5000, k)).astype(np.float32), np.full(k, 1 / k)
    compiled = tp.fit_uts(z, q).temperature
    request.getfixturevalue("without_numba")
    assert tp.fit_uts(z, q).temperature == pytest.approx(compiled, rel=1e-9)


@pytest.mark.parametrize("k", [3, 40])
def test_the_search_ends_in_the_lowest_point_of_the_objective(k):
    z, q = leaning(3000, k), np.full(k, 1 / k)
    rows = as_rows(z)
    shortfall = uts.Shortfall.of(rows, q, None)
    v = uts.fit_weight_exponent(rows, uts.log_odds(rows), shortfall, "reference")
    objective = uts.weight_objective(rows, shortfall, "reference")
    around = v * np.geomspace(2.0**-5, 2.0**5, 401)
    assert objective(np.array([v]))[0] <= objective(around).min() * (1 + 1e-9)


@pytest.mark.parametrize("form", ["main-text", "appendix"])
def test_printed_forms_do_not_answer_where_the_mix_is_met(form):
    z, y = simulated.logits(3000, 5, sharpness=2.0)
    with pytest.raises(tp.NotIdentified, match="no optimal weight"):
        tp.fit_uts(z, np.bincount(y, minlength=5) / len(y), form=form)


def test_one_predicted_class_is_not_identified():
    with pytest.raises(tp.NotIdentified, match="one class"):
        tp.fit_uts(leaning() + 100 * np.eye(4)[0], np.full(4, 0.25))


def test_ties_that_outweigh_the_shortfall_leave_no_optimal_weight():
    """A tied row counts for its second class whatever w is: here that alone is too much already.

    These are the rows of scikit-learn's check_classifier_data_not_an_array.
    """
    first = [3, 0, 0, 1, 1, 2, 0, 1, 2, 4, 2, 3]
    z = np.column_stack([first, [0, 1, 2, 1, 2, 1, 3, 0, 0, 4, 3, 2]])
    with pytest.raises(tp.NotIdentified, match="improves as the scale grows"):
        tp.fit_uts(z, [0.5, 0.5])
    ties = np.mean(z[:, 0] == z[:, 1])
    shortfall = uts.Shortfall.of(as_rows(z.astype(float)), np.full(2, 0.5), 2000)
    assert shortfall.missing[1] < ties
    odds = (z[:, 1] - z[:, 0])[z[:, 0] >= z[:, 1]].tolist()
    with mpmath.workdps(600):
        means = [mpmath.fsum(mpmath.exp(v * o) for o in odds) / len(z) for v in (1, 5, 50, 1000)]
        falls = [a > b for a, b in itertools.pairwise([*means, mpmath.mpf(2) / 12])]
    assert all(falls)  # for ever, towards the ties and so towards what is wanted


def test_bags_are_drawn_from_the_seed():
    z, q = leaning(6000), np.full(4, 0.25)
    first, again, other = (tp.fit_uts(z, q, seed=s).temperature for s in (0, 0, 1))
    assert first == again
    assert first != other


def read(shared_data, name):
    with np.load(shared_data / "logits" / f"{name}.npz") as data:
        prefix = "test_" if "test_logits" in data.files else ""
        return data[f"{prefix}logits"].astype(np.float64), data[f"{prefix}labels"]


@pytest.mark.slow
def test_the_papers_protocol_on_the_authors_logits(shared_data):
    z, y = read(shared_data, "cifar100_densenet40")
    rows = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        here = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:20] for k in range(100)])
        there = np.setdiff1d(np.arange(len(y)), here)
        q = np.bincount(y[here], minlength=100) / 2000
        t = tp.fit_uts(z[here], q, bag_size=None)
        after = tp.metrics.evaluate(np.asarray(t(z[there])), y[there])
        rows.append([t.temperature, after.nll, after.ece])
    temperature, nll, ece = np.mean(rows, axis=0)
    assert temperature == pytest.approx(1.28, abs=0.03)
    assert nll == pytest.approx(1.013, abs=0.003)
    assert ece == pytest.approx(0.030, abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_more_rows_do_not_change_the_temperature(shared_data, name):
    z, y = read(shared_data, name)
    k = z.shape[1]
    q = np.full(k, 1 / k)
    few = []
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(len(y))[:2000]
        few.append(tp.fit_uts(z[rows], q).temperature)
    many = [tp.fit_uts(z, q, seed=seed).temperature for seed in range(5)]
    assert np.mean(many) == pytest.approx(np.mean(few), rel=0.06)
    assert np.std(many) < np.std(few)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_it_improves_the_likelihood_of_every_network(shared_data, name):
    z, y = read(shared_data, name)
    k = z.shape[1]
    order = np.random.default_rng(0).permutation(len(y))
    fitted = tp.fit_uts(z[order[:2000]], np.full(k, 1 / k))
    rest = order[2000:]
    assert tp.metrics.nll(np.asarray(fitted(z[rest])), y[rest]) < tp.metrics.nll(z[rest], y[rest])


@pytest.mark.slow
def test_few_rows_are_corrected(shared_data):
    z, _ = read(shared_data, "cifar10_resnet56")
    q = np.full(10, 0.1)
    raw, corrected = [], []
    for seed in range(10):
        rows = np.random.default_rng(seed).permutation(len(z))[:500]
        raw.append(tp.fit_uts(z[rows], q, bag_size=None).temperature)
        corrected.append(tp.fit_uts(z[rows], q).temperature)
    whole = tp.fit_uts(z, q).temperature
    assert abs(np.mean(corrected) - whole) < 0.5 * abs(np.mean(raw) - whole)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["main-text", "appendix"])
@pytest.mark.parametrize("name", NETWORKS)
def test_printed_forms_escape_on_every_network(shared_data, name, form):
    z, _ = read(shared_data, name)
    with pytest.raises(tp.NotIdentified):
        tp.fit_uts(z, np.full(z.shape[1], 1 / z.shape[1]), form=form)

"""Temperature and bias that match an accuracy and a class mix, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scenes
from scipy.optimize import minimize

from temperance.calibrate.problem import Logits
from temperance.calibrate.solve import BiasAt, match_accuracy, match_mix, project, solve_confidence


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=20_000, signal=2.0, scale=6.0, offset=[0.6, -0.4, 0.3, 0, -0.5])


@pytest.fixture(scope="module")
def target(scene):
    return Logits.of(scene.target)


@pytest.mark.parametrize("temperature", [0.5, 3.0, 20.0])
def test_the_class_mix_is_met(target, temperature):
    mix = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    bias, _ = match_mix(target, temperature, mix, np.zeros(5))
    assert target.probabilities(temperature, bias).mean(axis=0) == pytest.approx(mix, abs=1e-5)


def test_many_classes_are_met_by_scaling():
    z = Logits.of(np.random.default_rng(0).normal(size=(2_000, 200)))
    mix = np.random.default_rng(1).dirichlet(np.full(200, 2.0))
    bias, _ = match_mix(z, 0.5, mix, np.zeros(200))
    assert np.abs(z.probabilities(0.5, bias).mean(axis=0) - mix).sum() < 1e-3


def test_the_true_accuracy_and_mix_give_the_map_that_is_known_in_closed_form(scene, target):
    right = float((scene.target.argmax(axis=1) == scene.labels).mean())
    mix = np.bincount(scene.labels, minlength=5) / len(scene.labels)
    found = match_accuracy(target, right, mix, BiasAt(1.0, np.zeros(5)), (0.1, 100.0))
    assert found.temperature == pytest.approx(scene.temperature, rel=0.05)
    assert found.bias == pytest.approx(scene.bias, abs=0.1)


def test_an_accuracy_out_of_reach_gives_the_nearer_limit(target):
    mix = np.full(5, 0.2)
    low = match_accuracy(target, 0.999, mix, BiasAt(3.0, np.zeros(5)), (1.0, 9.0))
    high = match_accuracy(target, 0.21, mix, BiasAt(3.0, np.zeros(5)), (1.0, 9.0))
    assert (low.temperature, high.temperature) == (pytest.approx(1.0), pytest.approx(9.0))


@pytest.mark.parametrize("accuracy", [0.3, 0.6, 0.9])
def test_mean_confidence_is_met(target, accuracy):
    t = solve_confidence(target, accuracy, 1.0, (1e-3, 1e3))
    assert target.probabilities(t).max(axis=1).mean() == pytest.approx(accuracy, abs=1e-5)


def test_the_nearest_map_to_one_map_is_that_map(target):
    bias = np.array([0.5, -0.5, 0.2, 0.0, -0.2])
    found = project(target, target.probabilities(4.0, bias), BiasAt(1.0, np.zeros(5)), bias=True)
    assert found.temperature == pytest.approx(4.0, rel=1e-4)
    assert found.bias == pytest.approx(bias, abs=1e-4)


@pytest.mark.parametrize("moves", [True, False])
def test_the_nearest_map_to_a_mixture_has_the_least_divergence(target, moves):
    rows = target.take(np.arange(2_000))
    mixture = 0.5 * rows.probabilities(2.0) + 0.5 * rows.probabilities(8.0, np.eye(5)[0])

    def divergence(x):
        p = rows.probabilities(np.exp(x[0]), np.r_[x[1:], 0] if moves else 0.0)
        return -float(np.mean(np.sum(mixture * np.log(p), axis=1)))

    found = project(rows, mixture, BiasAt(3.0, np.zeros(5)), bias=moves)
    peer = minimize(divergence, np.zeros(5 if moves else 1) + 1.0, method="BFGS")
    ours = np.r_[np.log(found.temperature), found.bias[:-1] - found.bias[-1]]
    assert divergence(ours if moves else ours[:1]) == pytest.approx(peer.fun, abs=1e-7)

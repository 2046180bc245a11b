"""The equations of matching hold at its solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scenes
from simulated import softmax

from temperance._core.sample import Sample, probabilities
from temperance.methods.matching import (
    Biases,
    Root,
    _falling_root,
    match_belief,
    match_confidence,
    match_prior,
)

OFFSET = np.array([1.0, -0.5, 0.5, 0.0, -1.0])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, offset=OFFSET)


@pytest.mark.parametrize("accuracy", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("start", [0.01, 1.0, 100.0])
def test_confidence_is_the_accuracy(scene, accuracy, start):
    t = match_confidence(Sample(scene.target), accuracy, start)
    assert softmax(scene.target / t).max(axis=1).mean() == pytest.approx(accuracy, abs=1e-4)


def test_mean_probabilities_are_the_prior(scene):
    b = match_prior(Sample(scene.target), scene.temperature, scene.prior)
    mean = softmax(scene.target / scene.temperature + b).mean(axis=0)
    assert mean == pytest.approx(scene.prior, abs=1e-4)
    assert b - b.mean() == pytest.approx(scene.bias, abs=0.15)  # Bayes' rule, up to sampling


def test_belief_and_prior_hold_together(scene):
    own = scene.target.argmax(axis=1)
    accuracy = float((own == scene.labels).mean())
    biases = Biases(Sample(scene.target), scene.prior)
    t = match_belief(biases, 1.0, accuracy, 1.0, 0.1)
    p = softmax(scene.target / t + biases.at(t))
    assert p.mean(axis=0) == pytest.approx(scene.prior, abs=1e-4)
    assert p[np.arange(len(p)), own].mean() == pytest.approx(accuracy, abs=2e-4)
    assert t == pytest.approx(scene.temperature, rel=0.1)  # the true T, from the true accuracy


def test_many_rows_are_matched_like_few():
    scene = scenes.shifted(k=5, offset=OFFSET)
    many = np.concatenate([scene.target] * 3)  # the same means, found on some rows and then on all
    few, more = (Biases(Sample(rows), scene.prior) for rows in (scene.target, many))
    alone, together = (match_belief(biases, 0.8, 0.6, 1.0, 10.0) for biases in (few, more))
    assert together == pytest.approx(alone, rel=1e-3)
    assert more.at(together) == pytest.approx(few.at(alone), abs=2e-3)
    alone, together = (match_confidence(Sample(rows), 0.6, 1.0) for rows in (scene.target, many))
    assert together == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("ends", [(2.0, 50.0), (2.0, 0.04)])
def test_belief_that_no_temperature_gives_ends_where_it_is_nearest(scene, ends):
    """With the prior met, the predictions of these rows are believed within bounds, whatever T."""
    biases, own = Biases(Sample(scene.target), scene.prior), scene.target.argmax(axis=1)
    accuracy = {50.0: 0.0, 0.04: 1.0}[ends[1]]
    t = match_belief(biases, 1.0, accuracy, *ends)
    assert t == pytest.approx(ends[1])
    p = softmax(scene.target / t + biases.at(t))
    assert p.mean(axis=0) == pytest.approx(scene.prior, abs=1e-3)
    assert 0.1 < p[np.arange(len(p)), own].mean() < 0.9


@pytest.mark.parametrize("seed", range(12))
def test_classes_that_the_prior_excludes_are_met_too(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 20))
    q = rng.dirichlet(np.full(k, 0.2)) * (rng.random(k) < 0.7)  # some rare, some excluded
    q = np.append(q, 0.3) / (q.sum() + 0.3)
    z, t = 4 * rng.normal(size=(400, k + 1)), np.exp(rng.normal())
    b = match_prior(Sample(z), t, q)
    assert np.abs(probabilities(z, t, b).mean(axis=0) - q).sum() < 2e-4
    assert np.ptp(b) < 200


@pytest.mark.parametrize("root", [1e-3, 0.4, 1.1, 70.0])
@pytest.mark.parametrize("shape", [np.arctan, np.tanh, lambda x: x, lambda x: x + x**3 / 50])
def test_a_root_is_found_in_a_few_evaluations(root, shape):
    """Each of which is a pass over the rows: bisection would take twenty."""
    asked = []

    def falling(t):
        asked.append(t)
        return -float(shape(np.log(t / root)))

    found = _falling_root(falling, Root(1.0))
    assert np.log(found.temperature / root) == pytest.approx(0, abs=1e-4)
    assert len(asked) <= 12
    assert len(set(asked)) == len(asked)
    again = len(asked)  # known with its slope, it is found at once
    _falling_root(falling, Root(found.temperature, slope=found.slope))
    assert len(asked) - again <= 2

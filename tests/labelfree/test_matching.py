"""The equations of matching hold at its solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scenes
from simulated import softmax

from temperance.labelfree import matching
from temperance.labelfree.matching import match_belief, match_confidence, match_prior, probabilities

OFFSET = np.array([1.0, -0.5, 0.5, 0.0, -1.0])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, offset=OFFSET)


@pytest.mark.parametrize("accuracy", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("start", [0.01, 1.0, 100.0])
def test_confidence_is_the_accuracy(scene, accuracy, start):
    t = match_confidence(scene.target, accuracy, start)
    assert softmax(scene.target / t).max(axis=1).mean() == pytest.approx(accuracy, abs=1e-3)


def test_mean_probabilities_are_the_prior(scene):
    b = match_prior(scene.target, scene.temperature, scene.prior, np.zeros(5))
    mean = softmax(scene.target / scene.temperature + b).mean(axis=0)
    assert mean == pytest.approx(scene.prior, abs=1e-3)
    assert b - b.mean() == pytest.approx(scene.bias, abs=0.15)  # Bayes' rule, up to sampling


def test_belief_and_prior_hold_together(scene):
    own = scene.target.argmax(axis=1)
    accuracy = float((own == scene.labels).mean())
    t, b = match_belief(scene.target, scene.prior, 1.0, accuracy, 1.0)
    p = softmax(scene.target / t + b)
    assert p.mean(axis=0) == pytest.approx(scene.prior, abs=2e-3)
    assert p[np.arange(len(p)), own].mean() == pytest.approx(accuracy, abs=2e-3)
    assert t == pytest.approx(scene.temperature, rel=0.1)  # the true T, from the true accuracy


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 10, 50])
def test_the_compiled_pass_is_that_of_numpy(monkeypatch, dtype, k):
    rng = np.random.default_rng(4)
    z, b = (3 * rng.normal(size=(500, k))).astype(dtype), rng.normal(size=k)
    compiled = matching.beliefs(z, 1.3, b, rows=True)
    monkeypatch.setattr(matching, "fused", lambda: None)
    reference = matching.beliefs(z, 1.3, b, rows=True)
    assert compiled.share == pytest.approx(reference.share, rel=1e-12)
    assert compiled[1:3] == pytest.approx(reference[1:3], rel=1e-12)
    assert compiled.p == pytest.approx(reference.p, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 33, 500])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_short_pass_is_nearly_that_of_numpy(monkeypatch, dtype, k, offset):
    rng = np.random.default_rng(5)
    z, b = (3 * rng.normal(size=(300, k)) + offset).astype(dtype), rng.normal(size=k)
    compiled = matching.nearly(z, 1.3, b)
    monkeypatch.setattr(matching, "fused", lambda: None)
    reference = matching.nearly(z, 1.3, b)
    assert compiled.share == pytest.approx(reference.share, rel=3e-6)
    assert compiled[1:3] == pytest.approx(reference[1:3], rel=1e-6)


def test_many_rows_are_matched_like_few():
    scene = scenes.shifted(k=5, offset=OFFSET)
    many = np.concatenate([scene.target] * 3)  # the same means, found on some rows and then on all
    few, bias = match_belief(scene.target, scene.prior, 0.8, 0.6, 1.0)
    t, b = match_belief(many, scene.prior, 0.8, 0.6, 1.0)
    assert t == pytest.approx(few, rel=5e-3)
    assert b == pytest.approx(bias, abs=2e-2)
    alone, together = (match_confidence(rows, 0.6, 1.0) for rows in (scene.target, many))
    assert together == pytest.approx(alone, rel=2e-3)


@pytest.mark.parametrize("seed", range(12))
def test_classes_that_the_prior_excludes_are_met_too(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 20))
    q = rng.dirichlet(np.full(k, 0.2)) * (rng.random(k) < 0.7)  # some rare, some excluded
    q = np.append(q, 0.3) / (q.sum() + 0.3)
    z, t = 4 * rng.normal(size=(400, k + 1)), np.exp(rng.normal())
    b = match_prior(z, t, q, np.zeros(k + 1))
    assert np.abs(probabilities(z, t, b).mean(axis=0) - q).sum() < 2e-3
    assert np.ptp(b) < 200

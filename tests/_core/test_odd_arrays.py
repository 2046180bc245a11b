"""Odd arrays: strict libraries with few rows, memory views, tensors with a gradient."""

from __future__ import annotations

import warnings

import array_api_strict
import numpy as np
import pytest

import temperance as tp


@pytest.mark.parametrize("n", range(1, 8))
def test_a_strict_library_with_few_rows(n):
    z = np.abs(np.random.default_rng(n).normal(size=(n, 3))) + 1
    y = np.arange(n) % 3
    given = array_api_strict.asarray(z)
    assert tp.metrics.nll(given, y) == pytest.approx(tp.metrics.nll(z, y), rel=1e-12)


def test_a_memory_view_is_an_array():
    y = np.arange(90) % 3
    z = np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3))
    assert tp.fit_temperature(memoryview(z), memoryview(y)) == tp.fit_temperature(z, y)
    assert tp.metrics.ece(memoryview(z), y) == tp.metrics.ece(z, y)


def test_a_tensor_that_learns_is_read_without_a_warning():
    torch = pytest.importorskip("torch")
    scores = torch.linspace(-2, 2, 30, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits = tp.binary_logits(scores)
        p = tp.from_probabilities(torch.softmax(logits, dim=1).requires_grad_())
    assert not logits.requires_grad
    assert not p.requires_grad
    np.testing.assert_allclose(p[:, 1] - p[:, 0], scores.detach(), atol=1e-5)


@pytest.mark.parametrize("penalty", [1e101, 1e308, np.inf, np.nan, -1.0, "1"])
@pytest.mark.parametrize("fit", [tp.fit_vector, tp.fit_matrix])
def test_a_penalty_that_nothing_can_be_computed_with(fit, penalty):
    y = np.arange(90) % 3
    z = np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3))
    with pytest.raises(tp.InputError, match="penalty must be"):
        fit(z, y, penalty=penalty)

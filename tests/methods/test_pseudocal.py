"""PseudoCal and perturbed validation, which run the model again."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import temperance as tp


def test_pseudocal_softens_an_overconfident_model_and_keeps_a_scale():
    x = np.random.default_rng(7).normal(size=(2_000, 4))
    once = tp.fit_pseudocal(lambda x: 5 * x, x).temperature
    twice = tp.fit_pseudocal(lambda x: 10 * x, x).temperature
    assert once > 1
    assert_allclose(twice, 2 * once, rtol=1e-6)


def test_perturbed_validation_is_softer_than_plain():
    rng = np.random.default_rng(8)
    y = rng.integers(3, size=900)
    x = np.eye(3)[y] + 0.4 * rng.normal(size=(900, 3))
    plain = tp.fit_temperature(6 * x, y).temperature
    assert tp.fit_perturbed(lambda x: 6 * x, x, y).temperature > plain


def test_inputs_that_require_gradients_are_read_without_a_warning():
    torch = pytest.importorskip("torch")
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    expected = tp.fit_pseudocal(lambda x: 9 * x, x).temperature
    assert tp.fit_pseudocal(lambda x: 9 * x, x.requires_grad_()).temperature == expected


def test_inputs_of_another_form_are_refused():
    x = np.random.default_rng(9).normal(size=(50, 1))
    with pytest.raises(tp.InputError, match="inputs"):
        tp.fit_pseudocal(np.nan_to_num, np.where(x == x[3], np.nan, [0.0, 1.0]))
    with pytest.raises(tp.InputError, match="inputs must be an array"):
        tp.fit_pseudocal(lambda x: x, [1.0])
    with pytest.raises(tp.NotIdentified, match="one class"):
        tp.fit_pseudocal(lambda x: x, np.tile([1.0, 0.0], (10, 1)))
    with pytest.raises(tp.InputError, match="mix must be"):
        tp.fit_pseudocal(lambda x: x, x, mix=0.4)


def test_a_model_that_raises_is_told_of_with_what_it_was_given():
    with pytest.raises(tp.InputError, match=r"On shape \(8, 3\) it raised TypeError"):
        tp.fit_perturbed(float, np.zeros((8, 3)), np.zeros(8, int))

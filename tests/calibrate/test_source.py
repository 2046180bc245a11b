"""What is read off a labelled source."""

from __future__ import annotations

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance.data.source import as_source_rows
from temperance.methods.source import (
    SourceProfile,
    class_weights,
    source_length,
    spread,
)


def test_weights_give_the_classes_the_shares_of_the_prior():
    y = np.repeat([0, 1, 2], [600, 300, 100])
    q = np.array([0.1, 0.3, 0.6])
    w = class_weights(y, q)
    assert w.sum() == pytest.approx(1)
    assert np.bincount(y, w) == pytest.approx(q, abs=0.01)


def test_error_and_mix_are_those_of_the_targets_classes():
    q = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    offset = np.array([1.5, 0, 0, 0, 0])  # class 0 is predicted too often, and is mostly right
    rng = np.random.default_rng(0)
    z, y = scenes.draw(rng, 20_000, np.full(5, 0.2), signal=2.0, scale=1.0, offset=offset)
    u, v = scenes.draw(rng, 20_000, q, signal=2.0, scale=1.0, offset=offset)
    plain, weighted = SourceProfile.of(z, y), SourceProfile.of(z, y, q)
    error = float((u.argmax(axis=1) != v).mean())
    mix = np.bincount(u.argmax(axis=1), minlength=5) / len(v)
    assert weighted.error == pytest.approx(error, abs=0.01)
    assert abs(plain.error - error) > 0.03
    assert weighted.mix == pytest.approx(mix, abs=0.01)
    assert weighted.effective < plain.effective == pytest.approx(20_000)


def test_temperature_is_that_of_the_rows_as_they_are():
    s = scenes.shifted(k=4)
    q = np.array([0.7, 0.1, 0.1, 0.1])
    assert SourceProfile.of(*s.source, q).temperature == tp.fit_temperature(*s.source).temperature


def test_typicality_ignores_scale_and_row_constants():
    s = scenes.shifted(k=6)
    profile = SourceProfile.of(*s.source)
    moved = 7 * s.target + np.arange(len(s.target))[:, None]
    assert profile.typicality(moved) == pytest.approx(profile.typicality(s.target), abs=1e-8)


def test_two_classes_have_no_typicality():
    # The centred logits of two classes lie on one line: a row is never unlike its class.
    s = scenes.shifted(k=2, signal=1.0)
    profile = SourceProfile.of(*s.source)
    share = profile.share_typical(profile.typicality(s.target))
    assert share == pytest.approx(1 - profile.error, abs=1e-3)


def test_on_the_source_itself_the_typical_share_is_the_accuracy():
    z, y = scenes.shifted(k=6).source
    profile = SourceProfile.of(z[:2000], y[:2000])
    share = profile.share_typical(profile.typicality(z[2000:]))
    assert share == pytest.approx(1 - profile.error, abs=0.03)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_spread_and_length_are_those_of_the_definition(scale):
    """Also where a row lies at the mean, and where squares would leave the range of numbers."""
    z = np.random.default_rng(0).normal(size=(40, 3))
    z = np.r_[z, 2 - z, np.ones((1, 3))]
    about = z - z.mean(axis=1, keepdims=True)
    w = np.random.default_rng(1).random(len(z))
    w /= w.sum()
    away = ((about - w @ about) ** 2).sum(axis=1)
    assert spread(scale * z, w) / scale == pytest.approx(np.sqrt(w @ away))
    length = np.sqrt((about**2).sum(axis=1).mean())  # the mean of the rows is 0
    assert spread(scale * z) / scale == pytest.approx(length)
    assert source_length(z) == pytest.approx(length)


def test_rows_that_differ_by_rounding_alone_have_no_scale():
    constants = np.random.default_rng(0).normal(size=(100, 1))
    for sign in (1, -1):
        with pytest.raises(tp.NotIdentified, match="the same in every row"):
            spread(sign * (np.array([0.0, 1e6, 3e6]) + constants))


def test_a_source_is_read_from_a_pair_from_blocks_and_from_what_makes_them():
    z, y = scenes.shifted(k=4, n=300).source
    blocks = [(z[:100], y[:100]), (z[100:], y[100:])]
    for source in ((z, y), [z, y], blocks, tuple(blocks), lambda: iter(blocks)):
        rows = as_source_rows(source, 4)
        block = rows.take(np.arange(rows.n))
        assert np.array_equal(block.logits, z)
        assert np.array_equal(block.labels, y)
    for nothing in (None, z, 3, "a name", (), (z, y, y)):
        with pytest.raises(tp.InputError):
            as_source_rows(nothing, 4)

"""Rows are read in passes over blocks, and a sum over blocks is the sum over the whole."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated import logits

import temperance as tp
from temperance._core import kernels
from temperance.data import ArrayRows, Block, add, as_labelled_rows, as_rows
from temperance.data import rows as data_rows


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(data_rows, "BLOCK", 40)


def moments(block, beta=1.0):
    return kernels.temperature_moments(*block, beta).relative


def together(rows):
    parts = list(rows.blocks())
    return Block(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n", [1, 9, 10, 11, 95])
def test_blocks_cover_every_row_once_and_in_order(n):
    z, y = logits(n, 4)
    weight = np.arange(n) + 1.0
    rows = as_labelled_rows(z, y, weight)
    whole = together(rows)
    assert (whole.logits == z).all()
    assert (whole.labels == y).all()
    assert (whole.weight == weight).all()
    assert max(len(block.logits) for block in rows.blocks()) <= 10
    assert (rows.n, rows.n_classes, rows.labelled) == (n, 4, True)


@pytest.mark.usefixtures("small_blocks")
def test_a_row_wider_than_a_block_is_still_read():
    z, y = logits(3, 100)
    assert together(as_labelled_rows(z, y, np.ones(3))).logits.shape == (3, 100)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.floats(0.1, 5))
def test_statistics_of_parts_add_up_to_those_of_the_whole(sizes, beta):
    z, y = logits(sum(sizes), 3)
    whole = as_labelled_rows(z, y)
    cuts = np.cumsum(sizes)[:-1]
    for statistic in (moments, lambda b: moments(b, beta)):
        parts = [
            as_labelled_rows(a, b).reduce(statistic)
            for a, b in zip(np.split(z, cuts), np.split(y, cuts), strict=True)
            if (a.min(axis=1) < 0).any()  # a part that looks like probabilities would be refused
        ]
        if len(parts) < len(sizes):
            return
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        assert total == pytest.approx(whole.reduce(statistic), rel=1e-11, abs=1e-11)


def test_passes_are_counted():
    rows = as_rows(logits(50, 3)[0])
    for _ in range(3):
        rows.reduce(moments)
    assert rows.passes == 3
    assert not rows.labelled


def test_head_is_spread_over_the_whole():
    z, y = logits(1000, 3)
    head = as_labelled_rows(z, y, np.arange(1000) + 1.0).thin(100)
    block = next(iter(head.blocks()))
    assert 100 <= head.n <= 125
    assert block.weight[0] == 1
    assert block.weight[-1] > 980
    assert (block.logits == z[block.weight.astype(int) - 1]).all()
    assert (block.labels == y[block.weight.astype(int) - 1]).all()
    few = as_rows(z[:10])
    assert few.thin(100) is few


@pytest.mark.usefixtures("small_blocks")
def test_the_first_bad_value_is_named_by_its_row_in_the_whole():
    z, y = logits(95, 4)
    z[93, 2] = np.nan
    with pytest.raises(tp.InputError, match="Row 93, class 2 is NaN"):
        as_labelled_rows(z, y).reduce(moments)


@pytest.mark.usefixtures("small_blocks")
def test_probabilities_in_one_block_among_logits_are_logits():
    z, y = logits(30, 4)
    z[:10] = 0.25
    tp.fit_temperature(z, y)
    z[:] = [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(tp.InputError, match="all 30 rows are non-negative and sum to 1"):
        tp.fit_temperature(z, y)


def test_a_memory_map_is_read_block_by_block(tmp_path):
    z, y = logits(200_000, 5, sharpness=2.0)
    np.save(tmp_path / "z.npy", z.astype(np.float32))
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    rows = as_labelled_rows(mapped, y)
    assert np.shares_memory(rows.logits, mapped)
    assert tp.fit_temperature(rows) == tp.fit_temperature(z.astype(np.float32), y)


def test_a_host_tensor_is_not_copied():
    t = torch.randn(100, 3)
    assert np.shares_memory(as_rows(t).logits, t.numpy())


def test_rows_pass_through_every_fit():
    z, y = logits(200, 3, sharpness=2.0)
    rows = as_labelled_rows(z, y)
    assert as_rows(rows) is rows
    assert tp.fit_temperature(rows) == tp.fit_temperature(z, y)
    assert tp.fit_vector(rows, penalty=0.1) == tp.fit_vector(z, y, penalty=0.1)


def test_rows_without_labels_are_refused_by_a_fit_that_needs_them():
    with pytest.raises(tp.InputError, match="requires labels to be passed"):
        tp.fit_temperature(as_rows(logits(50, 3)[0]))


def test_no_rows_at_all_are_refused():
    class Nothing(ArrayRows.__mro__[1]):
        n, labelled, passes, n_classes = 0, False, 0, 3

        def blocks(self):
            return iter(())

        def thin_by(self, stride):  # noqa: ARG002
            return self

    with pytest.raises(tp.InputError, match="at least one row"):
        Nothing().reduce(moments)


@pytest.mark.parametrize("kind", ["array", "stream"])
@pytest.mark.parametrize(
    ("function", "got"),
    [(lambda z: z[:, :2], r"shape \(500, 2\)"), (lambda z: z / 0, "NaN, infinity")],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_function_makes_of_logits_is_looked_at(kind, function, got):
    """Labels index the columns: with fewer of those, a kernel would read beyond a row."""
    z, y = logits(500, 4)
    rows = as_rows(z, y) if kind == "array" else as_rows([(z, y)])
    for use in (tp.fit_temperature, tp.metrics.evaluate):
        with pytest.raises(tp.InputError, match=f"function must return .* Got {got}"):
            use(rows.mapped(function))


def test_memory_that_is_in_no_file_is_left_alone():
    size = 400_000 * 10 * 4
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    z = np.ndarray((400_000, 10), np.float32, memory)
    z[:] = np.arange(10)[np.random.default_rng(0).permutation(10)]
    z[:, 0] += np.arange(400_000) % 7
    kept = z.copy()
    tp.metrics.nll(z, np.zeros(400_000, int))
    np.testing.assert_array_equal(z, kept)


@pytest.mark.parametrize("beside", ["labels", "sample_weight"])
def test_labels_and_weights_beside_rows_are_refused(beside):
    z, y = logits(50, 4)
    with pytest.raises(tp.InputError, match=f"{beside} must come with"):
        tp.metrics.nll(as_labelled_rows(z, y), **{beside: np.ones(50, int)})


def test_a_pass_finds_what_is_not_finite_and_says_where():
    """Also one whose statistic does not look at the values."""
    for n, row in ((50, 31), (300_000, 299_999)):
        z = np.zeros((n, 3))
        z[:, 1] = np.arange(n)
        z[row, 2] = np.nan
        with pytest.raises(tp.InputError, match=f"Row {row}, class 2 is NaN"):
            as_rows(z).reduce(lambda _: (1.0,))
        with pytest.raises(tp.InputError, match=f"Row {row}, class 2 is NaN"):
            as_rows(z).take(np.arange(5))


def held(kind, z, y, folder):
    """Return the same rows in another hold."""
    if kind == "blocks":
        return (lambda: zip(np.array_split(z, 5), np.array_split(y, 5), strict=True)), None
    if kind == "memory map":
        np.save(folder / "z.npy", z)
        return np.load(folder / "z.npy", mmap_mode="r"), y
    if kind == "Dask":
        da = pytest.importorskip("dask.array")
        return da.from_array(z, chunks=(500, -1)), da.from_array(y, chunks=500)
    return (torch.from_numpy(z), torch.from_numpy(y)) if kind == "torch" else (z, y)


@pytest.mark.parametrize("kind", ["array", "torch", "blocks", "memory map", "Dask"])
def test_minus_infinity_is_a_mask_wherever_the_rows_are(kind, tmp_path):
    """A class that is impossible in a row has probability 0 there, and nothing else changes."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=2000)
    z = 3 * (1.5 * np.eye(4)[y] + rng.normal(size=(2000, 4)))
    impossible = rng.random(z.shape) < 0.1
    impossible[np.arange(2000), y] = False
    infinite = np.where(impossible, -np.inf, z)
    e = np.where(impossible, 0, np.exp(z))
    nll = -np.log((e / e.sum(axis=1, keepdims=True))[np.arange(2000), y]).mean()
    rows = held(kind, infinite, y, tmp_path)
    assert tp.metrics.nll(*rows) == pytest.approx(nll, rel=1e-12)
    known = tp.fit_temperature(np.where(impossible, -1e30, z), y).temperature
    fitted = tp.fit_temperature(*rows)
    assert fitted.temperature == pytest.approx(known, rel=1e-9)
    p = fitted.predict_proba(infinite)
    np.testing.assert_array_equal(p[impossible], 0)
    assert p.sum(axis=1) == pytest.approx(1)
    infinite[7, y[7]] = -np.inf
    with pytest.raises(tp.InputError, match=r"Row 7 has class \d, whose logit is -inf"):
        tp.fit_temperature(*held(kind, infinite, y, tmp_path))

"""Streams of blocks: equal to the same rows in memory, to the last bit, whatever they are cut into.

A list, a loader, Parquet, an object or a function: each fit and metric reads them all.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated import logits
from torch.utils.data import DataLoader, TensorDataset

import temperance as tp
from temperance._core import progress
from temperance.data import as_rows, stream
from temperance.data import rows as data_rows

N, K = 30_000, 4
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.fixture(scope="module")
def data():
    z, y = logits(N, K, sharpness=2.0)
    return z.astype(np.float32), y


def cut(z, y, *, size=4_321):
    return [(z[i : i + size], y[i : i + size]) for i in range(0, len(z), size)]


def table(z, y):
    columns = {f"logit_{k}": z[:, k] for k in range(z.shape[1])}
    return pa.table(columns | {"label": y, "note": ["x"] * len(y)})


def parquet_file(z, y, path):
    pq.write_table(table(z, y), path / "rows.parquet", row_group_size=7_000)
    return path / "rows.parquet"


def parquet_directory(z, y, path):
    for i, (a, b) in enumerate(cut(z, y, size=9_999)):
        pq.write_table(table(a, b), path / f"part-{i}.parquet", row_group_size=2_500)
    return str(path)


class Again:
    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


def reused(z, y):
    """Yield every block in the same memory, as readers of files do."""
    a, b = np.empty_like(z[:777]), np.empty_like(y[:777])
    for i in range(0, len(z), 777):
        n = len(z[i : i + 777])
        a[:n], b[:n] = z[i : i + 777], y[i : i + 777]
        yield a[:n], b[:n]


KINDS = {
    "a list": lambda z, y, _: cut(z, y),
    "an object": lambda z, y, _: Again(cut(z, y, size=17)),
    "a function": lambda z, y, _: lambda: iter(cut(z, y, size=N)),
    "the same memory": lambda z, y, _: lambda: reused(z, y),
    "a loader": lambda z, y, _: DataLoader(
        TensorDataset(torch.from_numpy(z), torch.from_numpy(y)), batch_size=1_000
    ),
    "a Parquet file": parquet_file,
    "a Parquet directory": parquet_directory,
    "a dataset": lambda z, y, path: pa.dataset.dataset(parquet_directory(z, y, path)),
}


@pytest.fixture(params=KINDS)
def given_as(request, data, tmp_path):
    return KINDS[request.param](*data, tmp_path)


def test_every_kind_of_stream_gives_what_memory_gives(data, given_as):
    z, y = data
    assert tp.fit_temperature(given_as) == tp.fit_temperature(z, y)
    assert tp.metrics.evaluate(given_as) == tp.metrics.evaluate(z, y)
    rows = as_rows(given_as)
    assert (rows.n, rows.n_classes, rows.labelled, rows.soft) == (N, K, True, False)
    index = np.array([29_999, 0, 12_345, 12_345])
    assert (rows.take(index).logits == z[index]).all()
    assert (rows.take(index).labels == y[index]).all()


FITS = {
    "vector": lambda *rows: tp.fit_vector(*rows, penalty=1.0),
    "matrix": lambda *rows: tp.fit_matrix(*rows, penalty=1.0),
    "biased": tp.fit_biased_temperature,
    "attended": lambda *rows: tp.fit_attended(*rows, threshold=0.05),
    "nll": tp.metrics.nll,
    "ece": tp.metrics.ece,
    "brier": tp.metrics.brier,
    "classwise": tp.metrics.classwise_ece,
    "adaptive": tp.metrics.adaptive_ece,
    "smooth": tp.metrics.smooth_ece,
    "aurc": tp.metrics.aurc,
    "bootstrap": lambda *rows: tp.metrics.bootstrap(tp.metrics.ece, *rows, n_resamples=20),
}


@pytest.mark.parametrize("name", FITS)
def test_every_fit_and_metric_reads_a_stream(data, name):
    z, y = (column[:6_000] for column in data)
    assert FITS[name](cut(z, y)) == FITS[name](z, y)


LABEL_FREE = {
    "uts": lambda z, _: tp.fit_uts(z, PRIOR, seed=3),
    "matched": lambda z, source: tp.fit_prior_matched(z, PRIOR, source, seed=3),
    "matched without source": lambda z, _: tp.fit_prior_matched(z, PRIOR, seed=3),
    "accuracy": lambda z, source: tp.estimate_accuracy(z, PRIOR, source, seed=3),
    "cot": lambda z, _: tp.estimate_accuracy(z, PRIOR, method="cot", seed=3),
    "prior": lambda z, source: tp.estimate_prior(z, source, seed=3).tolist(),
    "calibrate": lambda z, source: tp.calibrate(z, PRIOR, source, seed=3).to_dict(),
}


@pytest.mark.parametrize("name", LABEL_FREE)
def test_label_free_methods_draw_the_same_rows(data, name):
    z, y = data
    method = LABEL_FREE[name]
    labelled = as_rows(cut(z, y))
    unlabelled = as_rows(lambda: (block for block, _ in cut(z, y)))
    assert method(unlabelled, labelled) == method(z, (z, y))
    assert unlabelled.passes <= 2  # one to count the rows, one to take some


def test_a_source_may_be_blocks(data):
    z, y = (column[:4_000] for column in data)
    expected = tp.fit_prior_matched(z, PRIOR, (z, y))
    assert tp.fit_prior_matched(z, PRIOR, cut(z, y, size=2_000)) == expected  # two blocks, no pair
    assert tp.fit_prior_matched(z, PRIOR, [z, y]) == expected


# -------------------------------------------------------------------------------------- cutting


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 25))
def test_recut_keeps_every_row_in_order(sizes, size):
    numbers = np.arange(sum(sizes))
    blocks = [
        data_rows.Block(part[:, None] * [1.0, -1.0], part, part + 0.5)
        for part in np.split(numbers, np.cumsum(sizes)[:-1])
    ]
    got = list(stream.recut(blocks, size))
    assert [block.n for block in got[:-1]] == [size] * (len(got) - 1)
    if got:
        whole = data_rows.joined(got)
        assert 0 < got[-1].n <= size
        assert (whole.labels == numbers).all()
        assert (whole.logits[:, 1] == -numbers).all()
        assert (whole.weight == numbers + 0.5).all()
    else:
        assert numbers.size == 0


@pytest.mark.parametrize("n_rows", [1, 100, 3_000, N])
def test_the_head_of_a_stream_is_that_of_an_array(data, n_rows, monkeypatch):
    monkeypatch.setattr(stream, "KEPT_ELEMENTS", 1 << 10)  # most heads are larger: they take a pass
    z, y = data
    there, here = as_rows(cut(z, y)).thin(n_rows), as_rows(z, y).thin(n_rows)
    first, second = (data_rows.joined(list(rows.blocks())) for rows in (there, here))
    assert (first.logits == second.logits).all()
    assert (first.labels == second.labels).all()
    assert n_rows <= there.n <= 2 * n_rows


def test_weights_come_as_a_third_part(data):
    z, y = data
    w = np.linspace(0, 2, N)
    blocks = [(*pair, w[i * 4_321 :][:4_321]) for i, pair in enumerate(cut(z, y))]
    assert tp.fit_temperature(blocks) == tp.fit_temperature(z, y, w)
    nothing = [(a, b, np.zeros(len(b))) for a, b in cut(z, y)]
    with pytest.raises(tp.InputError, match="must not be all zero"):
        tp.metrics.nll(nothing)


def test_soft_labels_come_in_blocks(data):
    z, y = data
    soft = 0.9 * np.eye(K)[y] + 0.1 / K
    assert tp.fit_temperature(cut(z, soft)) == tp.fit_temperature(z, soft)
    with pytest.raises(tp.InputError, match="not soft labels"):
        tp.fit_prior_matched(z, PRIOR, cut(z, soft))


def test_empty_blocks_are_passed_over(data):
    z, y = data
    blocks = [(z[:0], y[:0]), *cut(z, y), (z[:0], y[:0])]
    assert tp.fit_temperature(blocks) == tp.fit_temperature(z, y)


def test_maps_are_applied_block_by_block(data):
    z, y = data
    half = tp.Temperature(2.0)
    rows = as_rows(cut(z, y)).mapped(half)
    assert tp.metrics.evaluate(rows) == tp.metrics.evaluate(half(z), y)
    assert tp.fit_temperature(rows).temperature == pytest.approx(
        tp.fit_temperature(z, y).temperature / 2, rel=1e-9
    )
    assert (rows.take(np.array([7])).logits == half(z[7:8])).all()
    assert rows.n == N


def test_a_fit_reads_a_stream_few_times(data):
    z, y = data
    started = []

    def blocks():
        started.append(1)
        yield from cut(z, y)

    rows = as_rows(blocks)
    tp.metrics.evaluate(rows)
    assert len(started) <= 3  # to see K, to see that it is large, and to sum
    started.clear()
    tp.fit_temperature(rows)
    assert len(started) <= 3
    started.clear()
    assert rows.n == N
    assert started == []  # known since the first pass


def test_progress_is_shown_by_pass(data, monkeypatch):
    class Terminal(list):
        isatty = staticmethod(lambda: True)
        write = list.append
        flush = staticmethod(lambda: None)

    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "PERIOD", -1.0)
    monkeypatch.setattr(data_rows, "BLOCK", 1 << 16)  # two blocks
    rows = as_rows(cut(*data))
    tp.metrics.nll(rows)
    tp.metrics.nll(rows)
    shown = "".join(terminal)
    assert "1 blocks in pass 1" in shown
    assert "1/2 blocks in pass 2" in shown
    assert shown.endswith("\r\033[K")


# ------------------------------------------------------------------------------------- refusals

Z, Y = np.eye(3)[[0, 1, 2, 0]] * 3.0, np.array([0, 1, 2, 1])


def test_the_one_pass_of_a_source_that_cannot_be_read_again_has_every_block():
    """It once began with the second: the first had been looked at."""
    halves = iter([(Z[:2], Y[:2]), (Z[2:], Y[2:])])
    assert tp.metrics.evaluate(lambda: halves) == tp.metrics.evaluate(Z, Y)


REFUSED = {
    "a generator": (lambda: (b for b in [(Z, Y)]), r"can be read again.*the function that yields"),
    "used up": (lambda: Once([(Z, Y)]), r"come again in every pass.*4 rows, this time 0"),
    "nothing": (lambda: lambda: (), "at least one row"),
    "other classes": (lambda: [(Z, Y), (Z[:, :2], Y % 2)], "of 3 classes.*Got one of 2 classes"),
    "labels now and then": (lambda: [(Z, Y), Z], "with labels.*without labels"),
    "too many parts": (lambda: [(Z, Y, Y, Y)], "Got one of 4 parts"),
    "a bad label": (lambda: [(Z, Y), (Z, Y + 1)], "Row 6 holds 3"),
    "a bad weight": (lambda: [(Z, Y, Y), (Z, Y, -Y)], "Row 5 holds -1"),
    "a NaN": (lambda: [(Z, Y), (Z * [1, np.nan, 1], Y)], "Row 4, class 1 is NaN"),
    "probabilities": (lambda: [(Z * 0 + 1 / 3, Y)] * 2, "all 8 rows are non-negative"),
    "scores": (lambda: [(Z, Y), (Z[0], Y)], "one-dimensional scores"),
    "no labels": (lambda: [Z, Z], "requires labels"),
    "a function of something": (lambda: lambda x: x, "function without arguments"),
    "no such file": (lambda: "nowhere.parquet", "nothing at 'nowhere.parquet'"),
}


class Once:
    """Looks as if it could be iterated again, and cannot."""

    def __init__(self, blocks):
        self.held = iter(blocks)

    def __iter__(self):
        return self.held


def read_twice(blocks):
    rows = as_rows(blocks)
    return tp.metrics.nll(rows), tp.metrics.nll(rows)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_sentence(case):
    make, sentence = REFUSED[case]
    with pytest.raises(tp.InputError, match=sentence):
        read_twice(make())


def test_labels_beside_a_stream_are_refused():
    with pytest.raises(tp.InputError, match="labels must come with the blocks"):
        tp.fit_temperature([Z, Z], np.concatenate([Y, Y]))
    with pytest.raises(tp.InputError, match="sample_weight must come with the blocks"):
        tp.fit_temperature([(Z, Y)], sample_weight=np.ones(4))


def test_an_array_is_not_taken_for_blocks():
    assert as_rows(Z.tolist()).n == 4
    assert as_rows(list(Z)).n == 4
    assert as_rows([Z, Z]).n == 8
    with pytest.raises(tp.InputError, match="Got tuple"):
        as_rows((Z, Y))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1.0]}, "must have the columns logit_0.* Got 'a'; rename the columns"),
        ({"logit_0": [1.0], "logit_2": [1.0]}, "Missing: logit_1"),
        ({"logit_0": ["x"], "logit_1": ["y"]}, "column logit_0 must be numbers"),
        (
            {"logit_0": [1.0, None], "logit_1": [1.0, 2.0]},
            "row 1, column logit_0",
        ),
    ],
)
def test_bad_parquet(columns, sentence, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    with pytest.raises(tp.InputError, match=sentence):
        as_rows(tmp_path / "bad.parquet").reduce(lambda block: (block.n,))


def test_what_is_no_parquet(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(tp.InputError, match=r"bad\.parquet must be Parquet"):
        as_rows(tmp_path / "bad.parquet")


def test_a_filtered_dataset_is_read_filtered(data, tmp_path):
    z, y = data
    held = pa.dataset.dataset(parquet_directory(z, y, tmp_path))
    rows = as_rows(held.filter(pa.dataset.field("label") < 2))
    assert rows.n == (y < 2).sum()
    assert tp.metrics.accuracy(rows) == tp.metrics.accuracy(z[y < 2], y[y < 2])


# ------------------------------------------------------------------------------- constant memory

FIT = """
    import resource, sys
    import numpy as np
    import temperance as tp

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB

    path, n, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    z = np.memmap(path, np.float32, "r", shape=(n, k))
    y = np.fromfile(path + ".labels", np.uint8)
    part = slice(0, 100_000)
    small = tp.fit_temperature(np.array(z[part]), y[part]).temperature
    assert abs(tp.fit_temperature(z[part], y[part]).temperature / small - 1) < 1e-9
    before = peak()
    {call}
    print(peak() - before)
"""

CALLS = {
    "map": "tp.fit_temperature(z, y)",
    "blocks": "tp.fit_temperature(lambda: ("
    "(np.fromfile(path, '<f4', 50_000 * k, offset=4 * i * k).reshape(-1, k), y[i : i + 50_000])"
    "for i in range(0, n, 50_000)))",
    "shards": "tp.fit_temperature([(z[i : i + 250_000], y[i : i + 250_000])"
    "for i in range(0, n, 250_000)])",
    "columns": "tp.metrics.evaluate(np.memmap(path, np.float32, 'r', shape=(n, k), order='F'), y)",
    "metrics": "tp.metrics.evaluate(z, y)",
    "label-free": "tp.calibrate(z, np.full(k, 1 / k))",
}


def resident_growth(path, n, k, call):
    """Write n rows, most of them copies of a few, and return the MB that a fit of them adds."""
    z, y = logits(20_000, k, sharpness=2.0)
    with path.open("wb") as file, path.with_suffix(".labels").open("wb") as labels:
        for start in range(0, n, len(z)):
            file.write(z[: n - start].astype(np.float32).data)
            labels.write(y[: n - start].astype(np.uint8).data)
    code = textwrap.dedent(FIT).format(call=CALLS[call])
    command = [sys.executable, "-c", code, str(path), str(n), str(k)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    path.unlink()
    return float(ran.stdout)


@pytest.mark.slow
def test_memory_maps_are_read_in_little_memory(tmp_path):
    assert resident_growth(tmp_path / "z", 1_000_000, 50, "blocks") < 100  # of 200 MB


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_memory_does_not_grow_with_the_rows(tmp_path, call):
    assert resident_growth(tmp_path / "z", 4_000_000, 100, call) < 200  # of 1.6 GB


@pytest.mark.parametrize("dtype", [np.int8, ">f4", np.longdouble])
def test_a_file_of_other_numbers_is_converted_piece_by_piece(tmp_path, dtype):
    rng = np.random.default_rng(0)
    z = np.round(8 * rng.normal(size=(40_000, 5)))
    y = (z / 4 + rng.gumbel(size=z.shape)).argmax(axis=1)
    weight = rng.uniform(size=len(z))
    z.astype(dtype).tofile(tmp_path / "z.bin")
    file = np.memmap(tmp_path / "z.bin", dtype, "r", shape=z.shape)
    rows = as_rows(file, y, weight)
    assert max(block.n for block in rows.blocks()) < rows.n == len(z)
    wanted = tp.fit_temperature(z, y, weight).temperature
    assert tp.fit_temperature(file, y, weight).temperature == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(tp.InputError, match="Row 39000 holds 5"):
        tp.fit_temperature(file, np.where(np.arange(len(y)) == 39_000, 5, y))

"""Dask: what two worker processes find is what one process finds in memory.

The cluster is real: processes of their own, which one test kills while a fit is under way.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import threading
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from simulated import logits

import temperance as tp
from temperance.data import ArrayRows, as_rows
from temperance.data import dask as dask_module
from temperance.data import rows as data_rows

N, K, FILES = 24_000, 5, 3
PATIENCE = {  # Dask itself waits for ever for workers, and gives one up that restarts slowly
    "distributed.deploy.lost-worker-timeout": "10 minutes",
    "distributed.scheduler.no-workers-timeout": "2 minutes",
    "distributed.comm.timeouts.connect": "2 minutes",
    "distributed.admin.log-length": 0,
}
LONGEST = 240.0  # seconds for a fit of a second, on a machine that is busy with other tests
PRIOR = np.full(K, 1 / K)


@pytest.fixture(scope="module")
def data():
    z, y = logits(N, K, sharpness=2.0)
    return z.astype(np.float32), y


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set(PATIENCE),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """Files of logits and labels, of unequal length."""
    directory = tmp_path_factory.mktemp("logits")
    for i, (z, y) in enumerate(zip(*(np.array_split(a, FILES) for a in data), strict=True)):
        np.savez(directory / f"{i}.npz", z=z[i:], y=y[i:])
    return directory


def read(directory, i, key):
    """Read one file; a file named "kill" beside it ends the process that comes to file 2 again."""
    if i == 2 and key == "z":
        reads = Path(directory) / "reads"
        with reads.open("a") as log:
            log.write(".")
        deadly = Path(directory) / "kill"
        if deadly.exists() and len(reads.read_text()) > 1:
            deadly.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    with np.load(Path(directory) / f"{i}.npz") as held:
        return held[key]


def from_files(directory):
    parts = []
    for i in range(FILES):
        with np.load(directory / f"{i}.npz") as held:
            n = len(held["y"])
        get = functools.partial(dask.delayed(read), str(directory), i)
        parts.append(
            (
                da.from_delayed(get("z"), (n, K), np.float32),
                da.from_delayed(get("y"), (n,), np.int64),
            )
        )
    return tuple(da.concatenate(column) for column in zip(*parts, strict=True))


def in_memory(directory):
    parts = [[read(directory, i, key) for i in range(FILES)] for key in "zy"]
    return tuple(np.concatenate(part) for part in parts)


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_two_processes_find_what_one_finds(files):
    (z, y), (a, b) = in_memory(files), from_files(files)
    assert tp.fit_temperature(a, b).temperature == pytest.approx(
        tp.fit_temperature(z, y).temperature, rel=1e-12
    )
    there, here = tp.fit_biased_temperature(a, b), tp.fit_biased_temperature(z, y)
    assert there.temperature == pytest.approx(here.temperature, rel=1e-6)
    np.testing.assert_allclose(there.bias, here.bias, atol=1e-6)
    there, here = tp.metrics.evaluate(a, b), tp.metrics.evaluate(z, y)
    np.testing.assert_array_equal(there.bins.counts, here.bins.counts)
    assert there.correct_sum == here.correct_sum
    assert there.nll == pytest.approx(here.nll, rel=1e-12)
    assert there.ece == pytest.approx(here.ece, rel=1e-12)
    assert tp.metrics.adaptive_ece(a, b) == pytest.approx(tp.metrics.adaptive_ece(z, y), rel=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_label_free_methods_draw_the_same_rows(files):
    (z, y), (a, b) = in_memory(files), from_files(files)
    there = tp.calibrate(a, PRIOR, (a, b), seed=3)
    here = tp.calibrate(z, PRIOR, (z, y), seed=3)
    assert there.map == here.map
    assert there.details["label_next"] == here.details["label_next"]
    assert there.details["fitted_on"] == here.details["fitted_on"]
    assert tp.fit_uts(a, PRIOR) == tp.fit_uts(z, PRIOR)
    index = np.array([23_000, 5, 5, 12_345])
    np.testing.assert_array_equal(as_rows(a).take(index).logits, z[index])


def in_time(client, work):
    """Return the result of work on a cluster; say what the scheduler does if it takes too long."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(LONGEST)
    if thread.is_alive():
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"no answer after {LONGEST:g} seconds; the tasks: {client.processing()}")
    (answer,) = found
    return answer


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(client, files):
    a, b = from_files(files)
    expected = tp.fit_temperature(a, b)
    (files / "reads").unlink()
    (files / "kill").touch()
    again = in_time(client, lambda: tp.fit_temperature(a, b))
    assert again == expected  # to the last bit: the tree of sums is the same
    assert not (files / "kill").exists()
    assert len((files / "reads").read_text()) > 2


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_rows_stay_with_the_workers(monkeypatch):
    rng = da.random.default_rng(0)
    a = 4 * rng.standard_normal((200_000, 20), chunks=(50_000, 20))  # 32 MB
    y = a.argmax(axis=1) * (rng.random(200_000, chunks=50_000) < 0.8)
    returned = []

    def spy(*tasks):
        results = dask.base.compute(*tasks)
        returned.append(len(cloudpickle.dumps(results)))
        return results

    monkeypatch.setattr(dask_module, "compute", spy)
    rows = as_rows(a, y)
    tp.metrics.evaluate(rows)
    assert sum(returned) < 10_000
    tp.fit_temperature(rows)
    assert sum(returned) < 32e6 / 5  # a sample for the first guess
    assert rows.passes < 4


# --------------------------------------------------------- on the scheduler of the process itself


def frame(z, y, **options):
    columns = {f"logit_{k}": z[:, k] for k in range(z.shape[1])}
    return pd.DataFrame(columns | ({} if y is None else {"label": y}), **options)


def test_parquet_read_by_dask(data, tmp_path):
    z, y = data
    for i, part in enumerate(np.array_split(np.arange(N), 4)):
        frame(z[part], y[part]).assign(day="monday").to_parquet(tmp_path / f"{i}.parquet")
    table = dd.read_parquet(tmp_path)
    rows = as_rows(table)
    assert (rows.n, rows.n_classes, rows.labelled) == (N, K, True)
    assert tp.fit_temperature(rows).temperature == pytest.approx(
        tp.fit_temperature(z, y).temperature, rel=1e-12
    )
    there, here = tp.metrics.evaluate(table), tp.metrics.evaluate(z, y)
    np.testing.assert_array_equal(there.bins.counts, here.bins.counts)


def test_empty_partitions_are_passed_over(data):
    z, y = data
    kept = dd.from_pandas(frame(z, y), npartitions=6)
    kept = kept[kept["logit_0"] > z[: N // 2, 0].max() - 0.5]  # few rows, in few partitions
    got = as_rows(kept)
    inside = z[:, 0] > z[: N // 2, 0].max() - 0.5
    np.testing.assert_array_equal(got.take(np.arange(inside.sum())).logits, z[inside])
    assert tp.metrics.accuracy(kept) == tp.metrics.accuracy(z[inside], y[inside])
    with pytest.raises(tp.InputError, match="at least one row"):
        tp.metrics.accuracy(kept[kept["logit_0"] > 1e9])


def test_columns_are_cut_as_the_logits_are(data):
    z, y = data
    w = np.linspace(0, 1, N)
    a = da.from_array(z, chunks=(7_000, 2))
    there = tp.metrics.evaluate(a, da.from_array(y, chunks=999), w)
    here = tp.metrics.evaluate(z, y, w)
    assert there.ece == pytest.approx(here.ece, rel=1e-12)
    soft = np.eye(K)[y] * 0.8 + 0.2 / K
    assert tp.metrics.nll(a, da.from_array(soft, chunks=(5_000, 3))) == pytest.approx(
        tp.metrics.nll(z, soft), rel=1e-12
    )
    with pytest.raises(tp.InputError, match="not soft labels"):
        tp.fit_prior_matched(z, PRIOR, (a, soft))


def test_labels_may_be_a_column_of_a_frame(data):
    z, y = data
    column = dd.from_pandas(pd.Series(y), npartitions=3)
    wanted = tp.fit_temperature(z, y).temperature
    for logits_, labels in ((da.from_array(z, chunks=(1000, -1)), column), (z, da.from_array(y))):
        assert tp.fit_temperature(logits_, labels).temperature == pytest.approx(wanted, rel=1e-12)


def test_a_map_is_applied_where_the_rows_are(data):
    z, y = data
    half = tp.Temperature(2.0)
    mapped = as_rows(da.from_array(z, chunks=(6_000, K)), y).mapped(half)
    assert tp.metrics.nll(mapped) == pytest.approx(tp.metrics.nll(half(z), y), rel=1e-9)


def test_any_metric_can_be_bootstrapped_row_by_row(data):
    z, y = (column[:500] for column in data)

    def error(u, labels):
        return float((u.argmax(axis=1) != labels).mean())

    rows = as_rows(da.from_array(z, chunks=(100, K)), y)
    assert tp.metrics.bootstrap(error, rows) == tp.metrics.bootstrap(error, z, y)


BAD = {
    "a NaN": (lambda z, y: (_with(z, (9_999, 2), np.nan), y), r"Row 9999, class 2 is NaN"),
    "a label": (lambda z, y: (z, _with(y, 9_999, 7)), r"Row 9999 holds 7"),
    "probabilities": (lambda z, y: (_softmax(z), y), r"all 24000 rows .* sum to 1"),
    "lengths": (lambda z, y: (z, y[1:]), r"one entry per row of logits"),
    "weights": (lambda z, y: (z, y, np.zeros(N)), r"must not be all zero"),
    "scores": (lambda z, y: (z[:, 0], y), r"must have shape \(n, K\)"),
    "no labels": (lambda z, _: (z,), r"requires labels"),
}


def _with(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def _softmax(z):
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_with_their_place(data, case):
    change, sentence = BAD[case]
    z, *rest = change(*data)
    with pytest.raises(tp.InputError, match=sentence):
        tp.fit_temperature(da.from_array(z, chunks=4_000), *rest)


def test_the_place_is_right_where_a_partition_is_worth_several_threads(data, monkeypatch):
    monkeypatch.setattr(data_rows, "THREADED_ELEMENTS", 10_000)
    monkeypatch.setattr(data_rows, "n_threads", lambda: 3)
    z = _with(data[0], (23_999, 2), np.nan)
    with pytest.raises(tp.InputError, match="Row 23999, class 2 is NaN"):
        tp.fit_temperature(da.from_array(z, chunks=(24_000, K)), data[1])


def test_bad_rows_of_a_frame_are_refused_with_their_partition(data):
    z, y = data
    table = dd.from_pandas(frame(z, _with(y, N - 1, 9)), npartitions=4)
    with pytest.raises(tp.InputError, match=r"labels of partition 3 .* holds 9"):
        tp.fit_temperature(table)
    with pytest.raises(tp.InputError, match="column 'label'"):
        tp.fit_temperature(table, y)


def test_some_of_the_rows_are_a_sample_in_memory(data):
    z, y = data
    head = as_rows(da.from_array(z, chunks=(5_000, K)), y).thin(1_000)
    here = ArrayRows(z, y).thin(1_000)
    assert 1_000 <= head.n < 2_000
    np.testing.assert_array_equal(head.logits, here.logits)
    np.testing.assert_array_equal(head.labels, here.labels)

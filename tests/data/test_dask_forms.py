"""Odd collections of Dask: the answer of memory, or one sentence."""

from __future__ import annotations

import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from simulated import logits

import temperance as tp

N, K = 3_000, 4
WORDS = np.array(["mel", "nv", "bcc", "akiec"])
PATIENCE = 600  # seconds that a busy machine may take to start workers again


@pytest.fixture(scope="module", autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def data():
    return logits(N, K, sharpness=2.0)


def frame_of(z, y):
    return pd.DataFrame({f"logit_{k}": z[:, k] for k in range(z.shape[1])} | {"label": y})


FORMS = {
    "half floats": lambda f: f.astype(dict.fromkeys(f.columns[:K], np.float16)),
    "single precision": lambda f: f.astype(dict.fromkeys(f.columns[:K], np.float32)),
    "integers": lambda f: f.round().astype(int),
    "nullable floats": lambda f: f.astype(dict.fromkeys(f.columns[:K], "Float64")),
    "nullable labels": lambda f: f.astype({"label": "Int64"}),
    "small labels": lambda f: f.astype({"label": np.int8}),
    "columns in another order": lambda f: f[list(reversed(f.columns))],
}


@pytest.mark.parametrize("form", FORMS)
def test_numbers_of_any_kind(data, form):
    frame = FORMS[form](frame_of(*data))
    z = frame[[f"logit_{k}" for k in range(K)]].astype(float).to_numpy()
    y = frame["label"].astype(int).to_numpy()
    found = tp.metrics.evaluate(dd.from_pandas(frame, npartitions=5))
    expected = tp.metrics.evaluate(z.astype(np.float16) if form == "half floats" else z, y)
    assert found.nll == pytest.approx(expected.nll, rel=1e-6 if form == "half floats" else 1e-12)
    assert found.accuracy == expected.accuracy


@pytest.mark.parametrize("kind", [object, "category", "string"])
def test_labels_in_words(data, kind):
    z, y = data
    frame = frame_of(z, WORDS[y])
    frame["label"] = frame["label"].astype(kind)
    rows = tp.data.as_rows(dd.from_pandas(frame, npartitions=4), classes=list(WORDS))
    assert tp.metrics.accuracy(rows) == tp.metrics.accuracy(z, y)


def test_partitions_that_are_empty_after_a_filter(data):
    z, y = data
    frame = frame_of(z, y).assign(day=np.arange(N) // 1000)
    filtered = dd.from_pandas(frame, npartitions=6)
    filtered = filtered[filtered["day"] == 1]
    assert tp.metrics.nll(filtered) == pytest.approx(tp.metrics.nll(z[1000:2000], y[1000:2000]))
    with pytest.raises(tp.InputError, match="at least one row"):
        tp.metrics.nll(filtered[filtered["day"] == 7])


def test_chunks_of_unknown_size(data):
    z, y = data
    kept = y != 2
    a, b = da.from_array(z, chunks=(700, 2)), da.from_array(y, chunks=700)
    known = tp.metrics.nll(z[kept][:, [0, 1, 3]], np.array([0, 1, -1, 2])[y[kept]])
    narrow = a.rechunk((700, K))[b != 2][:, [0, 1, 3]]
    fewer = da.from_array(np.array([0, 1, -1, 2])[y], chunks=700)[b != 2]
    assert tp.metrics.nll(narrow, fewer) == pytest.approx(known, rel=1e-12)


BAD = {
    "a missing logit": (lambda f: f.assign(logit_1=f["logit_1"].mask(f.index == 2500)), "NaN"),
    "a missing nullable logit": (
        lambda f: f.assign(logit_1=f["logit_1"].astype("Float64").mask(f.index == 2500)),
        "missing|NaN",
    ),
    "a missing label": (lambda f: f.assign(label=f["label"].mask(f.index == 2500)), "label"),
    "words": (lambda f: f.assign(logit_1="x"), "real numbers|numbers"),
    "a gap": (lambda f: f.drop(columns="logit_1"), "Missing: logit_1"),
    "a class too many": (lambda f: f.assign(label=f["label"].replace(3, 4)), "0..3"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence_for_what_is_wrong(data, case):
    change, words = BAD[case]
    frame = dd.from_pandas(change(frame_of(*data)), npartitions=4)
    with pytest.raises(tp.InputError, match=words) as caught:
        tp.metrics.nll(frame)
    assert "\n" not in str(caught.value)


def busy_rows(z, seconds):
    """Return an array of Dask whose partitions take their time, so that a kill hits one."""

    def slowly(block):
        time.sleep(seconds)
        return block

    return da.from_array(z, chunks=(500, K)).map_blocks(slowly, dtype=z.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [int(os.environ.get("TEMPERANCE_KILLS", "5"))])
def test_workers_that_are_killed_in_running_fits(data, kills):
    """Each kill is aimed at a worker that is at work, and the answer stays the same to the bit.

    ``TEMPERANCE_KILLS=50`` makes fifty of them.
    """
    z, y = data
    struck = 0
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10, "scheduler": None}),
        dask.config.set({"distributed.comm.timeouts.connect": PATIENCE}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        rows, labels = busy_rows(z, 0.05), da.from_array(y, chunks=500)
        expected = tp.fit_temperature(rows, labels)
        found = []
        while struck < kills:
            fit = threading.Thread(target=lambda: found.append(tp.fit_temperature(rows, labels)))
            fit.start()
            until = time.monotonic() + PATIENCE
            while fit.is_alive() and time.monotonic() < until:
                at_work = [w for w, tasks in client.processing().items() if tasks]
                pids = client.run(os.getpid, workers=at_work[:1]) if at_work else {}
                if pids and fit.is_alive():
                    os.kill(next(iter(pids.values())), signal.SIGKILL)
                    struck += 1
                    break
                time.sleep(0.01)
            until = time.monotonic() + PATIENCE
            while fit.is_alive() and time.monotonic() < until:
                cluster.scale(2)  # a nanny that gave its worker up is replaced, as on a cluster
                fit.join(timeout=2)
            assert not fit.is_alive()
        assert len(found) >= kills
        assert all(one == expected for one in found)


@pytest.mark.slow
def test_a_scheduler_that_is_restarted_in_a_running_fit(data):
    """The pass that the restart cancels is made again, and the answer is the same to the bit."""
    z, y = data
    with (
        dask.config.set({"distributed.comm.timeouts.connect": PATIENCE}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        rows, labels = busy_rows(z, 0.05), da.from_array(y, chunks=500)
        expected, found = tp.fit_temperature(rows, labels), []
        fit = threading.Thread(target=lambda: found.append(tp.fit_temperature(rows, labels)))
        fit.start()
        while not any(client.processing().values()):
            assert fit.is_alive()
            time.sleep(0.01)
        client.restart(timeout=PATIENCE)
        assert not found  # it was at work
        fit.join(timeout=PATIENCE)
        assert found == [expected]

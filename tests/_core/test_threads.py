"""Threads share the blocks of a large array; no number of them changes a bit of the answer."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from simulated import logits

import temperance as tp
from temperance._core import threads
from temperance.data import rows as data_rows
from temperance.data.rows import ArrayRows, rows_per_block

Z, Y = logits(40_000, 10, sharpness=2.0)
Z = Z.astype(np.float32)


@pytest.fixture
def several(monkeypatch):
    """Arrays of a few blocks count as large, and there are three processors."""
    monkeypatch.setattr(data_rows, "THREADED_ELEMENTS", 10_000)
    monkeypatch.setattr(data_rows, "n_threads", lambda: 3)


def answers():
    found = tp.metrics.evaluate(Z, Y)
    return (
        tp.fit_temperature(Z, Y).temperature,
        *(found.nll, found.brier, found.ece),
        *tp.fit_vector(Z, Y)(Z[:1])[0].tolist(),
    )


@pytest.mark.parametrize("numba", [True, False])
def test_the_answer_is_that_of_one_thread_to_the_last_bit(numba, request):
    if not numba:
        request.getfixturevalue("without_numba")
    alone = answers()
    request.getfixturevalue("several")
    assert answers() == alone


@pytest.mark.usefixtures("several")
def test_blocks_go_to_other_threads_and_come_back_in_order():
    seen: set[int] = set()

    def statistic(block):
        seen.add(threading.get_ident())
        return ([float(block.logits[0, 0])],)

    (firsts,) = ArrayRows(Z, Y).reduce(statistic)
    assert firsts == Z[:: rows_per_block(10), 0].tolist()
    assert threading.get_ident() not in seen


@pytest.mark.usefixtures("several")
def test_an_error_in_a_thread_is_raised_here():
    bad = Z.copy()
    bad[-1, 3] = np.nan
    with pytest.raises(tp.InputError, match=r"Row 39999, class 3 is NaN"):
        tp.fit_temperature(bad, Y)
    with pytest.raises(ZeroDivisionError):
        ArrayRows(Z, Y).reduce(lambda _: (1 // 0,))


@pytest.mark.usefixtures("several")
def test_what_numpy_ignores_here_it_ignores_in_threads():
    with np.errstate(divide="ignore"):
        (total,) = ArrayRows(Z, Y).reduce(lambda block: (np.log(np.zeros(block.n)).max(),))
    assert total == -np.inf


def test_the_environment_limits_the_threads(monkeypatch):
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for value, wanted in {"1": 1, "1,1": 1, "1000": usable, "": usable, "many": usable}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert threads.n_threads() == wanted

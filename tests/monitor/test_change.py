"""Change against the reference: as many false alarms as stated, and how soon a change rings."""

from __future__ import annotations

import numpy as np
import pytest
from streams_of_windows import window

from temperance.data.given import LabelledSample
from temperance.monitor.change import Chart, Ranks, threshold


def chart_of(source):
    ranks = Ranks(LabelledSample(*source))
    return ranks, Chart(ranks.own, ranks.variance)


def false_alarms(per, n_source, n, windows, runs, k):
    rang = 0
    for run in range(runs):
        ranks, chart = chart_of(window(n_source, k=k, seed=[run, 0]))
        for t in range(windows):
            tally = ranks.tally(window(n, k=k, seed=[run, t + 1])[0])
            rang += bool(chart.step(tally, per, 30))
    return rang


@pytest.mark.parametrize(
    ("n_source", "n", "k"), [(1000, 200, 4), (300, 300, 4), (400, 1000, 2), (3000, 60, 8)]
)
def test_false_alarms_are_as_rare_as_stated(n_source, n, k):
    """The error of a small source is the same in every window, and must not add up."""
    per, windows, runs = 40, 40, 50
    found = false_alarms(per, n_source, n, windows, runs, k)
    stated = windows * runs / per
    assert 0.4 * stated < found < stated + 3 * np.sqrt(stated)


@pytest.mark.parametrize("time", [365, 1825])
def test_the_time_between_false_alarms_of_one_sum(time):
    """A sum of simulated normal numbers rings about once in that many steps, never more often."""
    rng, h = np.random.default_rng(0), threshold(time)
    sums, rang = np.zeros(4000), 0
    for _ in range(2000):
        sums = np.maximum(0, sums + rng.standard_normal(4000) - 1)
        rang += int((sums > h).sum())
        sums[sums > h] = 0
    assert 0.95 * time < 4000 * 2000 / rang < 1.15 * time


def delay(changed, runs=10):
    """Return after how many windows a change rings that begins with the eleventh."""
    found = []
    for run in range(runs):
        ranks, chart = chart_of(window(1000, seed=[run, 0]))
        for t in range(10):
            chart.step(ranks.tally(window(500, seed=[run, 1 + t])[0]), 365, 30)
        for t in range(20):
            if chart.step(ranks.tally(changed([run, 100 + t])), 365, 30):
                break
        found.append(t + 1)
    return float(np.mean(found))


def test_a_large_change_rings_at_once_and_a_small_one_soon():
    large = delay(lambda seed: window(500, signal=1.5, seed=seed)[0])
    small = delay(lambda seed: window(500, signal=2.25, seed=seed)[0])
    assert large == 1.0
    assert 1.0 <= small < 6.0


def test_a_change_of_the_class_mix_names_the_classes():
    ranks, chart = chart_of(window(2000, seed=0))
    z, _ = window(1000, mix=[0.25, 0.25, 0.05, 0.45], seed=1)
    (change,) = (c for c in chart.step(ranks.tally(z), 365, 30) if c.what == "class mix")
    assert set(change.classes) == {2, 3}
    assert change.now == pytest.approx(0.18, abs=0.05)


def test_small_windows_are_pooled_until_they_are_enough():
    ranks, chart = chart_of(window(2000, seed=0))
    rang = [
        bool(chart.step(ranks.tally(window(10, signal=0.5, seed=[1, t])[0]), 365, 30))
        for t in range(12)
    ]
    assert rang[:2] == [False, False]
    assert any(rang)


def test_a_change_too_small_to_matter_does_not_ring_however_many_rows():
    ranks, chart = chart_of(window(20_000, seed=0))
    shifted = [window(20_000, signal=2.5 - 0.01 * (t % 2), seed=[2, t])[0] for t in range(8)]
    assert not any(chart.step(ranks.tally(z), 365, 30) for z in shifted)

"""Windows, segments, limits, late labels, proposals: through the public names."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from streams_of_windows import window

import temperance as tp
from temperance import demo
from temperance.monitor.alarms import SEVERITIES

NAMES = ["ash", "beech", "cedar", "date"]


def monitor(**settings):
    return tp.Monitor(source=window(2000, seed=100), classes=NAMES, **settings)


def test_estimates_hold_the_truth_on_unshifted_windows_as_often_as_stated():
    mon, held = monitor(prior=[0.25] * 4), []
    for day in range(40):
        z, y = window(600, seed=day)
        found = mon.add(z, at=dt.date(2026, 11, 1) + dt.timedelta(day))
        right = z.argmax(axis=1) == y
        pairs = (
            (found.accuracy, right.mean()),
            (found.recall["ash"], right[y == 0].mean()),
            (found.ece, tp.metrics.ece(z, y)),
        )
        held.append([interval.low <= truth <= interval.high for interval, truth in pairs])
        assert found.mix["cedar"] == pytest.approx((z.argmax(axis=1) == 2).mean(), abs=1e-4)
        assert not found.alarms
    assert [w.at for w in mon.windows] == sorted(w.at for w in mon.windows)
    assert (np.mean(held, axis=0) >= 0.9).all()


def test_an_unshifted_window_is_estimated_as_by_one_temperature():
    # the mean confidence at the temperature that makes it the accuracy of the source (CBPE)
    source = window(4000, seed=100)
    z, _ = window(2000, seed=3)
    found = tp.Monitor(source).add(z, at="2026-11-01")
    home = np.mean(source[0].argmax(axis=1) == source[1])
    own = tp.match_confidence(source[0], home).predict_proba(z).max(axis=1).mean()
    assert abs(found.accuracy.value - own) < 0.003


def test_rows_unlike_the_source_keep_its_class_mix_and_others_do_not():
    """Mistakes that all look like one class lower the estimate; more rows of a class do not."""

    def rows(mix, broken, seed):
        rng = np.random.default_rng(seed)
        y = rng.choice(5, size=1500, p=mix)
        z = 3 * np.eye(5)[y] + rng.normal(size=(1500, 5))
        lost = rng.random(1500) < broken
        z[lost] = 1.5 * rng.normal(size=(lost.sum(), 5)) + 2 * np.eye(5)[0]
        return 4 * z, y

    source = rows([0.2] * 5, 0.0, 1)
    z, y = rows([0.2] * 5, 0.5, 2)
    right = np.mean(z.argmax(axis=1) == y)
    found = tp.Monitor(source).add(z, at="2026-11-01").accuracy
    alone = replace(tp.calibrate(z, source=source), map=tp.Temperature(1.0)).expected().accuracy
    assert found.low <= right <= found.high
    assert found.value - right < 0.8 * (alone.value - right)
    z, y = rows([0.8, 0.05, 0.05, 0.05, 0.05], 0.0, 3)
    found = tp.Monitor(source).add(z, at="2026-11-01").accuracy
    assert found.value == pytest.approx(np.mean(z.argmax(axis=1) == y), abs=0.02)


def test_a_shift_that_lasts_and_grows_is_louder():
    mon = tp.Monitor(source=window(2000, seed=100), classes=NAMES)
    windows = [
        mon.add(window(600, seed=day, signal=2.5 - 0.25 * day)[0], at=f"2026-11-{day + 1:02}")
        for day in range(7)
    ]
    alone = tp.Monitor(source=window(2000, seed=100), classes=NAMES)
    last = alone.add(window(600, seed=6, signal=1.0)[0], at="2026-11-07")
    grown = windows[-1]
    assert grown.accuracy == last.accuracy
    order = list(SEVERITIES)
    assert order.index(grown.severity) == order.index(last.severity) + 1
    assert "windows in a row" in grown.alarms[0].text
    assert "windows in a row" not in last.alarms[0].text


def test_alarms_grow_louder_as_the_loss_grows():
    """Digits, upright and then rotated by 30 and 60 degrees."""
    source = demo.load("source")
    mon = tp.Monitor(
        source=(source.logits[:1200], source.labels[:1200]),
        prior=tp.about(demo.class_mix(), rows=2000),
        limits=tp.Limits(accuracy=0.9, ece=0.03, recall={"3": 0.9}),
    )
    mon.add(source.logits[1200:], at="2026-11-01")
    for day, degrees in enumerate((30, 60), start=2):
        mon.add(demo.load(f"rotated_{degrees}").logits[:1000], at=f"2026-11-{day:02}")
    quiet, loud, louder = mon.windows
    assert not quiet.alarms
    assert loud.alarms[0].loss < louder.alarms[0].loss
    assert list(SEVERITIES).index(loud.alarms[0].severity) < 3
    assert louder.alarms[0].severity == "critical"
    assert {"limit", "change"} == {alarm.kind for alarm in louder.alarms}
    ring = next(a for a in louder.alarms if a.what == "accuracy")
    assert "90.0%" in ring.text
    assert ring.label_next
    assert max(ring.label_next) < 1000
    assert any(a.classes == ("3",) for a in louder.alarms if a.what == "recall of 3")


def test_a_limit_inside_the_interval_does_not_ring():
    mon = monitor()
    z, _ = window(600, seed=1)
    known = mon.add(z, at="2026-11-01").accuracy
    strict = monitor(limits=tp.Limits(accuracy=(known.value + known.high) / 2))
    assert not strict.add(z, at="2026-11-01").alarms


def test_after_a_change_the_estimate_is_enough_to_break_a_limit():
    z, _ = window(800, signal=1.5, seed=1)
    known = monitor().add(z, at="2026-11-01").accuracy
    found = monitor(limits=tp.Limits(accuracy=known.value + 0.01)).add(z, at="2026-11-01")
    assert known.high > known.value + 0.01
    (ring,) = (alarm for alarm in found.alarms if alarm.kind == "limit")
    assert "probably below" in ring.text


def test_few_rows_are_refused_and_never_guessed():
    found = monitor(limits=tp.Limits(accuracy=0.99)).add(window(12, seed=1)[0], at="2026-11-01")
    assert found.verdict == "refused"
    assert (found.accuracy, found.ece, found.alarms) == (None, None, ())
    assert found.findings[0].code == "TP301"


def test_a_broken_window_rings():
    z = np.tile(window(1, seed=1)[0], (300, 1))
    found = monitor().add(z, at="2026-11-01")
    assert {"refused"} <= {alarm.kind for alarm in found.alarms}


def test_windows_may_come_in_any_order():
    days = {f"2026-11-{d:02}": window(500, signal=2.5 - 0.15 * d, seed=d)[0] for d in range(1, 8)}
    forward, backward = monitor(), monitor()
    for day, z in days.items():
        forward.add(z, at=day)
    for day, z in reversed(days.items()):
        backward.add(z, at=dt.date.fromisoformat(day))
    assert forward.windows == backward.windows
    assert forward.alarms == backward.alarms != []


def test_the_same_rows_of_the_same_date_count_once():
    mon = monitor()
    z, _ = window(500, seed=1)
    assert mon.add(z, at="2026-11-01") == mon.add(z, at="2026-11-01")
    mon.add(window(500, seed=2)[0], at="2026-11-01")  # another machine's part of the day
    assert len(mon.windows) == 2


@pytest.mark.parametrize("with_rows", [True, False])
def test_late_labels_are_used(with_rows):
    mon = monitor()
    z, y = window(1500, signal=1.0, seed=1)
    before = mon.add(z, at="2026-11-01")
    mon.add(window(500, seed=2)[0], at="2026-11-02")
    few = before.label_next[:30] if with_rows else range(100)
    few = np.array(few)
    after = mon.add(z if with_rows else None, at="2026-11-01", labelled=(z[few], y[few]))
    truth = float((z.argmax(axis=1) == y).mean())
    assert abs(after.accuracy.value - truth) < abs(before.accuracy.value - truth)
    if with_rows:  # the labels contradict the estimate, so the interval moves and need not narrow
        assert after.accuracy.low < truth < after.accuracy.high < before.accuracy.high
    else:
        assert np.ptp(after.accuracy[1:]) < np.ptp(before.accuracy[1:])
    assert after.n_labelled == len(few)
    assert len(mon.windows) == 2
    assert mon.windows[0] == after


def test_the_calibration_error_follows_late_labels():
    """It is at least the distance of confidence and accuracy, whatever was estimated before."""
    source, target = demo.load("source"), demo.load("rotated_60")
    z, y = target.logits, target.labels
    mon = tp.Monitor(source=(source.logits, source.labels))
    before = mon.add(z, at="2026-11-01")
    after = mon.add(None, at="2026-11-01", labelled=(z[:200], y[:200]))
    assert before.ece.value < 0.4
    assert after.ece.value >= after.confidence - after.accuracy.value - 1e-9
    assert after.ece.low <= tp.metrics.ece(z, y) <= after.ece.high


def test_labels_count_once_and_segments_stay():
    mon = monitor()
    z, y = window(600, signal=1.0, seed=1)
    mon.add(z, at="2026-11-01", segments=np.arange(600) % 2)
    few = z[:60], y[:60]
    once = mon.add(None, at="2026-11-01", labelled=few)
    assert mon.add(None, at="2026-11-01", labelled=few) == once  # a job that ran again
    whole = mon.add(z, at="2026-11-01", labelled=few)  # takes the place of what came before
    assert whole.n_labelled == 60
    assert set(whole.segments) == {"segment=0", "segment=1"}


def test_labels_of_a_date_without_a_window_are_refused():
    with pytest.raises(tp.InputError, match="labelled rows of a window that is there"):
        monitor().add(None, at="2026-11-01", labelled=window(30))


def test_a_segment_that_fails_alone_is_named():
    mon = monitor(limits=tp.Limits(accuracy=0.85), prior=[0.25] * 4)
    for day in range(1, 6):
        good, bad = window(600, seed=day)[0], window(300, 2.5 if day < 4 else 0.3, seed=50 + day)[0]
        site = np.repeat(["north", "south", "tiny"], [600, 290, 10])
        found = mon.add(np.r_[good, bad], at=f"2026-11-0{day}", segments={"site": site})
        rang = {alarm.segment for alarm in found.alarms}
        assert ("site=south" in rang) == (day >= 4)
        assert "site=north" not in rang
    assert found.segments["site=tiny"].accuracy is None
    assert found.segments["site=south"].accuracy.value < found.segments["site=north"].accuracy.value
    rows = next(a for a in found.alarms if a.segment == "site=south").label_next
    assert all(600 <= row < 890 for row in rows)


@pytest.mark.slow
def test_segments_do_not_repeat_what_the_whole_window_says():
    mon = monitor(limits=tp.Limits(accuracy=0.85))
    site = np.array(["north", "south"] * 400)
    for day in (1, 2):
        mon.add(window(800, seed=day)[0], at=f"2026-11-0{day}", segments={"site": site})
    found = mon.add(window(800, signal=1.0, seed=3)[0], at="2026-11-03", segments={"site": site})
    assert {(alarm.kind, alarm.segment) for alarm in found.alarms} == {
        ("change", None),
        ("limit", None),
    }


def test_many_segments_of_one_kind_ring_no_more_often():
    """With 20 values of a column that says nothing, the time between false alarms is the same."""
    rang = 0
    for run in range(3):
        mon = tp.Monitor(
            source=window(1000, seed=[run, 0]), limits=tp.Limits(accuracy=0.9), false_alarms_per=10
        )
        for t in range(10):
            z, _ = window(800, seed=[run, t + 1])
            rang += bool(mon.add(z, at=f"2026-10-{t + 1:02}", segments=np.arange(800) % 20).alarms)
    assert rang <= 3 + 3 * np.sqrt(3)


def test_proposals_are_compared_with_the_map_in_use():
    source, target = demo.load("source"), demo.load("rotated_60")
    mon = tp.Monitor(
        source=(source.logits, source.labels),
        prior=tp.about(demo.class_mix(), rows=2000),
        limits=tp.Limits(ece=0.05),
    )
    found = mon.add(target.logits[:2000], at="2026-11-01")
    assert "calibration error" in {alarm.what for alarm in found.alarms}
    first = mon.propose()
    assert not first.within_limits  # better, but not good enough
    assert first.compare["ece"]["in_use"] == found.ece
    assert first.compare["ece"]["proposed"].value < found.ece.value
    mon.accept(first)
    assert mon.map == first.calibration.map
    with pytest.raises(tp.InputError, match="add a window first"):
        mon.propose()
    z, y = target.logits[2000:], target.labels[2000:]
    found = mon.add(z, at="2026-11-02")
    assert found.ece.low <= tp.metrics.ece(np.asarray(mon.map(z)), y) <= found.ece.high
    assert not [a for a in found.alarms if a.kind == "change"]  # measured from the accepted window
    second = mon.propose()
    assert abs(second.compare["gain"].value) < first.compare["gain"].value / 5


def test_rollback_restores_the_map_before_and_history_keeps_both():
    mon = monitor(prior=[0.25] * 4)
    mon.add(window(1000, signal=1.2, seed=1)[0], at="2026-11-01")
    proposal = mon.propose()
    mon.accept(proposal)
    mon.rollback()
    assert mon.map == tp.maps.IDENTITY
    assert [one["kind"] for one in mon.history] == ["accept", "rollback"]
    with pytest.raises(tp.InputError, match="nothing to undo"):
        mon.rollback()
    mon.accept(mon.propose())
    with pytest.raises(tp.InputError, match="call propose"):
        mon.accept(proposal)


def test_a_late_window_is_judged_by_the_map_of_its_time():
    mon = monitor(prior=[0.25] * 4)
    mon.add(window(1000, signal=1.2, seed=1)[0], at="2026-11-05")
    mon.accept(mon.propose())
    z, _ = window(1000, signal=1.2, seed=2)
    early, late = mon.add(z, at="2026-11-04"), mon.add(z, at="2026-11-06")
    assert early.confidence == pytest.approx(float(_confidence(z)), abs=1e-4)
    assert late.confidence == pytest.approx(float(_confidence(np.asarray(mon.map(z)))), abs=1e-4)


def _confidence(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).max(axis=1).mean()


@pytest.mark.parametrize(
    "given",
    [
        lambda cal: cal,
        lambda cal: cal.map,
        lambda _: tp.Temperature(0.5),
        lambda _: tp.VectorMap(np.array([0.2, 0.5, 1.0, 2.0]), np.array([1.0, 0.0, -1.0, 0.5])),
        lambda _: tp.MatrixMap(0.3 * np.eye(4) + 0.1, np.array([0.0, 1.0, 0.0, 0.0])),
    ],
)
def test_a_map_that_was_in_use_from_the_beginning(given):
    mon = monitor()
    cal = tp.calibrate(window(2000, seed=3)[0], source=window(2000, seed=100))
    mon.accept(given(cal))
    used = getattr(given(cal), "map", given(cal))
    assert mon.map == used
    z, _ = window(600, seed=1)
    seen = mon.add(z, at="2026-11-01").confidence
    assert seen == pytest.approx(float(_confidence(np.asarray(used(z)))), abs=1e-4)


def test_a_map_of_other_classes_is_not_taken_into_use():
    mon = monitor()
    with pytest.raises(tp.InputError, match="the map must have 4 columns"):
        mon.accept(tp.VectorMap(np.ones(3), np.zeros(3)))
    assert mon.add(window(100)[0], at="2026-11-01").accuracy is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"at": "yesterday"}, "at must be a date"),
        ({"segments": ["a"]}, "one value for each"),
        ({"segments": np.arange(500)}, "at most 25 values"),
        ({"segments": {"a": ["b=c"] * 500, "a=b": ["c"] * 500}}, "leave '=' out of the name"),
        ({"segments": np.array(["a", "\ud800"])[np.arange(500) % 2]}, "text that UTF-8 can write"),
        ({"segments": np.array([[], {}], object)[np.arange(500) % 2]}, "give each value a name"),
        ({"logits": np.zeros((500, 3))}, "4"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(change, words):
    arguments = {"logits": window(500)[0], "at": "2026-11-01"} | change
    with pytest.raises(tp.InputError, match=words):
        monitor().add(**arguments)


def test_large_windows_are_read_as_large_data_are(tmp_path):
    z, _ = window(900, seed=1)
    expected = monitor().add(z, at="2026-11-01")
    table = pd.DataFrame(z, columns=[f"logit_{k}" for k in range(4)])
    table.to_parquet(tmp_path / "day.parquet")
    dask = pytest.importorskip("dask.array")
    for rows in (tmp_path / "day.parquet", dask.from_array(z, chunks=(100, 4)), [z[:500], z[500:]]):
        assert monitor().add(rows, at="2026-11-01").accuracy == expected.accuracy


def test_source_and_limits_are_checked():
    with pytest.raises(tp.InputError, match=r"limits\.accuracy"):
        tp.Limits(accuracy=85)
    with pytest.raises(tp.InputError, match=r"at least 30 rows\. Got 12"):
        tp.Monitor(source=window(12))
    with pytest.raises(tp.InputError, match=r"like temperance\.Limits.* Got dict"):
        tp.Monitor(source=window(100), limits={"accuracy": 0.8})
    with pytest.raises(tp.InputError, match="must name classes"):
        monitor(limits=tp.Limits(recall={"oak": 0.9}))
    with pytest.raises(tp.InputError, match=r"limits\.recall must be a dict by class.* Got 0\.9"):
        tp.Limits(recall=0.9)
    with pytest.raises(tp.InputError, match=r"proposal must be that of propose\(\).* Got int"):
        monitor().accept(3)


def test_prometheus_text_is_what_its_parser_expects():
    mon = monitor(limits=tp.Limits(accuracy=0.95), prior=[0.25] * 4)
    site = np.array(['a "b"\\', "c"] * 300)
    mon.add(window(600, signal=0.5, seed=1)[0], at="2026-11-01", segments={"site": site})
    parser = pytest.importorskip("prometheus_client.parser")
    found = {f.name: f.samples for f in parser.text_string_to_metric_families(mon.prometheus())}
    whole = next(s for s in found["temperance_accuracy"] if s.labels["segment"] == "")
    assert whole.value == pytest.approx(mon.windows[-1].accuracy.value)
    assert {s.labels["segment"] for s in found["temperance_rows"]} == {
        "",
        'site=a "b"\\',
        "site=c",
    }
    assert sum(s.value for s in found["temperance_alarms"]) == len(mon.windows[-1].alarms)
    assert found["temperance_window_timestamp_seconds"][0].value == 1793491200


def test_frame_has_a_row_for_each_window_and_segment():
    mon = monitor()
    mon.add(window(600, seed=1)[0], at="2026-11-01", segments=np.array(["a", "b"] * 300))
    table = mon.frame()
    assert table["segment"].fillna("").tolist() == ["", "segment=a", "segment=b"]
    assert table["accuracy"][0] == mon.windows[0].accuracy.value


def test_a_window_of_a_hundred_classes_and_segments_stays_small():
    source = window(3000, signal=4.0, seed=1, k=100)
    mon = tp.Monitor(source=source, prior=np.full(100, 0.01), limits=tp.Limits(accuracy=0.9))
    z, y = window(3000, signal=2.0, seed=2, k=100)
    mon.add(z, at="2026-11-01", segments=np.arange(3000) % 25, labelled=(z[:60], y[:60]))
    (record,) = (r for r in mon._records.values() if r.get("kind") == "window")
    assert len(json.dumps(record, separators=(",", ":"))) < 20_000

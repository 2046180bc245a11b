"""Drift and measured calibration, on cases whose truth is known by construction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import monitor
from temperance_skin_lesion.store import Case


def record(assistant, logits, *, labels=None, weeks_ago=0, repeat=1):
    """Put cases with given logits on record."""
    at = (datetime.now(UTC) - timedelta(weeks=weeks_ago)).isoformat(timespec="milliseconds")
    with assistant.store.writing() as session:
        active = assistant.active(session)
        p = active.probabilities(logits)
        start = np.random.default_rng(len(logits) + 1000 * weeks_ago).integers(2**60)
        for i, z in enumerate(logits):
            for _ in range(repeat):
                session.add(
                    Case(
                        created=at,
                        sha256=f"{start + i:064x}",
                        width=64,
                        height=64,
                        model=assistant.model.id,
                        map_id=active.map_id,
                        policy_id=active.policy_id,
                        logits=[float(v) for v in z],
                        probabilities=[float(v) for v in p[i]],
                        predicted=int(p[i].argmax()),
                        decision="refer",
                        rule="threshold",
                        why="test",
                        diagnosis=None if labels is None else int(labels[i]),
                    )
                )


def weeks(assistant):
    with assistant.store.reading() as session:
        return monitor.weekly_drift(session, assistant.active(session))


def test_weeks_like_the_reference_are_steady(assistant, model):
    rng = np.random.default_rng(0)
    for ago in range(12):
        record(
            assistant, model.source.logits[rng.choice(len(model.source.labels), 200)], weeks_ago=ago
        )
    found = weeks(assistant)
    assert len(found) == 12
    assert {week.state for week in found} == {"steady"}
    assert all(0 < week.distance < week.limit for week in found)


def test_another_mix_is_drift_and_few_cases_are_not(assistant, model):
    rows = np.flatnonzero(model.source.labels != 1)
    record(assistant, model.source.logits[rows[:100]])
    record(assistant, model.source.logits[rows[:20]], weeks_ago=1)
    newest, before = weeks(assistant)
    assert newest.state == "drift"
    assert newest.distance > newest.limit
    assert before.state == "few"
    assert newest.week > before.week


def test_a_fall_of_confidence_alone_is_drift(assistant, model):
    rng = np.random.default_rng(0)
    z = model.source.logits[rng.choice(len(model.source.labels), 300)]
    record(assistant, z / 3)
    (week,) = weeks(assistant)
    assert week.distance < week.limit
    assert week.confidence_change < -week.confidence_limit
    assert week.state == "drift"


def test_a_picture_judged_many_times_counts_once(assistant, model):
    record(assistant, model.source.logits[:40], repeat=5)
    (week,) = weeks(assistant)
    assert week.cases == 40


def test_false_alarms_are_as_rare_as_announced(assistant, model):
    """One week in a thousand for each of two statistics: among 500 weeks hardly ever four."""
    rng = np.random.default_rng(1)
    with assistant.store.reading() as session:
        active = assistant.active(session)
    z = model.source.logits.astype(float)
    alarms = sum(
        monitor._compare("w", z[rng.choice(len(z), 60)], active).state == "drift"
        for _ in range(500)
    )
    assert alarms <= 4


def test_measured_calibration_equals_what_was_put_in(assistant, model):
    rng = np.random.default_rng(0)
    z = model.source.logits[:400].astype(float)
    with assistant.store.reading() as session:
        p = assistant.active(session).probabilities(z)
    labels = np.array([rng.choice(7, p=row) for row in p])
    record(assistant, z, labels=labels)
    with assistant.store.reading() as session:
        found = monitor.measured(session, model.id)
    assert found.cases == 400
    assert found.accuracy[0] == pytest.approx(np.mean(p.argmax(axis=1) == labels))
    assert found.accuracy[1] <= found.claimed <= found.accuracy[2]
    assert found.brier == pytest.approx(np.mean((p - np.eye(7)[labels]) ** 2))
    assert found.nll == pytest.approx(-np.log(p[np.arange(400), labels]).mean())
    assert sum(b["cases"] for b in found.bins) == 400
    assert found.melanomas == found.melanomas_referred_or_named == np.sum(labels == 0)


def test_a_handful_of_diagnoses_measures_nothing(assistant, model):
    record(assistant, model.source.logits[:29], labels=model.source.labels[:29])
    with assistant.store.reading() as session:
        assert monitor.measured(session, model.id) is None


def test_cases_of_another_model_are_left_out(assistant, model):
    record(assistant, model.source.logits[:40], labels=model.source.labels[:40])
    with assistant.store.reading() as session:
        assert monitor.measured(session, "another") is None
        assert len(monitor.recent_logits(session, "another")) == 0
        assert len(monitor.recent_logits(session, model.id)) == 40

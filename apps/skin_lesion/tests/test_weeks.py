"""Weeks and their alarms, on lesions whose change is known by construction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import changes, clinic, monitor, weeks
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.store import Case, DiagnosisRow
from temperance_skin_lesion.web import charts


def record(assistant, logits, *, weeks_ago=0, pictures=1, site="", hidden=False, labels=None):
    """Put lesions with given logits on record, each with so many pictures."""
    at = (datetime.now(UTC) - timedelta(weeks=weeks_ago)).isoformat(timespec="milliseconds")
    with assistant.store.writing() as session:
        active = assistant.active(session)
        p = active.probabilities(logits)
        for i, z in enumerate(logits):
            lesion = f"{site}-{weeks_ago}-{i}"
            for picture in range(pictures):
                case = Case(
                    created=at,
                    by="test",
                    sha256=f"{lesion}-{picture}",
                    lesion=lesion,
                    site=site,
                    hidden=hidden,
                    width=64,
                    height=64,
                    model=assistant.model.id,
                    map_id=active.map_id,
                    policy_id=active.policy_id,
                    logits=[float(v) for v in z],
                    probabilities=[float(v) for v in p[i]],
                    predicted=int(p[i].argmax()),
                    decision="refer",
                    urgency="soon",
                    rule="threshold",
                    rules=[],
                    why="test",
                    views=[[float(v) for v in z]] * 8,
                    malignant=[0.1, 0.0, 0.2],
                    quality={},
                )
                session.add(case)
            session.flush()
            if labels is not None:
                row = {"case_id": case.id, "lesion": lesion, "by": "test", "source": "histology"}
                session.add(DiagnosisRow(code=CODES[labels[i]], **row))


def found(assistant, **limits):
    return weeks.by_week(assistant, Agreement(**limits))


@pytest.fixture
def drawn(model):
    """Rows of the validation pictures, drawn at random; without nevi on demand."""
    rng = np.random.default_rng(0)

    def draw(n, *, nevi=True):
        rows = np.arange(len(model.source.labels))
        rows = rows if nevi else np.flatnonzero(model.source.labels != 1)
        return rng.choice(rows, n)

    return lambda n, **how: model.source.logits[draw(n, **how)]


def test_weeks_like_the_reference_are_steady(assistant, drawn):
    for ago in range(12):
        record(assistant, drawn(100), weeks_ago=ago)
    shown = found(assistant)
    assert len(shown) == 12
    assert [week.week for week in shown] == sorted((w.week for w in shown), reverse=True)
    assert {week.state for week in shown} == {"steady"}
    assert all(low < right < high for right, low, high in (week.accuracy for week in shown))


def test_another_mix_rings_and_few_lesions_do_not(assistant, drawn, client):
    record(assistant, drawn(20, nevi=False), weeks_ago=1)
    record(assistant, drawn(100, nevi=False))
    newest, before = found(assistant)
    assert (newest.state, before.state) == ("alarm", "few")
    assert before.accuracy is None
    assert "class mix" in newest.alarms[0].what
    assert newest.diagnose_next
    client.headers["Accept"] = "text/html"
    page = client.get("/results").text
    assert "mix of the most probable diagnoses" in page
    assert "Diagnoses that would tell most" in page
    assert f"Alarm of week {newest.week}" in client.get("/worklist").text
    assert [week["state"] for week in client.get("/api/v1/drift").json()] == ["alarm", "few"]


def test_the_first_lesions_of_a_week_ring_nothing_though_all_look_alike(assistant, model):
    nevi = model.source.logits[model.source.logits.argmax(axis=1) == 1]
    record(assistant, nevi[:1], weeks_ago=1)
    record(assistant, nevi[1:20])
    assert [week.state for week in found(assistant)] == ["few", "few"]


def test_a_fall_of_confidence_alone_rings(assistant, drawn):
    record(assistant, drawn(300) / 3)
    (week,) = found(assistant)
    assert week.state == "alarm"
    assert "confidence" in week.alarms[0].what


def test_a_gap_beyond_the_agreed_one_rings(assistant, drawn):
    record(assistant, 6 * drawn(300))
    (week,) = found(assistant, gap=0.02)
    assert any(ring.kind == "limit" for ring in week.alarms)


def test_a_lesion_counts_once_however_many_pictures_it_has(assistant, drawn):
    record(assistant, drawn(40), pictures=5)
    (week,) = found(assistant)
    assert week.lesions == 40


def test_the_site_that_changed_is_named(assistant, drawn):
    for ago in range(5, -1, -1):
        record(assistant, drawn(60), weeks_ago=ago, site="north")
        record(assistant, drawn(60, nevi=ago > 1), weeks_ago=ago, site="south")
    shown = found(assistant)
    assert {week.state for week in shown[2:]} == {"steady"}
    assert any(ring.segment == "site=south" for ring in shown[1].alarms + shown[0].alarms)
    assert all(ring.segment != "site=north" for week in shown for ring in week.alarms)


def test_a_clinic_is_compared_with_the_pictures_of_its_own_calibration(assistant, drawn):
    """Another mix than at the training sites rings until a calibration was made for it."""
    with assistant.store.reading() as session:
        active = assistant.active(session)
    for ago in (2, 1, 0):
        record(assistant, drawn(150, nevi=False), weeks_ago=ago)
    assert all(week.state == "alarm" for week in found(assistant))
    with assistant.store.reading() as session:
        recent = monitor.recent(session, assistant.model.id)
    wide = Agreement(temperature=(0.1, 100), bias=100)
    number = clinic.propose_from_cases(assistant, recent, None, wide, by="x")
    with assistant.store.reading() as session:
        assert changes.existing(session, clinic.MapRow, number).survey_id is not None
        assert len(clinic.survey_rows(session, 1).logits) == len(recent.ids) == 450
    with assistant.store.writing() as session:  # whatever was said of it, it is in use now
        changes.existing(session, clinic.MapRow, number).status = "accepted"
    changes.restore(assistant, clinic.MAPS, number, active.activation, wide, by="x")
    assert all(week.state == "steady" for week in found(assistant))


def test_the_chart_of_the_weeks_shows_each_with_its_interval():
    week = weeks.Week("2026-W01", 60, 0, 0.8, (0.75, 0.6, 0.9), None, "steady", (), ())
    assert charts.by_week([week]) is None
    rang = replace(week, week="2026-W02", state="alarm", accuracy=(0.5, 0.4, 0.6))
    nothing = replace(week, week="2026-W03", accuracy=None)
    drawn = str(charts.by_week([nothing, rang, week]))  # newest first, as on the page
    assert drawn.index("2026-W01: 75% right, estimated (60% to 90%), steady") < drawn.index(
        "2026-W02: 50% right, estimated (40% to 60%), alarm"
    )
    assert "2026-W03" not in drawn
    assert drawn.count('class="whisker alarm"') == 1


def test_only_diagnoses_of_a_silent_study_enter_the_estimates(assistant, drawn):
    record(assistant, drawn(60), labels=[1] * 60)
    record(assistant, drawn(60), labels=[1] * 60, site="a", hidden=True)
    (week,) = found(assistant)
    assert (week.lesions, week.labelled) == (120, 60)
    (silent,) = weeks.by_week(assistant, Agreement(), hidden=True)
    assert (silent.lesions, silent.labelled, silent.diagnose_next) == (60, 60, ())


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_announced(assistant, model):
    """One in 260 weeks: among 200 weeks of no change hardly ever more than four."""
    rng = np.random.default_rng(1)
    z = model.source.logits.astype(float)
    with assistant.store.reading() as session:
        active = assistant.active(session)
    start = datetime(2020, 1, 6, tzinfo=UTC)
    seen = [
        weeks.Seen(
            case=0,
            created=(start + timedelta(weeks=week)).isoformat(),
            logits=row,
            site="",
            camera="",
            hidden=False,
            label=-1,
        )
        for week in range(200)
        for row in z[rng.choice(len(z), 40)].tolist()
    ]
    shown = weeks.watch(model.source, active, seen, None, gap=0.5)
    assert len(shown) == 200
    assert sum(week.state == "alarm" for week in shown) <= 4

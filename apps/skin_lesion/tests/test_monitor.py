"""Measured calibration, on cases whose truth is known by construction."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import select

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import changes, clinic, monitor, policies
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import Costs, Policy
from temperance_skin_lesion.quality import Quality
from temperance_skin_lesion.store import Case, DiagnosisRow


def record(assistant, logits, *, labels=None, decision="refer", qualities=None):
    """Put cases with given logits on record, each of a lesion of its own."""
    with assistant.store.writing() as session:
        active = assistant.active(session)
        p = active.probabilities(logits)
        start = np.random.default_rng(len(logits)).integers(2**60)
        for i, z in enumerate(logits):
            session.add(
                Case(
                    by="test",
                    sha256=f"{start + i:064x}",
                    lesion=f"lesion-{start + i}",
                    width=64,
                    height=64,
                    model=assistant.model.id,
                    map_id=active.map_id,
                    policy_id=active.policy_id,
                    logits=[float(v) for v in z],
                    probabilities=[float(v) for v in p[i]],
                    predicted=int(p[i].argmax()),
                    decision=decision,
                    urgency="soon",
                    rule="threshold",
                    rules=[],
                    why="test",
                    views=[[float(v) for v in z]] * 8,
                    malignant=[0.1, 0.0, 0.2],
                    quality={} if qualities is None else qualities[i]._asdict(),
                )
            )
        session.flush()
        if labels is not None:
            for i, label in enumerate(labels):
                diagnose(session, f"lesion-{start + i}", CODES[label])


def diagnose(session, lesion, code):
    """Enter a diagnosis for the newest case of a lesion."""
    case = session.scalars(
        select(Case).where(Case.lesion == lesion).order_by(Case.id.desc())
    ).first()
    session.add(
        DiagnosisRow(case_id=case.id, lesion=lesion, by="test", code=code, source="histology")
    )


def test_measured_calibration_equals_what_was_put_in(assistant, model):
    rng = np.random.default_rng(0)
    z = model.source.logits[:400].astype(float)
    with assistant.store.reading() as session:
        p = assistant.active(session).probabilities(z)
    labels = np.array([rng.choice(7, p=row) for row in p])
    record(assistant, z, labels=labels)
    found = monitor.measured(assistant)
    assert found.cases == found.lesions == 400
    assert found.accuracy[0] == pytest.approx(np.mean(p.argmax(axis=1) == labels))
    assert found.accuracy[1] <= found.claimed <= found.accuracy[2]
    assert found.brier == pytest.approx(np.mean((p - np.eye(7)[labels]) ** 2))
    assert found.nll == pytest.approx(-np.log(p[np.arange(400), labels]).mean())
    assert sum(b["cases"] for b in found.bins) == 400
    assert found.melanomas == np.sum(labels == 0)
    assert found.melanomas_missed == 0
    assert found.sensitivity[0] == 1 > found.sensitivity[1]


def test_a_handful_of_diagnoses_measures_nothing(assistant, model):
    record(assistant, model.source.logits[:29], labels=model.source.labels[:29])
    assert monitor.measured(assistant) is None


def test_cases_of_another_model_make_no_map(assistant, model):
    record(assistant, model.source.logits[:40])
    with assistant.store.reading() as session:
        assert monitor.recent(session, "another").logits.shape == (0, 7)
        assert monitor.recent(session, model.id).views.shape == (40, 8, 7)


FIT = Quality(sharpness=0.03, light=0.6, contrast=0.15, colour=0.2, tone=40.0)
QUALITIES = {"fit": FIT, "dark": FIT._replace(tone=-5.0), "blurred": FIT._replace(sharpness=0.001)}


def test_pictures_that_are_never_answered_count_as_referred(assistant, model):
    """Twenty of two hundred show dark skin and are referred; ten are blurred and taken again."""
    z, wide = model.source.logits[:200].astype(float), Agreement(temperature=(0.1, 100), bias=100)
    names = ["dark"] * 20 + ["blurred"] * 10 + ["fit"] * 170
    record(assistant, z, qualities=[QUALITIES[name] for name in names])
    lenient = Policy(
        threshold=0, melanoma_threshold=0, melanoma_ceiling=1, urgent_melanoma=1, agreement=0,
        costs=Costs(missed_melanoma=0, missed_malignancy=0, false_alarm=0),
    )  # fmt: skip
    here = policies.compare(assistant, lenient, wide)["here"]["then"]
    assert here["rows"] == 190
    assert here["by_rule"]["skin-tone"] == here["referred"] == pytest.approx(1000 * 20 / 190)
    with assistant.store.reading() as session:
        recent = monitor.recent(session, model.id)
    number = clinic.propose_from_cases(assistant, recent, None, wide, by="x")
    with assistant.store.reading() as session:
        row = changes.existing(session, clinic.MapRow, number)
        assert len(clinic.survey_rows(session, row.survey_id).logits) == 170
    assert (row.summary["rows"], row.summary["dark"]) == (170, 20)
    after = row.summary["changes"]["after"]
    assert after["rows"] == 190
    assert after["by_rule"]["skin-tone"] == pytest.approx(1000 * 20 / 190)
    assert after["referred"] > 1000 * 20 / 190 - 1e-9


def test_a_proposal_needs_a_picture_that_may_be_answered(assistant, model):
    record(assistant, model.source.logits[:40], qualities=[QUALITIES["dark"]] * 40)
    with assistant.store.reading() as session:
        recent = monitor.recent(session, model.id)
    with pytest.raises(changes.NotAcceptable, match="no pictures to calibrate on"):
        clinic.propose_from_cases(assistant, recent, None, Agreement(), by="x")


def test_a_picture_judged_again_keeps_its_evidence(client, lesions, as_files):
    """The review's case: pictures diagnosed, then the same judged again."""
    files = as_files(lesions(31))
    first = client.post("/api/v1/predict", files=files).json()["cases"]
    for case in first:
        client.post(f"/api/v1/cases/{case['id']}/diagnoses", json={"diagnosis": "nv"})
    before = client.get("/api/v1/measured").json()
    assert before["lesions"] == 31
    again = client.post("/api/v1/predict", files=files).json()["cases"]
    assert [case["repeats"] for case in again] == [case["id"] for case in first]
    assert all(case["diagnosis"]["code"] == "nv" for case in again)
    assert client.get("/api/v1/measured").json() == before


def test_an_error_that_was_answered_once_stays_in_the_count(assistant, model):
    """The same pictures referred later do not take back what was answered before."""
    rows = np.flatnonzero(model.source.labels == 0)[:40]
    z = model.source.logits[rows]
    record(assistant, z, labels=model.source.labels[rows], decision="answer")
    before = monitor.measured(assistant)
    with assistant.store.reading() as session:
        policy = assistant.active(session).policy_id
    assert before.melanomas_missed > 0
    record(assistant, z)
    with assistant.store.writing() as session:  # the later cases were judged by other rules
        half = session.scalars(select(Case).where(Case.decision == "refer")).all()
        assert len(half) == 40
        for case in half:
            case.policy_id = policy
    after = monitor.measured(assistant)
    assert (after.melanomas, after.melanomas_missed) == (before.melanomas, before.melanomas_missed)


def test_the_newest_diagnosis_holds_and_other_diseases_are_counted_apart(assistant, model):
    record(assistant, model.source.logits[:40], labels=np.ones(40, dtype=int))
    with assistant.store.writing() as session:
        lesions = session.scalars(select(Case.lesion)).all()
        diagnose(session, lesions[0], "mel")
        diagnose(session, lesions[1], "other")
        diagnose(session, lesions[2], None)
        for case in session.scalars(select(Case)):
            case.decision = "answer"
    found = monitor.measured(assistant)
    assert (found.cases, found.other, found.melanomas) == (38, 1, 1)
    # Whatever was answered of another disease was wrong.
    right = model.source.logits[3:40].argmax(axis=1) == 1
    right = right.sum() + (model.source.logits[0].argmax() == 0)
    assert (found.answered, found.other_answered) == (39, 1)
    assert found.answered_wrong == 39 - right


def test_intervals_are_wider_when_pictures_share_a_lesion(assistant, model):
    z, y = model.source.logits[:60], model.source.labels[:60]
    record(
        assistant, np.repeat(z, 3, axis=0) + np.arange(180)[:, None] * 1e-4, labels=np.repeat(y, 3)
    )
    alone = monitor.measured(assistant)
    with assistant.store.reading() as session:
        evidence = monitor.evidence(session)
    shared = monitor.summarise(evidence._replace(lesions=np.arange(180) // 3))
    assert shared.lesions == 60
    width = [found.accuracy[2] - found.accuracy[1] for found in (alone, shared)]
    assert width[1] > 1.3 * width[0]

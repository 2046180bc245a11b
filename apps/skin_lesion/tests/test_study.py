"""The report of a silent study, on lesions whose diagnoses are drawn from known probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from temperance_skin_lesion import study
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import decide
from temperance_skin_lesion.store import Case, DiagnosisRow


@pytest.fixture
def studied(assistant, model):
    """Five hundred hidden lesions at two sites, three pictures of some; labels as claimed."""
    rng = np.random.default_rng(0)
    rows = rng.choice(len(model.source.labels), 500)
    with assistant.store.writing() as session:
        active = assistant.active(session)
        found = active.judged(model.source.logits[rows], model.source.views[rows])
        labels = [int(rng.choice(7, p=p / p.sum())) for p in found.p]
        for i, p in enumerate(found.p):
            decision = decide(p, active.policy, agreement=int(found.agreement[i]))
            for picture in range(3 if i % 50 == 0 else 1):
                session.add(
                    Case(
                        by="test",
                        sha256=f"{1000 * picture + i:064x}",
                        lesion=f"L{i}",
                        site="north" if i % 3 else "south",
                        camera="d4",
                        width=64,
                        height=64,
                        hidden=True,
                        model=model.id,
                        map_id=1,
                        policy_id=1,
                        logits=[0.0] * 7,
                        views=[],
                        probabilities=p.tolist(),
                        malignant=[0.1] * 3,
                        quality={},
                        predicted=decision.predicted,
                        decision=decision.word,
                        urgency=decision.urgency,
                        rule="x",
                        why="x",
                        rules=[],
                    )
                )
        session.flush()
        numbers = {}
        for case in session.query(Case):
            numbers.setdefault(case.lesion, case.id)
        for i, label in enumerate(labels[:400]):
            session.add(
                DiagnosisRow(
                    case_id=numbers[f"L{i}"],
                    lesion=f"L{i}",
                    by="test",
                    code="other" if i == 7 else CODES[label],
                    source="histology",
                )
            )
    with assistant.store.reading() as session:
        return study.report(session), found, labels


def test_shares_are_counted_by_lesion(studied, assistant):
    report, found, labels = studied
    with assistant.store.reading() as session:
        policy = assistant.active(session).policy
    decisions = [
        decide(p, policy, agreement=int(n)) for p, n in zip(found.p, found.agreement, strict=True)
    ]
    known = [i for i in range(400) if i != 7]
    everything = report.everything
    assert report.silent
    assert (everything.judged, everything.diagnosed, report.other) == (500, 399, 1)
    melanomas = [i for i in known if labels[i] == 0]
    kept = [not (decisions[i].answered and decisions[i].predicted != 0) for i in melanomas]
    assert everything.melanomas == len(melanomas)
    assert everything.measured.sensitivity[0] == pytest.approx(np.mean(kept))
    right = sum(decisions[i].predicted == labels[i] for i in known)
    share, low, high = everything.measured.accuracy
    assert share == pytest.approx(right / 399)
    assert binom.cdf(right, 399, high) == pytest.approx(0.05, abs=1e-6)
    assert binom.sf(right - 1, 399, low) == pytest.approx(0.05, abs=1e-6)
    assert {group.name: group.judged for group in report.sites} == {"north": 333, "south": 167}
    assert [group.name for group in report.cameras] == ["d4"]
    assert [n for n, _ in report.steps] == [10, 30, 100, 300]
    widths = [shares.accuracy[2] - shares.accuracy[1] for _, shares in report.steps]
    assert widths == sorted(widths, reverse=True)


def test_what_was_expected_came_true_where_probabilities_are_right(studied):
    """Labels were drawn from the probabilities, so each expectation lies in its interval."""
    report, _, _ = studied
    for group in (report.everything, *report.sites):
        for name in ("sensitivity", "malignant_referral", "accuracy"):
            _, low, high = getattr(group.measured, name)
            assert low - 0.02 <= group.expected[name] <= high + 0.02, (group.name, name)


@pytest.mark.usefixtures("studied")
def test_the_page_shows_what_was_expected_beside_what_was_measured(client):
    page = client.get("/study", headers={"Accept": "text/html"}).text
    report = client.get("/api/v1/study").json()
    expected = 100 * report["everything"]["expected"]["accuracy"]
    measured = 100 * report["everything"]["measured"]["accuracy"][0]
    assert f"{expected:.0f} %" in page
    assert f"{measured:.0f}&nbsp;%" in page
    assert "399 diagnosed lesions" in page
    assert "1 lesion was diagnosed as something the network does not know" in page


def test_an_empty_record_says_so(client, assistant):
    client.headers["Accept"] = "text/html"
    assert "Nothing was judged yet" in client.get("/study").text
    assert client.get("/api/v1/study").json() is None
    with assistant.store.reading() as session:
        assert study.report(session) is None


def test_one_picture_that_was_answered_wrongly_misses_the_melanoma(assistant, lesions):
    from temperance_skin_lesion import intake
    from temperance_skin_lesion.assistant import Origin

    pictures = [intake.read(content, "a") for content in lesions(3)]
    cases = assistant.judge(pictures, origin=Origin(lesion="L1"), hidden=True)
    assert {case.decision for case in cases} == {"answer", "refer"}
    with assistant.store.writing() as session:
        session.add(
            DiagnosisRow(case_id=cases[0].id, lesion="L1", by="x", code="mel", source="histology")
        )
    with assistant.store.reading() as session:
        report = study.report(session)
    assert report.everything.melanomas == 1
    assert report.everything.measured.sensitivity[0] == 0
    assert report.everything.measured.referral[0] == 1

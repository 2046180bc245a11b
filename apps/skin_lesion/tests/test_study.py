"""The report of a silent study, on lesions whose diagnoses are drawn from known probabilities."""

from __future__ import annotations

import importlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binom

from temperance_skin_lesion import study, web
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import facts_of
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import decide
from temperance_skin_lesion.store import Case, DiagnosisRow


@pytest.fixture
def studied(assistant, model):
    """Five hundred hidden lesions at two sites, three pictures of some; labels as claimed."""
    rng = np.random.default_rng(0)
    rows = rng.choice(len(model.source.labels), 500)
    logits = model.source.logits[rows]
    with assistant.store.writing() as session:
        active = assistant.active(session)
        found = active.judged(logits, model.source.views[rows])
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
                        logits=logits[i].tolist(),
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
    return study.report(assistant, Agreement()), found, labels


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
    assert [step.labels for step in report.steps] == [10, 30, 100, 300]
    measured = [step.measured.accuracy for step in report.steps]
    widths = [high - low for _, low, high in measured]
    assert widths == sorted(widths, reverse=True)


def test_estimates_hold_what_the_probabilities_say(studied):
    """Labels were drawn from the probabilities, so what these lead to expect is the truth."""
    report, found, _ = studied
    right = found.p.max(axis=1).mean()
    for step in (report.everything, *report.steps):
        value, low, high = step.estimated.shares.accuracy
        assert low - 0.03 <= right <= high + 0.03
        assert low <= value <= high
    # All lesions without a label say more than ten labelled lesions alone.
    without, ten = report.everything.estimated.shares.accuracy, report.steps[0].measured.accuracy
    assert without[2] - without[1] < ten[2] - ten[1]
    for name in ("sensitivity", "malignant_referral"):
        value, low, high = getattr(report.everything.estimated.shares, name)
        assert 0 <= low <= value <= high <= 1
        _, least, most = getattr(report.everything.measured, name)
        assert low <= most
        assert least <= high


def test_estimated_shares_follow_from_each_map_and_its_weight(studied):
    """One map alone: every share is a sum over the lesions, counted here by hand."""
    _, found, _ = studied
    lesions = [
        study.Lesion(
            Case(
                decision="refer" if i % 3 else "answer",
                predicted=int(p.argmax()),
                probabilities=p.tolist(),
            ),
            [],
            -1,
        )
        for i, p in enumerate(found.p)
    ]
    lesions = [study.Lesion(x.first, [x.first], -1) for x in lesions]
    shares = study.expected_shares(lesions, found.p[None], np.ones(1))
    kept = np.array([i % 3 > 0 or p.argmax() == 0 for i, p in enumerate(found.p)])
    assert shares.sensitivity[0] == pytest.approx(
        (found.p[:, 0] * kept).sum() / found.p[:, 0].sum()
    )
    assert shares.accuracy[0] == pytest.approx(found.p.max(axis=1).mean())
    assert shares.gap == pytest.approx((0, 0, 0), abs=1e-12)


def test_diagnoses_that_contradict_the_estimate_are_followed_and_said(assistant, model, client):
    rng = np.random.default_rng(1)
    rows = rng.choice(len(model.source.labels), 200, replace=False)
    with assistant.store.writing() as session:
        active = assistant.active(session)
        found = active.judged(model.source.logits[rows], model.source.views[rows])
        for i, row in enumerate(rows):
            decision = decide(found.p[i], active.policy, agreement=int(found.agreement[i]))
            facts = facts_of(
                decision,
                found,
                i,
                model.source.logits[rows],
                model.source.views[rows],
                model.id,
                active,
            )
            case = Case(
                by="x", sha256=f"{row:064x}", lesion=f"L{row}", width=64, height=64, **facts
            )
            case.hidden, case.quality = True, {}
            session.add(case)
            session.flush()
            code = CODES[(decision.predicted + 1) % 7]  # always another one
            session.add(
                DiagnosisRow(
                    case_id=case.id, lesion=case.lesion, by="x", code=code, source="expert"
                )
            )
    report = study.report(assistant, Agreement())
    before, after = report.everything.estimated, report.steps[-1].estimated
    assert report.everything.measured.accuracy[0] == 0
    assert after.shares.accuracy[0] < before.shares.accuracy[0] - 0.2
    page = client.get("/study", headers={"Accept": "text/html"}).text
    assert "The diagnoses contradict what was estimated without them." in page


@pytest.mark.usefixtures("studied")
def test_the_page_shows_what_was_estimated_beside_what_was_measured(client):
    page = client.get("/study", headers={"Accept": "text/html"}).text
    report = client.get("/api/v1/study").json()
    estimated = 100 * report["everything"]["estimated"]["shares"]["accuracy"][0]
    measured = 100 * report["everything"]["measured"]["accuracy"][0]
    assert f"{estimated:.0f}&nbsp;%" in page
    assert f"{measured:.0f}&nbsp;%" in page
    assert "399 diagnosed lesions" in page
    assert "1 lesion was diagnosed as something the network does not know" in page


def test_an_empty_record_says_so(client, assistant):
    client.headers["Accept"] = "text/html"
    assert "Nothing was judged yet" in client.get("/study").text
    assert client.get("/api/v1/study").json() is None
    assert study.report(assistant, Agreement()) is None


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
    report = study.report(assistant, Agreement())
    assert report.everything.melanomas == 1
    assert report.everything.estimated.verdict == "refused"  # one lesion says nothing
    assert report.everything.measured.sensitivity[0] == 0
    assert report.everything.measured.referral[0] == 1


@pytest.mark.slow
def test_the_numbers_in_the_pictures_of_the_manual_are_those_of_today(monkeypatch):
    """Where it fails, run lab/pages/make_assistant_pictures.py and look at the pictures."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "lab" / "pages")
    script = importlib.import_module("make_assistant_pictures")
    for path, text in script.shown().items():
        with Image.open(path) as picture:
            assert picture.text["Description"] == text


def test_of_several_who_ask_at_once_one_makes_the_answer(assistant):
    made, begun = [], threading.Barrier(5)

    def make():
        made.append(1)
        time.sleep(0.1)  # long enough for the others to ask
        return len(made)

    def ask(_):
        begun.wait()
        return assistant.remember(("a question",), make)

    with ThreadPoolExecutor(5) as people:
        assert list(people.map(ask, range(5))) == [1] * 5
    for question in ("b", "b"):  # what failed is tried again
        with pytest.raises(ZeroDivisionError):
            assistant.remember((question,), lambda: made.append(1) or 1 / 0)
    assert len(made) == 3


def test_what_the_page_says_of_held_out_clinics_is_on_record():
    lab = Path(__file__).parents[3] / "lab" / "experiments" / "skin_lesion" / "records"
    clinic = json.loads((lab / "study.json").read_text("utf-8"))["clinics"]["vidir_molemax"]
    page = (Path(web.__file__).parent / "templates" / "study.html").read_text("utf-8")
    said = (
        f"{100 * clinic['steps'][0]['estimated']['accuracy']['mean']:.0f} % was estimated where "
        f"{100 * clinic['truth']['accuracy']:.0f} % is right; with a rough mix it was "
        f"{100 * clinic['mix_stated']['accuracy']['mean']:.0f} %"
    )
    assert said in page

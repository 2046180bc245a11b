"""The pages without JavaScript: forms alone must do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import audit
from temperance_skin_lesion.classes import CLASSES, CODES
from temperance_skin_lesion.store import Case

HTML = {"Accept": "text/html"}


@pytest.fixture
def browser(client):
    client.headers.update(HTML)
    client.follow_redirects = True
    return client


def test_pictures_are_judged_with_raw_beside_calibrated(browser, lesions, as_files):
    page = browser.post("/", files=as_files(lesions(2))).text
    assert page.count('<article class="case') == 2
    assert "data:image/jpeg;base64," in page
    for diagnosis in CLASSES:
        name = diagnosis.name.replace(chr(39), "&#39;")
        marked = ' <span class="mark"' if diagnosis.malignant else "</th>"
        assert page.count(f'<th scope="row">{name}{marked}') == 2


def test_a_hostile_name_is_text(browser, lesions, as_files):
    (content,) = lesions(1)
    page = browser.post(
        "/", files=as_files([content], name="<img src=x onerror=alert(1)>.jpg")
    ).text
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;.jpg" in page
    page = browser.get("/worklist").text
    assert "<img src=x" not in page


def test_the_pages_say_all_that_the_record_keeps(browser):
    from temperance_skin_lesion.store import Case

    told = {
        "the time and who sent it": {"created", "by"},
        "its hash": {"sha256", "kept"},
        "its width and height": {"width", "height"},
        "how sharp and light it is": {"quality"},
        "its scores in eight orientations": {"logits", "views", "agreement"},
        "its scores": {"probabilities", "predicted", "malignant"},
        "the decision with its urgency and every reason": {
            "decision",
            "urgency",
            "rule",
            "why",
            "rules",
            "hidden",
        },
        "which model, calibration and rules were in use": {"model", "map_id", "policy_id"},
        "the pseudonym of the lesion, site and camera": {"lesion", "site", "camera"},
        "whether the same picture was judged before": {"repeats"},
    }
    assert set().union(*told.values(), {"id"}) == set(Case.__table__.columns.keys())
    about = browser.get("/about").text
    assert all(words in about for words in told)
    assert "shown with the answer and not stored" in about
    assert "not the name of the file" in browser.get("/").text


def test_problems_are_shown(browser, as_files):
    page = browser.post("/", files=as_files([b"nonsense"])).text
    assert re.search(r'class="problem"[^>]*>lesion0.jpg: this is not a picture', page)
    assert "No file was chosen" in browser.post("/", files={"files": ("", b"")}).text


def test_a_script_gets_the_results_alone(browser, lesions, as_files):
    part = browser.post("/", files=as_files(lesions(1)), headers={"X-Fragment": "1"}).text
    assert "<article" in part
    assert "<html" not in part


def test_rules_are_previewed_proposed_and_accepted(browser):
    form = {
        "threshold": "0.75",
        "melanoma_threshold": "0.85",
        "melanoma_ceiling": "0.015",
        "agreement": "8",
        "missed_melanoma": "250",
        "reason": "trial",
    }
    page = browser.post("/rules", data=form | {"verb": "preview"}).text
    assert 'value="0.75"' in page
    assert "in force: 0.7" in page
    proposed = browser.post("/rules", data=form | {"verb": "propose"})
    assert proposed.url.path == "/rules/2"
    assert "trial" in proposed.text
    assert browser.get("/api/v1/active").json()["policy_id"] == 1
    seen = re.search(r'name="seen" value="(\d+)"', proposed.text)[1]
    accepted = browser.post("/rules/2/accept", data={"seen": seen})
    assert "In force: rules 2" in accepted.text
    policy = browser.get("/api/v1/active").json()["policy"]
    assert (policy["threshold"], policy["agreement"]) == (0.75, 8)
    assert policy["costs"]["missed_melanoma"] == 250
    late = browser.post("/rules/1/restore", data={"seen": seen})
    assert late.status_code == 409
    assert "Somebody decided in the meantime" in late.text
    assert 'href="/rules"' in late.text


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({"threshold": "2"}, "“An answer needs”: Input should be less than or equal to 1."),
        ({"threshold": "nan"}, "finite"),
        ({"threshold": "x"}, "valid number"),
        (
            {"threshold": "0.9", "melanoma_threshold": "0.1"},
            ">“The answer melanoma needs” must not be below “An answer needs”. Got 0.1 and 0.9.<",
        ),
    ],
)
def test_rules_that_cannot_be_are_refused_with_a_page(browser, form, word):
    response = browser.post("/rules", data=form | {"verb": "propose"})
    assert response.status_code == 422
    assert "That did not work" in response.text
    assert word in response.text
    assert "Value error" not in response.text


def test_every_sentence_about_the_calibration_in_use_is_true(browser, assistant):
    start = " ".join(browser.get("/").text.split())
    assert "not yet for this clinic" in start
    assert "knows nothing of this clinic" in browser.get("/clinic").text
    # As if a map of this clinic had been accepted.
    from temperance_skin_lesion import changes, clinic
    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.store import MapRow

    with assistant.store.writing() as session:
        active = assistant.active(session)
        row = MapRow(
            by="x",
            origin="survey",
            model=active.map_row.model,
            artefact=active.map_row.artefact,
            verdict="improved",
            summary={**active.map_row.summary, "rows": 321},
            reference=active.map_row.reference,
            report="",
        )
        session.add(row)
        session.flush()
        number = row.id
    changes.accept(assistant, clinic.MAPS, number, active.activation, Agreement(), by="x")
    start = " ".join(browser.get("/").text.split())
    assert "calibrated for this clinic, from 321 unlabelled pictures" in start
    assert "not yet" not in start
    assert "Fitted to 321 unlabelled pictures of this clinic" in browser.get("/clinic").text
    assert "without evidence" not in start
    with assistant.store.writing() as session:
        row = session.get(MapRow, number)
        row.summary = {**row.summary, "closer": 0.62, "compared_with": 1}
    start = " ".join(browser.get("/").text.split())
    assert "<strong>without evidence</strong> that they are closer to the truth" in start
    assert "without evidence of a gain" in browser.get("/clinic").text


def test_letters_have_the_sizes_of_one_scale():
    from temperance_skin_lesion import web

    style = (Path(web.__file__).parent / "static" / "style.css").read_text("utf-8")
    scale = dict(re.findall(r"--(tiny|small|text|large|title|number): ([.\d]+)rem;", style))
    assert len(scale) == 6
    assert set(re.findall(r"font-size: ([^;]+);", style)) == {f"var(--{name})" for name in scale}


def test_a_case_says_in_words_whether_its_picture_is_fit(browser, assistant, lesions, as_files):
    browser.post("/", files=as_files(lesions(1)))
    assert "Fit to be judged" in browser.get("/cases/1").text
    with assistant.store.reading() as session:
        facts = audit.case_facts(session.get(Case, 1))
    blurred = facts["quality"] | {"sharpness": 0.001}
    with assistant.store.writing() as session:
        session.add(Case(**facts | {"id": 2, "sha256": "0" * 64, "quality": blurred}))
    page = browser.get("/cases/2").text
    assert "Fit to be judged" not in page
    assert "The picture is blurred" in page


def test_jargon_is_kept_to_the_details(browser, lesions, as_files):
    browser.post("/", files=as_files(lesions(3)))
    for place in (
        "/",
        "/worklist",
        "/cases/1",
        "/clinic",
        "/rules",
        "/rules/1",
        "/results",
        "/study",
        "/audit",
    ):
        page = browser.get(place).text
        main = re.sub(r"<details.*?</details>", "", page.split("<main")[1], flags=re.DOTALL)
        words = re.sub(r"<[^>]*>", " ", main)
        assert not re.findall(r"\b(maps?|temperature|logits?|ECE|TP\d+|prior|policy)\b", words), (
            place
        )


@pytest.mark.parametrize("place", ["/clinic", "/results"])
def test_no_mix_is_chosen_for_the_clinic(browser, lesions, as_files, place):
    browser.post("/", files=as_files(lesions(1)))
    page = browser.get(place).text
    form = re.search(r"<form[^>]*data-(survey|reprior).*?</form>", page, re.DOTALL)[0]
    assert form.count('name="mix"') == 3
    assert "checked" not in form
    shares = re.findall(r'<input type="number"[^>]*name="mix-[^>]*>', form)
    assert len(shares) == len(CODES)
    assert not [field for field in shares if "value=" in field]


def test_a_form_that_says_nothing_of_the_mix_is_refused(browser, lesions, as_files):
    shares = dict.fromkeys([f"mix-{code}" for code in CODES], str(100 / 7))
    for place in ("/clinic", "/results/proposal"):
        response = browser.post(place, data=shares, files=as_files(lesions(1)))
        assert response.status_code == 422
        assert "say first whether it is known" in response.text


@pytest.mark.parametrize(
    ("mix", "word"),
    [
        ({}, "a number for each"),
        (dict.fromkeys(CODES, "20"), "sum to 1"),
        ({"mel": "x"}, "number"),
    ],
)
def test_a_mix_that_is_none_is_refused(browser, lesions, as_files, mix, word):
    form = {"mix": "roughly", **{f"mix-{code}": share for code, share in mix.items()}}
    response = browser.post("/clinic", data=form, files=as_files(lesions(1)))
    assert response.status_code == 422
    assert word in response.text


def test_the_demo_draws_its_own_pictures_and_no_other_server_does(browser, serve, settings):
    for place in ("/demo/predict", "/demo/clinic"):
        assert browser.post(place, data={"mix": "unknown"}).status_code == 404
    demo = settings.model_copy(update={"demo": True, "data": settings.data / "demo"})
    with serve(demo) as address:
        judged = browser.post(f"{address}/demo/predict").text
        assert judged.count('<article class="case') == 6
        shares = dict.fromkeys([f"mix-{code}" for code in CODES], str(100 / 7))
        proposed = browser.post(f"{address}/demo/clinic", data={"mix": "roughly", **shares})
        assert proposed.url.path == "/calibrations/2"
        assert "Findings" in proposed.text


def test_risk_falls_as_fewer_cases_are_answered(model, assistant):
    from temperance_skin_lesion import monitor, thresholds

    with assistant.store.reading() as session:
        active = assistant.active(session)
        nothing = monitor.recent(session, model.id)
    n = len(model.source.labels)
    recent = nothing._replace(
        ids=list(range(2 * n)),  # the other half shows dark skin
        logits=np.tile(model.source.logits, (2, 1)),
        dark=np.arange(2 * n) >= n,
    )
    curve = thresholds.curves(model.source, active, recent)
    for name, most in (("validation", 1), ("here", 0.5)):
        coverage, risk = np.array(curve[name]).T
        assert np.all(np.diff(coverage) > 0)
        assert coverage[-1] == most
        assert risk[len(risk) // 3] < risk[-1]
    # On its own validation rows the calibrated expectation agrees with what is measured.
    assert curve["here"][-1][1] == pytest.approx(curve["validation"][-1][1], abs=0.02)


def test_findings_are_said_in_plain_words_with_the_librarys_in_the_details(
    browser, lesions, as_files
):
    survey = browser.post("/api/v1/surveys").json()["survey"]
    browser.post(f"/api/v1/surveys/{survey}/images", files=as_files(lesions(31)))
    mix = {"prior": dict(zip(CODES, (0.1, 0.67, 0.05, 0.04, 0.11, 0.01, 0.02), strict=True))}
    proposal = browser.post(f"/api/v1/surveys/{survey}/proposal", json=mix).json()
    assert len(proposal["summary"]["findings"]) >= 2
    page = browser.get(f"/calibrations/{proposal['id']}").text
    main = re.sub(r"<details.*?</details>", "", page.split("<main")[1], flags=re.DOTALL)
    words = re.sub(r"<[^>]*>", " ", main)
    assert not re.findall(
        r"\b(maps?|rows?|logits?|bias|TP\d+|prior|covariate|source|target)\b", words
    )
    for finding in proposal["summary"]["findings"]:
        assert finding["code"] in page

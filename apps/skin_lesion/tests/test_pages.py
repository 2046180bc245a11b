"""The pages without JavaScript: forms alone must do."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion.classes import CLASSES, CODES

HTML = {"Accept": "text/html"}


@pytest.fixture
def browser(client):
    client.headers.update(HTML)
    client.follow_redirects = True
    return client


def test_pictures_are_judged_with_raw_beside_calibrated(browser, lesions, as_files):
    page = browser.post("/", files=as_files(lesions(2))).text
    assert page.count('<article class="case') == 2
    assert "data:image/png;base64," in page
    for diagnosis in CLASSES:
        assert page.count(f'<th scope="row">{diagnosis.name.replace(chr(39), "&#39;")}</th>') == 2


def test_a_hostile_name_is_text(browser, lesions, as_files):
    (content,) = lesions(1)
    page = browser.post(
        "/", files=as_files([content], name="<img src=x onerror=alert(1)>.jpg")
    ).text
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;.jpg" in page
    page = browser.get("/log").text
    assert "<img src=x" not in page


def test_the_pages_say_all_that_the_record_keeps(browser):
    from temperance_skin_lesion.store import Case

    told = {
        "the time": {"created"},
        "its hash": {"sha256"},
        "its width and height": {"width", "height"},
        "its scores": {"logits", "probabilities", "predicted"},
        "the decision with its reason": {"decision", "rule", "why"},
        "which model, map and policy were in use": {"model", "map_id", "policy_id"},
        "a later diagnosis with its time": {"diagnosis", "diagnosed"},
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


def test_a_policy_is_previewed_then_saved(browser):
    form = {
        "threshold": "0.55",
        "melanoma_threshold": "0.66",
        "melanoma_ceiling": "0.11",
        "missed_melanoma": "7",
    }
    page = browser.post("/threshold", data=form | {"verb": "preview"}).text
    assert 'value="0.55"' in page
    assert "in force: 0.7" in page
    saved = browser.post("/threshold", data=form | {"verb": "save"})
    assert "Saved." in saved.text
    policy = browser.get("/api/v1/active").json()["policy"]
    assert (policy["threshold"], policy["costs"]["missed_melanoma"]) == (0.55, 7)


@pytest.mark.parametrize(
    "form",
    [{"threshold": "2"}, {"threshold": "nan"}, {"threshold": "0.9", "melanoma_threshold": "0.1"}],
)
def test_a_policy_that_cannot_be_is_refused_with_a_page(browser, form):
    response = browser.post("/threshold", data=form | {"verb": "save"})
    assert response.status_code == 422
    assert "That did not work" in response.text


def test_a_diagnosis_is_saved_from_the_log(browser, lesions, as_files):
    browser.post("/", files=as_files(lesions(1)))
    page = browser.post("/log/1/diagnosis", data={"diagnosis": "bcc"}).text
    assert re.search(r'<option value="bcc" selected>', page)
    assert browser.post("/log/1/diagnosis", data={"diagnosis": "xx"}).status_code == 422
    assert browser.post("/log/7/diagnosis", data={"diagnosis": "bcc"}).status_code == 404


def test_the_log_filters_and_pages(browser, lesions, as_files):
    browser.post("/api/v1/predict", files=as_files(lesions(30)))
    page = browser.get("/log").text
    assert page.count('id="case-') == 25
    older = browser.get(re.search(r'href="(/log\?before=[^"]+)"', page)[1].replace("&amp;", "&"))
    assert older.text.count('id="case-') == 5
    decisions = {case["decision"] for case in browser.get("/api/v1/cases?limit=50").json()}
    for decision in ("answer", "refer"):
        page = browser.get(f"/log?decision={decision}").text
        assert ("No cases." in page) == (decision not in decisions)


@pytest.mark.parametrize("place", ["/clinic", "/log"])
def test_no_mix_is_chosen_for_the_clinic(browser, place):
    page = browser.get(place).text
    form = re.search(r"<form[^>]*data-(survey|reprior).*?</form>", page, re.DOTALL)[0]
    assert form.count('name="mix"') == 3
    assert "checked" not in form
    shares = re.findall(r'<input type="number"[^>]*name="mix-[^>]*>', form)
    assert len(shares) == len(CODES)
    assert not [field for field in shares if "value=" in field]


def test_a_form_that_says_nothing_of_the_mix_is_refused(browser, lesions, as_files):
    shares = dict.fromkeys([f"mix-{code}" for code in CODES], str(100 / 7))
    for place in ("/clinic", "/log/proposal"):
        response = browser.post(place, data=shares, files=as_files(lesions(1)))
        assert response.status_code == 422
        assert "say first whether it is known" in response.text


@pytest.mark.parametrize(
    ("mix", "word"),
    [
        ({}, "a number for every class"),
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
        assert proposed.url.path == "/maps/2"
        assert "What would change" in proposed.text


def test_risk_falls_as_fewer_cases_are_answered(model, assistant):
    from temperance_skin_lesion import thresholds

    with assistant.store.reading() as session:
        active = assistant.active(session)
    curve = thresholds.curves(model.source, active, model.source.logits)
    for name in ("validation", "here"):
        coverage, risk = np.array(curve[name]).T
        assert np.all(np.diff(coverage) > 0)
        assert coverage[-1] == 1
        assert risk[len(risk) // 3] < risk[-1]
    # On its own validation rows the calibrated expectation agrees with what is measured.
    assert curve["here"][-1][1] == pytest.approx(curve["validation"][-1][1], abs=0.02)

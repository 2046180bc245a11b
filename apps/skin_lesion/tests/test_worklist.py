"""The worklist and the page of a case, without JavaScript."""

from __future__ import annotations

import re

import httpx
import pytest

from temperance_skin_lesion.decision import URGENCIES


@pytest.fixture
def browser(client, lesions, as_files):
    """A person's client on a server with twenty-eight cases."""
    client.headers["Accept"] = "text/html"
    client.follow_redirects = True
    client.post("/api/v1/predict", files=as_files(lesions(27)))
    client.post("/api/v1/predict", files=as_files(lesions(1, first=27)), data={"lesion": "P1_L2"})
    return client


def listed(page):
    return [int(number) for number in re.findall(r'<tr id="case-(\d+)"', page)]


def test_the_most_urgent_comes_first_and_then_the_most_probably_malignant(browser):
    numbers = listed(browser.get("/worklist").text) + listed(browser.get("/worklist?page=2").text)
    cases = {case["id"]: case for case in browser.get("/api/v1/cases?limit=100").json()}
    assert sorted(numbers) == sorted(cases)
    ranks = [(URGENCIES.index(cases[n]["urgency"]), -cases[n]["malignant"][0], -n) for n in numbers]
    assert ranks == sorted(ranks)
    assert len({rank[0] for rank in ranks}) > 1


def test_filters_and_search_find_what_they_say(browser):
    cases = browser.get("/api/v1/cases?limit=100").json()
    for urgency in URGENCIES:
        expected = {case["id"] for case in cases if case["urgency"] == urgency}
        page = browser.get(f"/worklist?urgency={urgency}").text
        assert set(listed(page)) <= expected
        assert f"{len(expected)} case" in page
    chosen = cases[3]
    assert chosen["id"] in listed(browser.get(f"/worklist?q={chosen['id']}").text)
    assert listed(browser.get(f"/worklist?q={chosen['sha256'][:10]}").text) == [chosen["id"]]
    assert listed(browser.get("/worklist?q=P1_L2").text) == [28]
    assert listed(browser.get("/worklist?q=P1%25L2").text) == []  # no pattern of the database
    assert "No case fits this search" in browser.get("/worklist?q=nothing").text
    assert browser.get("/worklist?urgency=now").status_code == 422
    assert "That did not work" in browser.get("/worklist?page=x").text


def test_a_filter_survives_saving_a_diagnosis(browser):
    query = "?order=newest&q=picture-"
    page = browser.get(f"/cases/20{query}").text
    back = re.search(r'name="back" value="([^"]+)">Save and next', page)[1].replace("&amp;", "&")
    assert back == f"/cases/19{query}"
    form = {"diagnosis": "bcc", "source": "histology", "back": back}
    after = browser.post("/cases/20/diagnoses", data=form)
    assert str(after.url).endswith(back)
    assert 20 not in listed(browser.get(f"/worklist{query}").text)
    assert 20 in listed(browser.get("/worklist?state=diagnosed").text)


def test_the_list_is_of_what_is_to_be_done_and_a_search_finds_the_rest(browser):
    browser.post("/cases/28/diagnoses", data={"diagnosis": "nv", "source": "expert"})
    shown = listed(browser.get("/worklist").text) + listed(browser.get("/worklist?page=2").text)
    assert sorted(shown) == list(range(1, 28))
    assert 28 in listed(browser.get("/worklist?state=&order=newest").text)
    missed = browser.get("/worklist?q=P1_L2").text
    assert "No such case waits for a diagnosis; 1 other fits" in missed
    (link,) = re.findall(r'href="(/worklist[^"]+)">show<', missed)
    assert listed(browser.get(link.replace("&amp;", "&")).text) == [28]


def test_cases_follow_one_another_in_the_order_of_the_list(browser):
    """Forwards through what is to be done, backwards through everything."""
    for query in ("", "?order=newest", "?urgency=soon", "?q=picture-"):
        filled = query.replace("?", "&")
        numbers = [
            n for page in (1, 2) for n in listed(browser.get(f"/worklist?page={page}{filled}").text)
        ]
        following = [step(browser.get(f"/cases/{n}{query}").text, "next") for n in numbers]
        assert following == [*numbers[1:], None]
        former = [step(browser.get(f"/cases/{n}{query}").text, "prev") for n in numbers]
        assert former == [None, *numbers[:-1]]
    first, second, third = listed(browser.get("/worklist").text)[:3]
    browser.post(f"/cases/{second}/diagnoses", data={"diagnosis": "nv", "source": "expert"})
    assert step(browser.get(f"/cases/{first}").text, "next") == third
    assert step(browser.get(f"/cases/{third}").text, "prev") == second
    assert step(browser.get(f"/cases/{second}").text, "next") == third


def step(page, way):
    found = re.search(rf'<a href="/cases/(\d+)[^"]*" rel="{way}"', page)
    return int(found[1]) if found else None


def test_no_form_leads_elsewhere(browser):
    for back in ("https://evil.example/", "//evil.example", "/cases//evil.example", "/worklist\\x"):
        form = {"diagnosis": "bcc", "source": "expert", "back": back}
        response = browser.post("/cases/1/diagnoses", data=form, follow_redirects=False)
        assert response.headers["location"] == "/cases/1"


def test_a_case_has_its_own_page(browser):
    case = browser.get("/api/v1/cases/1").json()
    page = browser.get("/cases/1").text
    for rule in case["rules"]:
        assert rule["why"].replace("'", "&#39;") in page
    assert "Probability of a malignant lesion" in page
    assert "Eight orientations" in page
    assert page.count("mirrored") == 4
    assert "calibration 1" in page
    assert "rules 1" in page
    assert browser.get("/cases/999").status_code == 404


def test_a_diagnosis_is_corrected_and_its_history_shown(browser):
    browser.post("/cases/3/diagnoses", data={"diagnosis": "mel", "source": "expert"})
    form = {"diagnosis": "other", "other": "squamous cell carcinoma", "source": "histology"}
    page = browser.post("/cases/3/diagnoses", data=form).text
    history = re.search(r"<h3>History.*?</ol>", page, re.DOTALL)[0]
    assert history.index("squamous cell carcinoma") < history.index("Melanoma")
    assert browser.post("/cases/3/diagnoses", data={"diagnosis": "xx"}).status_code == 422
    taken = browser.post("/cases/3/diagnoses", data={"diagnosis": "none"}).text
    assert "taken back" in taken


def test_the_same_picture_again_is_said(browser, lesions, as_files):
    card = browser.post("/", files=as_files(lesions(1))).text
    assert "This very picture was judged before" in card
    again = browser.get("/cases/29").text
    assert 'href="/cases/1"' in again
    assert ">again<" in browser.get("/worklist?q=29").text


def test_a_malignant_answer_is_never_green(client, assistant, lesions, as_files, monkeypatch):
    """Force the answer melanoma through the real pages."""
    import numpy as np

    from temperance_skin_lesion.model import Look

    def certain(_, images):
        n = len(images)
        logits = np.tile(np.array([9, 0, 0, 0, 0, 0, 0], dtype=np.float32), (n, 1))
        views = np.repeat(logits[:, None], 8, axis=1)
        return Look(logits, views, np.zeros(n, dtype=bool))

    monkeypatch.setattr(type(assistant.model), "look", certain)
    client.headers["Accept"] = "text/html"
    card = client.post("/", files=as_files(lesions(1))).text
    assert client.get("/api/v1/cases/1").json()["decision"] == "answer"
    for page in (card, client.get("/cases/1").text, client.get("/worklist").text):
        assert 'class="urgency urgent"' in page
        assert 'class="chip malignant"' in page
        assert 'class="chip answer"' not in page


def test_silent_mode_hides_what_was_said_until_the_diagnosis(serve, settings, lesions, as_files):
    silent = settings.model_copy(update={"silent": True})
    with serve(silent) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.headers["Accept"] = "text/html"
        shown = client.post("/", files=as_files(lesions(1))).text
        (case,) = client.get("/api/v1/cases").json()
        hidden = ("malignant", "urgency", "decision", "predicted", "probabilities", "why", "rules")
        assert case["hidden"]
        assert all(case[name] is None for name in hidden)
        assert "shown once a diagnosis is entered" in shown
        assert "referred to a specialist" not in shown
        assert case["quality"] == {}  # a blurred picture is one to be taken again
        pages = [shown, client.get("/worklist").text, client.get("/cases/1").text]
        pages += [client.get(f"/api/v1/cases/export?format={f}").text for f in ("csv", "jsonl")]
        assert '<span class="value">0</span> urgent' not in pages[1]  # nobody knows
        for page in pages:
            assert "elanoma is" not in page
            assert "Most probable:" not in page
        for decision in ("answer", "refer"):
            assert listed(client.get(f"/worklist?decision={decision}").text) == []
        client.post("/api/v1/cases/1/diagnoses", json={"diagnosis": "nv"})
        revealed = client.get("/api/v1/cases/1").json()
        assert not revealed["hidden"]
        for name in ("decision", "urgency"):
            query = f"?state=diagnosed&{name}={revealed[name]}"
            assert listed(client.get(f"/worklist{query}").text) == [1]
        assert all(revealed[name] is not None for name in hidden)
        assert revealed["quality"]["sharpness"] > 0

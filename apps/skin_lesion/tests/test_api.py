"""The HTTP interface, over a real socket."""

from __future__ import annotations

import csv
import io
import itertools
import json

import httpx
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from temperance_skin_lesion import intake
from temperance_skin_lesion.classes import CODES


def judge(client, files):
    response = client.post("/api/v1/predict", files=files)
    assert response.status_code == 200, response.text
    return response.json()


def test_pictures_are_judged_in_order_with_both_probabilities(client, lesions, as_files, model):
    contents = lesions(3)
    answer = judge(client, as_files(contents))
    assert answer["problems"] == []
    assert [case["name"] for case in answer["cases"]] == [
        "lesion0.jpg",
        "lesion1.jpg",
        "lesion2.jpg",
    ]
    pixels = np.stack([intake.read(content, "a").pixels for content in contents])
    logits = model.look(pixels).logits.astype(float)
    raw = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for case, expected in zip(answer["cases"], raw, strict=True):
        assert list(case["raw"]) == list(CODES)
        assert list(case["raw"].values()) == pytest.approx(expected, abs=1e-6)
        assert sum(case["probabilities"].values()) == pytest.approx(1)
        assert case["predicted"] == max(case["probabilities"], key=case["probabilities"].get)


def test_bad_files_do_not_keep_good_ones_back(client, lesions, as_files):
    (good,) = lesions(1)
    answer = judge(client, as_files([good, b"not a picture", b"", good[: len(good) // 2]]))
    assert len(answer["cases"]) == 1
    assert [problem["detail"].split(":")[0] for problem in answer["problems"]] == [
        "lesion1.jpg",
        "lesion2.jpg",
        "lesion3.jpg",
    ]


def test_a_method_that_is_not_there_is_said(client):
    """No page takes what was meant for the interface."""
    for path in ("/api/v1/health", "/api/v1/active", "/api/v1/cases"):
        assert client.post(path).status_code == 405


def test_what_is_kept_is_what_was_sent(serve, settings, lesions, as_files):
    """Files are read a second time to be kept; one between them is not taken."""
    contents = [*lesions(2), b"nothing", *lesions(1, first=2)]
    keeping = settings.model_copy(update={"keep_images": True})
    with serve(keeping) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert len(client.post("/api/v1/predict", files=as_files(contents)).json()["cases"]) == 3
        for number, content in zip((1, 2, 3), lesions(3), strict=True):
            assert client.get(f"/api/v1/cases/{number}/picture").content == content
        drawn = Image.open(io.BytesIO(lesions(1)[0])).crop((0, 0, 128, 96))
        scanned = io.BytesIO()
        drawn.save(scanned, "TIFF")
        client.post("/api/v1/predict", files=as_files([scanned.getvalue()], "a.tif"))
        for query, size in (("", (128, 96)), ("?preview=true", (96, 96))):
            shown = client.get(f"/api/v1/cases/4/picture{query}")
            assert shown.headers["content-type"] == "image/jpeg"
            assert Image.open(io.BytesIO(shown.content)).size == size  # no browser shows TIFF
    assert len(list(keeping.images.iterdir())) == 4


def test_two_hundred_files_are_taken_at_once_and_no_more(client, lesions, as_files):
    five = lesions(5)
    assert len(judge(client, as_files(five * 40))["cases"]) == 200
    response = client.post("/api/v1/predict", files=as_files([b"x"] * 201))
    assert response.status_code == 413
    assert "200" in response.json()["detail"]
    assert client.get("/api/v1/health").json()["cases"] == 200


def test_a_file_beyond_its_limit_is_named(client, lesions, as_files):
    too_large = lesions(1)[0] + bytes(intake.MAX_BYTES)
    answer = judge(client, as_files([too_large]))
    assert answer["cases"] == []
    assert "25 MB" in answer["problems"][0]["detail"]


@pytest.mark.parametrize(
    "name", ["../../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", "a\x00b.jpg", "%2e%2e%2fx"]
)
def test_a_name_is_shown_and_never_followed(client, lesions, name, settings):
    from urllib.parse import quote

    # By hand: client libraries clean names up before an attacker's would.
    body = (
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="'
        + quote(name, safe="./\\").encode()
        + b'"\r\n\r\n'
        + lesions(1)[0]
        + b"\r\n--b--\r\n"
    )
    response = client.post(
        "/api/v1/predict",
        content=body,
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    (case,) = response.json()["cases"]
    assert not set(case["name"]) & set("/\\\0")
    assert {p.name.partition("-")[0] for p in settings.data.rglob("*")} == {"assistant.sqlite3"}


def test_no_picture_is_kept_unless_asked_for(serve, settings, lesions, as_files):
    import httpx

    (content,) = lesions(1)
    for keep in (False, True):
        with (
            serve(settings.model_copy(update={"keep_images": keep})) as address,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            (case,) = judge(client, as_files([content]))["cases"]
        kept = [p for p in settings.data.rglob("*") if p.is_file() and p.read_bytes() == content]
        expected = [settings.data / "images" / f"{case['sha256']}.jpeg"] if keep else []
        assert kept == expected


def test_diagnoses_are_added_corrected_and_taken_back_and_none_is_lost(client, lesions, as_files):
    (case,) = judge(client, as_files(lesions(1)))["cases"]
    place = f"/api/v1/cases/{case['id']}/diagnoses"
    for body in (
        {"diagnosis": "mel", "source": "expert"},
        {"diagnosis": "other", "other": "squamous cell carcinoma", "source": "histology"},
        {"diagnosis": None},
    ):
        assert client.post(place, json=body).status_code == 201
    assert client.get(f"/api/v1/cases/{case['id']}").json()["diagnosis"] is None
    history = client.get(place).json()
    assert [row["code"] for row in history] == [None, "other", "mel"]
    assert history[1]["other"] == "squamous cell carcinoma"
    assert {row["by"] for row in history} == {"local"}
    for wrong in ({"diagnosis": "cold"}, {"diagnosis": "mel", "other": "x"}, {}):
        assert client.post(place, json=wrong).status_code == 422
    missing = client.post("/api/v1/cases/999/diagnoses", json={"diagnosis": "nv"})
    assert missing.status_code == 404
    assert missing.json()["detail"] == "There is no case 999."


def test_pictures_of_one_lesion_share_its_diagnosis(client, lesions, as_files):
    answer = client.post(
        "/api/v1/predict",
        files=as_files(lesions(2)),
        data={"lesion": "P7-L1", "site": "north", "camera": "d4"},
    ).json()
    first, second = answer["cases"]
    assert {(c["lesion"], c["site"], c["camera"]) for c in answer["cases"]} == {
        ("P7-L1", "north", "d4")
    }
    client.post(f"/api/v1/cases/{first['id']}/diagnoses", json={"diagnosis": "bcc"})
    known = client.get(f"/api/v1/cases/{second['id']}").json()["diagnosis"]
    assert (known["code"], known["case"]) == ("bcc", first["id"])
    named = client.post("/api/v1/predict", files=as_files(lesions(1)), data={"lesion": "Jane Doe"})
    assert named.status_code == 422


def test_a_name_is_answered_to_its_sender_and_kept_nowhere(client, lesions, as_files, settings):
    name = "Müller, Jörg {}.jpg"
    said = judge(client, as_files(lesions(2), name=name))["cases"]
    assert [case["name"] for case in said] == [name.format(0), name.format(1)]
    survey = client.post("/api/v1/surveys").json()["survey"]
    client.post(f"/api/v1/surveys/{survey}/images", files=as_files(lesions(2), name=name))
    for place in ("cases", "cases/1", "cases/export?format=csv", "cases/export?format=jsonl"):
        assert "Jörg" not in client.get(f"/api/v1/{place}").text
        assert "J\\u00f6rg" not in client.get(f"/api/v1/{place}").text
    files = [path for path in settings.data.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if "Jörg".encode() in path.read_bytes()]


def test_the_log_is_exported_whole_and_harmless(client, lesions, as_files):
    judge(client, as_files(lesions(3), name="=cmd{}.jpg"))
    table = client.get("/api/v1/cases/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    # A spreadsheet would run as a formula what begins like one.
    assert not [cell for row in rows for cell in row.values() if cell[:1] in {"=", "+", "-", "@"}]
    assert all(sum(float(row[f"p_{code}"]) for code in CODES) == pytest.approx(1) for row in rows)
    lines = client.get("/api/v1/cases/export?format=jsonl").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3]


def test_cases_are_listed_newest_first_in_pages(client, lesions, as_files):
    judge(client, as_files(lesions(5)))
    pages = [
        client.get(f"/api/v1/cases?limit=2&order=newest&page={page}").json() for page in (1, 2, 3)
    ]
    assert [case["id"] for page in pages for case in page] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("method", "place", "body"),
    [
        ("POST", "/api/v1/policies/preview", '{"threshold": NaN}'),
        ("POST", "/api/v1/policies/preview", '{"threshold": 1e999}'),
        ("POST", "/api/v1/policies/preview", '{"costs": {"referral": -Infinity}}'),
        ("POST", "/api/v1/policies/preview", '{"threshold": false}'),
        ("POST", "/api/v1/policies/preview", '{"costs": {"referral": true}}'),
        ("POST", "/api/v1/policies", '{"policy": {"agreement": true}}'),
        ("POST", "/api/v1/policies", '{"policy": {"threshold": 1e999}}'),
        ("POST", "/api/v1/drift/proposal", '{"prior": {"mel": NaN}}'),
        ("POST", "/api/v1/drift/proposal", '{"prior": {"mel": true}}'),
        ("POST", "/api/v1/maps/1/accept", '{"seen": true}'),
        ("POST", "/api/v1/maps/1/accept", '{"seen": NaN}'),
        ("POST", "/api/v1/policies/preview", "{"),
    ],
)
def test_what_is_no_number_is_refused_with_a_sentence_and_the_headers(client, method, place, body):
    response = client.request(
        method, place, content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422
    assert isinstance(response.json()["detail"], str)
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"


def test_a_picture_is_judged_alike_however_it_is_turned(client, as_files):
    from PIL import Image, ImageOps

    from temperance_skin_lesion.drawings import lesion

    upright = Image.fromarray(lesion(np.random.default_rng(5), 64))
    files = []
    for picture in (upright, ImageOps.mirror(upright)):
        for angle in (0, 90, 180, 270):
            buffer = io.BytesIO()
            picture.rotate(angle).save(buffer, "PNG")
            files.append(buffer.getvalue())
    cases = judge(client, as_files(files, name="a{}.png"))["cases"]
    assert len({case["sha256"] for case in cases}) == 8
    first = cases[0]
    for case in cases[1:]:
        assert list(case["probabilities"].values()) == pytest.approx(
            list(first["probabilities"].values()), abs=1e-4
        )
        assert case["malignant"] == pytest.approx(first["malignant"], abs=1e-3)
        assert (case["agreement"], case["decision"]) == (first["agreement"], first["decision"])


def test_the_interval_of_malignancy_holds_on_validation_lesions(assistant, model):
    """In bins of the probability, the share malignant lies between the mean ends, within chance."""
    source = model.source
    with assistant.store.reading() as session:
        rows = assistant.active(session).judged(source.logits, source.views)
    malignant = np.isin(source.labels, [0, 2, 3])
    value, low, high = rows.malignant.T
    assert np.all((low <= value) & (value <= high))
    edges = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1]
    for a, b in itertools.pairwise(edges):
        inside = (value >= a) & (value < b)
        chance = 2 * np.sqrt(value[inside].mean() * (1 - value[inside].mean()) / inside.sum())
        assert low[inside].mean() - chance < malignant[inside].mean() < high[inside].mean() + chance
        assert high[inside].mean() - low[inside].mean() < 0.4


def test_a_failing_request_is_said_with_the_headers(client, assistant, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(type(assistant), "active", broken)
    for accept, kind in (("text/html", "text/html"), ("application/json", "application/json")):
        response = client.get("/clinic", headers={"Accept": accept})
        assert response.status_code == 500
        assert kind in response.headers["content-type"]
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "ZeroDivision" not in response.text
    assert "ZeroDivisionError" in caplog.text


def test_a_request_that_fails_after_it_was_recorded_says_nothing_else(
    client, lesions, as_files, monkeypatch
):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("temperance_skin_lesion.web.api.diagnoses_of", broken)
    response = client.post("/api/v1/predict", files=as_files(lesions(1)))
    assert response.status_code == 500
    assert client.get("/api/v1/health").json()["cases"] == 1
    assert "not" not in response.json()["detail"].lower()
    assert "audit page" in response.json()["detail"]

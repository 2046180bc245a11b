"""The HTTP interface, over a real socket."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

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
    logits = model.logits(pixels).astype(float)
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


def test_two_hundred_files_are_taken_at_once_and_no_more(client, lesions, as_files):
    twenty = lesions(20)
    assert len(judge(client, as_files(twenty * 10))["cases"]) == 200
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


def test_diagnoses_are_added_and_taken_back(client, lesions, as_files):
    (case,) = judge(client, as_files(lesions(1)))["cases"]
    place = f"/api/v1/cases/{case['id']}"
    assert client.put(f"{place}/diagnosis", json={"diagnosis": "mel"}).json()["diagnosis"] == "mel"
    assert client.get(place).json()["diagnosed"] is not None
    assert client.put(f"{place}/diagnosis", json={"diagnosis": None}).status_code == 200
    assert client.get(place).json()["diagnosis"] is None
    assert client.put(f"{place}/diagnosis", json={"diagnosis": "cold"}).status_code == 422
    assert client.put("/api/v1/cases/999/diagnosis", json={"diagnosis": "nv"}).status_code == 404


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
    first = client.get("/api/v1/cases?limit=2").json()
    rest = client.get(f"/api/v1/cases?limit=10&before={first[-1]['id']}").json()
    assert [case["id"] for case in first + rest] == [5, 4, 3, 2, 1]


def test_a_policy_applies_to_the_cases_to_come(client, lesions, as_files):
    wide = {
        "threshold": 0,
        "melanoma_threshold": 0,
        "melanoma_ceiling": 1,
        "costs": {"referral": 1e6},
    }
    (before,) = judge(client, as_files(lesions(1)))["cases"]
    assert client.put("/api/v1/policy", json=wide).status_code == 200
    (after,) = judge(client, as_files(lesions(1)))["cases"]
    assert after["decision"] == "answer"
    assert after["policy"] == before["policy"] + 1
    stored = client.get(f"/api/v1/cases/{before['id']}").json()
    assert stored | {"name": before["name"], "note": ""} == before
    backwards = {"threshold": 0.9, "melanoma_threshold": 0.1}
    assert client.put("/api/v1/policy", json=backwards).status_code == 422


def test_a_preview_counts_what_the_policy_does(client, lesions, as_files, model):
    closed = {"threshold": 1, "melanoma_threshold": 1}
    judge(client, as_files(lesions(4)))
    effect = client.post("/api/v1/policy/preview", json=closed).json()
    assert effect["validation"]["rows"] == len(model.source.labels)
    assert effect["here"]["rows"] == 4
    assert effect["here"]["referred"] == pytest.approx(1000)
    assert effect["here"]["wrong"] == 0
    everything = {
        "threshold": 0,
        "melanoma_threshold": 0,
        "melanoma_ceiling": 1,
        "costs": {"referral": 1e6},
    }
    effect = client.post("/api/v1/policy/preview", json=everything).json()
    wrong = np.mean(model.source.logits.argmax(axis=1) != model.source.labels)
    assert effect["validation"]["referred"] == 0
    assert effect["validation"]["wrong"] == pytest.approx(1000 * wrong)

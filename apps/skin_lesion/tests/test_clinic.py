"""From unlabelled pictures of a clinic to a map in use, on logits whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

import temperance as tp
from temperance_skin_lesion import changes, clinic
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import load_map
from temperance_skin_lesion.classes import CODES, NAMES
from temperance_skin_lesion.store import MapRow, SurveyImage


@pytest.fixture
def shifted(model):
    """Validation rows of a clinic with few nevi, logits twice as large, and their labels."""
    rng = np.random.default_rng(0)
    weight = np.where(model.source.labels == 1, 0.25, 1.0)
    rows = rng.choice(len(weight), 800, p=weight / weight.sum())
    noise = rng.normal(0, 0.05, (800, len(CODES)))  # no two rows are alike, none is the source's
    return 2 * model.source.logits[rows].astype(float) + noise, model.source.labels[rows]


@pytest.fixture
def survey(assistant, shifted):
    """A survey that holds the shifted logits."""
    survey_id = clinic.open_survey(assistant)
    with assistant.store.writing() as session:
        for i, z in enumerate(shifted[0]):
            rows = [z.tolist()] * 9
            session.add(SurveyImage(survey_id=survey_id, sha256=f"{i:064x}", logits=rows))
    return survey_id


@pytest.fixture
def nevi(assistant, model):
    """A survey of a clinic that sees hardly anything but nevi, and how much of each."""
    rng = np.random.default_rng(0)
    weight = np.where(model.source.labels == 1, 1.0, 0.02)
    rows = rng.choice(len(weight), 400, p=weight / weight.sum())
    logits = model.source.logits[rows] + rng.normal(0, 2, (400, len(CODES)))
    survey_id = clinic.open_survey(assistant)
    with assistant.store.writing() as session:
        for i, z in enumerate(logits):
            found = [z.tolist()] * 9
            session.add(SurveyImage(survey_id=survey_id, sha256=f"{i:064x}", logits=found))
    counts = np.bincount(model.source.labels[rows], minlength=len(CODES)) + 1
    return survey_id, counts / counts.sum()


def mix(labels):
    return np.bincount(labels, minlength=len(CODES)) / len(labels)


def shown(assistant, map_id):
    with assistant.store.reading() as session:
        return session.get(MapRow, map_id)


def activation(assistant):
    with assistant.store.reading() as session:
        return assistant.active(session).activation


def test_a_map_for_the_clinic_is_proposed_accepted_and_better(assistant, survey, shifted):
    logits, labels = shifted
    wide = Agreement(temperature=(0.5, 10), bias=10)
    map_id = clinic.propose_from_survey(assistant, survey, mix(labels), wide, by="test")
    row = shown(assistant, map_id)
    assert row.verdict in {"improved", "no-evidence"}
    assert row.status == "proposed"
    assert row.summary["rows"] == 800
    assert row.summary["prior"] == pytest.approx(mix(labels))
    assert row.summary["closer"] > 0.8  # and so it is, see the end
    low, high = row.summary["accuracy"][1:]
    assert 0 < low < high < 1
    with assistant.store.reading() as session:
        before = assistant.active(session).probabilities(logits)
    changes.accept(assistant, clinic.MAPS, map_id, activation(assistant), Agreement(), by="test")
    with assistant.store.reading() as session:
        after = assistant.active(session).probabilities(logits)
    errors = [tp.metrics.ece(tp.from_probabilities(p), labels) for p in (before, after)]
    assert errors[1] < errors[0] / 2
    assert "<html" in row.report.lower()


def test_what_a_map_would_change_is_counted_before_it_is_accepted(assistant, survey, shifted):
    from temperance_skin_lesion.decision import Policy, decide

    map_id = clinic.propose_from_survey(assistant, survey, mix(shifted[1]), Agreement(), by="test")
    row = shown(assistant, map_id)
    with assistant.store.reading() as session:
        old = assistant.active(session).probabilities(shifted[0])
    new = load_map(row.artefact).predict_proba(shifted[0])
    for when, p in (("before", old), ("after", new)):
        decisions = [decide(q, Policy()) for q in p]  # all orientations are alike here
        found = row.summary["changes"][when]
        answered = np.array([d.answered for d in decisions])
        assert found["referred"] == pytest.approx(1000 * np.mean(~answered))
        # Whatever decides, the new map says what is true.
        wrong = [1 - q[d.predicted] for q, d in zip(new, decisions, strict=True) if d.answered]
        assert found["wrong"] == pytest.approx(1000 * sum(wrong) / len(new))


def test_a_mix_that_nobody_knows_is_said_to_be_unknown(assistant, survey):
    row = shown(
        assistant, clinic.propose_from_survey(assistant, survey, None, Agreement(), by="test")
    )
    assert row.summary["prior_kind"] == "unknown"
    assert "TP105" in {finding["code"] for finding in row.summary["findings"]}


def test_a_map_outside_the_agreed_range_cannot_be_accepted(assistant, survey, shifted):
    narrow = Agreement(temperature=(0.9, 1.1))
    map_id = clinic.propose_from_survey(assistant, survey, mix(shifted[1]), narrow, by="test")
    assert "outside the agreed range 0.9 to 1.1" in shown(assistant, map_id).summary["objection"]
    assert shown(assistant, map_id).status == "outside"
    with pytest.raises(changes.NotAcceptable, match="outside the range"):
        changes.accept(
            assistant, clinic.MAPS, map_id, activation(assistant), Agreement(), by="test"
        )


def test_a_range_that_became_narrower_binds_maps_that_were_proposed_before(
    assistant, survey, shifted, server, client
):
    """The server was started anew with another range: neither accepted nor restored, and said."""
    from temperance_skin_lesion.settings import Settings

    wide, narrow = Agreement(temperature=(0.5, 10), bias=10), Agreement(temperature=(0.9, 1.1))
    maps = [
        clinic.propose_from_survey(assistant, survey, mix(shifted[1]), wide, by="test")
        for _ in range(2)
    ]
    changes.accept(assistant, clinic.MAPS, maps[0], activation(assistant), wide, by="test")
    page = client.get("/", headers={"Accept": "text/html"}).text
    assert "outside the range agreed at set-up" not in page
    app, _ = server
    app.state.settings = Settings(data=app.state.settings.data, agreement=narrow)
    for path in ("/", "/worklist"):
        page = client.get(path, headers={"Accept": "text/html"}).text
        assert "What is in force is outside the range agreed at set-up" in page
        assert "outside the agreed range 0.9 to 1.1" in page
    changes.restore(assistant, clinic.MAPS, 1, activation(assistant), narrow, by="test")
    for decide, one in ((changes.accept, maps[1]), (changes.restore, maps[0])):
        with pytest.raises(changes.NotAcceptable, match=r"outside the agreed range 0\.9 to 1\.1"):
            decide(assistant, clinic.MAPS, one, activation(assistant), narrow, by="test")


def test_a_comparison_with_what_is_in_use_no_longer_is_said_to_be_one(
    assistant, survey, shifted, client
):
    wide = Agreement(temperature=(0.5, 10), bias=10)
    first, second = (
        clinic.propose_from_survey(assistant, survey, prior, wide, by="test")
        for prior in (mix(shifted[1]), tp.about(mix(shifted[1])))
    )
    client.headers["Accept"] = "text/html"
    assert "came into use since" not in client.get(f"/calibrations/{second}").text
    changes.accept(assistant, clinic.MAPS, first, activation(assistant), wide, by="test")
    page = client.get(f"/calibrations/{second}").text
    assert f"Calibration {first} came into use since" in page
    assert "compared with calibration 1" in page


def test_closer_to_the_truth_is_the_weight_of_what_is_nearer():
    truths = np.random.default_rng(0).dirichlet(np.ones(7), (3, 50))
    weights = np.array([0.5, 0.3, 0.2])
    assert clinic.closer(truths[1], truths[0], truths[:2], weights[:2]) == pytest.approx(5 / 8)
    assert clinic.closer(truths[0], truths[0], truths, weights) == 0


@pytest.mark.parametrize(
    ("site", "gains"), [("rosendahl", True), ("vidir_modern", False), ("vidir_molemax", True)]
)
def test_what_is_said_to_be_closer_is_closer_at_clinics_held_out(site, gains):
    """A thousand pictures and a rough mix, beside the temperature of the training sites."""
    logits = Path(__file__).parents[3] / "lab/experiments/skin_lesion/logits"
    with np.load(logits / f"ham_{site}.npz") as rows:
        source = rows["source_logits"], rows["source_labels"]
        some = np.random.default_rng(0).choice(len(rows["target_labels"]), 1000, replace=False)
        z, y = rows["target_logits"][some].astype(float), rows["target_labels"][some]
    shares = np.maximum(mix(y), 0.001)
    cal = tp.calibrate(z, prior=tp.about(shares / shares.sum()), source=source, classes=NAMES)
    old, new = (m.predict_proba(z) for m in (tp.fit_temperature(*source), cal.map))
    share = clinic.closer(old, new, *clinic.plausible(cal, z))
    brier = [tp.metrics.brier(tp.from_probabilities(p), y) for p in (old, new)]
    assert (share > 0.9) == gains
    assert (brier[1] < brier[0]) == gains


def test_a_mix_is_shown_and_used_again_as_it_was_stated(assistant, survey, client):
    """What the calibration makes of a rough mix is another one, and made anew each time."""
    shares = [0.15, 0.36, 0.13, 0.13, 0.21, 0.016, 0.004]
    body = {"prior": dict(zip(CODES, shares, strict=True)), "known": "roughly"}
    for number in (2, 3):
        made = client.post(f"/api/v1/surveys/{survey}/proposal", json=body).json()
        assert made["summary"]["stated"] == pytest.approx(shares)
        assert made["summary"]["prior"] != pytest.approx(shares)
        page = client.get(f"/calibrations/{number}", headers={"Accept": "text/html"}).text
        assert '<td class="number">0.4 %</td>' in page
        with assistant.store.reading() as session:
            last = clinic.last_mix(session)
        assert last["map"] == number
        assert list(last["shares"].values()) == pytest.approx(shares)
        body["prior"] = last["shares"]  # the button that fills in what was stated
    mix = clinic.stated_mix(shown(assistant, 3))
    assert (mix.value.tolist(), mix.rows) == (pytest.approx(shares), clinic.ROUGHLY)


def test_a_diagnosis_that_is_stated_as_none_is_not_ruled_out(assistant, survey, shifted):
    """A clinic that counted no vascular lesion gets a calibration, and may see one tomorrow."""
    from temperance_skin_lesion.web.schemas import Mix

    counted = mix(shifted[1])
    counted[CODES.index("vasc")] = 0
    stated = dict(zip(CODES, (counted / counted.sum()).tolist(), strict=True))
    knowledge = Mix(prior=stated, known="exactly").knowledge()
    assert knowledge.sum() == pytest.approx(1)
    assert knowledge.min() == pytest.approx(0.001, rel=0.01)
    wide = Agreement(temperature=(0.5, 10), bias=10)
    row = shown(
        assistant, clinic.propose_from_survey(assistant, survey, knowledge, wide, by="test")
    )
    assert row.status == "proposed", row.summary["objection"]
    p = load_map(row.artefact).predict_proba(10 * np.eye(len(CODES)))
    assert p[CODES.index("vasc")].argmax() == CODES.index("vasc")


def test_a_map_with_which_the_rules_miss_melanomas_is_outside(assistant, nevi, model, client):
    """Calibrated for a clinic of nevi, melanoma is so improbable that the rules answer it."""
    from temperance_skin_lesion.decision import Policy, decide

    survey, prior = nevi
    map_id = clinic.propose_from_survey(assistant, survey, prior, Agreement(), by="test")
    row = shown(assistant, map_id)
    fitted = load_map(row.artefact)
    assert not Agreement().objection_to_map(fitted, 400)  # the numbers of the map are inside
    melanomas = model.source.labels == CODES.index("mel")
    views = fitted.predict_proba(model.source.views[melanomas].reshape(-1, len(CODES)))
    views = views.reshape(-1, 8, len(CODES)).argmax(axis=2)
    p = fitted.predict_proba(model.source.logits[melanomas])
    agree = (views == p.argmax(axis=1)[:, None]).sum(axis=1)
    said = [decide(q, Policy(), agreement=int(n)) for q, n in zip(p, agree, strict=True)]
    missed = np.mean([d.answered and d.predicted != CODES.index("mel") for d in said])
    assert missed > 0.2
    assert row.status == "outside"
    assert f"{100 * missed:.1f} % of the melanomas among 1,685" in row.summary["objection"]
    assert "Stricter rules" in row.summary["objection"]
    with pytest.raises(changes.NotAcceptable, match="outside the range"):
        changes.accept(
            assistant, clinic.MAPS, map_id, activation(assistant), Agreement(), by="test"
        )
    page = client.get(f"/calibrations/{map_id}", headers={"Accept": "text/html"}).text
    assert "Too many missed melanomas." in page
    assert "/accept" not in page


def test_a_map_is_judged_by_the_rules_in_force_when_it_is_accepted(assistant, nevi):
    """Strict rules allow a map; when they are gone, they do not, and nor does going back to it."""
    from temperance_skin_lesion import policies
    from temperance_skin_lesion.decision import Policy

    strict = Policy(melanoma_ceiling=0.0, threshold=0.99, melanoma_threshold=0.99)
    number = policies.propose(assistant, strict, Agreement(), by="test")
    changes.accept(
        assistant, policies.POLICIES, number, activation(assistant), Agreement(), by="test"
    )
    survey, prior = nevi
    maps = [
        clinic.propose_from_survey(assistant, survey, prior, Agreement(), by="test")
        for _ in range(2)
    ]
    assert [shown(assistant, one).status for one in maps] == ["proposed", "proposed"]
    changes.accept(assistant, clinic.MAPS, maps[0], activation(assistant), Agreement(), by="test")
    changes.restore(assistant, clinic.MAPS, 1, activation(assistant), Agreement(), by="test")
    changes.restore(assistant, policies.POLICIES, 1, activation(assistant), Agreement(), by="test")
    for decide, one in ((changes.accept, maps[1]), (changes.restore, maps[0])):
        with pytest.raises(changes.NotAcceptable, match="of the melanomas among"):
            decide(assistant, clinic.MAPS, one, activation(assistant), Agreement(), by="test")


def test_melanomas_that_are_expected_to_be_missed_are_warned_of():
    """A share that is expected here is a reason to warn, and to refuse where it is certain."""
    from temperance_skin_lesion.thresholds import Effect

    def effect(missed):
        return Effect(400, 400, 0, 0, 0, 0, 0, missed, 0, 0, (0, 0, 0), {}, {})

    agreed, fine = Agreement(missed_rate=0.05), effect((0.01, 0.0, 0.04))
    for missed, warned, refused in (
        ((0.04, 0.0, 0.3), False, False),
        ((0.06, 0.0, 0.3), True, False),
        ((0.4, 0.06, 0.8), True, True),
    ):
        here = effect(missed)
        assert bool(agreed.warning_of_missed(fine, here)) is warned
        assert bool(agreed.objection_to_missed(fine, here)) is refused
    assert "40 % of the melanomas among 400" in agreed.objection_to_missed(fine, here)
    assert not agreed.warning_of_missed(fine, None)


@pytest.mark.parametrize(
    ("fitted", "rows", "word"),
    [
        (tp.Temperature(2), 99, "fewer than the 100"),
        (tp.Temperature(5.01), 100, "outside the agreed range"),
        (tp.Temperature(0.4), 100, "outside the agreed range"),
        (tp.BiasedTemperature(2, [0, 0, 6.1, 0, 0, 0, 0]), 100, "differ by 6.10"),
        (tp.BiasedTemperature(2, [5, 5, 5, 5, 5, 5, 5]), 100, ""),
        (tp.Temperature(2), 100, ""),
    ],
)
def test_the_agreement_objects_where_it_should(fitted, rows, word):
    objection = Agreement().objection_to_map(fitted, rows)
    assert word in objection
    assert bool(word) == bool(objection)


def test_too_few_pictures_are_refused_with_a_reason(client, lesions, as_files):
    survey = client.post("/api/v1/surveys").json()["survey"]
    contents = lesions(3)
    added = client.post(
        f"/api/v1/surveys/{survey}/images", files=as_files([*contents, b"x"])
    ).json()
    assert (added["pictures"], len(added["problems"])) == (3, 1)
    again = client.post(f"/api/v1/surveys/{survey}/images", files=as_files(contents)).json()
    assert again["pictures"] == 3
    proposal = client.post(f"/api/v1/surveys/{survey}/proposal", json={"prior": None})
    assert proposal.status_code == 201
    refused = proposal.json()
    assert refused["verdict"] == "refused"
    assert refused["summary"]["findings"][0]["code"] == "TP301"
    seen = {"seen": client.get("/api/v1/active").json()["activation"]}
    accepted = client.post(f"/api/v1/maps/{refused['id']}/accept", json=seen)
    assert accepted.status_code == 422
    page = client.get(f"/calibrations/{refused['id']}", headers={"Accept": "text/html"}).text
    assert "No calibration could be made from these pictures." in page
    assert "Calibration 1 stayed in use" in page
    assert "accept" not in page
    assert "What changes" not in page
    assert refused["status"] == "refused"
    assert "changes" not in refused["summary"]
    assert client.post(f"/api/v1/maps/{refused['id']}/reject").status_code == 422
    report = client.get(f"/calibrations/{refused['id']}/report")
    assert "sandbox" in report.headers["content-security-policy"]


def test_an_empty_survey_and_an_unknown_one_are_said(client):
    survey = client.post("/api/v1/surveys").json()["survey"]
    empty = client.post(f"/api/v1/surveys/{survey}/proposal", json={"prior": None})
    assert empty.status_code == 422
    assert "no pictures" in empty.json()["detail"]
    assert client.post("/api/v1/surveys/99/proposal", json={"prior": None}).status_code == 404


@pytest.mark.parametrize(
    "prior",
    [
        {"mel": 1.0},
        dict.fromkeys(CODES, 0.2),
        dict.fromkeys(CODES, -1 / 7),
        {**dict.fromkeys(CODES, 0.1), "mel": 0.4, "other": 0.0},
    ],
)
def test_what_is_no_mix_is_refused(client, prior):
    survey = client.post("/api/v1/surveys").json()["survey"]
    answer = client.post(f"/api/v1/surveys/{survey}/proposal", json={"prior": prior})
    assert answer.status_code == 422
    assert "prior must" in answer.text


def test_cases_of_the_log_become_a_proposal(client, lesions, as_files):
    client.post("/api/v1/predict", files=as_files(lesions(40)))
    proposed = client.post("/api/v1/drift/proposal", json={"prior": None})
    assert proposed.status_code == 201
    assert proposed.json()["origin"] == "cases"
    assert proposed.json()["status"] in {"refused", "outside"}  # 40 are fewer than agreed
    assert client.get("/api/v1/active").json()["map"] == 1


def test_a_proposal_equal_to_the_map_in_use_offers_nothing(assistant, survey, shifted):
    wide = Agreement(temperature=(0.5, 10), bias=10)
    first = clinic.propose_from_survey(assistant, survey, mix(shifted[1]), wide, by="test")
    changes.accept(assistant, clinic.MAPS, first, activation(assistant), Agreement(), by="test")
    again = clinic.propose_from_survey(assistant, survey, mix(shifted[1]), wide, by="test")
    row = shown(assistant, again)
    assert row.status == "same"
    assert row.summary["largest_change"] < clinic.SAME
    assert row.summary["compared_with"] == first
    with pytest.raises(changes.NotAcceptable, match="the same as what is in force"):
        changes.accept(assistant, clinic.MAPS, again, activation(assistant), Agreement(), by="test")


def test_a_comparison_is_with_the_map_in_use(assistant, survey, shifted, model):
    """The gaps of both are what is measured where the maps that may be right say the truth."""
    wide = Agreement(temperature=(0.5, 10), bias=10)
    row = shown(
        assistant, clinic.propose_from_survey(assistant, survey, mix(shifted[1]), wide, by="test")
    )
    with assistant.store.reading() as session:
        old = assistant.active(session).probabilities(shifted[0])
    new = load_map(row.artefact).predict_proba(shifted[0])
    assert row.summary["confidence"] == pytest.approx([p.max(axis=1).mean() for p in (old, new)])
    # Labels are drawn from each map that may be right, and the error of a map is measured.
    known = (model.source.logits, model.source.labels)
    cal = tp.calibrate(shifted[0], prior=mix(shifted[1]), source=known, classes=NAMES)
    rng = np.random.default_rng(0)
    maps = cal.details["plausible"]
    for p, (expected, low, high) in zip((old, new), row.summary["gaps"], strict=True):
        errors = []
        for t, b in zip(maps["temperatures"], maps["biases"], strict=True):
            truth = tp.BiasedTemperature(t, np.array(b)).predict_proba(shifted[0])
            drawn = (rng.random((40, len(p), 1)) > truth.cumsum(axis=1)[None]).sum(axis=2)
            logits = tp.from_probabilities(np.tile(p, (40, 1)))
            labels = np.minimum(drawn.reshape(-1), 6)
            errors.append(tp.metrics.ece(logits, labels, n_bins=15))
        assert expected == pytest.approx(np.average(errors, weights=maps["weights"]), abs=0.01)
        assert low < expected < high

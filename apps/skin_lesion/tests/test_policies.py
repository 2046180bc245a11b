"""Rules under change control: agreed bounds, comparison, acceptance, history, conflict."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import temperance as tp
from temperance_skin_lesion import changes, policies, thresholds
from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.assistant import Judged
from temperance_skin_lesion.classes import CLASSES
from temperance_skin_lesion.decision import Costs, Policy, decide
from temperance_skin_lesion.store import Conflict, PolicyRow

# What the review typed and saved with one click.
UNSAFE = {
    "threshold": 0,
    "melanoma_threshold": 0,
    "melanoma_ceiling": 1,
    "urgent_melanoma": 1,
    "costs": {"missed_melanoma": 0, "missed_malignancy": 0},
}
STRICTER = {"threshold": 0.8}


def propose(client, policy, **more):
    response = client.post("/api/v1/policies", json={"policy": policy, **more})
    assert response.status_code == 201, response.text
    return response.json()


def seen(client):
    return {"seen": client.get("/api/v1/active").json()["activation"]}


def test_unsafe_rules_cannot_come_into_force(client, lesions, as_files):
    proposal = propose(client, UNSAFE, reason="so that it answers")
    assert proposal["status"] == "outside"
    assert "at least 0.5 is agreed" in proposal["objection"]
    assert "melanomas" in proposal["comparison"]["warning"]
    refused = client.post(f"/api/v1/policies/{proposal['id']}/accept", json=seen(client))
    assert refused.status_code == 422
    assert "outside the range" in refused.json()["detail"]
    cases = client.post("/api/v1/predict", files=as_files(lesions(3))).json()["cases"]
    assert {case["policy"] for case in cases} == {1}
    page = client.get(f"/rules/{proposal['id']}", headers={"Accept": "text/html"}).text
    assert "Too many missed melanomas." in page
    assert "/accept" not in page
    assert client.put("/api/v1/policy", json=UNSAFE).status_code in {404, 405}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"threshold": 0.49}, "An answer would need only 0.49"),
        ({"melanoma_threshold": 0.69, "threshold": 0.6}, "answer melanoma would need only 0.69"),
        ({"melanoma_ceiling": 0.06}, "excluded up to 0.06"),
        ({"agreement": 5}, "must agree would be only 5"),
        ({"urgent_melanoma": 0.41}, "Melanoma would be urgent only from 0.41"),
        ({"urgent_malignant": 0.71}, "A malignant lesion would be urgent only from 0.71"),
        ({"soon_malignant": 0.31}, "A malignant lesion would be soon only from 0.31"),
        ({"costs": {"missed_melanoma": 49}}, "A missed melanoma would cost only 49"),
        ({"costs": {"missed_malignancy": 14}}, "Another missed malignancy would cost only 14"),
        ({"costs": {"referral": 10.1}}, "A referral would cost 10.1"),
    ],
)
def test_every_bound_binds(assistant, change, word):
    found = policies.compare(assistant, Policy.model_validate(change), Agreement())
    assert word in found["objection"]


def test_too_many_missed_melanomas_are_warned_of_and_refused(assistant):
    strict = Agreement(missed_rate=0.0)
    found = policies.compare(assistant, Policy(threshold=0.69), strict)
    assert found["warning"] == found["objection"]
    share = found["validation"]["then"]["missed"][0]
    assert f"{100 * share:.1f} % of the melanomas" in found["warning"]
    assert policies.compare(assistant, Policy(threshold=0.69), Agreement())["warning"] == ""


def test_more_missed_melanomas_are_said_beside_the_button(client):
    """Inside the agreed rate, and still more than with the rules in force."""
    policy = client.get("/api/v1/active").json()["policy"]
    bold = policy | {"threshold": 0.5, "melanoma_ceiling": 0.04}
    bold["costs"] = policy["costs"] | {"missed_melanoma": 60, "missed_malignancy": 15}
    for wanted, said in ((bold, True), (policy | {"threshold": 0.9}, False)):
        proposed = client.post("/api/v1/policies", json={"policy": wanted}).json()
        assert proposed["status"] == "proposed"
        page = client.get(f"/rules/{proposed['id']}", headers={"Accept": "text/html"}).text
        decision = page[page.index("Decision") : page.index("Accept: use them")]
        assert ("More melanomas would be missed" in decision) is said


def test_the_rules_of_a_new_installation_are_inside_the_agreement(assistant):
    found = policies.compare(assistant, Policy(), Agreement())
    assert found["objection"] == ""
    assert found["same"]
    assert found["validation"]["now"] == found["validation"]["then"]
    assert found["validation"]["then"]["missed"][2] < 0.07  # the upper end too, of 111 lesions


def test_a_policy_is_proposed_accepted_recorded_with_cases_and_undone(client, lesions, as_files):
    proposal = propose(client, STRICTER, reason="fewer wrong answers")
    assert proposal["status"] == "proposed"
    (before,) = client.post("/api/v1/predict", files=as_files(lesions(1))).json()["cases"]
    accepted = client.post(f"/api/v1/policies/{proposal['id']}/accept", json=seen(client)).json()
    assert (accepted["status"], accepted["decided_by"], accepted["active"]) == (
        "accepted",
        "local",
        True,
    )
    (after,) = client.post("/api/v1/predict", files=as_files(lesions(1))).json()["cases"]
    assert (before["policy"], after["policy"]) == (1, proposal["id"])
    assert client.get(f"/api/v1/cases/{before['id']}").json()["policy"] == 1
    active = client.get("/api/v1/active").json()
    assert (active["policy_id"], active["former_policy"]) == (proposal["id"], 1)
    restored = client.post("/api/v1/policies/1/restore", json=seen(client))
    assert restored.json()["active"]
    assert len(client.get("/api/v1/policies").json()) == 2


def test_the_same_rules_need_no_decision_and_a_decision_is_final(client):
    same = propose(client, {})
    assert same["status"] == "same"
    assert (
        client.post(f"/api/v1/policies/{same['id']}/accept", json=seen(client)).status_code == 422
    )
    proposal = propose(client, STRICTER)
    assert client.post(f"/api/v1/policies/{proposal['id']}/reject").json()["status"] == "rejected"
    again = client.post(f"/api/v1/policies/{proposal['id']}/accept", json=seen(client))
    assert again.status_code == 409
    assert "was rejected already, by local" in again.json()["detail"]
    never = client.post(f"/api/v1/policies/{proposal['id']}/restore", json=seen(client))
    assert never.status_code == 422


def test_of_ten_who_accept_at_once_one_is_obeyed_and_nine_are_told(assistant):
    numbers = [
        policies.propose(assistant, Policy(threshold=0.8 + i / 1000), Agreement(), by=f"p{i}")
        for i in range(10)
    ]
    with assistant.store.reading() as session:
        activation = assistant.active(session).activation
    barrier = threading.Barrier(10)

    def accept(policy_id):
        barrier.wait()
        try:
            changes.accept(
                assistant, policies.POLICIES, policy_id, activation, Agreement(), by="test"
            )
        except Conflict as conflict:
            return str(conflict)
        return "accepted"

    with ThreadPoolExecutor(10) as people:
        said = list(people.map(accept, numbers))
    assert said.count("accepted") == 1
    assert all("Somebody decided in the meantime" in text for text in said if text != "accepted")
    with assistant.store.reading() as session:
        assert assistant.active(session).policy_id == numbers[said.index("accepted")]


def test_pictures_of_one_lesion_do_not_narrow_an_interval(model):
    """Every picture twice: the same shares, and the intervals of the pictures once."""
    source = model.source
    p = tp.Temperature(1.5).predict_proba(source.logits.astype(float))
    once = Judged(p, np.full(len(p), 8), np.zeros((len(p), 3)))
    twice = Judged(*(np.repeat(x, 2, axis=0) for x in (once.p, once.agreement, once.malignant)))
    rows = np.arange(len(p))
    single = thresholds.measured(once, source.labels, Policy(), rows)
    double = thresholds.measured(twice, source.labels.repeat(2), Policy(), rows.repeat(2))
    assert (double.rows, double.lesions) == (2 * single.rows, single.lesions)
    for name in ("missed", "risk", "referred", "melanomas_missed"):
        assert getattr(double, name) == pytest.approx(getattr(single, name))
    alone = thresholds.measured(twice, source.labels.repeat(2), Policy())
    assert alone.missed[2] < double.missed[2]


def test_whoever_decides_sees_what_rules_would_do_now(client):
    """Compared when proposed, they would stand beside rules that are in force no longer."""
    first, second = (propose(client, {"threshold": level})["id"] for level in (0.8, 0.9))
    client.post(f"/api/v1/policies/{first}/accept", json=seen(client))
    client.headers["Accept"] = "text/html"
    page = " ".join(client.get(f"/rules/{second}").text.split())
    assert '<td class="number">0.8</td><td class="number">0.9</td>' in page
    assert "Compared now, with" in page
    client.post(f"/rules/{second}/accept", data={"seen": seen(client)["seen"]})
    page = " ".join(client.get(f"/rules/{second}").text.split())
    assert '<td class="number">0.7</td><td class="number">0.9</td>' in page
    assert "Compared when proposed, with" in page


def test_a_conflict_leads_back_to_what_was_decided(client):
    number = propose(client, STRICTER)["id"]
    now = seen(client)["seen"]
    client.headers["Accept"] = "text/html"
    for status in (303, 409):
        said = client.post(f"/rules/{number}/accept", data={"seen": now})
        assert said.status_code == status
    assert f'href="/rules/{number}">Look at it again' in said.text


def test_who_names_an_activation_that_is_still_to_come_is_refused(assistant):
    """Otherwise rules are compared with one calibration and come into force beside another."""
    first, second = (
        policies.propose(assistant, Policy(threshold=level), Agreement(), by="test")
        for level in (0.8, 0.9)
    )
    with assistant.store.reading() as session:
        seen = assistant.active(session).activation

    def meanwhile(*_):
        changes.accept(assistant, policies.POLICIES, first, seen, Agreement(), by="other")
        return ""

    slow = changes.Kind("policy", PolicyRow, meanwhile)
    with pytest.raises(Conflict, match="in the meantime"):
        changes.accept(assistant, slow, second, seen + 1, Agreement(), by="test")
    with pytest.raises(Conflict, match=f"rules {first} is in force"):
        changes.accept(assistant, slow, second, seen, Agreement(), by="test")


def test_a_new_map_in_the_meantime_is_a_conflict_too(assistant):
    """The comparison was made with the map in use: another map means another comparison."""
    from temperance_skin_lesion import clinic

    policy_id = policies.propose(assistant, Policy(threshold=0.8), Agreement(), by="test")
    with assistant.store.reading() as session:
        before = assistant.active(session).activation
    changes.restore(assistant, clinic.MAPS, 1, before, Agreement(), by="test")
    with pytest.raises(Conflict, match="in the meantime"):
        changes.accept(assistant, policies.POLICIES, policy_id, before, Agreement(), by="test")


def test_a_comparison_counts_what_the_rules_do_to_logged_cases(
    client, assistant, lesions, as_files
):
    few = client.post("/api/v1/policies/preview", json={}).json()
    assert few["here"] is None
    client.post("/api/v1/predict", files=as_files(lesions(36)))
    closed = {"threshold": 1, "melanoma_threshold": 1}
    effect = client.post("/api/v1/policies/preview", json=closed).json()
    assert effect["validation"]["then"]["rows"] == len(assistant.model.source.labels)
    cases = client.get("/api/v1/cases").json()
    fit = [case for case in cases if "quality" not in {rule["rule"] for rule in case["rules"]}]
    assert effect["here"]["then"]["rows"] == len(fit) >= 30
    assert effect["here"]["then"]["referred"] == pytest.approx(1000)
    answered = [case["decision"] for case in cases].count("answer")
    assert effect["changed"]["newly_referred"] == answered
    assert effect["changed"]["newly_answered"] == 0


def test_an_effect_is_counted_case_by_case(model, assistant):
    source, policy = model.source, Policy(threshold=0.6)
    with assistant.store.reading() as session:
        rows = assistant.active(session).judged(source.logits, source.views)
    few, dark = slice(0, 400), np.random.default_rng(0).random(400) < 0.1
    rows = Judged(rows.p[few], rows.agreement[few], rows.malignant[few], dark)
    effect = thresholds.measured(rows, source.labels[few], policy)
    decisions = [
        decide(p, policy, agreement=int(n), dark=bool(d))
        for p, n, d in zip(rows.p, rows.agreement, dark, strict=True)
    ]
    wrong = [
        d.predicted != label
        for d, label in zip(decisions, source.labels[few], strict=True)
        if d.answered
    ]
    assert effect.referred == pytest.approx(1000 * np.mean([not d.answered for d in decisions]))
    assert effect.wrong == pytest.approx(1000 * sum(wrong) / 400)
    assert effect.risk[0] == pytest.approx(np.mean(wrong))
    assert effect.risk[1] < effect.risk[0] < effect.risk[2]
    missed = sum(
        d.answered and d.predicted != 0 and label == 0
        for d, label in zip(decisions, source.labels[few], strict=True)
    )
    assert effect.missed[0] == pytest.approx(missed / np.sum(source.labels[few] == 0))
    for name in ("urgent", "soon", "routine"):
        share = np.mean([d.urgency == name for d in decisions])
        assert effect.by_urgency[name] == pytest.approx(1000 * share), name


def test_malignant_lesions_that_are_answered_as_benign_are_counted(model, assistant):
    source = model.source
    lax = Policy(threshold=0, melanoma_ceiling=0.2, agreement=0, costs=Costs(referral=100.0))
    with assistant.store.reading() as session:
        rows = assistant.active(session).judged(source.logits, source.views)
    malignant = [one.malignant for one in CLASSES]
    green = [
        said.answered and malignant[label] and not malignant[said.predicted]
        for said, label in zip((decide(p, lax) for p in rows.p), source.labels, strict=True)
    ]
    assert sum(green) > 10
    effect = thresholds.measured(rows, source.labels, lax)
    assert effect.malignant_missed == pytest.approx(1000 * np.mean(green))


def test_shares_have_the_exact_interval():
    from scipy.stats import binom

    share, low, high = thresholds.share_interval(3, 40)
    assert share == 3 / 40
    assert binom.sf(2, 40, low) == pytest.approx(0.05)
    assert binom.cdf(3, 40, high) == pytest.approx(0.05)
    assert thresholds.share_interval(0, 10)[1] == 0
    assert thresholds.share_interval(10, 10)[2] == 1
    assert thresholds.share_interval(0, 0) == (0, 0, 1)


def test_a_proposal_stays_on_record_with_its_comparison(assistant):
    number = policies.propose(assistant, Policy(threshold=0.8), Agreement(), by="ada", reason="x")
    with assistant.store.reading() as session:
        row = session.get(PolicyRow, number)
    assert (row.by, row.reason, row.comparison["policy"], row.comparison["map"]) == (
        "ada",
        "x",
        1,
        1,
    )

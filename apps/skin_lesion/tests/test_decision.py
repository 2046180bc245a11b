"""Answer or refer, and how urgent: what no policy may allow, and what every case is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from temperance_skin_lesion.classes import CLASSES, CODES, MALIGNANT, MELANOMA
from temperance_skin_lesion.decision import (
    RULES,
    URGENCIES,
    Costs,
    Policy,
    decide,
    examine,
    urgency_reasons,
)

shares = st.floats(0, 1)
pairs = st.tuples(shares, shares).map(sorted)
probabilities = arrays(np.float64, 7, elements=st.floats(1e-6, 1)).map(lambda p: p / p.sum())
policies = st.builds(
    lambda answer, melanoma, malignant, agreement, costs: Policy(
        threshold=answer[0],
        melanoma_threshold=answer[1],
        melanoma_ceiling=melanoma[0],
        urgent_melanoma=melanoma[1],
        soon_malignant=malignant[0],
        urgent_malignant=malignant[1],
        agreement=agreement,
        costs=Costs(**dict(zip(Costs.model_fields, costs, strict=True))),
    ),
    pairs,
    pairs,
    pairs,
    st.integers(0, 8),
    st.tuples(*[st.floats(0, 1000)] * 5),
)
agreements = st.integers(0, 8)


def peaked(code, p, **others):
    """Probabilities with one class at ``p``, others as named, and the rest shared."""
    named = {code: p, **others}
    rest = (1 - sum(named.values())) / (len(CODES) - len(named))
    return np.array([named.get(c, rest) for c in CODES])


@given(probabilities, policies, agreements)
def test_an_answer_respects_every_rule(p, policy, agreement):
    decision = decide(p, policy, agreement=agreement)
    assert decision.predicted == p.argmax()
    assert decision.answered == (decision.fired == ())
    if decision.answered:
        assert p.max() >= policy.threshold
        assert agreement >= policy.agreement
        assert p @ policy.costs.matrix()[:, decision.predicted] <= policy.costs.referral
        if decision.predicted == MELANOMA:
            assert p[MELANOMA] >= policy.melanoma_threshold >= policy.threshold
        else:
            assert p[MELANOMA] <= policy.melanoma_ceiling


@given(probabilities, policies, agreements, st.booleans())
def test_every_rule_that_holds_is_told_melanoma_first(p, policy, agreement, dark):
    decision = decide(p, policy, agreement=agreement, dark=dark)
    top, melanoma = p.argmax(), p[MELANOMA]
    expected = {
        "melanoma-suspected": top == MELANOMA and melanoma < policy.melanoma_threshold,
        "melanoma-not-excluded": top != MELANOMA and melanoma > policy.melanoma_ceiling,
        "orientations-disagree": agreement < policy.agreement,
        "threshold": p.max() < policy.threshold,
        "cost": p @ policy.costs.matrix()[:, top] > policy.costs.referral,
        "skin-tone": dark,
    }
    assert [fired.rule for fired in decision.fired] == [r for r in RULES if expected[r]]
    if "melanoma" in (decision.fired[0].rule if decision.fired else ""):
        assert "elanoma" in decision.summary


@given(arrays(np.float64, (20, 7), elements=st.floats(1e-6, 1)), policies)
def test_many_cases_are_decided_as_one_by_one(p, policy):
    p = p / p.sum(axis=1, keepdims=True)
    agreement = np.arange(20) % 9
    found = examine(p, policy, agreement)
    for i, row in enumerate(p):
        one = decide(row, policy, agreement=int(agreement[i]))
        assert one.answered == found.answered[i]
        assert one.urgency == URGENCIES[found.urgency[i]]


@pytest.mark.parametrize(
    ("p", "urgency"),
    [
        (peaked("mel", 0.4), "urgent"),
        (peaked("nv", 0.7, mel=0.2), "urgent"),
        (peaked("nv", 0.7, mel=0.021), "soon"),
        (peaked("bcc", 0.4, mel=0.01, nv=0.38, akiec=0.0), "soon"),
        (peaked("bcc", 0.6, mel=0.0), "urgent"),
        (peaked("nv", 0.88, mel=0.01, bcc=0.05, akiec=0.05), "soon"),
        (peaked("nv", 0.99, mel=0.0, bcc=0.001, akiec=0.001), "routine"),
        (peaked("bkl", 0.5, nv=0.45, mel=0.01, bcc=0.01, akiec=0.01), "routine"),
    ],
)
def test_urgency_follows_melanoma_then_malignancy(p, urgency):
    assert decide(p, Policy()).urgency == urgency


@given(probabilities, policies, st.booleans())
def test_an_urgency_is_told_with_its_reasons(p, policy, dark):
    found = examine(p[None], policy, dark=np.array([dark])).urgency[0]
    told = {word: urgency_reasons(p, policy, word, dark=dark) for word in URGENCIES[:2]}
    assert URGENCIES[found] == next((word for word, said in told.items() if said), "routine")


@given(probabilities, policies)
def test_a_malignant_prediction_is_never_routine(p, policy):
    decision = decide(p, policy)
    if decision.predicted in MALIGNANT:
        assert decision.urgency in {"urgent", "soon"}


def test_every_sentence_holds_its_numbers():
    p = peaked("nv", 0.55, mel=0.321)
    told = {fired.rule: fired.why for fired in decide(p, Policy(), agreement=5).fired}
    assert list(told) == ["melanoma-not-excluded", "orientations-disagree", "threshold", "cost"]
    assert "0.321" in told["melanoma-not-excluded"]
    assert "5 of 8" in told["orientations-disagree"]
    assert "0.55" in told["threshold"]
    assert "Melanocytic nevus" in told["cost"]


def test_an_expensive_mistake_is_referred():
    p = peaked("nv", 0.99)
    loose = {"melanoma_ceiling": 0.1}
    assert decide(p, Policy(**loose, costs=Costs(missed_melanoma=1))).answered
    dear = decide(p, Policy(**loose, costs=Costs(missed_melanoma=100_000)))
    assert [fired.rule for fired in dear.fired] == ["cost"]


def test_costs_follow_their_meaning():
    costs = Costs(missed_melanoma=5, missed_malignancy=4, false_alarm=3, other_error=2)
    for j, truth in enumerate(CLASSES):
        for k, answer in enumerate(CLASSES):
            expected = 2
            if j == k:
                expected = 0
            elif truth.code == "mel":
                expected = 5
            elif truth.malignant and not answer.malignant:
                expected = 4
            elif not truth.malignant and answer.malignant:
                expected = 3
            assert costs.matrix()[j, k] == expected


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"threshold": 0.9, "melanoma_threshold": 0.8}, "melanoma_threshold must not be below"),
        ({"urgent_melanoma": 0.01}, "urgent_melanoma must not be below"),
        ({"soon_malignant": 0.6}, "urgent_malignant must not be below"),
        ({"threshold": False}, "valid number"),
        ({"threshold": "0.9"}, "valid number"),
        ({"agreement": True}, "valid integer"),
        ({"agreement": 9}, "less than or equal to 8"),
        ({"threshold": float("nan")}, "finite"),
        ({"costs": {"referral": float("inf")}}, "finite"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(wrong, word):
    with pytest.raises(ValidationError, match=word):
        Policy.model_validate(wrong)


@given(probabilities, policies)
def test_no_policy_lets_a_foreign_or_unfit_picture_be_answered(p, policy):
    decision = decide(p, policy, foreign=True)
    assert (decision.word, decision.urgency) == ("refer", "retake")
    assert [fired.rule for fired in decision.fired] == ["foreign"]
    assert "does not look like" in decision.summary
    blurred = decide(p, policy, faults=["The picture is blurred."])
    assert not blurred.answered
    assert blurred.fired[-1] == ("quality", "The picture is blurred.")
    assert blurred.urgency in {"urgent", "retake"}

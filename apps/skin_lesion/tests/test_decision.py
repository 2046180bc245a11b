"""Answer or refer: what no policy may allow, and what costs mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("pydantic", reason="the extra 'app' is not installed")

from pydantic import ValidationError

from temperance_skin_lesion.classes import CLASSES, CODES, MELANOMA
from temperance_skin_lesion.decision import RULES, Costs, Policy, decide, decide_all

shares = st.floats(0, 1)
probabilities = arrays(np.float64, 7, elements=st.floats(1e-6, 1)).map(lambda p: p / p.sum())
policies = st.builds(
    lambda a, b, c, costs: Policy(
        threshold=min(a, b),
        melanoma_threshold=max(a, b),
        melanoma_ceiling=c,
        costs=Costs(**dict(zip(Costs.model_fields, costs, strict=True))),
    ),
    shares,
    shares,
    shares,
    st.tuples(*[st.floats(0, 1000)] * 5),
)


def peaked(code, p):
    rest = (1 - p) / (len(CODES) - 1)
    return np.array([p if c == code else rest for c in CODES])


@given(probabilities, policies)
def test_melanoma_is_never_answered_below_its_own_threshold(p, policy):
    decision = decide(p, policy)
    if decision.answered and decision.predicted == MELANOMA:
        assert p[MELANOMA] >= policy.melanoma_threshold >= policy.threshold


@given(probabilities, policies)
def test_an_answer_respects_every_floor_and_costs_no_more_than_a_referral(p, policy):
    decision = decide(p, policy)
    assert decision.predicted == p.argmax()
    if decision.answered:
        assert p.max() >= policy.threshold
        assert decision.predicted == MELANOMA or p[MELANOMA] <= policy.melanoma_ceiling
        assert p @ policy.costs.matrix()[:, decision.predicted] <= policy.costs.referral


@given(arrays(np.float64, (20, 7), elements=st.floats(1e-6, 1)), policies)
def test_many_cases_are_decided_as_one_by_one(p, policy):
    p = p / p.sum(axis=1, keepdims=True)
    rules, _ = decide_all(p, policy)
    assert [RULES[rule] for rule in rules] == [decide(row, policy).rule for row in p]


@pytest.mark.parametrize(
    ("p", "rule"),
    [
        (peaked("nv", 0.999), "answer"),
        (peaked("nv", 0.6), "threshold"),
        (peaked("mel", 0.85), "melanoma-threshold"),
        (peaked("nv", 0.8), "melanoma-not-excluded"),
        (peaked("mel", 0.99), "answer"),
    ],
)
def test_the_rule_is_named_with_its_numbers(p, rule):
    decision = decide(p, Policy())
    assert decision.rule == rule
    assert f"{p.max():.2f}" in decision.why or f"{p[MELANOMA]:.3f}" in decision.why


def test_an_expensive_mistake_is_referred():
    p = peaked("nv", 0.99)
    cheap = Policy(melanoma_ceiling=1, costs=Costs(missed_melanoma=1))
    dear = Policy(melanoma_ceiling=1, costs=Costs(missed_melanoma=100_000))
    assert decide(p, cheap).answered
    assert decide(p, dear).rule == "cost"


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


def test_a_policy_that_makes_melanoma_easier_is_refused():
    with pytest.raises(ValidationError, match="melanoma_threshold must not be below"):
        Policy(threshold=0.9, melanoma_threshold=0.8)


@given(probabilities, policies)
def test_no_policy_lets_a_foreign_picture_be_answered(p, policy):
    decision = decide(p, policy, foreign=True)
    assert (decision.word, decision.rule) == ("refer", "foreign")
    assert "does not look like" in decision.why

"""Attended temperature scaling, against its definition written out in loops."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from simulated import logits

import temperance as tp

mp.mp.dps = 30


def softmax_of(row, beta):
    e = [mp.exp(mp.mpf(beta) * mp.mpf(x)) for x in row]
    total = mp.fsum(e)
    return [x / total for x in e]


def loss_by_loops(z, y, beta, threshold, form):
    """``Σ_k Σ_{i ∈ M_k} -log( s_k (1 - s_{y_i}) / (1 - s_k) )``, set by set, term by term."""
    total = mp.mpf(0)
    for k in range(z.shape[1]):
        for row, label in zip(z.tolist(), y.tolist(), strict=True):
            at_one, s = softmax_of(row, 1), softmax_of(row, beta)
            predicted = max(range(len(row)), key=lambda j, row=row: row[j])
            if label == k:
                total -= mp.log(s[k])
            elif predicted == k or at_one[k] > threshold:
                attention = 1 - s[label] if form == "paper" else s[k]
                total -= mp.log(s[k] * attention / (1 - s[k]))
    return total


@pytest.mark.parametrize("form", ["paper", "reference"])
@pytest.mark.parametrize(
    ("threshold", "k", "sharpness"), [(0.02, 3, 4.0), (0.2, 4, 5.0), (1.0, 3, 3.0), (0.02, 3, 40.0)]
)
def test_temperature_is_the_minimum_of_the_definition(form, threshold, k, sharpness):
    z, y = logits(30, k, sharpness=sharpness)
    t = tp.fit_attended(z, y, threshold=threshold, form=form).temperature
    around = [t * (1 + d) for d in (-1e-4, -1e-6, 0, 1e-6, 1e-4)]
    values = [loss_by_loops(z, y, 1 / mp.mpf(x), threshold, form) for x in around]
    assert values[0] > values[1] > values[2] < values[3] < values[4]


@pytest.mark.parametrize(("k", "agree"), [(2, True), (3, False)])
def test_forms_agree_for_two_classes_only(k, agree):
    z, y = logits(300, k, sharpness=3.0)
    paper = tp.fit_attended(z, y, threshold=0.05, form="paper").temperature
    reference = tp.fit_attended(z, y, threshold=0.05, form="reference").temperature
    assert (paper == pytest.approx(reference, rel=1e-9)) is agree


def test_a_weight_is_a_repetition():
    z, y = logits(200, 3, sharpness=4.0)
    weight = np.arange(200) % 3
    repeated = tp.fit_attended(np.repeat(z, weight, axis=0), np.repeat(y, weight), threshold=0.05)
    weighted = tp.fit_attended(z, y, weight, threshold=0.05)
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=1e-9)


def test_no_minimum_is_said_not_invented():
    z, y = logits(100, 3, scale=0.5)  # everything is borrowed, so flatter is always better
    with pytest.raises(tp.NotIdentified, match="no minimum inside"):
        tp.fit_attended(z, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "papers"}, "form must be one of 'paper', 'reference'.*Did you mean 'paper'"),
        ({"threshold": 1.5}, r"threshold must be a finite number in \[0, 1\]. Got 1.5"),
        ({"threshold": "0.1"}, "threshold must be a finite number"),
    ],
)
def test_bad_parameters_are_refused(arguments, message):
    z, y = logits(50, 3)
    with pytest.raises(tp.InputError, match=message):
        tp.fit_attended(z, y, **arguments)


def test_soft_labels_are_refused():
    z, y = logits(50, 3)
    with pytest.raises(tp.InputError, match="labels must be hard class indices"):
        tp.fit_attended(z, np.eye(3)[y])

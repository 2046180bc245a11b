"""`calibrate` in every setting: what must change nothing, and what may change only a little."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import near_samples as near
import numpy as np
import pytest
import scenes
import torch

import temperance as tp

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5])
LABELLED = scenes.LABELLED


settings = scenes.what_users_know
NAMES = [name for name, _ in settings(scenes.shifted(k=5, n=50))]
WITH_SOURCE = ["mix and source", "rough mix", "no mix", "source and labels", "all"]


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=OFFSET)


@pytest.fixture(scope="module")
def answers(scene):
    """Return the answer of each setting, unchanged."""
    return {name: tp.calibrate(scene.target, **known) for name, known in settings(scene)}


def numbers(cal):
    return np.r_[np.log(cal.temperature), cal.accuracy, cal.ece_before, cal.ece_after, cal.gain]


def same(x):
    return x


def changed(s, logits=same, *, mix=same, labels=same):
    """Return a scene with all its logits, its class mix and all its labels put through."""
    return replace(
        s,
        target=logits(s.target),
        labels=labels(s.labels),
        source=(logits(s.source[0]), labels(s.source[1])),
        prior=mix(s.prior),
    )


def calibrated(s, name, **more):
    return tp.calibrate(s.target, **dict(settings(s))[name], **more)


# ------------------------------------------------------------------------ what changes nothing


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_classes(scene, answers, name):
    order = np.array([3, 0, 4, 1, 2])
    place = np.argsort(order)
    moved = changed(scene, lambda z: z[:, order], mix=lambda q: q[order], labels=lambda y: place[y])
    other = calibrated(moved, name)
    assert other.verdict == answers[name].verdict
    assert other.temperature.value == pytest.approx(answers[name].temperature.value, rel=1e-4)
    assert numbers(other) == pytest.approx(numbers(answers[name]), abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("logit", "column"), [(-10, 5), (-1e3, 3), (-1e4, 0), (-1e30, 2)])
def test_a_class_that_never_occurs(scene, answers, name, logit, column):
    moved = changed(
        scene,
        lambda z: np.insert(z, column, logit, axis=1),
        mix=lambda q: np.insert(q, column, 0.0),
        labels=lambda y: y + (y >= column),
    )
    other = calibrated(moved, name)
    assert other.verdict == answers[name].verdict
    assert numbers(other) == pytest.approx(numbers(answers[name]), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_masks_of_any_size(scene, name):
    def put(z, y, value):
        few = np.random.default_rng(2).random(z.shape) < 0.1
        few[np.arange(len(z)), z.argmax(axis=1)] = False  # prediction and label stay possible
        few[np.arange(len(z)), y] = False
        return np.where(few, value, z)

    found = []
    for value in (-2e4, -1e5, float(np.finfo(np.float32).min), -1e99, -np.inf):
        target = put(scene.target, scene.labels, value)
        source = put(*scene.source, value), scene.source[1]
        found.append(calibrated(replace(scene, target=target, source=source), name))
    for other in found[1:]:
        assert other.verdict == found[0].verdict
        assert numbers(other) == pytest.approx(numbers(found[0]), abs=1e-6)


def shuffled(s):
    """Return the scene with the rows of target and source in another order."""
    rng = np.random.default_rng(4)
    rest = LABELLED + rng.permutation(len(s.target) - LABELLED)
    rows, old = np.r_[rng.permutation(LABELLED), rest], rng.permutation(len(s.source[1]))
    source = s.source[0][old], s.source[1][old]
    return replace(s, target=s.target[rows], labels=s.labels[rows], source=source)


FORMS = {
    "another order of the rows": shuffled,
    "a constant per row": lambda s: changed(
        s, lambda z: z + np.random.default_rng(0).normal(size=(len(z), 1))
    ),
    "float32": lambda s: changed(s, lambda z: z.astype(np.float32)),
    "torch": lambda s: changed(s, torch.from_numpy, labels=torch.from_numpy),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_another_form_of_the_same_rows(scene, answers, name, form):
    other = calibrated(FORMS[form](scene), name)
    assert other.verdict == answers[name].verdict
    assert numbers(other) == pytest.approx(numbers(answers[name]), abs=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_another_seed(scene, answers, name):
    known = dict(settings(scene))[name]
    for other in (
        tp.calibrate(np.array_split(scene.target, 7), **known),
        tp.calibrate(scene.target, **known, seed=7),  # all rows are read: nothing is drawn
    ):
        assert numbers(other) == pytest.approx(numbers(answers[name]), abs=1e-6)


@pytest.mark.parametrize("name", WITH_SOURCE)
@pytest.mark.parametrize("scale", [1e-3, 1e5])
def test_the_unit_of_the_logits(scene, answers, name, scale):
    other, one = calibrated(changed(scene, lambda z: scale * z), name), answers[name]
    assert other.temperature.value == pytest.approx(scale * one.temperature.value, rel=1e-3)
    assert list(other.accuracy) == pytest.approx(list(one.accuracy), abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_twice_narrows_and_hardly_moves(scene, answers, name):
    known = dict(settings(scene))[name]
    one, other = answers[name], tp.calibrate(np.repeat(scene.target, 2, axis=0), **known)
    half = np.log(one.temperature.high / one.temperature.low) / 2
    assert abs(np.log(other.temperature.value / one.temperature.value)) < half / 4
    assert other.accuracy.value == pytest.approx(one.accuracy.value, abs=0.02)


# ----------------------------------------------------------------------------- near samples


@pytest.mark.slow
def test_one_row_in_a_hundred_moves_the_answer_less_than_its_interval():
    """Verdicts flip in under 3 % of the pairs, and no temperature comes near its interval's end."""
    found = [one for i in range(25) for _, one in near.steps(near.simulated(i), i)]
    assert np.mean([one.flip for one in found]) < 0.03
    # A quarter of T, which one row once moved, would fail here.
    assert max(one.temperature for one in found) < 0.1
    assert max(one.moved for one in found) < 0.05  # no bias switches on at once


REAL = {
    "no shift": (
        "cifar10_vgg_ensemble",
        "test_seed0",
        "test_labels",
        "valid_seed0",
        "valid_labels",
    ),
    "digits": (
        "svhn_to_mnist",
        "target_logits",
        "target_labels",
        "source_logits",
        "source_labels",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_one_row_more_moves_little_on_real_networks(shared_data, name):
    """At 100 to 160 rows, where one row once moved T by a quarter and the verdict with it."""
    file, *keys = REAL[name]
    with np.load(shared_data / "logits" / f"{file}.npz") as data:
        z, y, z_old, y_old = (data[key] for key in keys)
    prior, source = np.bincount(y, minlength=10) / len(y), (z_old[:3000], y_old[:3000])
    for known in ({"prior": prior, "source": source}, {"source": source}):
        found = [tp.calibrate(z[:n], **known) for n in range(100, 161)]
        t = np.log([cal.temperature for cal in found])
        assert np.mean([a.verdict != b.verdict for a, b in pairwise(found)]) < 0.03
        assert np.abs(np.diff(t[:, 0])).max() < (t[:, 2] - t[:, 1]).min() / 2
        bias = np.array([cal.map.parameters().get("bias", np.zeros(10)) for cal in found])
        bias -= bias.mean(axis=1, keepdims=True)
        assert np.abs(np.diff(bias, axis=0)).max() < 0.3

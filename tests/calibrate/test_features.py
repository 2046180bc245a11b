"""Features beside logits: one more estimate where no class mix is known, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import scenes

import temperance as tp


@pytest.fixture(scope="module")
def scene():
    """A shift that logits hide: half of the rows are noise that the model is sure of."""
    s = scenes.shifted(k=5, n=2_000, signal=4.0, scale=3.0)
    rng = np.random.default_rng(0)
    z, y = s.target.copy(), s.labels.copy()
    lost = rng.random(len(y)) < 0.5
    y[lost] = rng.integers(5, size=lost.sum())
    centres = rng.normal(size=(5, 16))
    source = centres[s.source[1]] + 0.3 * rng.normal(size=(len(s.source[1]), 16))
    target = centres[s.labels] + 0.3 * rng.normal(size=(len(y), 16))
    target[lost] = rng.normal(size=(lost.sum(), 16)) - target[lost]
    return z, y, s.source, target, source


def test_features_show_what_logits_hide(scene):
    z, y, source, *features = scene
    right = float((z.argmax(axis=1) == y).mean())
    with_, without = (
        tp.calibrate(z, source=source, features=f).accuracy for f in (tuple(features), None)
    )
    assert abs(with_.value - right) < abs(without.value - right) - 0.05


def test_features_of_unshifted_rows_change_little(scene):
    source, features = scene[2], scene[4]
    z, y = source
    half = len(y) // 2
    home = z[:half], y[:half]
    given = features[half:], features[:half]
    plain = tp.calibrate(z[half:], source=home)
    near = tp.calibrate(z[half:], source=home, features=given)
    assert near.accuracy.value == pytest.approx(plain.accuracy.value, abs=0.03)
    assert near.temperature.value == pytest.approx(plain.temperature.value, rel=0.1)


def test_neither_order_nor_scale_of_the_features_matters(scene):
    z, _, source, target, home = scene
    order = np.random.default_rng(1).permutation(len(z))
    one = tp.calibrate(z, source=source, features=(target, home))
    other = tp.calibrate(z[order], source=source, features=(7 * target[order], home))
    assert other.accuracy.value == pytest.approx(one.accuracy.value, abs=1e-3)
    huge = tp.calibrate(z, source=source, features=(1e200 * target, 1e-200 * home))
    assert huge.accuracy.value == pytest.approx(one.accuracy.value, abs=1e-6)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (lambda t, _: t, "a pair"),
        (lambda t, s: (t[:, 0], s), "a pair"),
        (lambda t, s: (t[:-1], s), "target features must have a row for each of 2000"),
        (lambda t, s: (t, s[:3]), "source features must have a row"),
        (lambda t, s: (t[:, :4], s), "same number of columns"),
        (lambda t, s: (np.where(t > 2, np.nan, t), s), "finite"),
        (lambda t, s: (t + 1j, s), "real numbers.* shape .2000, 16. of complex128 and"),
        (lambda t, s: (t.astype(str), s), "real numbers"),
    ],
)
def test_what_cannot_be_features_is_said(scene, features, message):
    z, _, source, target, home = scene
    with pytest.raises(tp.InputError, match=message):
        tp.calibrate(z, source=source, features=features(target, home))


def test_features_need_a_source(scene):
    with pytest.raises(tp.InputError, match="labelled source"):
        tp.calibrate(scene[0], np.full(5, 0.2), features=(scene[3], scene[4]))


def test_the_command_reads_two_files(scene, tmp_path):
    z, _, source, target, home = scene
    np.save(tmp_path / "target.npy", target)
    np.save(tmp_path / "home.npy", home)
    np.save(tmp_path / "z.npy", z)
    np.savez(tmp_path / "source.npz", logits=source[0], labels=source[1])
    words = ["calibrate", "z.npy", "--source", "source.npz", "--json", "--features"]
    run = subprocess.run(
        [sys.executable, "-m", "temperance", *words, "target.npy", "home.npy"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    names = [e["name"] for e in json.loads(run.stdout)["details"]["estimates"]]
    assert "near" in names

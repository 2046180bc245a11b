"""Prior-matched scaling: invariances, recovery of known maps, and no harm without a shift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance._core.sample import Sample
from temperance.maps import IDENTITY
from temperance.methods.evidence import (
    gather_evidence,
    log_odds,
    noise_floor,
    rescaling,
    shrinkage,
)
from temperance.methods.matching import Biases
from temperance.methods.prior_matched import _step_towards_mended, _towards_source, solve
from temperance.methods.source import SourceProfile

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5, 0.0])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=6, signal=2.0, offset=OFFSET)


def fit(s, **changes):
    given = {"target": s.target, "prior": s.prior, "source": s.source} | changes
    return tp.fit_prior_matched(given["target"], given["prior"], given["source"])


def brier(fitted, s):
    z, y = s.held_out
    return 1000 * tp.metrics.brier(np.asarray(fitted(z)), y, per_class=False)


def test_row_constants_change_nothing(scene):
    moved = scene.target + np.random.default_rng(0).normal(size=(len(scene.target), 1)) * 50
    assert fit(scene, target=moved).temperature == pytest.approx(fit(scene).temperature, rel=1e-6)


def test_row_order_changes_nothing(scene):
    turned = fit(scene, target=scene.target[::-1])
    assert turned.temperature == pytest.approx(fit(scene).temperature, rel=1e-6)


def test_permuted_classes_permute_the_bias(scene):
    order = np.array([3, 1, 5, 0, 2, 4])
    z, y = scene.source
    permuted = fit(
        scene,
        target=scene.target[:, order],
        prior=scene.prior[order],
        source=(z[:, order], np.argsort(order)[y]),
    )
    plain = fit(scene)
    assert permuted.temperature == pytest.approx(plain.temperature, rel=1e-6)
    assert permuted.bias == pytest.approx(np.asarray(plain.bias)[order], abs=1e-6)


@pytest.mark.parametrize("factor", [0.01, 30.0])
def test_temperature_scales_with_the_logits(scene, factor):
    z, y = scene.source
    scaled = fit(scene, target=factor * scene.target, source=(factor * z, y))
    plain = fit(scene)
    assert scaled.temperature == pytest.approx(factor * plain.temperature, rel=2e-3)
    assert scaled.bias == pytest.approx(np.asarray(plain.bias), abs=1e-2)


def test_without_a_bias_predictions_stay(scene):
    fitted = tp.fit_prior_matched(scene.target, scene.prior, scene.source, bias=False)
    assert isinstance(fitted, tp.Temperature)


@pytest.mark.parametrize("seed", range(5))
def test_no_regret_without_a_shift(seed):
    s = scenes.shifted(signal=3.0, home=3.0, seed=seed)
    assert brier(fit(s), s) - brier(tp.fit_temperature(s.target, s.labels), s) <= 1.0


@pytest.mark.parametrize("stretch", [0.3, 3.0])
def test_a_pure_change_of_scale_is_recovered(stretch):
    s = scenes.shifted(signal=3.0, home=3.0, stretch=stretch)
    assert fit(s).temperature == pytest.approx(s.temperature, rel=0.08)


def test_a_pure_offset_of_the_classes_is_recovered():
    s = scenes.shifted(k=6, signal=3.0, home=3.0, offset=OFFSET)
    bias = np.asarray(fit(s).bias)
    assert np.corrcoef(bias, s.bias)[0, 1] > 0.99
    assert brier(fit(s), s) < brier(tp.fit_temperature(s.target, s.labels), s)


def test_without_a_source_it_beats_uts(scene):
    ours = tp.fit_prior_matched(scene.target, scene.prior)
    assert brier(ours, scene) < brier(tp.fit_uts(scene.target, scene.prior), scene)


def test_a_belief_that_no_temperature_meets_does_not_run_away():
    # One class is nearly all of the target: by the belief equation alone T would be 0.
    q = np.array([0.94, 0.02, 0.02, 0.01, 0.01])
    s = scenes.shifted(k=5, signal=1.0, offset=np.array([-2.0, 1, 0, 0, 0]), prior=q)
    without = tp.fit_prior_matched(s.target, q, s.source, bias=False).temperature
    evidence = gather_evidence(Sample(s.target), q, SourceProfile.of(*s.source, q))
    ours = fit(s)
    assert evidence.undone <= ours.temperature <= without
    truth = tp.BiasedTemperature(s.temperature, s.bias)
    assert brier(ours, s) - brier(truth, s) < 0.05 * (brier(IDENTITY, s) - brier(truth, s))


@pytest.mark.parametrize("signal", [3.0, 2.0])
@pytest.mark.parametrize("size", [1.0, 2.0, 3.0])
def test_rows_that_look_mended_tell_the_temperature(size, signal):
    """The stronger the offset, the less the accuracy before it says about T."""
    alone, weighed = [], []
    for seed in range(8):
        offset = size * np.random.default_rng(seed).normal(size=10)
        s = scenes.shifted(signal=signal, home=3.0, offset=offset, seed=seed)
        profile = SourceProfile.of(*s.source, s.prior)
        evidence = gather_evidence(Sample(s.target), s.prior, profile)
        before = float(np.median(list(evidence.estimates.values())))
        unseen = replace(evidence, mended=None, accuracy=before)
        for errors, seen in ((weighed, evidence), (alone, unseen)):
            t, _ = solve(Sample(s.target), s.prior, profile, seen, bias=True)
            errors.append(abs(np.log(t / s.temperature)))
    assert np.mean(weighed) < 0.75 * np.mean(alone)


@pytest.mark.parametrize("stretch", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("size", [0.5, 1.0, 2.0, 3.0])
def test_a_shift_that_is_a_scale_and_an_offset_is_undone(size, stretch):
    """However many predictions it spoils: once mended, the rows look like those of the source."""
    for seed in range(4):
        offset = size * np.random.default_rng(seed).normal(size=10)
        s = scenes.shifted(signal=3.0, home=3.0, stretch=stretch, offset=offset, seed=seed)
        profile = SourceProfile.of(*s.source, s.prior)
        evidence = gather_evidence(Sample(s.target), s.prior, profile)
        right = float((s.target.argmax(axis=1) == s.labels).mean())
        assert abs(log_odds(evidence.accuracy) - log_odds(right)) < 0.15
        assert evidence.spread < 0.3 * replace(evidence, explained=0.0).spread
        t, _ = solve(Sample(s.target), s.prior, profile, evidence, bias=True)
        assert abs(np.log(t / s.temperature)) < 0.1


def test_a_public_network_with_another_offset_is_calibrated_again(shared_data):
    """DenseNet-40 on CIFAR-10, its logits moved class by class: no labelled T does as well."""
    with np.load(shared_data / "logits" / "cifar10_densenet40.npz") as data:
        old, y_old = data["val_logits"], data["val_labels"]
        z, y = data["test_logits"], data["test_labels"]
    for seed in range(4):
        offset = 0.6 * z.std() * np.random.default_rng(seed).normal(size=10)
        new = z + offset.astype(z.dtype)
        prior = np.bincount(y, minlength=10) / len(y)
        cal = tp.calibrate(new, prior=prior, source=(old, y_old))
        with_labels = tp.fit_temperature(new, y)
        assert cal.verdict == "improved"
        assert tp.metrics.ece(cal.map(new), y) < min(0.02, 0.2 * tp.metrics.ece(new, y))
        assert tp.metrics.brier(cal.map(new), y) < 0.75 * tp.metrics.brier(with_labels(new), y)


def test_where_no_bias_is_needed_the_temperature_is_that_without_one():
    """A mix within noise leaves one number to fit, and the same evidence for it."""
    s = scenes.shifted(k=6, n=1000, signal=2.8, home=3.0)
    evidence = gather_evidence(Sample(s.target), s.prior, SourceProfile.of(*s.source, s.prior))
    assert evidence.shrink == 0
    fitted, plain = fit(s), tp.fit_prior_matched(s.target, s.prior, s.source, bias=False)
    assert fitted.temperature == plain.temperature
    assert not fitted.bias.any()


def test_the_source_temperature_is_left_by_how_certain_the_gap_is(scene):
    """The share of the way is that of the gap's square in what it and its noise make together."""
    n, m, right, wrong = 700, 400, 0.7, 0.1
    rng = np.random.default_rng(0)
    shares = rng.binomial(n, right, 100_000) / n, 1 - rng.binomial(m, wrong, 100_000) / m
    here, home = (np.log(a / (1 - a)) for a in shares)
    profile = replace(SourceProfile.of(*scene.source), error=wrong, effective=m, temperature=2.0)
    evidence = gather_evidence(Sample(scene.target), scene.prior, profile)
    for confidence in (0.69, 0.75, 0.9):
        told = replace(evidence, accuracy=right, confidence=confidence)
        gap = np.log(confidence / (1 - confidence)) - np.log(right / (1 - right))
        way = np.log(_towards_source(5.0, told, profile, n) / 2.0) / np.log(5.0 / 2.0)
        assert way == pytest.approx(gap**2 / (gap**2 + np.var(here - home)), rel=0.03)


def test_a_bias_that_mends_nothing_leaves_the_temperature_to_the_accuracy():
    """Every turn of the classes is among the rows: the bias is 0, whatever share looks mended."""
    z = scenes.shifted(k=5, n=200).target
    turned = Sample(np.concatenate([np.roll(z, i, axis=1) for i in range(5)]))
    q = np.full(5, 0.2)
    evidence = gather_evidence(turned, q, SourceProfile.of(*scenes.shifted(k=5).source))
    told = replace(evidence, mended=0.99, shrink=1.0)
    assert _step_towards_mended(Biases(turned, q), told, 1.0) == pytest.approx(0, abs=1e-3)


def test_the_scale_is_told_through_any_offset():
    plain = scenes.shifted(signal=3.0, home=3.0, stretch=1.7)
    offset = np.linspace(-9, 9, 10)
    profile = SourceProfile.of(*plain.source, plain.prior)
    assert rescaling(Sample(plain.target), profile) == pytest.approx(1.7, rel=0.03)
    assert rescaling(Sample(plain.target + offset), profile) == pytest.approx(
        rescaling(Sample(plain.target), profile), rel=1e-9
    )


def test_rows_that_are_all_the_same_have_no_scale(scene):
    same = np.tile(scene.target[:1], (500, 1))
    with pytest.raises(tp.NotIdentified, match="target logits are the same in every row"):
        fit(scene, target=same)
    with pytest.raises(tp.NotIdentified, match="source logits are the same in every row"):
        fit(scene, source=(same, scene.source[1][:500]))


@pytest.mark.parametrize("g", [0.0, 0.2, 0.4])
def test_the_histogram_tells_the_share_of_broken_rows(g):
    """A share g of the rows knows nothing of its class, and leans to one by chance alone."""
    rng = np.random.default_rng(0)
    q = np.full(5, 0.2)
    profile = SourceProfile.of(*scenes.shifted(k=5, n=8000, home=4.0).source, q)
    n = 8000
    z, y = scenes.draw(rng, n, q, signal=4.0, scale=2.0, offset=0)
    lost = np.flatnonzero(np.arange(n) < g * n)
    noise, lean = 2 * rng.normal(size=(len(lost), 5)), rng.choice(5, len(lost), p=[0.6] + 4 * [0.1])
    turn = (np.arange(5) + (noise.argmax(axis=1) - lean)[:, None]) % 5
    z[lost] = np.take_along_axis(noise, turn, axis=1)
    told = gather_evidence(Sample(z), q, profile).estimates["histogram"]
    assert told == pytest.approx((1 - g) * (1 - profile.error) + g / 5, abs=0.03)
    assert told == pytest.approx(np.mean(z.argmax(axis=1) == y), abs=0.03)


def test_a_bias_is_kept_by_how_far_the_mix_exceeds_its_noise():
    """None of it where the mix is that of chance, all of it where it is out of question."""
    rng, q, n = np.random.default_rng(0), np.full(5, 0.2), 500
    chance = [shrinkage(rng.choice(5, n, p=q), q) for _ in range(200)]
    assert np.mean(np.array(chance) > 0) < 0.1
    leaning = np.array([0.4, 0.15, 0.15, 0.15, 0.15])
    kept = [shrinkage(rng.choice(5, m, p=leaning), q) for m in (200, 2000, 200_000)]
    assert 0 < kept[0] < kept[1] < kept[2] < 1
    assert kept[2] > 0.999
    alike = rng.choice(5, 4000, p=leaning)  # a prior known from a count is noise of the same kind
    assert shrinkage(alike, q, worth=4000) == pytest.approx(
        1 - 2 * (1 - shrinkage(alike, q)), abs=1e-9
    )


def test_the_noise_of_a_count_is_that_of_simulated_counts():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(8))
    counts = rng.multinomial(500, q, size=4000) / 500
    simulated = 0.5 * np.abs(counts - q).sum(axis=1).mean()
    assert noise_floor(q, 500) == pytest.approx(simulated, rel=0.03)
    assert noise_floor(np.array([1 + 1e-15, 0.0]), 10) == 0


def test_a_prior_that_is_less_known_moves_less(scene):
    known = fit(scene)
    moved = [
        np.linalg.norm(fit(scene, prior=tp.about(scene.prior, rows=n)).bias)
        for n in (1e9, 1000, 100, 10)
    ]
    assert moved[0] == pytest.approx(np.linalg.norm(known.bias), rel=1e-3)
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < 0.3 * moved[0]


@pytest.mark.parametrize("rows", [30, 300])
def test_doubt_about_a_wrong_prior_limits_the_harm(rows):
    """A prior from a count of few rows: said to be one, it does no harm without a shift."""
    told, believed = [], []
    for seed in range(8):
        s = scenes.shifted(k=6, signal=3.0, n=2000, seed=seed)
        q = np.random.default_rng(seed).dirichlet(rows * s.prior)
        home = brier(tp.fit_temperature(*s.source), s)
        told.append(brier(fit(s, prior=tp.about(q, rows=rows)), s) - home)
        believed.append(brier(fit(s, prior=q), s) - home)
    assert np.mean(believed) > 3
    assert np.mean(told) < 0.2 * np.mean(believed)


def test_a_source_of_other_classes_is_refused(scene):
    z, y = scene.source
    with pytest.raises(tp.InputError, match="source logits must have 6 columns"):
        fit(scene, source=(z[:, :5], np.minimum(y, 4)))

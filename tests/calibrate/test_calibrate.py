"""`calibrate`: verdicts, intervals, what changes nothing, labels, and inputs that once crashed."""

from __future__ import annotations

import numpy as np
import pytest
import scenes

import temperance as tp
from temperance.maps import IDENTITY

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5])
FLAT = np.full(5, 0.2)


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=OFFSET)


def brier(p, y):
    return float(np.sum((np.asarray(p) - np.eye(np.shape(p)[1])[y]) ** 2, axis=1).mean())


settings = scenes.what_users_know
NAMES = [name for name, _ in settings(scenes.shifted(k=5, n=50))]


@pytest.mark.parametrize("name", NAMES)
def test_every_combination_answers_and_does_not_make_it_worse(scene, name):
    cal = tp.calibrate(scene.target, **dict(settings(scene))[name])
    z, y = scene.held_out
    assert cal.verdict in {"improved", "no-evidence"}
    assert brier(cal.predict_proba(z), y) < brier(tp.Temperature(1.0).predict_proba(z), y) + 0.01
    for interval in (cal.temperature, cal.accuracy, cal.ece_before, cal.ece_after, cal.gain):
        assert interval.low <= interval.value <= interval.high


def test_a_shift_of_an_overconfident_model_is_improved(scene):
    cal = tp.calibrate(scene.target, scene.prior, scene.source)
    z, y = scene.held_out
    assert cal.verdict == "improved"
    assert tp.metrics.ece(np.asarray(cal.map(z)), y) < tp.metrics.ece(z, y) / 2
    assert cal.gain.low <= brier(IDENTITY.predict_proba(z), y) - brier(cal.predict_proba(z), y)


def test_nothing_known_is_refused_and_nothing_is_made_up(scene):
    cal = tp.calibrate(scene.target)
    assert cal.verdict == "refused"
    assert cal.map == IDENTITY
    assert cal.accuracy is cal.ece_before is cal.ece_after is cal.gain is None
    assert cal.to_dict()["accuracy"] is None
    assert [f.code for f in cal.findings if f.severity == "refuse"] == ["TP406"]


def test_a_refusal_with_a_source_keeps_the_sources_temperature(scene):
    cal = tp.calibrate(scene.target[:20], scene.prior, scene.source)
    assert cal.verdict == "refused"
    home = tp.fit_temperature(*scene.source).temperature
    assert cal.map.temperature == pytest.approx(home, rel=1e-9)
    assert "temperature of the labelled source" in cal.meaning


def test_rows_of_home_get_the_temperature_of_home():
    s = scenes.shifted(k=5, n=4000, home=2.0, signal=2.0, scale=5.0)
    cal = tp.calibrate(s.target, s.prior, s.source)
    assert cal.temperature.value == pytest.approx(s.temperature, rel=0.1)
    assert np.abs(cal.map.parameters().get("bias", np.zeros(5))).max() < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("known", ["mix and source", "no mix"])
def test_intervals_hold_the_truth_as_often_as_they_say(known):
    held = []
    for seed in range(scenes.UNSEEN, scenes.UNSEEN + 60):
        s = scenes.any_shift(seed, overconfident=True)
        cal = tp.calibrate(s.target, **dict(settings(s))[known])
        z, y = s.held_out
        truth = (np.asarray(cal.map(z)).argmax(axis=1) == y).mean()
        held.append(cal.accuracy.low <= truth <= cal.accuracy.high)
    assert np.mean(held) > 0.8


@pytest.mark.slow
def test_improved_is_right():
    right = []
    for seed in range(scenes.UNSEEN, scenes.UNSEEN + 60):
        s = scenes.any_shift(seed, overconfident=False)
        cal = tp.calibrate(s.target, s.prior, s.source)
        if cal.verdict == "improved":
            z, y = s.held_out
            right.append(brier(cal.predict_proba(z), y) < brier(IDENTITY.predict_proba(z), y))
    assert len(right) > 20
    assert np.mean(right) >= 0.95


# ------------------------------------------------------------------------ what changes nothing


def answer(cal):
    return np.r_[np.log(cal.temperature), cal.accuracy, cal.ece_after, cal.gain]


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_rows_changes_nothing(scene, name):
    known = dict(settings(scene))[name]
    mixed = np.random.default_rng(0).permutation(len(scene.target))
    one, other = (tp.calibrate(z, **known) for z in (scene.target, scene.target[mixed]))
    assert answer(other) == pytest.approx(answer(one), abs=1e-6)


@pytest.mark.parametrize("name", ["mix and source", "no mix", "no source"])
def test_the_order_of_the_classes_changes_nothing(scene, name):
    known = dict(settings(scene))[name]
    order = np.array([3, 0, 4, 1, 2])
    place = np.argsort(order)
    moved = {}
    if "prior" in known:
        moved["prior"] = known["prior"][order]
    if "source" in known:
        moved["source"] = known["source"][0][:, order], place[known["source"][1]]
    one, other = tp.calibrate(scene.target, **known), tp.calibrate(scene.target[:, order], **moved)
    assert answer(other) == pytest.approx(answer(one), abs=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1e5])
def test_the_scale_of_the_logits_is_that_of_the_temperature(scene, scale):
    one = tp.calibrate(scene.target, scene.prior, scene.source)
    z, y = scene.source
    other = tp.calibrate(scale * scene.target, scene.prior, (scale * z, y))
    assert other.temperature.value == pytest.approx(scale * one.temperature.value, rel=1e-4)
    assert list(other.accuracy) == pytest.approx(list(one.accuracy), abs=1e-4)


def test_a_mask_and_no_source_is_not_a_miracle():
    """The second crash of a hostile review: "improved" with T = 2.6e-9."""
    rng = np.random.default_rng(1)
    y = rng.integers(4, size=800)
    z = 3 * (2 * np.eye(5)[y] + rng.normal(size=(800, 5)))
    z[:, 4] = np.finfo("f4").min
    cal = tp.calibrate(z.astype("f4"), np.array([0.25, 0.25, 0.25, 0.25, 0]))
    without = tp.calibrate(z[:, :4].astype("f4"), np.full(4, 0.25))
    assert answer(cal) == pytest.approx(answer(without), abs=1e-6)
    assert cal.accuracy.low < 0.82 < cal.accuracy.high


def test_giant_logits_do_not_crash():
    rng = np.random.default_rng(0)
    z, z_old = 1e50 * rng.normal(size=(50, 3)), 1e50 * rng.normal(size=(50, 3))
    fitted = tp.fit_prior_matched(z, np.full(3, 1 / 3), (z_old, np.arange(50) % 3))
    assert np.isfinite(fitted.temperature)


def test_the_bias_is_continuous_where_a_mix_begins_to_count():
    """A mix a little farther away never switches a large bias on."""
    z, _ = scenes.shifted(k=3, n=2000, signal=2.0, scale=4.0).source
    bias = []
    for tilt in np.linspace(0, 0.1, 21):
        prior = np.array([1 / 3 + tilt, 1 / 3 - tilt / 2, 1 / 3 - tilt / 2])
        bias.append(tp.calibrate(z, prior).map.parameters().get("bias", np.zeros(3)))
    assert np.abs(np.diff(bias, axis=0)).max() < 0.5


# ------------------------------------------------------------------------------------- labels


def test_many_labels_give_labelled_biased_temperature_scaling(scene):
    z, y = scene.held_out
    cal = tp.calibrate(scene.target, scene.prior, scene.source, labelled=(z, y))
    fitted = tp.fit_biased_temperature(z, y)
    assert cal.temperature.value == pytest.approx(fitted.temperature, rel=0.02)
    ours, theirs = (m.parameters()["bias"] for m in (cal.map, fitted))
    assert ours - ours.mean() == pytest.approx(theirs - theirs.mean(), abs=0.03)


def test_labels_leave_a_known_class_mix_met(scene):
    """The theorem behind it: with all labels, biased temperature scaling meets the class mix."""
    few = scene.target[:60], scene.labels[:60]
    exact = np.bincount(scene.labels, minlength=5) / len(scene.labels)
    fitted = tp.fit_biased_temperature(scene.target, scene.labels)
    assert fitted.predict_proba(scene.target).mean(axis=0) == pytest.approx(exact, abs=1e-5)
    cal = tp.calibrate(scene.target, exact, scene.source, labelled=few)
    assert cal.predict_proba(scene.target).mean(axis=0) == pytest.approx(exact, abs=0.01)


def test_labels_outweigh_a_class_mix_that_is_wrong(scene):
    wrong = np.roll(np.array([0.5, 0.3, 0.1, 0.05, 0.05]), 2)
    cal = tp.calibrate(scene.target, wrong, scene.source)
    cal = cal.update(*scene.held_out)
    truth = np.bincount(scene.labels, minlength=5) / len(scene.labels)
    assert cal.predict_proba(scene.target).mean(axis=0) == pytest.approx(truth, abs=0.03)


def _brier(cal, s):
    z, y = s.held_out
    return float(tp.metrics.brier(cal.map(z), y, per_class=False))


@pytest.mark.parametrize("seed", range(3))
def test_labels_tell_that_the_class_mix_is_still_that_of_the_source(seed):
    """Two classes are predicted too often. Twenty labels are then nearly as good as the mix."""
    s = scenes.shifted(offset=np.r_[1.5, 1.5, np.zeros(8)], seed=seed)
    without = tp.calibrate(s.target, source=s.source)
    few = without.update(s.target[:20], s.labels[:20])
    known = tp.calibrate(s.target, s.prior, s.source)
    assert _brier(few, s) - _brier(known, s) < 0.25 * (_brier(without, s) - _brier(known, s))
    assert "TP104" not in [f.code for f in few.findings]  # which speaks of a stated mix


@pytest.mark.parametrize("seed", range(3))
def test_labels_tell_that_the_class_mix_has_changed(seed):
    """One class became frequent. The source's mix is no longer met, and nothing gets worse."""
    mix = np.r_[0.55, np.full(9, 0.05)]
    s = scenes.shifted(signal=3.0, prior=mix, seed=seed)
    without = tp.calibrate(s.target, source=s.source)
    few = without.update(s.target[:20], s.labels[:20])
    assert few.predict_proba(s.target).mean(axis=0)[0] > 0.45  # of 0.55; the source has 0.1
    assert _brier(few, s) < _brier(without, s)


def test_one_label_cannot_do_more_than_a_bounded_harm(scene):
    """A confident row with a foreign label moves T less than the interval of T is wide."""
    few = scene.target[:100], scene.labels[:100].copy()
    without = tp.calibrate(scene.target, scene.prior, scene.source, labelled=few)
    sure = np.argmax(np.ptp(few[0], axis=1))
    few[1][sure] = few[0][sure].argmin()
    other = tp.calibrate(scene.target, scene.prior, scene.source, labelled=few)
    assert without.temperature.low < other.temperature.value < without.temperature.high


def test_one_label_changes_little(scene):
    without = tp.calibrate(scene.target, scene.prior, scene.source)
    one = without.update(scene.target[:1], scene.labels[:1])
    assert one.temperature.value == pytest.approx(without.temperature.value, rel=0.1)


def test_labels_narrow_the_intervals_and_hold_the_truth(scene):
    cal = tp.calibrate(scene.target, source=scene.source)
    rows = cal.label_next(100)
    known = cal.update(scene.target[rows], scene.labels[rows])
    z, y = scene.held_out
    truth = (np.asarray(known.map(z)).argmax(axis=1) == y).mean()
    assert np.ptp(known.accuracy[1:]) < np.ptp(cal.accuracy[1:])
    assert known.accuracy.low < truth < known.accuracy.high
    assert "TP408" in [f.code for f in known.findings]


def test_rows_that_have_a_label_are_not_named_again(scene):
    cal = tp.calibrate(scene.target, scene.prior)
    rows = cal.label_next(60)
    again = cal.update(scene.target[rows], scene.labels[rows]).label_next(200)
    assert not set(rows) & set(again)
    assert len(again) == 200


def test_a_label_of_an_excluded_class_is_not_lost(scene):
    z = np.column_stack([scene.target, np.full(len(scene.target), -100.0)])
    cal = tp.calibrate(z, np.r_[scene.prior, 0.0])
    with pytest.raises(tp.InputError, match="which its prior or its logits exclude"):
        cal.update(z[:3], [0, 1, 5])


def test_labels_given_at_once_or_in_two_parts_are_the_same(scene):
    few = scene.target[:60], scene.labels[:60]
    at_once = tp.calibrate(scene.target, scene.prior, labelled=few)
    parts = tp.calibrate(scene.target, scene.prior, labelled=(few[0][:20], few[1][:20]))
    parts = parts.update(few[0][20:], few[1][20:])
    assert answer(parts) == pytest.approx(answer(at_once), abs=1e-8)


def test_labels_that_contradict_are_said_so(scene):
    wrong = (scene.target[:60].argmax(axis=1) + 1) % 5
    cal = tp.calibrate(scene.target, scene.prior, scene.source, labelled=(scene.target[:60], wrong))
    assert "TP407" in [f.code for f in cal.findings]
    assert cal.accuracy.value < 0.5


def test_a_loaded_calibration_has_no_rows_to_update(scene, tmp_path):
    tp.calibrate(scene.target, scene.prior).save(tmp_path / "cal.json")
    with pytest.raises(tp.InputError, match="labelled="):
        tp.load(tmp_path / "cal.json").update(scene.target[:5], scene.labels[:5])


def test_every_row_is_equally_likely_to_be_named():
    """Of one target, over seeds: each row as often as any other, as a probability sample has it."""
    z = scenes.shifted(k=3, n=40, signal=1.5, scale=3.0).target
    count = np.zeros(len(z))
    for seed in range(300):
        count[tp.calibrate(z, np.full(3, 1 / 3), seed=seed).label_next(10)] += 1
    expected, error = 300 / 4, np.sqrt(300 * 0.25 * 0.75)
    assert np.abs(count - expected).max() < 4 * error


def test_rows_to_label_are_a_fair_sample_that_varies_less_than_a_random_one():
    """Over many targets the accuracy on 50 chosen rows is unbiased, and closer than at random."""
    chosen, drawn = [], []
    for seed in range(150):
        s = scenes.shifted(k=3, n=600, signal=3.0, scale=3.0, seed=seed)
        cal = tp.calibrate(s.target, s.prior, seed=seed)
        right = s.target.argmax(axis=1) == s.labels
        rows = cal.label_next(50)
        assert len(set(rows)) == 50
        chosen.append(right[rows].mean() - right.mean())
        drawn.append(right[np.random.default_rng(seed).permutation(600)[:50]].mean() - right.mean())
    assert abs(np.mean(chosen)) < 3 * np.std(chosen) / np.sqrt(150)
    assert np.std(chosen) < np.std(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["accuracy", "ece_after"])
@pytest.mark.parametrize("known", ["mix and source", "no mix"])
def test_as_many_labels_as_needed_make_the_interval_as_narrow(known, of):
    """What the simulation foretells beside how many real labels it took, over 24 shifts."""
    foretold, taken = [], []
    for seed in range(24):
        s = scenes.any_shift(seed, overconfident=bool(seed % 2))
        cal = tp.calibrate(s.target, **dict(settings(s))[known])
        z, y = s.held_out
        counts = np.array([50, 100, 200, 400])
        known_now = [cal.update(z[:n], y[:n]) for n in counts]
        widths = np.array([np.ptp(getattr(one, of)[1:]) for one in known_now])
        aim = float(np.sqrt(widths.min() * widths.max()))
        order = np.argsort(widths)
        taken.append(np.interp(np.log(aim), np.log(widths[order]), np.log(counts[order])))
        foretold.append(np.log(max(1, cal.labels_needed(aim, of))))
    ratio = np.exp(np.subtract(foretold, taken))
    assert np.median(ratio) == pytest.approx(1, abs=0.25)


def test_an_interval_that_is_narrow_enough_needs_no_label(scene):
    cal = tp.calibrate(scene.target, scene.prior, scene.source)
    assert cal.labels_needed(0.99) == 0
    assert cal.labels_needed(0.05) > cal.labels_needed(0.1)
    with pytest.raises(tp.InputError, match="width must be a finite number"):
        cal.labels_needed(1e-300)
    with pytest.raises(tp.InputError, match="of must be"):
        cal.labels_needed(0.1, of="nll")


def rare(rng, n, share, drift):
    """Logits and labels of two classes, one of them rare, whose signal has drifted away."""
    y = (rng.random(n) < share).astype(int)
    x = 2.0 * y + rng.normal(size=n) - drift
    logit = 2.0 * x - 2.0 + np.log(0.05 / 0.95)
    return np.column_stack([-logit / 2, logit / 2]), y


@pytest.mark.parametrize("drift", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("share", [0.02, 0.06, 0.2])
def test_a_true_mix_of_a_rare_class_is_not_dismissed(share, drift):
    """On the scale of log-odds the confidence of a rare class' model moves steeply."""
    rng = np.random.default_rng(0)
    z, y = rare(rng, 4000, share, drift)
    cal = tp.calibrate(z, np.bincount(y) / len(y), rare(rng, 4000, 0.05, 0.0))
    assert cal.details["mix"]["probability"] > 0.1


def test_a_mix_that_rows_like_the_sources_contradict_is_doubted():
    same = scenes.shifted(k=5, n=2000, home=3.0, signal=3.0, scale=4.0)
    cal = tp.calibrate(same.target, [0.7, 0.1, 0.1, 0.05, 0.05], same.source)
    assert cal.details["mix"]["probability"] < 0.5
    z, y = same.held_out
    home = tp.fit_temperature(*same.source)
    assert brier(cal.predict_proba(z), y) < brier(home.predict_proba(z), y) + 0.05


def test_where_no_mix_is_stated_that_of_the_source_may_still_hold():
    """Offsets of the logits, and nothing else: predictions go back to the source's mix in part."""
    drifted = scenes.shifted(k=5, n=3000, home=3.0, signal=2.0, offset=[1.5, 0, 0, 0, 0])
    z, y = drifted.held_out
    home = tp.fit_temperature(*drifted.source)
    moving = tp.calibrate(drifted.target, source=drifted.source)
    fixed = tp.calibrate(drifted.target, source=drifted.source, bias=False)
    assert (fixed.predict_proba(z).argmax(axis=1) == z.argmax(axis=1)).all()
    assert brier(moving.predict_proba(z), y) < brier(fixed.predict_proba(z), y)
    assert brier(moving.predict_proba(z), y) < brier(home.predict_proba(z), y)
    assert moving.details["mix"] is None  # nothing was stated that could be doubted
    assert not {"TP104", "TP106"} & {f.code for f in moving.findings}


def test_one_wrong_label_does_not_make_an_accuracy_of_zero_plausible(scene):
    cal = tp.calibrate(scene.target, scene.prior, scene.source)
    wrong = int(np.flatnonzero(cal.predict_proba(scene.target).argmax(axis=1) != scene.labels)[0])
    one = cal.update(scene.target[[wrong]], scene.labels[[wrong]])
    assert one.accuracy.low > 0.2

"""The result of `calibrate`: saved and loaded whole, and measured on a few labels."""

from __future__ import annotations

import numpy as np
import pytest
import scenes

import temperance as tp

OFFSET = np.array([0.6, -0.4, 0.3, 0.0, -0.5])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=2000, signal=2.0, scale=6.0, offset=OFFSET)


@pytest.fixture(scope="module")
def cal(scene):
    return tp.calibrate(scene.target, prior=scene.prior, source=scene.source)


def test_saved_and_loaded_it_is_the_same_to_the_byte(scene, cal, tmp_path):
    cal.save(tmp_path / "first.json")
    again = tp.calibrate(scene.target, prior=scene.prior, source=scene.source)
    again.save(tmp_path / "again.json")
    tp.load(tmp_path / "first.json").save(tmp_path / "loaded.json")
    first = (tmp_path / "first.json").read_bytes()
    assert first == (tmp_path / "again.json").read_bytes()
    assert first == (tmp_path / "loaded.json").read_bytes()


def test_predictions_are_those_of_the_calibrated_probabilities(scene, cal):
    predicted = cal.predict(scene.target)
    np.testing.assert_array_equal(predicted, cal.predict_proba(scene.target).argmax(axis=1))
    assert (predicted != scene.target.argmax(axis=1)).any()  # a class bias moves some


@pytest.mark.parametrize("n", [30, 100, 200])
def test_an_audit_measures_what_labels_say(scene, cal, n):
    rows = cal.details["label_next"][:n]
    z, y = scene.target[rows], scene.labels[rows]
    measured = cal.audit(z, y)
    assert measured.n == n
    assert measured.accuracy.value == tp.metrics.accuracy(np.asarray(cal.map(z)), y)
    assert measured.nll_before.value == pytest.approx(tp.metrics.nll(z, y))
    assert measured.nll_after.value < measured.nll_before.value
    assert measured.ece_after.low <= measured.ece_after.value <= measured.ece_after.high
    assert measured.label_next == cal.details["label_next"][n:]


def test_an_audit_agrees_with_the_truth_and_not_with_wrong_labels(scene, cal):
    rows = cal.details["label_next"][:150]
    assert cal.audit(scene.target[rows], scene.labels[rows]).agrees
    assert not cal.audit(scene.target[rows], (scene.labels[rows] + 1) % 5).agrees


def test_rows_that_are_all_right_still_leave_doubt(scene, cal):
    z = scene.target[:40]
    measured = cal.audit(z, np.asarray(cal.map(z)).argmax(axis=1))
    assert measured.accuracy.value == 1
    assert 0.85 < measured.accuracy.low < 1


def test_groups_widen_the_intervals(scene, cal):
    order = np.argsort(scene.target.argmax(axis=1) != scene.labels)[::8][:200]
    groups = np.arange(len(order)) // 20
    z, y = scene.target[order], scene.labels[order]
    by_row, by_group = cal.audit(z, y).accuracy, cal.audit(z, y, groups).accuracy
    assert by_group.high - by_group.low > 1.5 * (by_row.high - by_row.low)


def test_an_audit_refuses_other_classes(cal):
    with pytest.raises(tp.InputError, match="must have 5 columns"):
        cal.audit(np.random.default_rng(0).normal(size=(30, 4)), np.zeros(30, dtype=int))


def test_an_audit_refuses_the_source(scene, cal):
    z, y = scene.source
    with pytest.raises(tp.InputError, match="These are the source"):
        cal.audit(z, y.astype(np.int16))
    assert cal.audit(z[:-1], y[:-1]).n == len(z) - 1


def test_facts_of_an_audit_are_plain(scene, cal):
    facts = cal.audit(scene.target[:50], scene.labels[:50]).to_dict()
    assert isinstance(facts["accuracy"], list)
    assert isinstance(facts["agrees"], bool)


def test_facts_tell_how_well_the_mix_is_known(scene, cal):
    assert cal.details["prior_low"] is cal.details["prior_high"] is None
    known = tp.about(scene.prior, rows=40)
    rough = tp.calibrate(scene.target, prior=known, source=scene.source)
    assert rough.details["prior_low"] == known.low.tolist()
    assert rough.details["prior_high"] == known.high.tolist()
    assert any("A class mix" in wish for wish in rough.details["would_change"])


def test_it_is_shown_without_its_pages_of_numbers(cal):
    assert "histograms" not in repr(cal)


def test_a_verdict_that_nobody_gave_is_refused(cal):
    assert tp.Calibration.from_dict(cal.to_dict()).verdict == cal.verdict
    with pytest.raises(tp.InputError, match="verdict"):
        tp.Calibration.from_dict(cal.to_dict() | {"verdict": "splendid"})


@pytest.mark.parametrize("seed", [14, 35, 36])
def test_logits_too_large_for_a_doubt_have_an_interval_without_a_warning(seed):
    """The mean of probabilities that are all one may exceed one by rounding."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=400)
    z = 4 * (8 * np.eye(2)[y] + rng.normal(size=(400, 2)))
    far = 1e90 * (12 * np.eye(2)[rng.integers(2, size=200)] + 4 * rng.normal(size=(200, 2)))
    cal = tp.calibrate(far, source=(z, y))
    assert cal.accuracy.low <= cal.accuracy.value <= cal.accuracy.high <= 1


# ------------------------------------------------------------------------------ rows to label


def test_as_many_rows_to_label_as_are_asked_for(scene, cal):
    rows = cal.label_next(700)
    assert len(set(rows)) == len(rows) == 700
    assert rows[:200] == cal.label_next(200) == cal.details["label_next"]
    assert set(cal.label_next(10**9)) == set(range(len(scene.target)))
    later = cal.update(scene.target[rows], scene.labels[rows])
    left = later.label_next(10**9)
    assert sorted(left + rows) == list(range(len(scene.target)))


def test_more_rows_to_label_than_were_kept_are_refused(scene, cal, tmp_path):
    cal.save(tmp_path / "cal.json")
    stored = tp.load(tmp_path / "cal.json")
    assert stored.label_next(200) == cal.label_next(200)
    with pytest.raises(tp.InputError, match="n must be at most 200: a calibration from a file"):
        stored.label_next(201)
    many = tp.calibrate(np.tile(scene.target, (11, 1)), source=scene.source)
    assert len(set(many.label_next(20_000))) == 20_000
    with pytest.raises(tp.InputError, match=r"at most 20,000, .* read of 22,000. Got 20,001"):
        many.label_next(20_001)


# -------------------------------------------------------- labelled rows that are not what is asked


def test_errors_of_labelled_rows_call_them_labelled(scene, cal):
    z, y = scene.target[:30], scene.labels[:30]
    wrong = {
        "labelled logits must have at least one row": (z[:0], y[:0]),
        "labelled logits must have 5 columns": (z[:, :4], y % 4),
        "labelled logits must be finite. Row 3, class 1 is NaN": (
            np.where(np.arange(150).reshape(30, 5) == 16, np.nan, z),
            y,
        ),
        "labelled labels must be class indices": (z, np.eye(5)[y]),
    }
    for sentence, pair in wrong.items():
        with pytest.raises(tp.InputError, match=sentence):
            tp.calibrate(scene.target, source=scene.source, labelled=pair)
        with pytest.raises(tp.InputError, match=sentence):
            cal.update(*pair)
    with pytest.raises(tp.InputError, match="labelled must be a pair"):
        tp.calibrate(scene.target, source=scene.source, labelled=z)


def test_a_source_of_other_columns_is_told_from_other_names(scene):
    z, y = scene.source
    with pytest.raises(tp.InputError, match="source logits must have 5 columns"):
        tp.calibrate(scene.target, source=(z[:, :4], y % 4), classes=list("abcde"))

"""Class names in the place of columns: priors in a dict or a Series, labels in words."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scenes

import temperance as tp
from temperance._core import checks

NAMES = ["owl", "cat", "yak", "dog", "bee"]
MIX = np.array([0.1, 0.15, 0.2, 0.25, 0.3])


@pytest.fixture(scope="module")
def scene():
    return scenes.shifted(k=5, n=1500, signal=2.0, scale=6.0, prior=MIX)


@pytest.fixture(scope="module")
def plain(scene):
    return tp.calibrate(scene.target, MIX, scene.source, classes=NAMES)


def most_frequent_first():
    """The class mix as ``value_counts(normalize=True)`` gives it."""
    labels = np.repeat(NAMES, np.round(MIX * 100).astype(int))
    return pd.Series(labels).value_counts(normalize=True)


BY_NAME = {
    "dict": dict(zip(NAMES, MIX, strict=True)),
    "another order": dict(zip(NAMES[::-1], MIX[::-1], strict=True)),
    "value_counts": most_frequent_first(),
    "columns": {4: 0.3, 3: 0.25, 2: 0.2, 1: 0.15, 0: 0.1},
    "unnamed Series": pd.Series(MIX),
}


@pytest.mark.parametrize("given", BY_NAME.values(), ids=BY_NAME)
def test_a_prior_by_name_is_put_in_the_order_of_the_columns(scene, plain, given):
    cal = tp.calibrate(scene.target, given, scene.source, classes=NAMES)
    np.testing.assert_allclose(cal.details["prior"], MIX)
    assert cal.map.parameters()["temperature"] == plain.map.parameters()["temperature"]


def test_thousands_of_names_take_no_more_than_their_number():
    """Each name was once looked for among all the others."""
    names = [f"class {i}" for i in range(100_000)]
    start = time.process_time()
    found = checks.by_column(dict.fromkeys(reversed(names), 1.0), len(names), names)
    assert time.process_time() - start < 5
    assert len(found) == len(names)
    with pytest.raises(tp.InputError, match="names 'x', which is none of them"):
        checks.by_column(dict.fromkeys([*names[1:], "x"], 1.0), len(names), names)
    assert time.process_time() - start < 5


def test_ranges_and_rough_priors_go_by_name_too(scene):
    ranges = {name: (q / 2, 2 * q) for name, q in BY_NAME["another order"].items()}
    cal = tp.calibrate(scene.target, ranges, scene.source, classes=NAMES)
    np.testing.assert_allclose(cal.details["prior_low"], MIX / 2)
    for rough in (BY_NAME["another order"], most_frequent_first()):
        cal = tp.calibrate(scene.target, tp.about(rough, rows=50), scene.source, classes=NAMES)
        expected = tp.about(MIX, rows=50)
        np.testing.assert_allclose(cal.details["prior_high"], expected.high)


def test_estimators_read_a_prior_by_name(scene):
    plain = tp.fit_prior_matched(scene.target, MIX, scene.source)
    for prior in (most_frequent_first(), tp.about(most_frequent_first(), 1e9)):
        fitted = tp.PriorMatchedScaling(prior, source=scene.source, classes=NAMES).fit(scene.target)
        assert fitted.temperature_ == pytest.approx(plain.temperature, rel=1e-3)
    by_column = pd.Series(MIX)[::-1]  # 4, 3, 2, 1, 0
    assert tp.fit_uts(scene.target, by_column) == tp.fit_uts(scene.target, MIX)


@pytest.mark.parametrize(
    ("prior", "classes", "message"),
    [
        ({"owl": 0.5, "cat": 0.5}, NAMES, "lacks 'yak'; give 0 to a class that never occurs"),
        ({**BY_NAME["dict"], "emu": 0.0}, NAMES, "names 'emu', which is none of them"),
        (BY_NAME["dict"], None, "names 'owl', but the columns have no names here"),
        (pd.Series(MIX, index=["owl", "owl", "yak", "dog", "bee"]), NAMES, "lacks 'cat'"),
        (pd.Series([*MIX, 0.0], index=[*NAMES, "owl"]), NAMES, "names one twice"),
        ("uniform", NAMES, "class probabilities, .* by class name. Got str"),
        (MIX * 100, NAMES, "sum to 1. Got 100; divide by the sum if these are counts or per"),
    ],
)
def test_a_prior_of_other_classes_is_refused(scene, prior, classes, message):
    with pytest.raises(tp.InputError, match=message):
        tp.calibrate(scene.target, prior, scene.source, classes=classes)


def test_a_source_in_the_place_of_the_prior_is_shown_its_own(scene):
    with pytest.raises(tp.InputError, match="Got tuple; labelled rows belong in source="):
        tp.calibrate(scene.target, scene.source)


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pd.Categorical])
def test_labels_in_words_are_looked_up(scene, plain, kind):
    z, y = scene.source
    words = kind(np.array(NAMES)[y])
    cal = tp.calibrate(scene.target, MIX, (z, words), classes=NAMES)
    assert cal == plain
    rows = slice(100)
    measured = cal.audit(scene.target[rows], kind(np.array(NAMES)[scene.labels[rows]]))
    assert measured == plain.audit(scene.target[rows], scene.labels[rows])


def test_words_that_are_no_class_are_refused_with_their_row(scene):
    z, y = scene.source
    words = np.array(NAMES)[y]
    words[7] = "emu"
    with pytest.raises(tp.InputError, match="Row 7 holds 'emu'"):
        tp.calibrate(scene.target, MIX, (z, words), classes=NAMES)
    with pytest.raises(tp.InputError, match=r"first value 'owl'; name .*names\.index"):
        tp.fit_temperature(z[:3], ["owl", "cat", "owl"])


def test_a_generator_as_seed_leaves_facts_that_can_be_written(scene, tmp_path):
    cal = tp.calibrate(scene.target, MIX, scene.source, seed=np.random.default_rng(1))
    assert json.loads(json.dumps(cal.to_dict()))["details"]["seed"] is None
    cal.save(tmp_path / "cal.json")
    assert tp.load(tmp_path / "cal.json") == cal
    assert "of a generator" in cal.to_html()


FRAMES = {
    "pandas": lambda z, names: pd.DataFrame(z, columns=names),
    "polars": lambda z, names: pl.DataFrame(z, schema=names),
    "pyarrow": lambda z, names: pa.table(dict(zip(names, z.T, strict=True))),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_with_the_columns_of_a_file_has_them_in_order(scene, plain, frame):
    z, y = scene.source
    columns = [f"logit_{k}" for k in range(5)]
    right = tp.fit_temperature(z, y)
    assert tp.fit_temperature(frame(z, columns), y) == right
    assert tp.fit_temperature(frame(z, NAMES), y) == right  # classes of the user's own
    turned = frame(z[:, ::-1], columns[::-1])
    beside = frame(np.column_stack([z, y]), [*columns, "label"])
    for table in (turned, beside):
        with pytest.raises(tp.InputError, match="columns logit_0 to logit_4 in this order"):
            tp.fit_temperature(table, y)
        with pytest.raises(tp.InputError, match="select the columns by name first"):
            plain.map(table)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_with_the_names_of_the_classes_has_them_in_order(scene, plain, frame):
    z, y = scene.source
    words = np.array(NAMES)[y]
    target, home = frame(scene.target, NAMES), frame(z, NAMES)
    assert tp.calibrate(target, MIX, (home, words), classes=NAMES).map == plain.map
    turned = frame(scene.target[:, ::-1], NAMES[::-1])
    for given in ({"source": (home, words), "classes": NAMES}, {"source": (home, y)}):
        with pytest.raises(tp.InputError, match="must have columns in the order"):
            tp.calibrate(turned, MIX, **given)
    monitor = tp.Monitor(source=scene.source, classes=NAMES)
    with pytest.raises(tp.InputError, match="must have columns in the order"):
        monitor.add(turned, at="2026-11-02")
    with pytest.raises(tp.InputError, match=f"Got '{NAMES[-1]}' where '{NAMES[0]}' is due"):
        tp.metrics.ece(turned, np.array(NAMES)[scene.labels], classes=NAMES)


def test_words_among_the_scores_are_told_by_their_column(scene):
    table = pd.DataFrame(scene.target, columns=NAMES).assign(label="owl")
    with pytest.raises(tp.InputError, match="words in the column 'label': select"):
        tp.calibrate(table, MIX)


def test_a_lazy_frame_is_refused_with_the_way_out(scene):
    with pytest.raises(tp.InputError, match=r"Got LazyFrame: pass its \.collect\(\)"):
        tp.fit_temperature(pl.DataFrame(scene.source[0]).lazy(), scene.source[1])


@pytest.mark.parametrize(
    "missing", [pd.Series([0, None, 1], dtype="Int64"), pl.Series([0, None, 1])]
)
def test_a_missing_label_is_named_by_its_row(missing):
    with pytest.raises(tp.InputError, match="Row 1 is missing; drop rows without a label"):
        tp.fit_temperature(np.eye(3), missing)
    with pytest.raises(tp.InputError, match=r"first value 2\.0; cast classes to integers"):
        tp.fit_temperature(np.eye(3), np.array([2.0, 1.0, 0.0]))


def test_a_missing_logit_in_a_nullable_frame_is_called_missing():
    frame = pd.DataFrame(np.eye(3)).convert_dtypes()
    frame.iloc[1, 2] = pd.NA
    with pytest.raises(tp.InputError, match="some values are missing or no numbers"):
        tp.fit_temperature(frame, [0, 1, 2])

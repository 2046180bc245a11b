"""The input contract: every row of its table, at every public function."""

from __future__ import annotations

import numpy as np
import pytest
from gallery import (
    ESTIMATORS,
    FITS,
    MAPS,
    K,
    bad_labels,
    bad_priors,
    bad_weights,
    nasty,
    problem,
    refused,
    refused_by_fits,
)
from sklearn.base import clone

import temperance as tp
from temperance._core.checks import check_prior

METRICS = {
    "accuracy": tp.metrics.accuracy,
    "nll": tp.metrics.nll,
    "brier": tp.metrics.brier,
    "ece": tp.metrics.ece,
    "adaptive_ece": tp.metrics.adaptive_ece,
    "classwise_ece": tp.metrics.classwise_ece,
    "smooth_ece": tp.metrics.smooth_ece,
    "risk_coverage": tp.metrics.risk_coverage,
    "aurc": tp.metrics.aurc,
    "bootstrap": lambda z, y: tp.metrics.bootstrap(tp.metrics.nll, z, y, seed=0),
}
MEETS_LABELS = {**FITS, **METRICS}
LABEL_FREE = {
    "calibrate": lambda z, q: tp.calibrate(z, prior=q),
    "calibrate, source": lambda z, q: tp.calibrate(z, prior=q, source=problem()),
    "fit_uts": tp.fit_uts,
    "fit_prior_matched": tp.fit_prior_matched,
    "fit_prior_matched, source": lambda z, q: tp.fit_prior_matched(z, q, source=problem()),
    "fit_lascal": lambda z, q: tp.fit_lascal(z, problem(), q),
    "estimate_accuracy": lambda z, q: tp.estimate_accuracy(z, q, problem(), method="cot"),
    "estimate_accuracy, cott": lambda z, q: tp.estimate_accuracy(z, q, problem(), method="cott"),
    "fit_utdc": lambda z, _: tp.fit_utdc(z, problem()),
    "UnsupervisedTemperatureScaling": lambda z, q: tp.UnsupervisedTemperatureScaling(q).fit(z),
    "PriorMatchedScaling": lambda z, q: tp.PriorMatchedScaling(q).fit(z),
}


def labels_for(logits):
    """Labels that fit the logits, so that only the logits can be at fault."""
    n = np.shape(logits)[0] if isinstance(logits, np.ndarray) and np.ndim(logits) else 1
    return np.zeros(n, int)


@pytest.mark.parametrize("entry", MEETS_LABELS)
@pytest.mark.parametrize("case", [*refused(), *refused_by_fits()])
def test_bad_logits_are_refused_with_a_sentence(case, entry):
    bad, message = (refused() | refused_by_fits())[case]
    with pytest.raises(tp.InputError, match=f"(?s)^logits must .*{message}"):
        MEETS_LABELS[entry](bad, labels_for(bad))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("case", refused())
def test_maps_refuse_bad_logits_too(case, kind):
    bad, message = refused()[case]
    columns = bad.shape[1] if getattr(bad, "ndim", 0) == 2 else K
    fitted = MAPS[kind](max(columns, 2))
    if columns < 2:
        message = "at least two columns"
    for apply in (fitted, fitted.predict_proba):
        with pytest.raises(tp.InputError, match=f"(?s)^logits must .*{message}"):
            apply(bad)


@pytest.mark.parametrize("entry", FITS)
@pytest.mark.parametrize("case", bad_labels())
def test_bad_labels_are_refused_with_the_first_offender(case, entry):
    bad, message = bad_labels()[case]
    with pytest.raises(tp.InputError, match=message):
        FITS[entry](problem()[0], bad)


@pytest.mark.parametrize("entry", METRICS)
@pytest.mark.parametrize("case", ["none", "K", "-1", "floats", "strings", "too few", "a dict"])
def test_metrics_refuse_bad_labels(case, entry):
    bad, message = bad_labels()[case]
    with pytest.raises(tp.InputError, match=message):
        METRICS[entry](problem()[0], bad)


@pytest.mark.parametrize("entry", FITS)
@pytest.mark.parametrize("case", bad_weights())
def test_bad_weights_are_refused(case, entry):
    bad, message = bad_weights()[case]
    with pytest.raises(tp.InputError, match=f"sample_weight must .*{message}"):
        FITS[entry](*problem(), bad)


NEEDS_NO_PRIOR = ("calibrate", "calibrate, source", "fit_lascal")


@pytest.mark.parametrize(
    ("case", "entry"),
    [
        (c, e)
        for c in bad_priors()
        for e in LABEL_FREE
        if e != "fit_utdc" and (c != "none" or e not in NEEDS_NO_PRIOR)
    ],
)
def test_bad_priors_are_refused_with_the_number(case, entry):
    bad, message = bad_priors()[case]
    with pytest.raises(tp.InputError, match=f"^prior must .*{message}"):
        LABEL_FREE[entry](problem()[0], bad)


@pytest.mark.parametrize("entry", LABEL_FREE)
@pytest.mark.parametrize("case", [*refused(), *refused_by_fits()])
def test_bad_target_logits_are_refused_with_a_sentence(case, entry):
    bad, message = (refused() | refused_by_fits())[case]
    columns = bad.shape[1] if getattr(bad, "ndim", 0) == 2 else K
    with pytest.raises(tp.InputError, match=f"(?s)^.*logits must .*({message}|columns)"):
        LABEL_FREE[entry](bad, np.full(columns, 1 / max(columns, 1)))


SAYS_NOTHING = {
    "constant rows": np.zeros((100, K)),
    "one class predicted": problem(n=100)[0] + np.array([99, 0, 0, 0]),
    "29 rows": problem(n=29)[0],
}


@pytest.mark.parametrize("source", [None, problem(n=200)], ids=["no source", "source"])
@pytest.mark.parametrize("case", SAYS_NOTHING)
def test_a_target_that_says_nothing_is_refused_and_left_alone(case, source):
    cal = tp.calibrate(SAYS_NOTHING[case], prior=np.full(K, 1 / K), source=source)
    assert cal.verdict == "refused"
    home = 1.0 if source is None else tp.fit_temperature(*source).temperature
    assert cal.map.temperature == pytest.approx(home, rel=1e-9)
    assert cal.accuracy is None
    assert cal.findings[0].severity == "refuse"


def test_a_class_of_prior_zero_that_is_predicted_is_said_and_loses_its_rows():
    z, _ = problem(n=200)
    cal = tp.calibrate(z, prior=[0, 0.4, 0.3, 0.3])
    found = next(f for f in cal.findings if f.code == "TP103")
    assert found.evidence["share"] == pytest.approx((z.argmax(axis=1) == 0).mean())
    assert cal.predict_proba(z)[:, 0].mean() < tp.Temperature(1.0).predict_proba(z)[:, 0].mean() / 2


def test_a_prior_of_counts_divided_by_their_sum_is_accepted():
    counts = np.array([10, 20, 30, 40])
    assert check_prior(counts / counts.sum(), K) == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=1e-16)


def test_class_names_stand_in_for_indices():
    z, y = problem()
    names = np.array(["nevus", "melanoma", "keratosis", "other"])
    named = tp.TemperatureScaling(classes=names).fit(z, names[y])
    assert named.map_ == tp.fit_temperature(z, y)
    with pytest.raises(tp.InputError, match=r"among classes .*'melanoma'.* Row 2 holds 'mole'"):
        tp.TemperatureScaling(classes=names).fit(z[:3], ["nevus", "other", "mole"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "4 distinct names, one per column. Got 2 names, 2 of them distinct"),
        (["a", "b", "b", "c"], "Got 4 names, 3 of them distinct"),
        ([["a"], ["b"], ["c"], {}], "4 distinct names"),
        (5, "Got 1 names"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(tp.InputError, match=f"classes must .*{message}"):
        tp.TemperatureScaling(classes=names).fit(*problem())


MEETINGS = [
    (case, entry)
    for case in nasty()
    for entry in FITS
    # A million parameters take ten seconds; the plain matrix, refused at once, meets them.
    if (case, entry) != ("a thousand classes", "fit_matrix penalised")
]
NOT_THESE = {"subnormal logits": "scale between", "soft labels": "hard", "one-hot labels": "hard"}


@pytest.mark.parametrize(("case", "entry"), MEETINGS)
def test_nasty_but_legal_input_gives_a_map_or_not_identified(case, entry):
    z, y = nasty()[case]
    refusal = NOT_THESE.get(case)
    if refusal and ("attended" in entry or refusal != "hard"):
        with pytest.raises(tp.InputError, match=refusal):
            FITS[entry](z, y)
        return
    try:
        fitted = FITS[entry](z, y)
    except tp.NotIdentified as error:
        assert len(str(error)) > 30  # noqa: PT017 - a sentence
        return
    assert all(np.isfinite(v).all() for v in fitted.parameters().values())
    p = np.asarray(fitted.predict_proba(z), dtype=np.float64)
    assert p.shape == np.shape(z)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)), abs=5e-3)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("case", nasty())
def test_maps_meet_the_gallery(case, kind):
    z, _ = nasty()[case]
    fitted = MAPS[kind](np.shape(z)[1])
    try:
        out = fitted(z)
    except tp.InputError as error:
        assert "overflow" in str(error)  # noqa: PT017
        return
    assert np.isfinite(np.asarray(out, dtype=np.float64)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("case", ["float16", "memory map", "lists", "big-endian", "one row"])
def test_estimators_meet_the_gallery(case, estimator):
    z, y = nasty()[case]
    fitted = clone(estimator)
    try:
        fitted.fit(z, y)
    except tp.NotIdentified:
        return
    assert np.shape(fitted.predict_proba(z)) == np.shape(z)


@pytest.mark.parametrize("entry", METRICS)
@pytest.mark.parametrize("case", nasty())
def test_metrics_meet_the_gallery(case, entry):
    z, y = nasty()[case]
    if entry == "bootstrap" and len(z) == 1:
        with pytest.raises(tp.InputError, match="at least two rows"):
            METRICS[entry](z, y)
    else:
        METRICS[entry](z, y)

"""`LabelFreeClassifier` around scikit-learn's models on digits with noise."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - what users of joblib and multiprocessing do
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_array

import temperance as tp

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
PRIOR = np.full(10, 0.1)


class Digits:
    """Rows of the digits: for training, of the source, and of a target with noise."""

    def __init__(self, noise: float = 5.0, seed: int = 0) -> None:
        x, y = load_digits(return_X_y=True)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        x, y = x[order], y[order]
        self.train, self.source = (x[:700], y[:700]), (x[700:1200], y[700:1200])
        self.target, self.truth = x[1200:] + noise * rng.normal(size=x[1200:].shape), y[1200:]


@pytest.fixture(scope="module")
def digits():
    return Digits()


@pytest.fixture(scope="module")
def model(digits):
    return make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000)).fit(
        *digits.train
    )


def wrapped(model, digits, **parameters):
    parameters = {"prior": PRIOR, "source": digits.source} | parameters
    return tp.LabelFreeClassifier(model, **parameters)


class Boosted:
    """A classifier as boosting libraries write one: no scikit-learn, float32, predict_proba."""

    def __init__(self, model) -> None:
        self.model = model
        self.classes_ = model.classes_

    def predict_proba(self, x):
        return self.model.predict_proba(x).astype(np.float32)


# ------------------------------------------------------------------------------------- gains


@pytest.mark.parametrize(
    ("model", "scores_from", "gain"),
    [
        (LogisticRegression(max_iter=2000), "decision_function", 0.3),
        (MLPClassifier((50,), max_iter=600, random_state=0), "predict_log_proba", 0.4),
        (RandomForestClassifier(random_state=0), "predict_proba", 0.2),
    ],
)
def test_the_likelihood_of_noisy_digits_rises_without_their_labels(
    digits, model, scores_from, gain
):
    model = clone(model).fit(*digits.train)
    calibrated = wrapped(model, digits).fit(digits.target)
    assert calibrated.scores_from_ == scores_from
    before, after = (
        log_loss(digits.truth, np.clip(m.predict_proba(digits.target), 1e-9, 1))
        for m in (model, calibrated)
    )
    assert after < before - gain


def test_boosted_trees_of_other_libraries_in_single_precision(digits):
    forest = RandomForestClassifier(random_state=0).fit(*digits.train)
    ours = wrapped(forest, digits).fit(digits.target)
    theirs = wrapped(Boosted(forest), digits).fit(digits.target)
    assert theirs.scores_from_ == "predict_proba"
    assert theirs.predict_proba(digits.target) == pytest.approx(
        ours.predict_proba(digits.target), abs=1e-4
    )


def test_a_row_has_the_same_answer_alone(digits):
    """A forest gives probabilities of exactly 0 and 1: the batch must not decide what 0 means."""
    forest = RandomForestClassifier(20, random_state=0).fit(*digits.train)
    fitted = wrapped(forest, digits).fit(digits.target)
    rows = np.vstack([digits.source[0][:30], digits.target[:30]])
    alone = np.vstack([fitted.predict_proba(row[None]) for row in rows])
    assert alone == pytest.approx(fitted.predict_proba(rows), abs=1e-12)


@pytest.mark.parametrize("model", [RidgeClassifier(), GaussianNB(), SVC()])
def test_margins_and_log_probabilities_are_scores(digits, model):
    fitted = wrapped(clone(model).fit(*digits.train), digits).fit(digits.source[0])
    p = fitted.predict_proba(digits.source[0])
    assert p.sum(axis=1) == pytest.approx(1)
    assert log_loss(digits.source[1], p) < np.log(10) / 1.5


def test_two_classes_are_two_columns(digits):
    x, y = digits.train
    odd = LogisticRegression(max_iter=2000).fit(x, y % 2)
    source = (digits.source[0], digits.source[1] % 2)
    fitted = tp.LabelFreeClassifier(odd, [0.5, 0.5], source).fit(digits.target)
    assert fitted.predict_proba(digits.target).shape == (len(digits.target), 2)
    direct = tp.calibrate(
        tp.binary_logits(odd.decision_function(digits.target)),
        prior=[0.5, 0.5],
        source=(tp.binary_logits(odd.decision_function(source[0])), source[1]),
    )
    assert fitted.calibration_.map == direct.map


# ----------------------------------------------------------------------------------- classes


def test_labels_in_words_go_in_and_out(digits):
    x, y = digits.train
    model = LogisticRegression(max_iter=2000).fit(x, NAMES[y])
    source = (digits.source[0], NAMES[digits.source[1]])
    by_name = dict.fromkeys(NAMES, 0.1)
    fitted = tp.LabelFreeClassifier(model, by_name, source).fit(digits.target)
    assert set(fitted.predict(digits.target)) <= set(NAMES)
    assert fitted.score(digits.target, NAMES[digits.truth]) > 0.6
    assert (fitted.classes_ == model.classes_).all()


def test_integer_classes_with_gaps_are_not_columns(digits):
    x, y = digits.train
    model = LogisticRegression(max_iter=2000).fit(x, 10 * y + 7)
    plain = LogisticRegression(max_iter=2000).fit(x, y)
    source = (digits.source[0], 10 * digits.source[1] + 7)
    gaps = tp.LabelFreeClassifier(model, PRIOR, source).fit(digits.target)
    dense = wrapped(plain, digits).fit(digits.target)
    assert gaps.calibration_.map == dense.calibration_.map
    assert (gaps.predict(digits.target) == 10 * dense.predict(digits.target) + 7).all()


def test_a_class_that_is_absent_from_the_target_keeps_its_column(digits, model):
    some = digits.truth < 8
    prior = np.r_[np.full(8, 0.124), 0.004, 0.004]
    fitted = wrapped(model, digits, prior=prior).fit(digits.target[some])
    p = fitted.predict_proba(digits.target[some])
    assert p.shape[1] == 10
    assert p[:, 8:].mean() < model.predict_proba(digits.target[some])[:, 8:].mean()


# -------------------------------------------------------------------------------- a few labels


def some_labels(truth, n, seed=0):
    """The labels of n random rows, and -1 for the others."""
    y = np.full(len(truth), -1)
    rows = np.random.default_rng(seed).permutation(len(truth))[:n]
    y[rows] = truth[rows]
    return y


def test_a_few_labels_narrow_the_accuracy(digits, model):
    without = wrapped(model, digits).fit(digits.target).calibration_.accuracy
    fitted = wrapped(model, digits).fit(digits.target, some_labels(digits.truth, 150))
    accuracy = fitted.calibration_.accuracy
    assert accuracy.high - accuracy.low < without.high - without.low
    assert accuracy.low <= fitted.score(digits.target, digits.truth) <= accuracy.high


def test_rows_without_labels_are_as_none(digits, model):
    none = wrapped(model, digits).fit(digits.target)
    unlabelled = wrapped(model, digits).fit(digits.target, np.full(len(digits.truth), -1))
    assert unlabelled.calibration_.map == none.calibration_.map


def test_labels_in_words_are_marked_by_minus_one_too(digits):
    x, y = digits.train
    words = LogisticRegression(max_iter=2000).fit(x, NAMES[y])
    plain = LogisticRegression(max_iter=2000).fit(x, y)
    some = some_labels(digits.truth, 60)
    objects = np.where(some < 0, -1, NAMES[some].astype(object))
    order = np.argsort(NAMES)  # scikit-learn sorts its classes
    source = (digits.source[0], NAMES[digits.source[1]])
    expected = wrapped(plain, digits).fit(digits.target, some).predict_proba(digits.target)
    for form in (objects, objects.astype(str), list(objects), pd.Series(objects)):
        fitted = tp.LabelFreeClassifier(words, PRIOR, source).fit(digits.target, form)
        assert fitted.predict_proba(digits.target) == pytest.approx(expected[:, order], abs=0.02)


def test_minus_one_may_be_a_class(digits):
    x, y = digits.train
    sign = LogisticRegression(max_iter=2000).fit(x, np.where(y > 4, 1, -1))
    truth = np.where(digits.truth > 4, 1, -1)
    fitted = tp.LabelFreeClassifier(sign, [0.5, 0.5]).fit(digits.target, truth)
    accuracy = fitted.calibration_.accuracy
    assert accuracy.high - accuracy.low < 0.1
    assert accuracy.low <= fitted.score(digits.target, truth) <= accuracy.high


def test_labels_that_do_not_fit_the_rows_are_refused(digits, model):
    with pytest.raises(tp.InputError, match="y must have one label for each of the"):
        wrapped(model, digits).fit(digits.target, digits.truth[:10])
    with pytest.raises(tp.InputError, match="y must be classes of the estimator"):
        wrapped(model, digits).fit(digits.target, digits.truth + 1)
    some = np.where(np.arange(len(digits.truth)) < 7, -1, digits.truth).astype(object)
    for missing in (None, np.nan, pd.NA, {}, [1]):
        some[9] = missing
        with pytest.raises(tp.InputError, match=r"Row 9 holds .*\. Without a label it holds -1\."):
            wrapped(model, digits).fit(digits.target, some)


# -------------------------------------------------------------------------- scikit-learn's ways


def test_a_clone_keeps_the_fitted_estimator(digits, model):
    first = wrapped(model, digits).fit(digits.target)
    second = clone(first)
    assert second.estimator is model
    with pytest.raises(NotFittedError):
        second.predict(digits.target)
    assert second.fit(digits.target).calibration_.map == first.calibration_.map
    assert is_classifier(first)


@pytest.mark.parametrize("copy", ["pickle", "joblib"])
def test_a_stored_classifier_gives_the_same_answers(digits, model, copy):
    fitted = wrapped(model, digits).fit(digits.target)
    if copy == "pickle":
        again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    else:
        file = io.BytesIO()
        joblib.dump(fitted, file)
        file.seek(0)
        again = joblib.load(file)
    assert (again.predict_proba(digits.target) == fitted.predict_proba(digits.target)).all()


def test_grid_search_and_cross_validation(digits, model):
    """The labels that a search needs for its scores are labels of the fit too."""
    search = GridSearchCV(
        wrapped(model, digits, source=None),
        {"prior": [tp.about(PRIOR, rows=50), PRIOR]},
        scoring="neg_log_loss",
        cv=2,
    )
    search.fit(digits.target, digits.truth)
    assert search.best_estimator_.estimator is model
    assert -search.best_score_ < log_loss(digits.truth, model.predict_proba(digits.target))
    scores = cross_val_score(wrapped(model, digits), digits.target, digits.truth, cv=3)
    assert scores.mean() > model.score(digits.target, digits.truth) - 0.02


def test_data_frames_reach_the_estimator(digits):
    columns = [f"pixel {i}" for i in range(64)]
    train, target = (pd.DataFrame(x, columns=columns) for x in (digits.train[0], digits.target))
    scaler = StandardScaler().set_output(transform="pandas")
    model = make_pipeline(scaler, LogisticRegression(max_iter=2000)).fit(train, digits.train[1])
    source = (pd.DataFrame(digits.source[0], columns=columns), pd.Series(digits.source[1]))
    fitted = tp.LabelFreeClassifier(model, PRIOR, source).fit(target)
    assert list(fitted.feature_names_in_) == columns
    assert fitted.n_features_in_ == 64
    assert isinstance(fitted.predict_proba(target), np.ndarray)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(target[columns[::-1]])


def test_the_last_step_of_a_pipeline(digits):
    scaler = StandardScaler().fit(digits.train[0])
    model = LogisticRegression(max_iter=2000).fit(
        scaler.transform(digits.train[0]), digits.train[1]
    )
    source = (scaler.transform(digits.source[0]), digits.source[1])
    pipe = make_pipeline(FrozenEstimator(scaler), tp.LabelFreeClassifier(model, PRIOR, source))
    pipe.fit(digits.target)
    whole = tp.LabelFreeClassifier(make_pipeline(scaler, model), PRIOR, digits.source)
    expected = whole.fit(digits.target).predict_proba(digits.target)
    assert pipe.predict_proba(digits.target) == pytest.approx(expected)


def test_a_frozen_estimator_is_a_fitted_one(digits, model):
    frozen = wrapped(FrozenEstimator(model), digits).fit(digits.target)
    assert frozen.calibration_.map == wrapped(model, digits).fit(digits.target).calibration_.map


class Ready(ClassifierMixin, BaseEstimator):
    """A classifier that is always fitted, for any features: the checks make up their own."""

    classes_ = np.arange(3)

    def fit(self, X, y=None):  # noqa: ARG002 - a classifier has one
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        x = check_array(X)
        return x @ np.random.default_rng(0).normal(size=(x.shape[1], 3))


UNKNOWN = "the number of features is that of the estimator, and this estimator has none"
FIXED = "the classes are those of the estimator, not those of y"
COLUMN = "a column of labels, as data frames give it, is read without a warning"
EXCEPTIONS = {
    "check_n_features_in": UNKNOWN,
    "check_n_features_in_after_fitting": UNKNOWN,
    "check_classifiers_classes": FIXED,
    "check_classifiers_one_label": FIXED,
    "check_classifiers_regression_target": FIXED,
    "check_classifiers_train": FIXED,
    "check_dtype_object": FIXED,
    "check_supervised_y_2d": COLUMN,
}


def own_checks():
    estimator = tp.LabelFreeClassifier(Ready(), np.full(3, 1 / 3))
    return [
        pytest.param(one, check, id=f"{check.func.__name__}-{i}")
        for i, (one, check) in enumerate(estimator_checks_generator(estimator))
        if check.func.__name__ != "check_array_api_input"  # needs a flag in the environment
    ]


@pytest.mark.filterwarnings("ignore")  # of the data that the checks make up
@pytest.mark.parametrize(("estimator", "check"), own_checks())
def test_scikit_learns_own_checks_hold_or_fail_for_a_reason(estimator, check):
    reason = EXCEPTIONS.get(check.func.__name__)
    if reason is None:
        check(estimator)
    else:
        with pytest.raises((AssertionError, ValueError)):
            check(estimator)


# -------------------------------------------------------------------------------- refusals


def test_what_is_not_a_fitted_classifier_is_refused(digits):
    for bad in (LinearRegression(), LogisticRegression, "a model", None):
        with pytest.raises(tp.InputError, match="estimator must be a fitted classifier"):
            wrapped(bad, digits).fit(digits.target)
    with pytest.raises(NotFittedError, match="call its fit first"):
        wrapped(LogisticRegression(), digits).fit(digits.target)
    with pytest.raises(tp.InputError, match="one score per pair"):
        wrapped(SVC(decision_function_shape="ovo").fit(*digits.train), digits).fit(digits.target)
    for unreal in (1j, "a"):
        model = GaussianNB().fit(*digits.train)
        model.decision_function = lambda x, unreal=unreal: np.full((len(x), 10), unreal)
        with pytest.raises(tp.InputError, match="must give one real score"):
            wrapped(model, digits).fit(digits.target)
    with pytest.raises(NotFittedError, match="if it is a classifier"):
        wrapped(OneClassSVM().fit(digits.train[0]), digits).fit(digits.target)


@pytest.mark.parametrize("how", ["several outputs", "one against the rest", "pipeline", "network"])
def test_several_labels_for_a_row_are_refused(digits, how):
    x, y = digits.train
    table = np.eye(10, dtype=int)[y]
    rest = OneVsRestClassifier(LogisticRegression(max_iter=50))
    model = {
        "several outputs": lambda: RandomForestClassifier(5).fit(x, np.stack([y, y > 4], axis=1)),
        "one against the rest": lambda: rest.fit(x, table),
        "pipeline": lambda: make_pipeline(StandardScaler(), rest).fit(x, table),
        "network": lambda: MLPClassifier([9], solver="lbfgs", max_iter=9).fit(x, table),
    }[how]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few steps are enough here
        fitted = model()
    with pytest.raises(tp.InputError, match=r"one class|multi-label"):
        wrapped(fitted, digits).fit(digits.target)


class Tensors:
    """A network whose scores are tensors, with their gradients."""

    def __init__(self, model, scores):
        self.classes_ = model.classes_
        setattr(self, scores, lambda x: torch.tensor(getattr(model, scores)(x), requires_grad=True))


@pytest.mark.parametrize("scores", ["predict_proba", "predict_log_proba"])
def test_scores_may_be_tensors(digits, scores):
    model = GaussianNB(var_smoothing=0.01).fit(*digits.train)
    there = wrapped(Tensors(model, scores), digits).fit(digits.target)
    here = wrapped(model, digits).fit(digits.target)
    assert there.scores_from_ == scores
    np.testing.assert_allclose(
        there.predict_proba(digits.target), here.predict_proba(digits.target), atol=1e-3
    )


def test_a_source_that_does_not_fit_the_estimator_is_refused(digits, model):
    x, y = digits.source
    with pytest.raises(tp.InputError, match=r"source must be a pair \(X, y\)"):
        wrapped(model, digits, source=x).fit(digits.target)
    with pytest.raises(tp.InputError, match="Row 0 holds"):
        wrapped(model, digits, source=(x, NAMES[y])).fit(digits.target)

"""Every exported estimator: scikit-learn's own checks, and ours."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from gallery import ESTIMATORS
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import temperance as tp
from temperance.calibrate.prior_matched import fit_prior_matched
from temperance.interop import sklearn as estimators
from temperance.interop.testing import calibrator_checks, check_calibrator
from temperance.methods.uts import fit_uts

# -------------------------------------------------------------------- scikit-learn's own checks
#
# They make up features X and labels y that have nothing to do with each other. Here columns are
# classes: y indexes them, and a fit that learns nothing raises. Those checks cannot hold, and each
# is declared below; all that they ask is asked again by `check_calibrator`, on logits.

COLUMNS = "its labels are not columns of its X: more classes than columns, floats, or words"
UNRELATED = "its labels have nothing to do with its X, so nothing is identified, and that is said"
COLUMN = "a column of labels, as data frames give it, is read without a warning"
BLIND = "labels are not looked at"
MISSING = "it leaves a class without labels, whose bias is then not identified"

WITH_LABELS = {
    "check_classifier_data_not_an_array": COLUMNS,
    "check_classifiers_classes": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_estimators_nan_inf": COLUMNS,
    "check_estimators_overwrite_params": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_sample_weights_not_an_array": COLUMNS,
    "check_sample_weights_not_overwritten": COLUMNS,
    "check_sample_weights_pandas_series": COLUMNS,
    "check_sample_weights_shape": COLUMNS,
    "check_classifiers_train": UNRELATED,
    "check_dict_unchanged": UNRELATED,
    "check_dont_overwrite_parameters": UNRELATED,
    "check_dtype_object": UNRELATED,
    "check_estimators_dtypes": UNRELATED,
    "check_f_contiguous_array_estimator": UNRELATED,
    "check_fit2d_predict1d": UNRELATED,
    "check_methods_sample_order_invariance": UNRELATED,
    "check_methods_subset_invariance": UNRELATED,
    "check_n_features_in_after_fitting": UNRELATED,
    "check_supervised_y_2d": COLUMN,
}
WITHOUT_LABELS = {
    "check_classifiers_classes": BLIND,
    "check_classifiers_one_label": BLIND,
    "check_classifiers_regression_target": BLIND,
    "check_classifiers_train": BLIND,
    "check_supervised_y_2d": BLIND,
    "check_supervised_y_no_nan": BLIND,
    "check_dtype_object": "objects that are not numbers raise InputError, no TypeError",
    "check_fit_check_is_fitted": UNRELATED,
    "check_positive_only_tag_during_fit": UNRELATED,
}
TIED = (
    "no UTS temperature is identified: two ties outweigh all that class 1 lacks, so the optimal w "
    "is 0 (test_ties_that_outweigh_the_shortfall_leave_no_optimal_weight)"
)
EXCEPTIONS = {
    "TemperatureScaling": WITH_LABELS,
    "VectorScaling": WITH_LABELS,
    "MatrixScaling": WITH_LABELS,
    "AttendedTemperatureScaling": WITH_LABELS
    | {
        "check_fit_check_is_fitted": UNRELATED,
        "check_fit_idempotent": UNRELATED,
        "check_n_features_in": UNRELATED,
    },
    "BiasedTemperatureScaling": WITH_LABELS
    | {
        "check_estimators_pickle": MISSING,
        "check_fit2d_1sample": MISSING,
        "check_pipeline_consistency": MISSING,
        "check_positive_only_tag_during_fit": MISSING,
        "check_sample_weight_equivalence_on_dense_data": MISSING,
        "check_transformer_data_not_an_array": MISSING,
        "check_transformer_general": MISSING,
        "check_transformer_preserve_dtypes": MISSING,
    },
    "UniformUTS": WITHOUT_LABELS | {"check_classifier_data_not_an_array": TIED},
    "UniformPriorMatched": {
        name: why
        for name, why in WITHOUT_LABELS.items()
        if name not in {"check_fit_check_is_fitted", "check_positive_only_tag_during_fit"}
    },
}


class UniformUTS(tp.UnsupervisedTemperatureScaling):
    """With a prior for any number of columns: the checks make up as many as they like."""

    def _fit(self, logits):
        k = logits.shape[1]
        return fit_uts(logits, np.full(k, 1 / k))


class UniformPriorMatched(tp.PriorMatchedScaling):
    def _fit(self, logits):
        k = logits.shape[1]
        return fit_prior_matched(logits, np.full(k, 1 / k), bias=self.bias)


CHECKED = [
    tp.TemperatureScaling(),
    tp.VectorScaling(penalty=0.1),
    tp.MatrixScaling(penalty=10.0),  # one check compares two fits to 1e-7
    tp.AttendedTemperatureScaling(threshold=0.5),
    tp.BiasedTemperatureScaling(),
    UniformUTS(),
    UniformPriorMatched(),
]


def own_checks():
    """Estimator, name and check, without the one that needs a flag in the environment."""
    for estimator in CHECKED:
        for made, check in estimator_checks_generator(estimator):
            if check.func.__name__ != "check_array_api_input":  # see test_arrays instead
                yield made, check.func.__name__, check


OLD = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)
# Asked by old scikit-learn of estimators too that say they take no sparse X.
UNFAIR = {"check_sample_weight_equivalence_on_sparse_data"} if OLD else set()
OWN_CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}")
    for estimator, name, check in own_checks()
    if name not in UNFAIR | EXCEPTIONS[type(estimator).__name__].keys()
]


@pytest.mark.parametrize(("estimator", "check"), OWN_CHECKS)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.skipif(OLD, reason="the exceptions are those of scikit-learn 1.8 and later")
@pytest.mark.parametrize("estimator", CHECKED, ids=lambda e: type(e).__name__)
def test_what_is_declared_an_exception_is_one(estimator):
    kind = type(estimator)
    needless = set(EXCEPTIONS[kind.__name__])
    for made, name, check in own_checks():
        if type(made) is kind and name in needless:
            try:
                check(made)
            except (AssertionError, ValueError):
                needless.remove(name)
    assert needless == set()


# ----------------------------------------------------------------------------------- our checks

AT_ONE = "its definition refers to probabilities at T = 1, so it has a scale of its own"
DECLARED = {
    "AttendedTemperatureScaling": {"check_scale": AT_ONE},
    "UnsupervisedTemperatureScaling": {"check_scale": AT_ONE},
}


def declared_for(estimator):
    if isinstance(estimator, tp.PriorMatchedScaling) and estimator.source is None:
        return {"check_scale": AT_ONE}  # without a source it stands on UTS
    return DECLARED.get(type(estimator).__name__, {})


def label(estimator):
    parts = [f"{k}={v}" for k, v in estimator.get_params().items() if isinstance(v, (str, float))]
    extra = ["bias"] * getattr(estimator, "bias", False)
    extra += ["source"] * (getattr(estimator, "source", None) is not None)
    return f"{type(estimator).__name__}({','.join(parts + extra)})"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=label)
def test_every_estimator_passes_check_calibrator(estimator):
    check_calibrator(estimator, expected_failed_checks=declared_for(estimator))


def test_every_exported_estimator_is_checked():
    held = {n: v for n, v in vars(estimators).items() if isinstance(v, type) and n[0] != "_"}
    public = {
        name for name, kind in held.items() if kind.__module__.startswith("temperance.interop")
    }
    assert public <= set(tp.__all__)
    of_features = {"LabelFreeClassifier"}  # see test_label_free_classifier
    assert {type(e).__name__ for e in ESTIMATORS} == public - of_features


# ---------------------------------------------------------------------- the checks themselves


class Honest(BaseEstimator):
    """A third party's estimator that keeps every promise, by delegating to ours."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, logits, y=None, sample_weight=None):
        inner = tp.TemperatureScaling(self.classes).fit(logits, y, sample_weight)
        self.map_, self.classes_ = inner.map_, inner.classes_
        self.temperature_, self.n_features_in_ = inner.temperature_, inner.n_features_in_
        self._inner = inner
        return self

    def transform(self, logits):
        check_is_fitted(self)
        return self._inner.transform(logits)

    def predict_proba(self, logits):
        check_is_fitted(self)
        return self._inner.predict_proba(logits)

    def predict(self, logits):
        check_is_fitted(self)
        return self._inner.predict(logits)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def reads(change):
    """A fit that changes what it reads: logits, labels and weights."""

    def fit(self, logits, y=None, sample_weight=None):
        if isinstance(logits, np.ndarray) and logits.dtype.kind == "f" and logits.ndim == 2:
            logits, y, sample_weight = change(logits, y, sample_weight)
        return Honest.fit(self, logits, y, sample_weight)

    return fit


def spoils_the_data(self, logits, y=None, sample_weight=None):
    Honest.fit(self, logits, y, sample_weight)
    logits[0, 0] += 1
    return self


def counts_classes_by_labels(self, logits, y=None, sample_weight=None):
    Honest.fit(self, logits, y, sample_weight)
    self.seen_ = np.unique(y)
    return self


def takes_any_label(z, y, w):
    floats = y is not None and np.asarray(y).dtype.kind == "f"
    return z, np.asarray(y).astype(int) if floats else y, w


def makes_something_of_nothing(z, y, w):
    noise = np.random.default_rng(0).normal(size=z.shape)
    return (z if np.ptp(z) else noise + np.eye(z.shape[1])[y]), y, w


def leans_on_memory_order(z, y, w):
    return z + 5 * np.eye(z.shape[1])[0] * z.flags.f_contiguous, y, w


LIES = {
    "check_fit_sets_what_it_promises": {"fit": spoils_the_data},
    "check_fit_again_changes_nothing": {
        "fit": reads(lambda z, y, w: (z * np.random.default_rng().uniform(1, 2), y, w))
    },
    "check_unfitted_raises": {"predict_proba": lambda _, z: z},
    "check_outputs_agree": {"predict_proba": Honest.transform},
    "check_rows_do_not_meet": {"transform": lambda self, z: Honest.transform(self, z) - np.mean(z)},
    "check_names": {"predict": lambda self, z: Honest.transform(self, z).argmax(axis=1)},
    "check_columns_are_classes": {
        "fit": counts_classes_by_labels,
        "predict_proba": lambda self, z: Honest.predict_proba(self, z)[:, self.seen_],
    },
    "check_row_constant": {"fit": reads(lambda z, y, w: (np.where(z > 9, 2 * z, z), y, w))},
    "check_permuted_classes": {"fit": reads(lambda z, y, w: (z + np.arange(z.shape[1]), y, w))},
    "check_row_order": {"fit": reads(lambda z, y, _: (z[:300], y[:300], None))},
    "check_weight_is_repetition": {"fit": reads(lambda z, y, _: (z, y, None))},
    "check_scale": {"fit": reads(lambda z, y, w: (np.tanh(z), y, w))},
    "check_ranking": {"predict": lambda _, z: (-np.asarray(z, float)).argmax(axis=1)},
    "check_likelihood": {"fit": reads(lambda z, y, w: (z * 30, y, w))},
    "check_dtypes_kept": {
        "predict_proba": lambda self, z: Honest.predict_proba(self, z).astype(np.float64)
    },
    "check_layouts": {"fit": reads(leans_on_memory_order)},
    "check_bad_logits_raise": {
        "transform": lambda self, z: Honest.transform(self, np.nan_to_num(np.asarray(z)))
    },
    "check_bad_labels_raise": {"fit": reads(takes_any_label)},
    "check_not_identified_raises": {"fit": reads(makes_something_of_nothing)},
}
"""For each check, methods that break its promise."""


def test_an_honest_third_party_passes():
    check_calibrator(Honest())


def test_every_check_has_a_lie_to_catch():
    unused = {"check_labels_unused"}  # of estimators without labels; caught below
    assert set(LIES) == {name for name, _ in calibrator_checks()} - unused


@pytest.mark.parametrize("name", LIES)
def test_every_check_catches_its_lie(name):
    with pytest.raises(AssertionError):
        dict(calibrator_checks())[name](type("Dishonest", (Honest,), LIES[name])())


def test_a_blind_estimator_that_peeks_is_caught():
    class Peeks(tp.UnsupervisedTemperatureScaling):
        def fit(self, logits, y=None):
            return super().fit(logits if y is None else logits * 2.0)

    with pytest.raises(AssertionError, match="labels must not change"):
        dict(calibrator_checks())["check_labels_unused"](Peeks(np.full(4, 0.25)))


def test_an_expected_failure_that_passes_is_an_error():
    with pytest.raises(ValueError, match=r"check_scale was expected to fail \(why\), and passes"):
        check_calibrator(tp.TemperatureScaling(), expected_failed_checks={"check_scale": "why"})

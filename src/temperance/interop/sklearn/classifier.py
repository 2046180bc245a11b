"""A fitted classifier whose probabilities are calibrated to unlabelled target rows.

The wrapped estimator is never fitted again: it only scores rows, and `temperance.calibrate` fits a
map to its scores. Scores become logits in one of three ways, the first that the estimator offers:

    decision_function   as it is; (0, s) for the one column s of two classes
    predict_log_proba   as it is, unless some probabilities are exactly 0
    predict_proba       its logarithm, with a least probability that is fixed by the fit
"""

# scikit-learn has no type information: what comes from it is unknown to a strict checker.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from temperance._core.arrays import Floats, as_numbers, to_numpy
from temperance._core.checks import InputError, shown
from temperance.calibrate import calibrate
from temperance.calibrate.result import Calibration
from temperance.data.convert import least_probability
from temperance.data.types import PriorLike

SCORES = ("decision_function", "predict_log_proba", "predict_proba")
NAME = "probabilities of the estimator"  # in messages
UNLABELLED = {-1, "-1"}  # NumPy writes -1 among words as a word
SMALLEST = float(np.finfo(np.float64).smallest_normal)  # probability in place of 0


@final
class LabelFreeClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A fitted classifier, calibrated to unlabelled rows of a shifted target.

    Parameters
    ----------
    estimator : fitted classifier
        With ``classes_`` and ``decision_function``, ``predict_log_proba`` or ``predict_proba``: of
        scikit-learn, a pipeline, XGBoost, LightGBM or CatBoost. It is never fitted again, and a
        clone of the wrapper shares it.
    prior : optional
        Class mix of the target, in the order of ``estimator.classes_`` or by class name, as in
        `temperance.calibrate`.
    source : pair (X, y), optional
        Labelled rows from before the shift, *features* as the estimator takes them, which it was
        not trained on. A prior or a source is needed.

    Attributes
    ----------
    calibration_ : Calibration
        Map, verdict, findings and intervals. Read ``calibration_.verdict`` before relying on the
        probabilities.
    classes_ : array of shape (K,)
        Those of the estimator; a class that is absent from the target keeps its column.
    scores_from_ : str
        The method of the estimator that gives the scores.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> def rows(n, noise):
    ...     y = rng.integers(3, size=n)
    ...     return 3 * np.eye(3)[y] + noise * rng.normal(size=(n, 3)), np.array(["a", "b", "c"])[y]
    >>> model = LogisticRegression(C=100).fit(*rows(300, 1.0))
    >>> X, y = rows(2000, 2.5)  # the target; y is not used
    >>> calibrated = tp.LabelFreeClassifier(model, prior=[1 / 3] * 3, source=rows(1000, 1.0)).fit(X)
    >>> calibrated.calibration_.temperature.value > 1, calibrated.predict(X[:2]).dtype.kind
    (True, 'U')
    """

    calibration_: Calibration
    classes_: NDArray[Any]
    scores_from_: str

    def __init__(self, estimator: Any, prior: object = None, source: object = None) -> None:
        self.estimator = estimator
        self.prior = prior
        self.source = source

    def fit(self, X: Any, y: object = None) -> Self:
        """Calibrate the estimator to target rows.

        Parameters
        ----------
        X : rows as the estimator takes them
            Of the target.
        y : array of shape (n,), optional
            Labels of some of the rows, -1 for a row without a label. A few labels decide between
            the maps that are plausible without labels.
        """
        classes = self._check_estimator()
        source = cast("Any", self.source)
        if source is not None and (not isinstance(source, (tuple, list)) or len(source) != 2):
            kind = type(source).__name__
            raise InputError(f"source must be a pair (X, y) of features and labels. Got {kind}.")
        parts = [X] if source is None else [X, source[0]]
        method, least, scores = _choose_scores(self.estimator, parts, len(classes))
        logits = [_as_logits(s, method, least) for s in scores]
        self.calibration_ = calibrate(
            logits[0],
            prior=cast("PriorLike | None", self.prior),
            source=None if source is None else (logits[1], _as_columns(source[1], classes)),
            labelled=None if y is None else _labelled_rows(logits[0], y, classes),
            classes=classes.tolist(),
        )
        self.classes_, self.scores_from_, self._least = classes, method, least
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return calibrated probabilities, one column for each of ``classes_``."""
        logits = self._logits(X)
        return self.calibration_.map.predict_proba(logits)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, after calibration."""
        logits = self._logits(X)
        return self.classes_[to_numpy(self.calibration_.map(logits)).argmax(axis=1)]

    @property
    def n_features_in_(self) -> int:
        """Return the number of features of the estimator."""
        return self.estimator.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Return the names of the features of the estimator."""
        return self.estimator.feature_names_in_

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that shares the estimator, which must stay fitted."""
        return type(self)(self.estimator, self.prior, self.source)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _logits(self, X: Any) -> Floats:
        check_is_fitted(self, "calibration_")
        scores = _score(self.estimator, self.scores_from_, X, len(self.classes_))
        return _as_logits(scores, self.scores_from_, self._least)

    def _check_estimator(self) -> NDArray[Any]:
        """Return the classes of the estimator, which must be fitted."""
        if isinstance(self.estimator, type) or not any(hasattr(self.estimator, s) for s in SCORES):
            raise InputError(
                f"estimator must be a fitted classifier with one of {', '.join(SCORES)}. Got "
                f"{shown(self.estimator)} instead."
            )
        classes = getattr(self.estimator, "classes_", None)
        if classes is None:
            raise NotFittedError(
                f"estimator must be a classifier that is fitted before it is calibrated. This "
                f"{type(self.estimator).__name__} has no classes_: call its fit first, if it is a "
                "classifier."
            )
        parameters = getattr(self.estimator, "get_params", dict)()
        shapes = [v for name, v in parameters.items() if name.endswith("decision_function_shape")]
        if "ovo" in shapes:
            raise InputError(
                "estimator must give one score per class. Its decision_function_shape is 'ovo', "
                "one score per pair of classes; set it to 'ovr'."
            )
        last = self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator
        sigmoids = getattr(last, "out_activation_", None) == "logistic" and len(classes) > 2
        if sigmoids or any(np.ndim(c) for c in classes) or getattr(last, "multilabel_", False):
            raise InputError(
                "estimator must give each row one class. This one was fitted on several labels for "
                "each row: fit and calibrate one classifier for each label."
            )
        return np.asarray(classes)


def _choose_scores(estimator: Any, parts: list[Any], k: int) -> tuple[str, float, list[Floats]]:
    """Return the method that gives scores, the least probability, and the scores of each part.

    Logarithms of probabilities serve where all are finite. Probabilities of exactly 0 need a least
    value, which depends on how the probabilities are rounded.
    """
    for method in SCORES[:2]:
        if hasattr(estimator, method):
            scores = [_score(estimator, method, X, k) for X in parts]
            if method == "decision_function":
                return method, SMALLEST, scores
            least_probability(np.exp(np.concatenate(scores)), NAME)  # rows must sum to 1
            if all(np.isfinite(s).all() for s in scores) or not hasattr(estimator, SCORES[2]):
                return method, SMALLEST, scores
    p = [_score(estimator, "predict_proba", X, k) for X in parts]
    least = least_probability(np.concatenate(p), NAME)
    return "predict_proba", least, p


def _score(estimator: Any, method: str, X: Any, k: int) -> Floats:
    """Return the scores of rows, one column for each of the K classes."""
    with np.errstate(divide="ignore"):  # the logarithm of a probability of 0
        given = as_numbers(getattr(estimator, method)(X))
    scores: NDArray[Any] = np.empty(0) if given is None else to_numpy(given)
    if scores.ndim == 1 and k == 2:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    if scores.ndim != 2 or scores.shape[1] != k:
        raise InputError(
            f"estimator must give one real score for each of its {k} classes. Its {method} has the "
            f"shape {scores.shape}."
        )
    return scores


def _as_logits(scores: Floats, method: str, least: float) -> Floats:
    wide = scores.astype(np.float64)
    if method == "decision_function":
        return wide
    if method == "predict_log_proba":
        return np.maximum(wide, np.log(least))
    return np.log(np.maximum(wide, least))


def _labelled_rows(
    logits: Floats, y: Any, classes: NDArray[Any]
) -> tuple[Floats, NDArray[np.int64]] | None:
    """Return the rows that have a label, with their columns; None where no row has one.

    Where -1 is itself a class, as in {-1, 1}, every row counts as labelled.
    """
    labels = _labels(y)
    if len(labels) != len(logits):
        msg = f"y must have one label for each of the {len(logits)} rows. Got {len(labels)}."
        raise InputError(msg)
    marks = UNLABELLED - set(classes.tolist())
    known = [row for row, label in enumerate(labels) if label not in marks]
    if not known:
        return None
    return logits[known], _as_columns([labels[row] for row in known], classes, "y", known)


def _as_columns(
    y: Any,
    classes: NDArray[Any],
    name: str = "source labels",
    rows: list[int] | None = None,
) -> NDArray[np.int64]:
    """Return the column of each label; ``rows`` are the numbers of those that have one."""
    labels = _labels(y)
    column = {label: k for k, label in enumerate(classes.tolist())}
    strange = next((i for i, label in enumerate(labels) if label not in column), None)
    if strange is not None:
        row, way_out = strange, ""
        if rows is not None:
            row, way_out = rows[strange], " Without a label it holds -1."
        raise InputError(
            f"{name} must be classes of the estimator, {classes.tolist()[:10]}. Row {row} "
            f"holds {shown(labels[strange])}.{way_out}"
        )
    return np.array([column[label] for label in labels], dtype=np.int64)


def _labels(y: Any) -> list[Any]:
    """Return labels as they are; what no dictionary can hold, such as a list, as its text."""
    given = np.asarray(y, dtype=object).reshape(-1).tolist()
    return [one if isinstance(one, Hashable) else shown(one) for one in given]

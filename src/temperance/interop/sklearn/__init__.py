"""scikit-learn: calibration maps as estimators; `classifier` has one that wraps a classifier.

The fields of an estimator are its parameters, and ``fit`` calls one function. X are logits, and
each column is a class, whatever labels occur; y indexes the columns unless ``classes`` names them.
An estimator is a transformer, for pipelines, and a classifier, for scorers.
"""

# scikit-learn has no type information: what comes from it is unknown to a strict checker.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from temperance._core import checks
from temperance._core.arrays import Array, as_vector, is_numpy, namespace, to_numpy
from temperance.calibrate.prior_matched import fit_prior_matched
from temperance.calibrate.problem import in_columns
from temperance.data.given import as_source_rows
from temperance.data.types import PriorLike, SourceLike, WeightsLike
from temperance.interop.sklearn.classifier import LabelFreeClassifier as LabelFreeClassifier
from temperance.maps import BiasedTemperature, Map, Temperature
from temperance.methods.uts import fit_uts
from temperance.supervised.affine import fit_biased_temperature, fit_matrix, fit_vector
from temperance.supervised.attended import fit_attended
from temperance.supervised.temperature import fit_temperature

estimator = dataclass(eq=False, repr=False)  # scikit-learn reads the parameters off __init__


class _Scaling(OneToOneFeatureMixin, TransformerMixin, ClassifierMixin, BaseEstimator, ABC):
    """The answers of an estimator that has fitted its map."""

    classes: Sequence[object] | None
    n_features_in_: int
    map_: Map
    classes_: NDArray[Any]
    temperature_: float

    def transform(self, X: object) -> Array:
        """Return calibrated logits, of the kind, dtype and device of X."""
        z = self._check_logits(X)
        return self.map_(z)

    def predict_proba(self, X: object) -> Array:
        """Return calibrated probabilities, one column per class."""
        z = self._check_logits(X)
        return self.map_.predict_proba(z)

    def predict(self, X: object) -> Array:
        """Return the most probable class of each row: its name, or its column without names."""
        z = self._check_logits(X)
        xp = namespace(z)
        # In float64, because a division in half precision can make ties and so move the argmax.
        best = xp.argmax(self.map_(xp.astype(z, xp.float64)), axis=1)
        if self.classes is None and not is_numpy(z):
            return best
        return self.classes_[to_numpy(best)]

    def _set_map(self, X: object, fitted: Map, classes: list[Any] | None) -> Self:
        self._check_columns(X, reset=True)
        self.map_ = fitted
        self.classes_ = as_vector(range(self.n_features_in_) if classes is None else classes)
        if isinstance(fitted, (Temperature, BiasedTemperature)):
            self.temperature_ = fitted.temperature
        return self

    def _check_logits(self, X: object) -> Array:
        """Return checked logits with the columns of the fit."""
        check_is_fitted(self)
        table = len(getattr(X, "shape", ())) == 2  # of a table, columns are checked first
        z = X if table else checks.check_logits(X)
        self._check_columns(z, reset=False)
        return checks.check_logits(z)

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Remember the number of columns and their names, or demand the same again."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:
            raise checks.InputError(str(error)) from None

    def _names(self, n_classes: int) -> list[Any] | None:
        return None if self.classes is None else checks.check_classes(self.classes, n_classes)


class _Supervised(_Scaling, ABC):
    """An estimator that learns from labels by ``_function``, whose options are its parameters."""

    _function: ClassVar[Callable[..., Map]]

    def __init__(self, classes: Sequence[object] | None = None) -> None:
        self.classes = classes

    def fit(self, X: object, y: object = None, sample_weight: WeightsLike | None = None) -> Self:
        """Fit the map.

        Parameters
        ----------
        X : array or data frame of shape (n, K)
            Scores before the softmax, one column per class.
        y : array of shape (n,), or (n, K) for soft labels
            Columns, or names among ``classes``.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        """
        z = checks.check_logits(X)
        n, k = (int(s) for s in z.shape)
        classes = self._names(k)
        labels = checks.check_labels(y, n, k, classes, name="y")
        options = {name: v for name, v in self.get_params().items() if name != "classes"}
        return self._set_map(X, self._function(z, labels, sample_weight, **options), classes)


@final
class TemperatureScaling(_Supervised):
    """Temperature scaling, ``z / T``: see `fit_temperature`.

    Parameters
    ----------
    classes : sequence of K names, optional
        Class names in the order of the columns; without them y indexes the columns.

    Attributes
    ----------
    map_ : Temperature
    temperature_ : float
    classes_ : array of shape (K,)

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> z = np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    >>> ts = tp.TemperatureScaling(classes=["cat", "dog"]).fit(z, ["cat", "cat", "cat", "dog"])
    >>> ts.predict_proba(z[:1]).round(2), ts.predict(z[:1])
    (array([[0.75, 0.25]]), array(['cat'], dtype='<U3'))
    """

    _function = staticmethod(fit_temperature)


@final
class BiasedTemperatureScaling(_Supervised):
    """Bias-corrected temperature scaling, ``z / T + b``: see `fit_biased_temperature`.

    ``classes`` and the attributes are those of `TemperatureScaling`.
    """

    _function = staticmethod(fit_biased_temperature)


@estimator
class _Penalised(_Supervised, ABC):
    """An estimator with a penalty."""

    penalty: float = 0.0
    classes: Sequence[object] | None = None


@final
class VectorScaling(_Penalised):
    """Vector scaling, ``w * z + b``: see `fit_vector`.

    ``penalty`` is the pull towards temperature scaling; choose it by cross-validation, as below.
    ``classes`` and the attributes are those of `TemperatureScaling`; there is no temperature.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(300, 3)) * 3
    >>> y = (z * [1.0, 0.5, 0.2] + rng.gumbel(size=z.shape)).argmax(axis=1)  # unequal gains
    >>> grid = {"penalty": [0.01, 0.1, 1.0, 10.0]}
    >>> search = GridSearchCV(tp.VectorScaling(), grid, scoring="neg_log_loss").fit(z, y)
    >>> search.best_params_
    {'penalty': 0.01}
    """

    _function = staticmethod(fit_vector)


@final
class MatrixScaling(_Penalised):
    """Matrix scaling, ``W z + b``: see `fit_matrix`; arguments as of `VectorScaling`."""

    _function = staticmethod(fit_matrix)


@final
@estimator
class AttendedTemperatureScaling(_Supervised):
    """Attended temperature scaling, ``z / T``: see `fit_attended`.

    ``threshold`` and ``form`` are those of `fit_attended`; ``classes`` and the attributes are those
    of `TemperatureScaling`.
    """

    _function = staticmethod(fit_attended)

    threshold: float = 1e-5
    form: str = "paper"
    classes: Sequence[object] | None = None


class _LabelFree(_Scaling, ABC):
    """An estimator that learns from unlabelled target rows and a prior."""

    @abstractmethod
    def _fit(self, logits: Array) -> Map: ...

    def fit(self, X: object, y: object = None) -> Self:
        """Fit the map.

        Parameters
        ----------
        X : array or data frame of shape (n, K)
            Scores before the softmax of the target rows, one column per class.
        y : ignored
            A pipeline may pass labels; the fit does not use them.
        """
        del y
        z = checks.check_logits(X)
        classes = self._names(int(z.shape[1]))
        return self._set_map(X, self._fit(z), classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@final
@estimator
class UnsupervisedTemperatureScaling(_LabelFree):
    """Unsupervised temperature scaling, ``z / T``, the paper's method: see `fit_uts`.

    ``prior``, by column or by class, ``form``, ``bag_size`` and ``seed`` are those of `fit_uts`;
    ``classes`` and the attributes are those of `TemperatureScaling`.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(5, size=4000)
    >>> z = 4 * (np.eye(5)[y] + rng.normal(size=(4000, 5)) + [1, 0, 0, 0, 0])  # leans to class 0
    >>> tp.UnsupervisedTemperatureScaling(np.full(5, 0.2)).fit(z).temperature_ > 1
    True
    """

    prior: PriorLike | None = None
    form: str = "reference"
    bag_size: int | None = 2000
    seed: int | np.random.Generator = 0
    classes: Sequence[object] | None = None

    def _fit(self, logits: Array) -> Map:
        prior: Any = in_columns(self.prior, int(logits.shape[1]), self.classes)
        return fit_uts(logits, prior, form=self.form, bag_size=self.bag_size, seed=self.seed)


@final
@estimator
class PriorMatchedScaling(_LabelFree):
    """Prior-matched scaling, ``z / T + b``: see `fit_prior_matched`.

    ``prior``, by column or by class, ``bias``, ``source`` and ``seed`` are those of
    `fit_prior_matched`; labels of the source may be names among ``classes``. The attributes are
    those of `TemperatureScaling`; with ``bias=False`` the map has none.
    """

    prior: PriorLike | None = None
    bias: bool = True
    source: SourceLike | None = None
    seed: int | np.random.Generator = 0
    classes: Sequence[object] | None = None

    def _fit(self, logits: Array) -> Map:
        k = int(logits.shape[1])
        prior: Any = in_columns(self.prior, k, self.classes)
        source = self.source
        if source is not None:
            source = as_source_rows(source, k, self._names(k))
        return fit_prior_matched(logits, prior, source, bias=self.bias, seed=self.seed)

"""The scikit-learn shells: pipelines, data frames, cloning, other arrays."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from gallery import ESTIMATORS
from simulated import logits
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import temperance as tp

K = 4
Z, Y = logits(400, K, sharpness=2.0, seed=5)
COLUMNS = [f"logit_{k}" for k in range(K)]
NAMES = np.array(["nevus", "melanoma", "keratosis", "other"])

FITTED_BY = {
    "TemperatureScaling": tp.fit_temperature,
    "BiasedTemperatureScaling": tp.fit_biased_temperature,
    "VectorScaling": tp.fit_vector,
    "MatrixScaling": tp.fit_matrix,
    "AttendedTemperatureScaling": tp.fit_attended,
    "UnsupervisedTemperatureScaling": tp.fit_uts,
    "PriorMatchedScaling": tp.fit_prior_matched,
}


@pytest.fixture(params=ESTIMATORS, ids=lambda e: type(e).__name__)
def estimator(request):
    return clone(request.param)


class LogitsOf(TransformerMixin, BaseEstimator):
    """The logits of a linear classifier, as the first step of a pipeline in logit space."""

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=100.0).fit(X, y)
        return self

    def transform(self, X):
        return self.model_.decision_function(X)


def test_the_map_is_the_one_of_the_function(estimator):
    function = FITTED_BY[type(estimator).__name__]
    parameters = estimator.get_params()
    parameters.pop("classes")
    if "prior" in parameters:
        parameters["prior"] = np.full(K, 1 / K)
        estimator.set_params(prior=np.full(K, 1 / K))
        direct = function(Z, **parameters)
    else:
        direct = function(Z, Y, **parameters)
    assert estimator.fit(Z, Y).map_ == direct


def test_sample_weight_reaches_the_fit():
    weight = np.arange(len(Y)) % 2
    halved = tp.TemperatureScaling().fit(Z, Y, sample_weight=weight)
    assert halved.map_ == tp.fit_temperature(Z, Y, weight)
    assert halved.map_ != tp.fit_temperature(Z, Y)


def test_labels_without_names_index_the_columns():
    fitted = tp.TemperatureScaling().fit(Z, Y)
    assert (fitted.classes_ == np.arange(K)).all()
    assert fitted.temperature_ == fitted.map_.temperature
    assert not hasattr(tp.MatrixScaling(0.1).fit(Z, Y), "temperature_")


@pytest.mark.parametrize("names", [NAMES, list(NAMES), tuple(NAMES), pd.Series(NAMES)])
def test_names_in_any_sequence(names):
    fitted = tp.TemperatureScaling(classes=names).fit(Z, pd.Series(NAMES[Y]))
    assert (fitted.classes_ == NAMES).all()
    assert (fitted.predict(Z) == NAMES[Z.argmax(axis=1)]).all()


def test_names_of_mixed_types_stay_apart():
    names = [0, "0", "b", 2.5]
    fitted = tp.TemperatureScaling(classes=names).fit(Z, [names[k] for k in Y])
    assert fitted.classes_.tolist() == [0, "0", "b", 2.5]
    assert fitted.map_ == tp.fit_temperature(Z, Y)


# -------------------------------------------------------------------------------- pipelines


def test_a_pipeline_in_logit_space():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 20))  # 80 rows of 20 features: overfitted, so overconfident
    y = (x[:, :3] + rng.gumbel(size=(600, 3))).argmax(axis=1)
    front = LogitsOf().fit(x[:80], y[:80])
    pipe = make_pipeline(FrozenEstimator(front), tp.TemperatureScaling())
    pipe.fit(x[200:400], y[200:400])
    assert is_classifier(pipe)
    assert pipe[-1].map_ == tp.fit_temperature(front.transform(x[200:400]), y[200:400])
    before = log_loss(y[400:], front.model_.predict_proba(x[400:]))
    assert log_loss(y[400:], pipe.predict_proba(x[400:])) < before
    assert pipe.score(x[400:], y[400:]) == front.model_.score(x[400:], y[400:])
    assert clone(pipe).fit(x[200:400], y[200:400])[-1].map_ == pipe[-1].map_


def test_a_frozen_estimator_is_left_alone():
    frozen = FrozenEstimator(tp.TemperatureScaling().fit(Z, Y))
    kept = frozen.estimator.map_
    assert clone(frozen).fit(Z * 3, Y).estimator.map_ == kept
    assert (frozen.predict_proba(Z) == kept.predict_proba(Z)).all()


def test_cross_validation_chooses_a_penalty():
    search = GridSearchCV(
        tp.MatrixScaling(), {"penalty": [1e-3, 0.3]}, scoring="neg_log_loss", cv=3
    )
    search.fit(Z[:150], Y[:150])
    assert search.best_params_ == {"penalty": 0.3}
    scores = cross_val_score(tp.TemperatureScaling(), Z, Y, scoring="neg_log_loss", cv=3)
    assert -scores.mean() == pytest.approx(tp.metrics.nll(Z / 2, Y), abs=0.05)


def test_fit_transform_passes_weights():
    weight = np.arange(len(Y)) % 3
    once = tp.TemperatureScaling().fit_transform(Z, Y, sample_weight=weight)
    assert (once == tp.fit_temperature(Z, Y, weight)(Z)).all()


def test_metadata_routing_knows_weights_and_not_the_logits():
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(tp.TemperatureScaling().set_fit_request(sample_weight=True))
        pipe.fit(Z, Y, sample_weight=np.arange(len(Y)) % 3)
        assert pipe[-1].map_ == tp.fit_temperature(Z, Y, np.arange(len(Y)) % 3)
        with pytest.raises(TypeError, match="logits"):
            tp.TemperatureScaling().set_fit_request(logits=True)
    for method in ("transform", "predict", "predict_proba"):
        assert not hasattr(tp.TemperatureScaling, f"set_{method}_request")


# ------------------------------------------------------------------------------- data frames


reads_polars = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="older scikit-learn does not read the names of the columns of polars 2",
)


@pytest.mark.parametrize("frame", [pd.DataFrame, pytest.param(pl.DataFrame, marks=reads_polars)])
def test_frames_in_and_on_request_out(frame):
    data = frame(Z, columns=COLUMNS) if frame is pd.DataFrame else frame(Z, schema=COLUMNS)
    series = pd.Series(Y) if frame is pd.DataFrame else pl.Series(Y)
    fitted = tp.TemperatureScaling().fit(data, series)
    assert list(fitted.feature_names_in_) == COLUMNS
    assert list(fitted.get_feature_names_out()) == COLUMNS
    assert fitted.map_ == tp.fit_temperature(Z, Y)
    assert isinstance(fitted.transform(data), np.ndarray)
    kind = "pandas" if frame is pd.DataFrame else "polars"
    out = fitted.set_output(transform=kind).transform(data)
    assert isinstance(out, frame)
    assert list(out.columns) == COLUMNS
    assert out.to_numpy() == pytest.approx(fitted.map_(Z))
    wrong = data[COLUMNS[::-1]]
    with pytest.raises(tp.InputError, match=r"(?s)feature names should match.*same order"):
        fitted.transform(wrong)


def test_an_index_is_kept():
    data = pd.DataFrame(Z, columns=COLUMNS, index=np.arange(len(Z)) * 7)
    fitted = tp.TemperatureScaling().set_output(transform="pandas").fit(data, Y)
    assert (fitted.transform(data).index == data.index).all()


def test_frames_whose_columns_have_mixed_names_are_refused():
    with pytest.raises(tp.InputError, match="all input features have string names"):
        tp.TemperatureScaling().fit(pd.DataFrame(Z, columns=["a", 1, "b", 2]), Y)


# ------------------------------------------------------------------------------ other arrays


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_in_torch_out(estimator, dtype):
    z = torch.tensor(Z, dtype=getattr(torch, dtype))
    fitted = estimator.fit(z, torch.tensor(Y))
    for out in (fitted.transform(z), fitted.predict_proba(z)):
        assert isinstance(out, torch.Tensor)
        assert (out.dtype, out.device) == (z.dtype, z.device)
    predicted = fitted.predict(z)
    assert isinstance(predicted, torch.Tensor)
    assert (predicted.numpy() == fitted.predict(z.double().numpy())).all()


def test_strict_arrays_in_strict_arrays_out(estimator):
    z = array_api_strict.asarray(Z)
    fitted = estimator.fit(z, array_api_strict.asarray(Y))
    for out in (fitted.transform(z), fitted.predict_proba(z), fitted.predict(z)):
        assert isinstance(out, type(z))


def test_names_of_tensors_are_numpy():
    fitted = tp.TemperatureScaling(classes=NAMES).fit(torch.tensor(Z), NAMES[Y])
    assert (fitted.predict(torch.tensor(Z)) == NAMES[Z.argmax(axis=1)]).all()


def test_the_prediction_does_not_move_in_half_precision():
    low = np.arange(1, 2, 2**-10, dtype=np.float16)
    z = np.stack([low, np.nextafter(low, np.float16(9))], axis=1)  # neighbours, the second larger
    fitted = tp.TemperatureScaling().fit(Z[:, :2], np.minimum(Y, 1))
    assert (fitted.predict(z) == 1).all()
    # The promise is not empty: dividing in float16 makes ties, and a tie goes to the first.
    assert (fitted.transform(z).argmax(axis=1) == 0).any()


# -------------------------------------------------------------------------------- refusals


def test_an_unfitted_estimator_says_so(estimator):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.transform(Z)


def test_another_number_of_columns_is_refused():
    fitted = tp.TemperatureScaling().fit(Z, Y)
    for other in (Z[:, :1], Z[:, :3], Z[:, :3].tolist(), torch.tensor(Z[:, :3])):
        with pytest.raises(tp.InputError, match="TemperatureScaling is expecting 4 features"):
            fitted.predict_proba(other)


def test_a_failed_fit_leaves_the_estimator_unfitted():
    ts = tp.TemperatureScaling()
    with pytest.raises(tp.NotIdentified):
        ts.fit(np.zeros((50, 3)), np.arange(50) % 3)
    with pytest.raises(NotFittedError):
        ts.predict(Z)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (tp.VectorScaling(penalty=-1.0), "penalty must be"),
        (tp.MatrixScaling(penalty="no"), "penalty must be"),
        (tp.AttendedTemperatureScaling(threshold=2.0), "threshold must be"),
        (tp.AttendedTemperatureScaling(form="x"), "form must be one of"),
        (tp.UnsupervisedTemperatureScaling(), "prior must be 4 class probabilities"),
        (tp.UnsupervisedTemperatureScaling(np.full(4, 0.25), form="x"), "form must be one of"),
        (tp.PriorMatchedScaling(np.full(3, 1 / 3)), "prior must be 4 numbers"),
        (tp.PriorMatchedScaling(np.full(4, 0.25), source=(Z, Y, Y)), "source must be a pair"),
    ],
)
def test_bad_parameters_are_refused_by_fit_and_not_before(bad, message):
    with pytest.raises(tp.InputError, match=message):
        clone(bad).fit(Z, Y)


def test_the_page_of_an_estimator_renders(estimator):
    assert type(estimator).__name__ in estimator.fit(Z, Y)._repr_html_()


def test_a_source_with_labels_in_words_is_read_by_the_names_of_the_columns():
    prior = np.full(K, 1 / K)
    plain = tp.PriorMatchedScaling(prior, source=(Z, Y)).fit(Z)
    named = tp.PriorMatchedScaling(prior, source=(Z, NAMES[Y]), classes=NAMES).fit(Z)
    assert named.map_ == plain.map_
    with pytest.raises(tp.InputError, match="labels"):
        tp.PriorMatchedScaling(prior, source=(Z, NAMES[Y])).fit(Z)

"""Thousands of malformed calls: the answer is a result, InputError or NotIdentified, nothing else.

Every public function, and every method of a result, is called with arguments made up from the names
of its parameters, most of them well-formed, so that the bad one is met deep inside; a warning is an
error too. A new public function is met as soon as it is exported; a parameter with a new name fails
until it is added.
A few calls each are made by default, thousands with ``--hypothesis-profile=thorough``.
"""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from copy import deepcopy
from functools import cache

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import torch
from gallery import ESTIMATORS, MAPS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from sklearn.base import clone

import temperance as tp
from temperance.calibrate.estimate_accuracy import METHODS as ACCURACY_METHODS

ANSWERS = (tp.InputError, tp.NotIdentified)

# ------------------------------------------------------------------------------------- junk

ODD_THINGS = [
    None, True, -1, 0, 3, 10**400, 0.5, np.nan, np.inf, 1j, "", "text", b"bytes", object(), print,
    [], (), {}, {1, 2}, [[]], [[], []], [[1.0], [2.0, 3.0]], [None, None], [["a", "b"]], range(3),
    {"logits": 1}, slice(None), np.float64(2), np.bool_(1), np.array(3.0), np.empty((0, 3)),
    np.empty((3, 0)), np.ma.masked_array([[1.0, 2.0]], [[True, False]]), np.array([object()]),
    np.zeros((2, 3, 4)), np.zeros(2, dtype=[("a", float)]), np.array(["2026"], "datetime64[Y]"),
    np.array([["a", "b"]]), np.array([[1 + 1j, 2]]), np.zeros((2, 2), bool), torch.zeros(0),
    torch.zeros(2, 3), torch.tensor([1j]), torch.zeros(2, 2, dtype=torch.bool), pd.DataFrame(),
    pd.DataFrame({"a": ["x"], "b": [1]}), pd.Series([pd.NA, 1.0]), pd.NaT, array_api_strict.ones(3),
    np.random.default_rng(0), tp.Temperature, tp.Temperature(2.0), float, pytest, NotImplemented,
    (i for i in range(3)), memoryview(b"ab"), np.matrix([[1.0, 2.0]]), [10**400, 1], [[10**400, 1]],
]  # fmt: skip

arrays_of_anything = npst.arrays(
    dtype=st.one_of(
        npst.floating_dtypes(), npst.integer_dtypes(), npst.boolean_dtypes(),
        npst.complex_number_dtypes(), npst.unicode_string_dtypes(max_len=2),
    ),
    shape=npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)  # fmt: skip
junk = st.one_of(
    st.sampled_from(ODD_THINGS),
    st.builds(pow, st.just(10), st.just(5000)),  # which Python does not write
    arrays_of_anything,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=8,
    ),
)

# ---------------------------------------------------------------------------- well-formed values

USUAL = st.floats(-8, 8, width=16)
EXTREME = st.sampled_from(
    [0.0, 1.0, -1.0, 0.5, 1e5, -1e5, 1e300, -1e300, 1e-300, 5e-324, 1.7e308, -1.7e308]
)
BROKEN = st.sampled_from([0.0, 3.0, -3.0, np.nan, np.inf, -np.inf])


def true_labels(n, k):
    """The same labels whenever n and k are: logits below are informative about them."""
    return np.random.default_rng(7).integers(k, size=n)


@st.composite
def logits(draw, n, k):
    dice = draw(st.integers(0, 9), label="informative, usual, extreme or broken")
    if dice < 6:
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        z = 1.5 * np.eye(k)[true_labels(n, k)] + rng.normal(size=(n, k))
        z = (z * draw(st.sampled_from([1.0, 1.0, 4.0, 1e-200, 1e200]))) - draw(st.integers(0, 1))
    else:
        elements = {6: USUAL, 7: EXTREME, 8: EXTREME, 9: st.one_of(USUAL, BROKEN)}[dice]
        z = draw(npst.arrays(np.float64, (n, k), elements=elements))
    kind = draw(st.sampled_from(["f8", "f8", "f4", "f2", "torch", "bfloat16", "list", "frame"]))
    with np.errstate(over="ignore"):
        if kind in ("f8", "f4", "f2"):
            return z.astype(kind)
    if kind == "list":
        return z.tolist()
    if kind == "frame":
        return pd.DataFrame(z, columns=[f"logit_{j}" for j in range(k)])
    return torch.tensor(z, dtype=torch.bfloat16 if kind == "bfloat16" else torch.float64)


def labels(n, k):
    truth = true_labels(n, k)
    return st.one_of(
        st.sampled_from([truth, truth.astype(np.uint8), truth.tolist(), torch.tensor(truth)]),
        st.just(truth),
        npst.arrays(np.int64, n, elements=st.integers(0, k - 1)),
        npst.arrays(np.int64, n, elements=st.integers(0, k - 1)).map(lambda y: np.eye(k)[y]),
        npst.arrays(np.int8, n, elements=st.integers(-1, k)),
    )


def probabilities(k):
    weights = npst.arrays(np.float64, k, elements=st.floats(0, 1))
    return st.one_of(
        st.just(np.full(k, 1 / k)),
        weights.map(lambda q: q / q.sum() if q.sum() > 0 else q),
        st.integers(0, k - 1).map(lambda j: np.eye(k)[j]),
    )


NUMBERS = st.one_of(
    st.sampled_from([0.0, 1e-5, 0.1, 0.5, 1.0]), st.floats(0, 1), st.floats(0, 1e3), st.floats()
)


def parameters(n, k):
    """What a parameter of each name is usually like; ``None`` leaves its default."""
    wide = st.builds(lambda z, y: (z, y), logits(2 * n, k), labels(2 * n, k))
    vector = npst.arrays(np.float64, k, elements=st.floats(-5, 5))
    return {
        "logits": logits(n, k),
        "target_logits": logits(n, k),
        "labels": labels(n, k),
        "sample_weight": npst.arrays(np.float64, n, elements=st.floats(0, 1e3)),
        "groups": npst.arrays(np.int64, n, elements=st.integers(0, 3)),
        "prior": st.one_of(probabilities(k), st.just(tp.about(np.full(k, 1 / k)))),
        "source": wide,
        "labelled": wide,
        "features": st.sampled_from([(n, 2 * n), (n, 2 * n), (n, n)]).map(
            lambda sizes: tuple(np.linspace(-3, 3, 2 * m).reshape(m, 2) for m in sizes)
        ),
        "classes": st.just([f"class {j}" for j in range(k)]),
        "p": npst.arrays(np.float64, (n, k), elements=st.floats(0, 1)).map(
            lambda p: p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
        ),
        "scores": npst.arrays(np.float64, n, elements=st.one_of(USUAL, EXTREME)),
        "penalty": NUMBERS,
        "threshold": NUMBERS,
        "accuracy": NUMBERS,
        "mix": NUMBERS,
        "rows": NUMBERS,
        "temperature": NUMBERS,
        "level": NUMBERS,
        "seed": st.integers(0, 3),
        "n_bins": st.integers(1, 20),
        "n_resamples": st.integers(1, 50),
        "bag_size": st.one_of(st.none(), st.integers(30, 60)),
        "form": st.sampled_from(["paper", "main-text", "reference", "appendix", "none"]),
        "method": st.sampled_from([*ACCURACY_METHODS, "em", "bbse", "rlls", "none"]),
        "metric": st.sampled_from([tp.metrics.nll, tp.metrics.ece, tp.metrics.accuracy]),
        "bias": st.booleans(),
        "per_class": st.booleans(),
        "path": st.just("no such directory/map.json"),
        "obj": st.sampled_from([make(k) for make in MAPS.values()]),
        "fitted_on": st.just("0" * 64),
        "around": st.sampled_from([None, *(make(k) for make in MAPS.values())]),
        "temperature_error": NUMBERS,
        "bias_error": NUMBERS,
        "inputs": npst.arrays(np.float64, (n, 3), elements=st.floats(-3, 3)),
        "model": st.just(
            lambda x: np.asarray(x).reshape(len(x), -1).sum(axis=1)[:, None] * np.linspace(-1, 1, k)
        ),
        "n": st.integers(0, 2 * n),
        "width": NUMBERS,
        "of": st.sampled_from(["accuracy", "ece_after", "none"]),
        "max_error": NUMBERS,
        "coverage": st.one_of(st.none(), NUMBERS),
        "costs": st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS)),
        "matrix": st.sampled_from([1 - np.eye(k), np.full((k, k), np.nan), np.eye(k + 1)]),
        "at": st.sampled_from(
            ["2026-11-16", "2026-11-01", "0001-01-01", "9999-12-31T23:59:59+14:00", "W", 7]
        ),
        "segments": st.sampled_from(
            [None, np.arange(n) % 3, {"a": np.arange(n) % 2, "a=b": ["c"] * n}, ["x"] * (n + 1)]
        ),
        "proposal": st.sampled_from([make(k) for make in MAPS.values()]),
        "facts": st.sampled_from([{}, {"verdict": "improved"}, {"verdict": 3, "map": []}]),
        "other": st.just(None),
        **dict.fromkeys(("title", "model", "date"), st.sampled_from(["a", "\ud800", "x" * 5000])),
        "scale": vector,
        "weight": npst.arrays(np.float64, (k, k), elements=st.floats(-5, 5)),
    }


FLAGS = {"bias", "per_class"}  # any object is true or false
VECTORS = {"BiasedTemperature": ["bias"], "VectorMap": ["bias"], "MatrixMap": ["bias"]}


def public_functions():
    """Everything that a user may call after ``temperance.`` or ``temperance.metrics.``."""
    found = {}
    for module, prefix in ((tp, ""), (tp.metrics, "metrics.")):
        for name in module.__all__:
            value = getattr(module, name)
            maker = inspect.isclass(value) and issubclass(value, tp.maps.Map)
            if inspect.isfunction(value) or maker:
                found[prefix + name] = value
    return found


FUNCTIONS = public_functions()
SLOW = {"calibrate", "estimate_accuracy", "fit_cpcs", "fit_matrix", "fit_transcal"}


def effort(share):
    """Settings for that share of the examples that the profile allows."""
    return settings(
        max_examples=round(settings.default.max_examples * share),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def make_up(data, function, name, n, k):
    """Arguments for one call: each well-formed, left out, or junk."""
    usual = parameters(n, k)
    made = {}
    for parameter in inspect.signature(function).parameters.values():
        word = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name in VECTORS and word in VECTORS[name]:
            usual[word] = usual["scale"]
        flag = word in FLAGS and name not in VECTORS
        required = parameter.default is inspect.Parameter.empty
        dice = data.draw(st.integers(0, 12), label=f"{word}: junk if 0, default if 1")
        if dice == 0 and not flag:
            made[word] = data.draw(junk, label=word)
        elif dice > 1 or required or word in ("labels", "prior"):
            made[word] = data.draw(usual[word], label=word)
    return made


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """A made-up path may be one that can be written to."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_answers_or_refuses(name):
    function = FUNCTIONS[name]

    @effort(0.15 if name in SLOW else 0.3)
    @given(st.data(), st.integers(1, 40), st.integers(2, 5))
    def answers_or_refuses(data, n, k):
        arguments = make_up(data, function, name, n, k)
        try:
            result = function(**arguments)
        except ANSWERS as error:
            assert str(error)  # noqa: PT017
            return
        if isinstance(result, tp.maps.Map):
            assert all(np.isfinite(v).all() for v in result.parameters().values())

    answers_or_refuses()


@cache
def results(k):
    """Return results whose methods are called: with and without labels, refused, from a file."""
    y, old = true_labels(60, k), true_labels(90, k)
    rng = np.random.default_rng(3)
    z, z_old = (3 * np.eye(k)[t] + rng.normal(size=(len(t), k)) for t in (y, old))
    cal = tp.calibrate(z, source=(z_old, old))
    monitor = tp.Monitor((z_old, old), limits=tp.Limits(accuracy=0.9))
    monitor.add(z, at="2026-11-01")
    return {
        "calibration": cal,
        "calibration with labels": cal.update(z[:20], y[:20]),
        "calibration without a source": tp.calibrate(z, np.full(k, 1 / k)),
        "calibration that is refused": tp.calibrate(z[:10]),
        "calibration from a file": type(cal).from_dict(json.loads(json.dumps(cal.to_dict()))),
        "expected": cal.expected(),
        "monitor": monitor,
    }


OBJECTS = list(results(3))


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_method_answers_or_refuses(kind):
    found = inspect.getmembers(results(3)[kind], inspect.ismethod)
    methods = [name for name, _ in found if not name.startswith("_")]

    @effort(1)
    @given(st.data(), st.integers(1, 40), st.integers(2, 5), st.sampled_from(methods))
    def answers_or_refuses(data, n, k, name):
        method = getattr(deepcopy(results(k)[kind]), name)
        made = make_up(data, method, name, n, k)
        with suppress(*ANSWERS):
            method(**made)

    answers_or_refuses()


@pytest.mark.parametrize("kind", MAPS)
def test_every_map_answers_or_refuses(kind):
    @effort(0.3)
    @given(st.data(), st.integers(1, 20), st.integers(2, 5))
    def answers_or_refuses(data, n, k):
        z = data.draw(st.one_of(logits(n, k), junk))
        for apply in (MAPS[kind](k), MAPS[kind](k).predict_proba):
            try:
                out = apply(z)
            except ANSWERS:
                continue
            assert tuple(out.shape) == np.shape(z)
            if "bfloat16" not in str(out.dtype):
                assert np.isfinite(np.asarray(out, dtype=np.float64)).all()

    answers_or_refuses()


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")  # as scikit-learn
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_answers_or_refuses(estimator):
    @effort(0.15)
    @given(st.data(), st.integers(1, 40))
    def answers_or_refuses(data, n):
        k = 4  # as the prior of some has
        usual = parameters(n, k)
        z = data.draw(st.one_of(usual["logits"], usual["logits"], junk))
        y = data.draw(st.one_of(usual["labels"], usual["labels"], junk))
        fitted = clone(estimator)
        if data.draw(st.integers(0, 5)) == 0:
            fitted.set_params(classes=data.draw(st.one_of(usual["classes"], junk)))
        try:
            fitted.fit(z, y)
            other = data.draw(st.one_of(usual["logits"], junk))
            for method in (fitted.transform, fitted.predict_proba, fitted.predict):
                assert len(method(other)) == len(other)
        except ANSWERS as error:
            assert str(error)  # noqa: PT017

    answers_or_refuses()

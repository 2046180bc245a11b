"""Maps: what they compute, what kinds of arrays they keep, what they refuse to be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import array_api_strict
import numpy as np
import pytest
import torch
from gallery import MAPS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from simulated import logits, softmax

import temperance as tp
from temperance.maps import IDENTITY

K = 5

ARRAYS = {
    "numpy float16": lambda z: z.astype(np.float16),
    "numpy float32": lambda z: z.astype(np.float32),
    "numpy float64": lambda z: z,
    "torch float16": lambda z: torch.tensor(z, dtype=torch.float16),
    "torch bfloat16": lambda z: torch.tensor(z, dtype=torch.bfloat16),
    "torch float32": lambda z: torch.tensor(z, dtype=torch.float32),
    "torch float64": torch.tensor,
    "strict float32": lambda z: array_api_strict.asarray(z, dtype=array_api_strict.float32),
    "strict float64": array_api_strict.asarray,
    "strict float32 elsewhere": lambda z: array_api_strict.asarray(
        z, dtype=array_api_strict.float32, device=array_api_strict.Device("device1")
    ),
}
PRECISION = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


def numbers(array):
    if isinstance(array, torch.Tensor):
        return array.double().numpy()
    if isinstance(array, np.ndarray):
        return array.astype(np.float64)
    host = array_api_strict.Device("CPU_DEVICE")
    return np.from_dlpack(array.to_device(host)).astype(np.float64)


def by_hand(fitted, z):
    """The formula of each map, in plain NumPy."""
    p = fitted.parameters()
    if fitted.kind == "temperature":
        return z / p["temperature"]
    if fitted.kind == "biased":
        return z / p["temperature"] + p["bias"]
    if fitted.kind == "vector":
        return p["scale"] * z + p["bias"]
    return np.stack([p["weight"] @ row + p["bias"] for row in z])


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("array", ARRAYS)
def test_the_formula_in_the_same_kind_dtype_and_device(array, kind):
    fitted = MAPS[kind](K)
    z = ARRAYS[array](logits(30, K)[0])
    expected = by_hand(fitted, numbers(z))
    precision = next(p for name, p in PRECISION.items() if array.split()[1] == name)
    for got, wanted in ((fitted(z), expected), (fitted.predict_proba(z), softmax(expected))):
        assert type(got) is type(z)
        assert got.dtype == z.dtype
        assert got.device == z.device
        assert numbers(got) == pytest.approx(wanted, rel=precision, abs=precision)


@pytest.mark.parametrize("kind", MAPS)
def test_gradients_flow_through_a_map(kind):
    fitted = MAPS[kind](K)
    z = torch.tensor(logits(6, K)[0], requires_grad=True)
    assert torch.autograd.gradcheck(fitted, (z,))
    assert torch.autograd.gradcheck(fitted.predict_proba, (z,))


@pytest.mark.parametrize("kind", MAPS)
def test_lists_and_integers_become_float64(kind):
    out = MAPS[kind](2)([[1, 2], [3, 4]])
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.float64


@pytest.mark.parametrize("kind", MAPS)
def test_a_map_is_a_frozen_value(kind):
    fitted = MAPS[kind](K)
    for name, value in fitted.parameters().items():
        with pytest.raises(FrozenInstanceError):
            setattr(fitted, name, value)
        if value.ndim:
            with pytest.raises(ValueError, match="read-only"):
                getattr(fitted, name)[0] = 7.0
    assert fitted == MAPS[kind](K)
    assert hash(fitted) == hash(MAPS[kind](K))
    assert len({fitted, MAPS[kind](K), IDENTITY}) == 2
    assert fitted != "a map"


def test_a_map_does_not_share_memory_with_its_maker():
    bias = np.zeros(3)
    fitted = tp.BiasedTemperature(1.0, bias)
    bias[0] = 5
    assert fitted.bias[0] == 0


def test_maps_of_the_same_numbers_and_another_kind_differ():
    assert tp.VectorMap([1.0, 1.0], [0.0, 0.0]) != tp.BiasedTemperature(1.0, [0.0, 0.0])
    assert tp.Temperature(1.0) != tp.Temperature(np.nextafter(1.0, 2))
    assert tp.VectorMap([1.0] * 2, [0.0] * 2) != tp.VectorMap([1.0] * 3, [0.0] * 3)


@pytest.mark.parametrize("kind", ["biased", "vector", "matrix"])
def test_another_number_of_classes_is_refused(kind):
    with pytest.raises(tp.InputError, match=r"logits must have 5 columns, .*\. Got 4"):
        MAPS[kind](K)(np.ones((3, 4)))


def test_a_temperature_serves_any_number_of_classes():
    assert tp.Temperature(2.0).n_classes is None
    assert tp.Temperature(2.0)(np.full((1, 7), 4.0)) == pytest.approx(np.full((1, 7), 2.0))


@pytest.mark.parametrize(
    "bad",
    [0, -1.0, 5e-324, 1e-201, 1e201, np.nan, np.inf, "1", None, True, [1.0], 1j, np.bool_(1)],
)
def test_a_temperature_is_a_positive_number(bad):
    with pytest.raises(tp.InputError, match="temperature must be a finite number in"):
        tp.Temperature(bad)
    with pytest.raises(tp.InputError, match="temperature must be a finite number in"):
        tp.BiasedTemperature(bad, [0.0, 0.0])


@pytest.mark.parametrize(
    "bad", [[1.0], [], 1.0, [[1.0, 2.0]], [np.nan, 1], ["1", "2"], [[1], [1, 2]], None, [1j, 2]]
)
def test_a_bias_is_a_vector_of_numbers(bad):
    with pytest.raises(tp.InputError, match="bias must be finite numbers with 1 axes"):
        tp.BiasedTemperature(1.0, bad)
    with pytest.raises(tp.InputError, match="scale must be finite numbers with 1 axes"):
        tp.VectorMap(bad, [0.0, 0.0])


@pytest.mark.parametrize(
    "bad", [[1.0, 2.0], [[1.0]], [[1.0, np.inf]] * 2, [["a", "b"]] * 2, 3, None]
)
def test_a_weight_is_a_matrix_of_numbers(bad):
    with pytest.raises(tp.InputError, match="weight must be finite numbers with 2 axes"):
        tp.MatrixMap(bad, [0.0, 0.0])


def test_parameters_of_different_lengths_are_refused():
    with pytest.raises(tp.InputError, match=r"scale must have 3 columns, .*\. Got 2"):
        tp.VectorMap([1.0, 2.0], [0.0, 0.0, 0.0])
    with pytest.raises(tp.InputError, match="weight columns must have 2 columns"):
        tp.MatrixMap(np.ones((2, 3)), [0.0, 0.0])
    with pytest.raises(tp.InputError, match="weight rows must have 2 columns"):
        tp.MatrixMap(np.ones((3, 2)), [0.0, 0.0])


@pytest.mark.parametrize(
    "z",
    [
        np.array([[60_000.0, 0.0]], dtype=np.float16),
        np.array([[0.0, 1.0], [3e38, 0.0]], dtype=np.float32),
        np.array([[0.0, 1.0], [0.0, -3e38]], dtype=">f4"),
        torch.tensor([[60_000.0, 0.0]], dtype=torch.float16),
    ],
)
def test_logits_that_overflow_their_dtype_are_refused_not_returned_as_infinity(z):
    with pytest.raises(tp.InputError, match=r"Row \d, class \d overflows .*float.* wider dtype"):
        tp.Temperature(0.5)(z)


finite_logits = npst.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(2, 5)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
).filter(lambda z: (z.max(axis=1) > 1.1).any())


@given(finite_logits, st.floats(1e-3, 1e3))
def test_a_temperature_keeps_the_ranking(z, t):
    out = tp.Temperature(t)(z)
    assert (np.diff(np.take_along_axis(out, np.argsort(z, axis=1), axis=1), axis=1) >= 0).all()


@given(finite_logits, st.floats(-1e4, 1e4))
def test_a_constant_in_a_row_changes_no_probability(z, constant):
    z = np.round(z)  # so that adding the constant rounds nothing away
    constant = round(constant)
    for fitted in (tp.Temperature(3.0), tp.BiasedTemperature(3.0, np.arange(z.shape[1]) * 0.1)):
        try:
            moved = fitted.predict_proba(z + constant)
        except tp.InputError as error:  # by chance, the rows now sum to one
            assert "sum to 1" in str(error)  # noqa: PT017
            return
        assert moved == pytest.approx(fitted.predict_proba(z), abs=1e-9)


def test_the_identity_changes_nothing():
    z = logits(20, 3)[0]
    assert (IDENTITY(z) == z).all()


@pytest.mark.parametrize("number", [2, np.float32(2), np.int64(2)])
def test_a_temperature_is_a_plain_number_whatever_it_came_as(number):
    for fitted in (tp.Temperature(number), tp.BiasedTemperature(number, [0.0, 1.0])):
        assert type(fitted.temperature) is float
        assert fitted.temperature == 2
    assert tp.Temperature(number) == tp.Temperature(2.0)
    assert repr(tp.Temperature(number)) == repr(tp.Temperature(2.0))

"""Arrays of every library go in; the fit is the same, whatever they are."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from gallery import FITS
from simulated import logits

import temperance as tp
from temperance._core.arrays import as_array, as_floating, like, to_numpy

Z, Y = logits(150, 4, sharpness=2.0, seed=1)
Z = np.round(Z)  # representable in every dtype, integers too: the same problem for all

KINDS = {
    "numpy float16": (Z.astype(np.float16), Y),
    "numpy float32": (Z.astype(np.float32), Y),
    "torch float64": (torch.tensor(Z), torch.tensor(Y)),
    "torch float32": (torch.tensor(Z, dtype=torch.float32), torch.tensor(Y)),
    "torch float16": (torch.tensor(Z, dtype=torch.float16), torch.tensor(Y, dtype=torch.uint8)),
    "torch bfloat16": (torch.tensor(Z, dtype=torch.bfloat16), torch.tensor(Y)),
    "torch with gradients": (torch.tensor(Z, requires_grad=True), torch.tensor(Y)),
    "torch not contiguous": (torch.tensor(Z.T.copy()).T, torch.tensor(Y)),
    "torch integers": (torch.tensor(np.round(Z)).to(torch.int16), torch.tensor(Y)),
    "strict float64": (array_api_strict.asarray(Z), array_api_strict.asarray(Y)),
    "strict float32": (
        array_api_strict.asarray(Z, dtype=array_api_strict.float32),
        array_api_strict.asarray(Y),
    ),
    "strict elsewhere": (
        array_api_strict.asarray(Z, device=array_api_strict.Device("device1")),
        array_api_strict.asarray(Y, device=array_api_strict.Device("device1")),
    ),
    "numpy logits, torch labels": (Z, torch.tensor(Y)),
    "pandas": (pd.DataFrame(Z), pd.Series(Y)),
    "pandas of mixed types": (pd.DataFrame(Z).astype({0: "float32", 1: "Float64"}), pd.Series(Y)),
    "polars": (pl.DataFrame(Z), pl.Series(Y)),
    "pyarrow labels": (Z, pa.array(Y)),
}


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_gives_the_same_map(kind, fit):
    wanted = FITS[fit](Z, Y).predict_proba(Z)
    assert FITS[fit](*KINDS[kind]).predict_proba(Z) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("kind", ["torch float32", "strict float64", "strict elsewhere", "pandas"])
def test_weights_and_soft_labels_of_other_libraries(kind):
    z, _ = KINDS[kind]
    make = {"torch": torch.tensor, "strict": array_api_strict.asarray, "pandas": pd.DataFrame}
    weight, soft = np.arange(len(Y)) % 3 * 1.0, np.eye(4)[Y] * 0.9 + 0.025
    wanted = tp.fit_temperature(Z, soft, weight).temperature
    convert = make[kind.split()[0]]
    got = tp.fit_temperature(z, convert(soft), convert(weight)).temperature
    assert got == pytest.approx(wanted, rel=1e-9)


def test_nothing_like_an_array_is_none():
    for value in (None, "text", {"a": 1}, object(), {1, 2}, b"bytes", 1j, (i for i in "ab")):
        assert as_array(value) is None


@pytest.mark.parametrize(
    "array",
    [
        np.array([1 + 1j]),
        np.array(["a"]),
        np.array([None]),
        np.array([10**400]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        torch.tensor([1j]),
        array_api_strict.asarray([1j]),
    ],
)
def test_what_is_not_real_has_no_floating_form(array):
    assert as_floating(array) is None


def test_floating_dtypes_are_kept_and_others_become_float64():
    for dtype in (np.float16, np.float32, np.float64):
        assert as_floating(np.ones(2, dtype)).dtype == dtype
    for dtype in (bool, np.int8, np.uint64, np.longdouble, object):
        assert as_floating(np.ones(2, dtype)).dtype == np.float64
    assert as_floating(np.ones(2, ">f4")).dtype == np.dtype("=f4")
    assert as_floating(torch.ones(2, dtype=torch.int8)).dtype == torch.float64
    assert as_floating(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_a_tensor_on_the_host_is_read_where_it_is():
    t = torch.zeros(3)
    to_numpy(t)[0] = 1.0
    assert t[0] == 1.0


def test_like_gives_the_kind_and_dtype_of_its_model():
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    for model in (np.ones(1, np.float32), torch.ones(1, dtype=torch.float16)):
        out = like(frozen, model)
        assert type(out) is type(model)
        assert out.dtype == model.dtype
    assert frozen.tolist() == [0.0, 1.0, 2.0]

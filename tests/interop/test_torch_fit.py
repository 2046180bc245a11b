"""Tensors are fitted where they are: any precision, any device, no copy of the data to the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map, tree_map_only

import temperance as tp
from temperance._core.arrays import to_numpy

aten = torch.ops.aten
NARROW = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(scope="module")
def sample():
    """Logits whose true temperature is 2, and labels drawn from them."""
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(9000, 12))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z, y


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("labels", ["hard", "soft", "weighted"])
def test_every_precision_equals_float64(sample, dtype, labels):
    z, y = sample
    z = torch.from_numpy(z).to(dtype)
    weight = np.random.default_rng(1).random(len(y)) if labels == "weighted" else None
    target = np.eye(12)[y] * 0.9 + 0.1 / 12 if labels == "soft" else y
    got = tp.fit_temperature(z, target, weight).temperature
    expected = tp.fit_temperature(z.double().numpy(), target, weight).temperature
    assert got == pytest.approx(expected, rel=1e-9)
    if labels == "hard":
        assert got == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("dtype", NARROW)
def test_labels_and_weights_may_be_tensors_and_read_only(sample, dtype):
    z, y = sample
    z = torch.from_numpy(z).to(dtype)
    frozen, weight = y.copy(), np.linspace(0, 1, len(y))
    frozen.flags.writeable = weight.flags.writeable = False
    expected = tp.fit_temperature(z, y, weight).temperature
    assert tp.fit_temperature(z, frozen, weight).temperature == expected
    assert tp.fit_temperature(z, torch.from_numpy(y), torch.tensor(weight)).temperature == expected


@pytest.mark.parametrize("dtype", NARROW)
def test_a_tensor_of_a_graph_is_read_without_a_warning(sample, dtype):
    z, y = sample
    leaf = torch.from_numpy(z).to(dtype).requires_grad_()
    assert tp.fit_temperature(leaf * 1, y).temperature > 0
    assert leaf.grad is None


@pytest.mark.parametrize("dtype", NARROW)
def test_rows_that_are_not_contiguous(sample, dtype):
    z, y = sample
    z = torch.from_numpy(z).to(dtype)
    wide = torch.cat([z, z], dim=1)[:, ::2]  # rows are not contiguous
    assert tp.fit_temperature(wide, y % 6).temperature == pytest.approx(
        tp.fit_temperature(wide.double().numpy(), y % 6).temperature, rel=1e-9
    )


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda z: z.index_fill_(0, torch.tensor([7]), torch.nan), "Row 7, class 0 is NaN"),
        (lambda z: torch.softmax(z.float(), 1).to(z.dtype), "from_probabilities"),
        (lambda z: z.sort(dim=1, descending=True).values, "sorted or top-k"),
    ],
)
def test_checks_hold_for_tensors_that_numpy_lacks(sample, spoil, sentence):
    z, y = sample
    bad = spoil(torch.from_numpy(z).to(torch.bfloat16))
    with pytest.raises(tp.InputError, match=sentence):
        tp.fit_temperature(bad, y)


# ---------------------------------------------------------------------------- another device


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device, with its numbers out of the host's reach."""

    @staticmethod
    def __new__(cls, numbers):
        return torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), dtype=numbers.dtype, device="meta"
        )

    def __init__(self, numbers):
        self.numbers = numbers

    __torch_dispatch__ = None  # set aside: the mode below sees every operation first


class Device(TorchDispatchMode):
    """Computes on tensors elsewhere, and writes down how many numbers come to the host."""

    def __init__(self):
        super().__init__()
        self.fetched = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        there = []
        tree_map_only(Elsewhere, there.append, (args, kwargs))
        to = kwargs.get("device")
        if to is not None:
            kwargs["device"] = torch.device("cpu")
        inner_args, inner_kwargs = tree_map_only(Elsewhere, lambda t: t.numbers, (args, kwargs))
        out = func(*inner_args, **inner_kwargs)
        to_host = func is aten._local_scalar_dense.default or (
            to and torch.device(to).type == "cpu"
        )
        if there and to_host:
            self.fetched.append(there[0].numel())
            return out
        if there or (to and torch.device(to).type == "meta"):
            return tree_map(lambda t: Elsewhere(t) if isinstance(t, torch.Tensor) else t, out)
        return out


def test_the_probe_sees_a_copy(sample):
    with Device() as device:
        z = Elsewhere(torch.from_numpy(sample[0]))
        assert z.device.type == "meta"
        np.testing.assert_array_equal(to_numpy(z * 2 / 2), sample[0])
        assert float(z[0, 0]) == sample[0][0, 0]
    assert device.fetched == [sample[0].size, 1]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("soft", [False, True])
def test_only_sums_come_to_the_host(sample, dtype, soft):
    z, y = sample
    target = np.eye(12)[y] if soft else y
    there = torch.from_numpy(z).to(dtype)
    expected = tp.fit_temperature(there.double().numpy(), target).temperature
    with Device() as device:
        got = tp.fit_temperature(Elsewhere(there), target, np.ones(len(y))).temperature
    assert got == pytest.approx(expected, rel=1e-9)
    assert len(device.fetched) > 10
    assert set(device.fetched) == {1}


def test_dense_logits_stay_elsewhere(sample):
    z, y = sample
    dense = torch.from_numpy(z.reshape(9, 1000, 12).transpose(0, 2, 1).copy())
    labels = y.reshape(9, 1000).copy()
    labels[:, ::7] = 255
    keep = labels.ravel() != 255
    with Device() as device:
        got = tp.fit_temperature(tp.torch.dense_logits(Elsewhere(dense), labels)).temperature
    assert got == pytest.approx(tp.fit_temperature(z[keep], y[keep]).temperature, rel=1e-9)
    assert set(device.fetched) == {1}


def test_a_map_stays_elsewhere(sample):
    z = torch.from_numpy(sample[0])
    maps = [
        tp.Temperature(2.0),
        tp.BiasedTemperature(2.0, np.arange(12.0)),
        tp.VectorMap(np.arange(12.0), np.arange(12.0)),
        tp.MatrixMap(np.eye(12) + 0.1, np.arange(12.0)),
    ]
    for map_ in maps:
        with Device() as device:
            out = map_(Elsewhere(z))
        assert isinstance(out, Elsewhere)
        assert set(device.fetched) == {1}
        torch.testing.assert_close(out.numbers, map_(z))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bits_are_widened(sample, dtype):
    z, y = sample
    narrow = torch.from_numpy(z).to(dtype)
    expected = tp.fit_temperature(narrow.double().numpy(), y).temperature
    assert tp.fit_temperature(narrow, y).temperature == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "change",
    [torch.Tensor.to_sparse, lambda z: z.to("meta"), lambda z: torch.nested.nested_tensor([z])],
    ids=["sparse", "meta", "nested"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_tensor_without_its_numbers_is_refused(sample, change):
    z, y = sample
    odd = change(torch.from_numpy(z))
    for fit in (lambda: tp.fit_temperature(odd, y), lambda: tp.fit_uts(odd, np.full(12, 1 / 12))):
        with pytest.raises(tp.InputError, match="pass one that holds its numbers"):
            fit()
    with pytest.raises(tp.InputError, match="labels must be"):
        tp.fit_temperature(z, torch.from_numpy(y).to("meta"))

"""CalibratedModule: the map behind the model, in every form that PyTorch knows."""

from __future__ import annotations

import copy
import io
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import temperance as tp
from temperance.interop.torch import CalibratedModule, collect_logits

K = 4
RNG = np.random.default_rng(0)
MAPS = [
    tp.Temperature(1.7),
    tp.BiasedTemperature(0.6, RNG.normal(size=K)),
    tp.VectorMap(RNG.normal(size=K), RNG.normal(size=K)),
    tp.MatrixMap(RNG.normal(size=(K, K)), RNG.normal(size=K)),
]
BINARY = [
    tp.Temperature(1.7),
    tp.BiasedTemperature(0.6, [0.3, -0.4]),
    tp.VectorMap([0.5, 2.0], [0.3, -0.4]),
    tp.MatrixMap([[1.0, 0.2], [-0.5, 2.0]], [0.3, -0.4]),
]
kinds = pytest.mark.parametrize("map_", MAPS, ids=lambda m: m.kind)
binary_kinds = pytest.mark.parametrize("map_", BINARY, ids=lambda m: m.kind)
Inception = namedtuple("Inception", "logits aux_logits")  # noqa: PYI024


@dataclass
class ModelOutput(OrderedDict):
    """The shape of a Hugging Face output: a dataclass that is a dict as well."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self):
        self.update({k: v for k, v in vars(self).items() if v is not None})


class Formed(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, z):
        return self.form(z)


@pytest.fixture
def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, K))


@pytest.fixture
def x():
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


@kinds
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_forward_is_the_map_of_the_logits(map_, dtype, net, x):
    module = CalibratedModule(net.to(dtype), map_).eval()
    out = module(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out, map_(net(x.to(dtype))))


@kinds
def test_probabilities(map_, net, x):
    module = CalibratedModule(net, map_)
    p = module.predict_proba(x)  # evaluation mode, though the module trains
    assert module.training
    assert net[2].training
    assert not p.requires_grad
    torch.testing.assert_close(p, map_.predict_proba(net.eval()(x).detach()))


@kinds
def test_state_dict_round_trip(map_, net, x):
    module = CalibratedModule(net, map_).eval()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    fresh = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, K))
    blank = type(map_)(**{name: v * 0 + 1 for name, v in map_.parameters().items()} | _one(map_))
    other = CalibratedModule(fresh, blank).eval()
    assert not torch.equal(other(x), module(x))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), module(x))
    assert other.map == map_  # to the last bit


def _one(map_):
    return {"temperature": 1.0} if "temperature" in map_.parameters() else {}


def test_the_state_of_another_kind_is_refused(net):
    state = CalibratedModule(net, MAPS[1]).state_dict()
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"bias"'):
        CalibratedModule(net, MAPS[0]).load_state_dict(state)


def test_the_model_and_its_state_are_left_alone(net):
    before = {k: v.clone() for k, v in net.state_dict().items()}
    module = CalibratedModule(net, MAPS[3])
    assert module.model is net
    after = net.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[k], before[k]) for k in before)
    assert not any(parameter.dtype == torch.float64 for parameter in module.parameters())


@kinds
def test_deepcopy_is_independent(map_, net, x):
    module = CalibratedModule(net, map_).eval()
    twin = copy.deepcopy(module)
    assert torch.equal(twin(x), module(x))
    with torch.no_grad():
        for buffer in twin.buffers(recurse=False):
            buffer.add_(1)
    assert module.map == map_
    assert twin.map != map_
    assert not torch.equal(twin(x), module(x))


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.float])
@kinds
def test_casting_the_module_does_not_round_the_map(map_, cast, net):
    module = cast(CalibratedModule(net, map_))
    assert module.map == map_
    assert module.model[0].weight.dtype != torch.float64


def test_buffers_move_with_the_module(net):
    module = CalibratedModule(net, MAPS[3]).to("meta")
    assert {buffer.device.type for buffer in module.buffers()} == {"meta"}
    state = CalibratedModule(copy.deepcopy(net).to_empty(device="cpu"), MAPS[3]).state_dict()
    module.to_empty(device="cpu").load_state_dict(state)  # as large checkpoints are loaded
    assert module.map == MAPS[3]


def test_a_device_without_float64_is_not_asked_for_it(net):
    def move(tensor):
        assert tensor.dtype != torch.float64  # where Apple's devices raise
        return tensor.clone()

    assert CalibratedModule(net, MAPS[3])._apply(move).map == MAPS[3]


def test_a_move_that_fails_leaves_the_map(net):
    module = CalibratedModule(net, MAPS[3])

    def move(_):
        raise MemoryError

    with pytest.raises(MemoryError):
        module._apply(move)
    assert module.map == MAPS[3]


# --------------------------------------------------------------------------------- gradients


@kinds
def test_gradients_flow_to_inputs_and_weights(map_, net, x):
    module = CalibratedModule(net, map_).eval().double()
    net.double()
    inputs = x.double().requires_grad_()
    assert torch.autograd.gradcheck(module, (inputs,))
    module(inputs).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in (net[0].weight, net[3].weight))


# ----------------------------------------------------------------------------- torch.compile


@kinds
def test_compiles_into_one_graph(map_, net, x):
    torch.compiler.reset()
    module = CalibratedModule(net, map_).eval()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.slow
def test_compiles_through_autograd_and_for_another_batch(net, x):
    torch.compiler.reset()
    module = CalibratedModule(net, MAPS[3]).eval()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))
    logits, _ = collect_logits(compiled, [{"input": x[:4], "path": "a.png"}])
    torch.testing.assert_close(logits, module(x[:4]).detach())


# ----------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("form", "logits_of"),
    [
        (lambda z: (z, "aux"), lambda out: out[0]),
        (lambda z: [z], lambda out: out[0]),
        (lambda z: (z.sum(), z), lambda out: out[1]),
        (lambda z: {"out": z, "aux": "aux"}, lambda out: out["out"]),
        (lambda z: OrderedDict(logits=z, aux="aux"), lambda out: out["logits"]),
        (lambda z: ModelOutput(loss=z.sum(), logits=z), lambda out: out.logits),
        (lambda z: Inception(z, "aux"), lambda out: out.logits),
        (lambda z: torch.nn.modules.module._IncompatibleKeys(z, []), lambda out: out[0]),
    ],
)
def test_outputs_keep_their_form(form, logits_of):
    z = torch.randn(5, K)
    plain = form(z)
    out = CalibratedModule(Formed(lambda _: plain), MAPS[3])(z)
    assert type(out) is type(plain)
    assert len(out) == len(plain)
    torch.testing.assert_close(logits_of(out), MAPS[3](z))
    assert logits_of(plain) is z  # what the model returned is not written to
    if isinstance(plain, ModelOutput):
        assert out["logits"] is out.logits
        assert out.loss is plain.loss or torch.equal(out.loss, plain.loss)


def test_a_plain_object_with_logits():
    class Output:
        pass

    def form(z):
        output = Output()
        output.logits, output.hidden = z, "hidden"
        return output

    z = torch.randn(5, K)
    out = CalibratedModule(Formed(form), MAPS[1])(z)
    assert out.hidden == "hidden"
    torch.testing.assert_close(out.logits, MAPS[1](z))


def test_keyword_inputs(x):
    class Two(nn.Module):
        def forward(self, left, right=None):
            return torch.cat([left, right], dim=1)

    module = CalibratedModule(Two(), tp.Temperature(2.0))
    expected = torch.cat([x, x], dim=1) / 2
    for out in (module(x, x), module(x, right=x), module(left=x, right=x)):
        assert torch.equal(out, expected)


# --------------------------------------------------------------------- heads and dense logits


@binary_kinds
@pytest.mark.parametrize("shape", [(6,), (6, 1), (), (1,)])
def test_a_one_logit_head_keeps_its_logit(map_, shape):
    s = torch.randn(shape, dtype=torch.float64)
    module = CalibratedModule(nn.Identity(), map_)
    out = module(s)
    p = map_.predict_proba(tp.binary_logits(s.reshape(-1, 1)))
    assert out.shape == shape
    torch.testing.assert_close(torch.sigmoid(out).reshape(-1), p[:, 1])
    torch.testing.assert_close(module.predict_proba(s), p)


@kinds
def test_dense_logits_are_calibrated_along_their_classes(map_):
    z = torch.randn(2, K, 5, 6)
    module = CalibratedModule(nn.Identity(), map_)
    flat = z.movedim(1, -1).reshape(-1, K)
    expected = map_(flat).reshape(2, 5, 6, K).movedim(-1, 1)
    torch.testing.assert_close(module(z), expected)
    torch.testing.assert_close(module.predict_proba(z), torch.softmax(expected, 1))


@binary_kinds
def test_dense_one_logit_heads(map_):
    s = torch.randn(2, 1, 3, 3)
    p = map_.predict_proba(tp.binary_logits(s.reshape(-1, 1)))
    module = CalibratedModule(nn.Identity(), map_)
    assert module(s).shape == s.shape
    torch.testing.assert_close(torch.sigmoid(module(s)).reshape(-1), p[:, 1])
    assert module.predict_proba(s).shape == (2, 2, 3, 3)


@kinds
def test_tokens_have_their_classes_last(map_):
    z = torch.randn(2, K + 1, K)
    module = CalibratedModule(nn.Identity(), map_, axis=-1)
    expected = map_(z.reshape(-1, K)).reshape(z.shape)
    torch.testing.assert_close(module(z), expected)
    torch.testing.assert_close(module.predict_proba(z), torch.softmax(expected, -1))


def test_autocast_does_not_round_the_matrix():
    z = torch.randn(50, K)
    module = CalibratedModule(nn.Identity(), MAPS[3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = module(z)
    torch.testing.assert_close(out, MAPS[3](z))  # bfloat16 would be off by 4e-3


def test_calibrated_once_and_fitted_again_gives_one():
    generator = torch.Generator().manual_seed(0)
    z = 5 * torch.randn(4000, K, generator=generator)
    y = torch.multinomial(torch.softmax(z / 2.5, 1), 1, generator=generator)[:, 0]
    model = nn.Identity()
    fitted = tp.fit_temperature(*collect_logits(model, [(z, y)]))
    again = tp.fit_temperature(*collect_logits(CalibratedModule(model, fitted), [(z, y)]))
    assert fitted.temperature == pytest.approx(2.5, rel=0.1)
    assert again.temperature == pytest.approx(1, rel=1e-6)


# --------------------------------------------------------------------- how it prints and traces


def test_a_calibration_stands_for_its_map(net):
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=400)
    z = 6 * (np.eye(K)[y] + rng.normal(size=(400, K)))
    cal = tp.calibrate(z[200:], prior=np.full(K, 1 / K), source=(z[:200], y[:200]))
    assert CalibratedModule(net, cal).map == cal.map


@kinds
def test_the_printed_module_shows_its_map(map_, net):
    shown = repr(CalibratedModule(net, map_))
    assert f"map={type(map_).__name__}(" in shown
    assert "(model): Sequential" in shown


def test_a_wide_map_is_printed_in_short():
    wide = CalibratedModule(nn.Identity(), tp.BiasedTemperature(1.0, np.arange(500.0)))
    assert len(repr(wide)) < 300


def test_a_module_without_data_is_printed():
    with torch.device("meta"):
        empty = CalibratedModule(nn.Linear(3, K), MAPS[0])
    assert "map=temperature" in repr(empty.to("meta"))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@kinds
def test_a_trace_serves_any_batch(map_, net, x):
    module = CalibratedModule(net, map_).eval()
    traced = torch.jit.trace(module, x)
    for rows in (x, x[:1], torch.cat([x, x])):
        assert torch.allclose(traced(rows), module(rows))


# ----------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: CalibratedModule("net.pt", MAPS[0]), "model must be a torch.nn.Module. Got str"),
        (
            lambda: CalibratedModule(nn.Identity(), 2.0),
            "map must be a calibration map or a Calibration, as fits return. Got float",
        ),
        (
            lambda: CalibratedModule(nn.Identity(), MAPS[1])(torch.ones(2, K + 1)),
            "must return 4 classes, as the map was fitted for. Got 5",
        ),
        (
            lambda: CalibratedModule(nn.Identity(), MAPS[1])(torch.ones(2, 1)),
            "must return 4 classes, as the map was fitted for. Got 2",
        ),
        (lambda: CalibratedModule(Formed(str), MAPS[0])(torch.ones(2, K)), "Got a str"),
    ],
)
def test_refused_with_a_sentence(call, sentence):
    with pytest.raises(tp.InputError, match=sentence):
        call()

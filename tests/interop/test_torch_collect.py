"""collect_logits and stream_logits: every form of batch and output, and a model left as it was."""

from __future__ import annotations

import io
import sys
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import temperance as tp
from temperance._core import progress
from temperance.interop.torch import collect_logits, stream_logits

N, K = 11, 3
Pair = namedtuple("Pair", "x y")  # noqa: PYI024 - what loaders yield
Inception = namedtuple("Inception", "logits aux_logits")  # noqa: PYI024


@dataclass
class ModelOutput(OrderedDict):
    """The shape of a Hugging Face output: a dataclass that is a dict as well."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self):
        self.update({k: v for k, v in vars(self).items() if v is not None})


class Net(nn.Module):
    """Batch norm and dropout: wrong in train mode, and random."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, K)
        )

    def forward(self, x):
        return self.layers(x)


class TwoInputs(Net):
    def forward(self, left, right):
        return self.layers(torch.cat([left, right], dim=1))


class Outputs(Net):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return self.form(self.layers(x))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 4, generator=generator)
    return x, torch.arange(N) % K


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def by_hand(model, *inputs):
    model.eval()
    with torch.no_grad():
        out = model(*inputs)
    model.train()
    return out


BATCHES = {
    "tensor": lambda x, _: x,
    "tuple of one": lambda x, _: (x,),
    "tuple": lambda x, y: (x, y),
    "list": lambda x, y: [x, y],
    "named tuple": Pair,
    "column of labels": lambda x, y: (x, y[:, None]),
    "list of labels": lambda x, y: (x, y.tolist()),
    "with metadata": lambda x, y: (x, y, {"site": "A"}),
    "pair in a tuple": lambda x, y: ((x, y),),
    "numpy": lambda x, y: (x.numpy(), y.numpy()),
    "dict by name": lambda x, y: {"x": x, "labels": y, "index": y},
    "dict of one tensor": lambda x, y: {"image": x, "label": y, "path": ["a"] * len(y)},
    "dict and labels": lambda x, y: ({"x": x}, y),
    "user dict": lambda x, y: UserDict({"x": x, "targets": y}),
    "dict without labels": lambda x, _: {"x": x},
}


@pytest.mark.parametrize("form", BATCHES)
def test_every_form_of_batch_gives_the_same_logits(data, form):
    x, y = data
    model = Net()
    loader = [BATCHES[form](x[i : i + 4], y[i : i + 4]) for i in range(0, N, 4)]
    logits, labels = collect_logits(model, loader)
    torch.testing.assert_close(logits, by_hand(model, x))
    if form in ("tensor", "tuple of one", "dict without labels"):
        assert labels is None
    else:
        assert torch.equal(labels, y)


@pytest.mark.parametrize(
    "batch",
    [
        lambda a, b, y: ((a, b), y),
        lambda a, b, y: ([a, b], y),
        lambda a, b, y: {"left": a, "right": b, "label": y},
        lambda a, b, y: ({"right": b, "left": a}, y),
    ],
)
def test_several_inputs(data, batch):
    x, y = data
    model = TwoInputs()
    left, right = x[:, :1], x[:, 1:]
    logits, labels = collect_logits(model, [batch(left, right, y)])
    torch.testing.assert_close(logits, by_hand(model, left, right))
    assert torch.equal(labels, y)


@pytest.mark.parametrize(
    "form",
    [
        lambda z: (z, z * 2),
        lambda z: [z],
        lambda z: (z.sum(), z),
        lambda z: ((z, z * 2), "hidden"),
        lambda z: {"logits": z, "hidden": z * 2},
        lambda z: {"out": z, "aux": z * 2},
        lambda z: {"scores": z},
        lambda z: ModelOutput(loss=z.sum(), logits=z),
        lambda z: Inception(z, z * 2),
    ],
)
def test_every_form_of_output_gives_the_same_logits(data, form):
    x, y = data
    model = Outputs(form)
    plain = Net()
    plain.load_state_dict(model.state_dict())
    logits, _ = collect_logits(model, [(x, y)])
    torch.testing.assert_close(logits, by_hand(plain, x))


def test_keyword_only_models_get_everything(data):
    x, y = data

    class Keywords(Net):
        def forward(self, **inputs):
            return self.layers(inputs["x"] * inputs["mask"])

    model = Keywords()
    logits, _ = collect_logits(model, [{"x": x, "mask": x > 0, "labels": y}])
    torch.testing.assert_close(logits, by_hand(model.layers, x * (x > 0)))


def test_names_are_found_behind_a_wrapper(data):
    x, y = data
    model = nn.DataParallel(Net())  # without a GPU it only passes on what it gets
    logits, _ = collect_logits(model, [{"x": x, "labels": y, "path": "a.png"}])
    torch.testing.assert_close(logits, by_hand(model, x))


def test_names_are_not_looked_for_in_a_part_of_the_model(data):
    class Whole(nn.Module):
        """Keywords of its own beside those it passes on to ``model``, as in transformers."""

        def __init__(self):
            super().__init__()
            self.model = Net()

        def forward(self, x, mask=None, **kwargs):
            return self.model(x * mask, **kwargs)

    x, y = data
    model = Whole()
    logits, _ = collect_logits(model, [{"x": x, "mask": x > 0, "labels": y}])
    torch.testing.assert_close(logits, by_hand(model.model, x * (x > 0)))


def test_a_step_of_ones_own(data):
    x, y = data
    model = Outputs(lambda z: {"features": z * 2, "head": z})

    def step(model, batch):
        return model(batch["scan"])["head"], batch["diagnosis"]

    logits, labels = collect_logits(model, [{"scan": x, "diagnosis": y}], step=step)
    torch.testing.assert_close(logits, by_hand(model, x)["head"])
    assert torch.equal(labels, y)


def test_loader_without_length(data):
    x, _ = data

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(x)

    logits, labels = collect_logits(nn.Identity(), DataLoader(Stream(), 4))
    assert torch.equal(logits, x)
    assert labels is None
    assert torch.equal(collect_logits(nn.Identity(), (row for row in x.split(4)))[0], x)


# ------------------------------------------------------------------------ the model afterwards


def modes(model):
    return [module.training for module in model.modules()]


def test_modes_and_statistics_are_left_as_they_were(data):
    x, y = data
    model = Net()
    model.layers[1].eval()  # a frozen batch norm in a model that trains
    before, state = modes(model), {k: v.clone() for k, v in model.state_dict().items()}
    collect_logits(model, [(x, y)])
    assert modes(model) == before
    assert before.count(False) == 1
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_a_layer_left_on_in_an_evaluated_model_is_left_on(data):
    model = Net().eval()
    model.layers[2].train()  # Monte Carlo dropout
    collect_logits(model, [data])
    assert modes(model) == [False, False, False, False, True, False]


def test_modes_are_restored_after_an_error(data):
    x, y = data
    model = Net()
    before = modes(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        collect_logits(model, [(x, y), (x[:, :2], y)])
    assert modes(model) == before


def test_a_stream_that_is_left_half_way_leaves_the_model_alone(data):
    model = Net()
    stream = iter(stream_logits(model, [data, data]))
    next(stream)
    assert model.training
    assert torch.is_grad_enabled()


def test_train_is_called_and_not_only_its_flag_set(data):
    class Merged(Net):
        """Like low-rank adapters, it folds weights when it leaves training."""

        merged = False

        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    model = Merged()
    collect_logits(model, [data])
    assert model.training
    assert not model.merged


def test_train_mode_would_have_given_another_temperature():
    # A user's report: T = 1,386,304 until model.eval(). Here the mode is not the user's business.
    x = torch.randn(400, 4)
    model = Net()
    with torch.no_grad():
        model.layers[3].weight.mul_(5)
        y = torch.distributions.Categorical(logits=by_hand(model, x) / 2).sample()
        wrong = tp.fit_temperature(model(x), y).temperature
    logits, labels = collect_logits(model.train(), DataLoader(TensorDataset(x, y), 64))
    right = tp.fit_temperature(by_hand(model, x), y).temperature
    assert tp.fit_temperature(logits, labels).temperature == pytest.approx(right, rel=1e-5)
    assert abs(wrong - right) > 0.5


# --------------------------------------------------------------- gradients, precision, devices


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_under_any_gradient_mode(data, context):
    x, y = data
    model = Net()
    with context():
        logits, labels = collect_logits(model, [(x, y)])
    assert not logits.requires_grad
    torch.testing.assert_close(logits, by_hand(model, x))
    assert tp.fit_temperature(logits, torch.tensor([2, 1, 0] * 3 + [0, 0])).temperature > 0
    assert labels.shape == (N,)


def test_no_graph_is_built_while_the_model_runs(data):
    seen = []
    model = Outputs(lambda z: seen.append(z.requires_grad) or z)
    collect_logits(model, [data])
    assert seen == [False]


def test_collected_logits_can_enter_a_graph(data):
    logits, _ = collect_logits(Net(), [data])
    t = torch.ones((), requires_grad=True)
    (logits / t).sum().backward()  # inference tensors would refuse
    assert t.grad == pytest.approx(-float(logits.sum()), rel=1e-5)


def test_autocast_is_kept_to(data):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, _ = collect_logits(Net(), [data])
    assert logits.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_kept(data, dtype):
    x, y = data
    model = Net().to(dtype)
    logits, _ = collect_logits(model, [(x.to(dtype), y)])
    assert logits.dtype == dtype


def test_batches_go_where_the_model_is():
    sent = []

    class Batch:
        def to(self, device):
            sent.append(torch.device(device))
            return torch.ones(2, 4)

    collect_logits(nn.Linear(4, 3), [Batch()])
    collect_logits(nn.Linear(4, 3), [((Batch(),), torch.tensor([0, 1]))])
    assert sent == [torch.device("cpu"), torch.device("cpu")]


def test_a_model_that_reuses_its_output_is_copied(data):
    class Reused(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("out", torch.empty(1, 4))

        def forward(self, x):
            return self.out.copy_(x)

    x, _ = data
    assert torch.equal(collect_logits(Reused(), x.split(1))[0], x)


# --------------------------------------------------------------------------- one-logit heads


@pytest.mark.parametrize(
    "form", [lambda z: z[:, :1], lambda z: z[:, 0], lambda z: z[:, :1].squeeze()]
)
@pytest.mark.parametrize("labels", [lambda y: y, lambda y: y.float(), lambda y: y.float()[:, None]])
def test_one_logit_becomes_two_columns(data, form, labels):
    x, y = data
    y = y % 2
    model = Outputs(form)
    loader = [(x[i : i + 5], labels(y[i : i + 5])) for i in range(0, N, 5)]  # the last has one row
    z, got = collect_logits(model, loader)
    assert torch.equal(z[:, 0], torch.zeros(N))
    torch.testing.assert_close(z[:, 1], by_hand(model.layers, x)[:, 0])
    assert got.dtype == torch.int64
    assert torch.equal(got, y)


def test_one_logit_temperature_divides_the_score():
    s = 3 * torch.randn(3000, 1)
    y = torch.bernoulli(torch.sigmoid(s / 2))
    z, labels = collect_logits(nn.Identity(), DataLoader(TensorDataset(s, y), 512))
    t = tp.fit_temperature(z, labels).temperature
    beta = torch.tensor(1 / t, requires_grad=True)
    nn.functional.binary_cross_entropy_with_logits(s * beta, y).backward()
    assert abs(float(beta.grad)) < 1e-6  # the optimum of the binary cross-entropy itself


def test_a_stream_has_two_columns_too():
    ((z, y),) = stream_logits(
        nn.Identity(), [(torch.tensor([1.0, -2.0]), torch.tensor([1.0, 0.0]))]
    )
    assert torch.equal(z, torch.tensor([[0.0, 1.0], [0.0, -2.0]]))
    assert torch.equal(y, torch.tensor([1, 0]))


def test_soft_labels_pass_through(data):
    x, _ = data
    soft = torch.softmax(torch.randn(N, K), 1)
    assert torch.equal(collect_logits(Net(), [(x, soft)])[1], soft)


# ----------------------------------------------------------------------------------- refusals

X, Y = torch.ones(4, 4), torch.tensor([0, 1, 2, 0])
REFUSED = {
    "a path instead of a model": (lambda: collect_logits("model.pt", [X]), "torch.nn.Module"),
    "a tensor instead of a loader": (lambda: collect_logits(Net(), X), r"passed as \[batch\]"),
    "a dataset": (
        lambda: collect_logits(Net(), TensorDataset(X, Y)),
        "Got TensorDataset, which holds single examples; wrap it in a torch DataLoader",
    ),
    "no loader": (lambda: collect_logits(Net(), None), "iterable of batches"),
    "an empty loader": (lambda: collect_logits(Net(), []), "at least one batch"),
    "names for labels": (lambda: collect_logits(Net(), [(X, ["a"] * 4)]), "labels of list"),
    "a dict for labels": (lambda: collect_logits(Net(), [(X, {"y": Y})]), "labels of dict"),
    "too few labels": (lambda: collect_logits(Net(), [(X, Y[:3])]), r"labels of shape \(3,\)"),
    "mask second of three": (
        lambda: collect_logits(Net(), [(X, X.long(), Y)]),
        r"3 entries, the second a tensor of shape \(4, 4\)",
    ),
    "unknown names": (
        lambda: collect_logits(Net(), [{"a": X, "b": X, "label": Y}]),
        r"arguments of model.forward \(x\). Got a, b",
    ),
    "labels now and then": (lambda: collect_logits(Net(), [(X, Y), X]), "Batch 1 has none"),
    "another number of classes": (
        lambda: collect_logits(nn.Identity(), [X, X[:, :2]]),
        r"shape \(n, 2\) after \(n, 4\)",
    ),
    "squeezed": (
        lambda: collect_logits(nn.Identity(), [X, X[0]]),
        r"\(n,\) after \(n, 4\); does it",
    ),
    "images of two sizes": (
        lambda: collect_logits(nn.Identity(), [torch.ones(1, 2, 3, 3), torch.ones(1, 2, 4, 4)]),
        "dense_logits",
    ),
    "no logits": (
        lambda: collect_logits(Outputs(lambda z: {"a": z, "b": z}), [X]),
        "a dict with keys a, b",
    ),
    "a step that is none": (lambda: collect_logits(Net(), [X], step=3), "must be a function"),
    "a step without labels": (
        lambda: collect_logits(Net(), [X], step=lambda model, x: model(x)),
        "must return a pair. Got Tensor",
    ),
    "sparse": (lambda: collect_logits(Outputs(torch.Tensor.to_sparse), [X]), "hold their numbers"),
    "nothing": (lambda: collect_logits(Outputs(lambda _: None), [X]), "Got a NoneType"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_sentence(case):
    call, sentence = REFUSED[case]
    with pytest.raises(tp.InputError, match=sentence):
        call()


def test_a_stream_of_a_used_up_loader_says_so(data):
    stream = stream_logits(Net(), iter([data]))
    list(stream)
    with pytest.raises(tp.InputError, match="used up"):
        list(stream)


# ----------------------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("sized", [True, False])
def test_progress_shows_on_a_terminal_after_a_second(monkeypatch, sized):
    clock = iter(np.arange(0, 100, 0.4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", Terminal())
    batches = [X] * 6
    collect_logits(Net(), batches if sized else (batch for batch in batches))
    drawn = sys.stderr.getvalue().split("\r\033[K")
    assert drawn[0] == drawn[-1] == ""  # nothing before the first second, nothing left behind
    assert drawn[1].endswith("2/6 batches, 2 s left" if sized else "2 batches, 1 s")
    assert len(drawn) == 6


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_silent_when_quick_or_piped(monkeypatch, terminal):
    step = 0.001 if terminal else 1.0
    clock = iter(np.arange(0, 1000, step))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    collect_logits(Net(), [X] * 6)
    assert sys.stderr.getvalue() == ""


def test_a_head_that_ends_in_a_sigmoid_is_refused():
    torch.manual_seed(0)
    loader = [(torch.randn(10, 3), torch.ones(10))] * 3  # each batch alone is too few to tell
    score = nn.Linear(3, 1)
    with pytest.raises(tp.InputError, match="outputs of the model must be logits, but all 30 lie"):
        tp.torch.collect_logits(nn.Sequential(score, nn.Sigmoid()), loader)
    assert tp.torch.collect_logits(score, loader)[0].shape == (30, 2)


def test_a_temperature_runs_the_model_two_or_three_times():
    torch.manual_seed(0)
    model, x = nn.Linear(8, 10), 4 * torch.randn(5_000, 8)
    y = torch.distributions.Categorical(logits=model(x).detach() / 3).sample()
    runs = []
    model.register_forward_hook(lambda *_: runs.append(1))
    tp.fit_temperature(stream_logits(model, [(x[:2_500], y[:2_500]), (x[2_500:], y[2_500:])]))
    assert 2 <= len(runs) / 2 <= 3

"""Features beside the logits: the input of the head, or the output of a layer."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import temperance as tp
from temperance.interop.torch import collect_logits

N, K = 11, 3


class Branched(nn.Module):
    """An auxiliary head that runs last, and a loss layer that is no head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(16, K)
        self.auxiliary = nn.Linear(16, 7)

    def forward(self, x):
        h = self.body(x).flatten(1)
        return self.head(h), self.auxiliary(h)


@pytest.fixture
def images():
    x = torch.randn(N, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    return [(x[:4], torch.zeros(4, dtype=int)), (x[4:], torch.ones(N - 4, dtype=int))]


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Branched()


def test_the_head_of_the_features_gives_the_logits(model, images):
    logits, labels, features = collect_logits(model, images, features=True)
    assert features.shape == (N, 16)
    assert labels.shape == (N,)
    assert torch.allclose(model.head(features), logits, atol=1e-6)
    assert not features.requires_grad


def test_the_logits_are_the_same_without_features(model, images):
    with_features, _, _ = collect_logits(model, images, features=True)
    assert torch.equal(with_features, collect_logits(model, images)[0])


@pytest.mark.parametrize("by_name", [True, False])
def test_a_layer_gives_its_output_flattened(model, images, by_name):
    layer = "body.1" if by_name else model.body[1]
    *_, features = collect_logits(model, images, features=layer)
    x = torch.cat([x for x, _ in images])
    assert torch.equal(features, model.body[:2](x).flatten(1).detach())


def test_a_batch_without_rows_adds_nothing(model, images):
    x, y = images[0]
    *_, features = collect_logits(model, [(x[:0], y[:0]), *images], features=True)
    assert torch.equal(features, collect_logits(model, images, features=True)[2])


def test_features_of_two_sizes_are_refused():
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool1d(1), torch.nn.Linear(1, 3))
    model = torch.nn.Sequential(torch.nn.Identity(), model)
    with pytest.raises(tp.InputError, match="features must be of one size"):
        collect_logits(model, [torch.ones(2, 5), torch.ones(2, 6)], features="0")


def test_a_head_with_one_logit_has_features():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(1)) * 9
    logits, _, features = collect_logits(model, [x], features=True)
    assert logits.shape == (N, 2)
    assert torch.allclose(model[2](features)[:, 0], logits[:, 1], atol=1e-6)


def test_a_convolution_can_be_the_head():
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, K, 1), nn.Flatten()
    )
    logits, _, features = collect_logits(model, [torch.randn(5, 1, 6, 6)], features=True)
    assert features.shape == (5, 8)
    assert torch.allclose(model[2](features[:, :, None, None]).flatten(1), logits, atol=1e-6)


def test_no_hook_is_left_behind(model, images):
    collect_logits(model, images, features=True)
    with pytest.raises(RuntimeError):
        collect_logits(model, [torch.zeros(2, 1, 1, 1)], features=True)  # smaller than the kernel
    assert not any(module._forward_hooks for module in model.modules())


def test_features_of_half_precision_keep_it(model, images):
    half = [(x.to(torch.bfloat16), y) for x, y in images]
    *_, features = collect_logits(model.to(torch.bfloat16), half, features=True)
    assert features.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        ("heads", "features must be True, a layer of the model or its name. Got 'heads'"),
        (nn.Linear(2, 2), "Got Linear, which is none of"),
        (3, "Got int, which is none of body, body.0"),
    ],
)
def test_what_is_no_layer_of_the_model_is_refused(model, images, layer, sentence):
    with pytest.raises(tp.InputError, match=sentence):
        collect_logits(model, images, features=layer)


def test_a_model_without_a_head_is_refused():
    with pytest.raises(tp.InputError, match="No such layer was seen to run"):
        collect_logits(nn.Identity(), [torch.randn(5, 3)], features=True)


@pytest.mark.parametrize("use", ["tp.torch.collect_logits", "import temperance.interop.torch"])
def test_a_missing_torch_is_named_with_its_extra(use):
    code = f"""
import sys
sys.modules["torch"] = None  # as if it were not installed
import temperance as tp
try:
    {use}
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sentence = "temperance.torch needs the package torch: pip install temperance[torch]."
    assert done.stdout.strip() == sentence

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.distributions import kl_divergence as reference_kl
from torch.nn import functional

from temperance import InputError, metrics
from temperance_lab import networks
from temperance_lab.networks.run import seeded


def randomised(layer, seed=0):
    """Weights and deviations of different sizes."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        layer.weight.normal_(generator=rng)
        layer.log_std.uniform_(-2, 0, generator=rng)
    return layer


# ------------------------------------------------------------------------------------------- KL


@pytest.mark.parametrize("prior_std", [1.0, 0.3, 4.0])
def test_kl_is_its_closed_form(prior_std):
    network = networks.to_flipout(networks.build("lenet5", 10, 1))
    layers = [m for m in network.modules() if hasattr(m, "log_std")]
    for i, layer in enumerate(layers):
        randomised(layer, i)
    expected = sum(
        reference_kl(
            Normal(m.weight.double(), m.log_std.double().exp()), Normal(0.0, prior_std)
        ).sum()
        for m in layers
    )
    assert len(layers) == 5
    assert networks.kl_divergence(network, prior_std).item() == pytest.approx(
        expected.item(), rel=1e-5
    )


def test_kl_is_its_integral():
    layer = networks.FlipoutLinear(1, 1).double()
    with torch.no_grad():
        layer.weight.fill_(0.7)
        layer.log_std.fill_(-1.2)
    mu, sigma, prior = mpmath.mpf(0.7), mpmath.exp(mpmath.mpf(-1.2)), mpmath.mpf(0.5)

    def integrand(w):
        q = mpmath.npdf(w, mu, sigma)
        return q * mpmath.log(q / mpmath.npdf(w, 0, prior))

    integral = mpmath.quad(integrand, mpmath.linspace(mu - 12 * sigma, mu + 12 * sigma, 9))
    assert networks.kl_divergence(layer, 0.5).item() == pytest.approx(float(integral), rel=1e-6)


def test_kl_is_zero_at_the_prior():
    layer = networks.FlipoutConv2d(2, 3, 3)
    with torch.no_grad():
        layer.weight.zero_()
        layer.log_std.fill_(np.log(0.5))
    assert networks.kl_divergence(layer, 0.5).item() == pytest.approx(0, abs=1e-4)


# -------------------------------------------------------------------------------------- Flipout


def test_linear_response_has_the_posteriors_mean_and_variance():
    layer = randomised(networks.FlipoutLinear(6, 4))
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    n = 4_000
    with seeded(0), torch.no_grad():
        y = torch.stack([layer(x) for _ in range(n)]).double()
        mean = functional.linear(x, layer.weight, layer.bias).double()
        variance = functional.linear(x.square(), (2 * layer.log_std).exp()).double()
    error = (y.mean(0) - mean) / (variance / n).sqrt()
    assert error.abs().max() < 4.5
    np.testing.assert_allclose(y.var(0) / variance, 1, atol=4.5 * np.sqrt(2 / n))


def test_convolution_response_has_the_posteriors_mean_and_variance():
    layer = randomised(networks.FlipoutConv2d(2, 3, 3, stride=2, padding=1))
    x = torch.randn(2, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    n = 4_000
    with seeded(0), torch.no_grad():
        y = torch.stack([layer(x) for _ in range(n)]).double()
        mean = functional.conv2d(x, layer.weight, layer.bias, 2, 1).double()
        variance = functional.conv2d(x.square(), (2 * layer.log_std).exp(), None, 2, 1).double()
    error = (y.mean(0) - mean) / (variance / n).sqrt()
    assert error.abs().max() < 4.5
    np.testing.assert_allclose(y.var(0) / variance, 1, atol=4.5 * np.sqrt(2 / n))


@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_perturbations_are_uncorrelated_between_examples(kind):
    # The same input three times: one shared perturbation would make three equal responses.
    if kind == "linear":
        layer, x = randomised(networks.FlipoutLinear(6, 1)), torch.ones(3, 6)
    else:
        layer, x = randomised(networks.FlipoutConv2d(2, 1, 3)), torch.ones(3, 2, 3, 3)
    n = 4_000
    with seeded(0), torch.no_grad():
        y = torch.stack([layer(x).flatten() for _ in range(n)])
    off_diagonal = np.corrcoef(y.numpy().T)[np.triu_indices(3, 1)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(n)


@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_gradient_keeps_its_mean_and_loses_variance(kind):
    """Wen et al. (2018), section 3: as if each example had a perturbation of its own.

    Examples that are alike, as activations are, respond alike to one perturbation for all of them
    (plain reparametrisation), which no batch size averages out.
    """
    n, batch = 500, 32
    rng = torch.Generator().manual_seed(2)
    if kind == "linear":
        layer = randomised(networks.FlipoutLinear(8, 3))
        x = 1 + 0.3 * torch.randn(batch, 8, generator=rng)
    else:  # one output pixel
        layer = randomised(networks.FlipoutConv2d(8, 3, 2))
        x = 1 + 0.3 * torch.randn(batch, 8, 2, 2, generator=rng)
    y = torch.randint(3, (batch,), generator=rng)

    def reparametrised(n_perturbations):
        noise = torch.randn(n_perturbations, *layer.weight.shape)
        weights = layer.weight + layer.log_std.exp() * noise
        return (weights * x[:, None]).flatten(2).sum(2) + layer.bias

    def gradients(logits):
        draws = (functional.cross_entropy(logits().flatten(1), y) for _ in range(n))
        grads = [torch.autograd.grad(loss, layer.weight)[0].flatten() for loss in draws]
        return torch.stack(grads).double()

    with seeded(0):
        flipout = gradients(lambda: layer(x))
        shared = gradients(lambda: reparametrised(1))
        separate = gradients(lambda: reparametrised(batch))
    for other in (shared, separate):
        standard_error = (flipout.var(0) / n + other.var(0) / n).sqrt()
        assert ((flipout.mean(0) - other.mean(0)) / standard_error).abs().max() < 4.5
    variance = {"flipout": flipout, "shared": shared, "separate": separate}
    variance = {name: g.var(0).mean().item() for name, g in variance.items()}
    assert variance["flipout"] < variance["shared"] / 8
    assert variance["flipout"] < 1.5 * variance["separate"]


def test_layers_are_at_their_mean_when_evaluated():
    plain, network = (
        networks.build("resnet20", 10),
        networks.to_flipout(networks.build("resnet20", 10)),
    )
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network.eval()(x), plain.eval()(x))
    weighted = [m for m in plain.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    variational = [m for m in network.modules() if hasattr(m, "log_std")]
    assert len(variational) == len(weighted) == 20


# ------------------------------------------------------------------------- training, predicting


@pytest.fixture(scope="module")
def digits():
    """Two classes told apart by which half of the image is bright."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=64)
    images = rng.integers(120, size=(64, 28, 28), dtype=np.uint8)
    images[labels == 0, :14] += 100
    images[labels == 1, 14:] += 100
    return images, labels


def test_training_raises_the_evidence_bound_and_resumes(digits, tmp_path):
    recipe = networks.Recipe(epochs=6, batch_size=16, learning_rate=2e-3, optimizer="adam")
    network = networks.to_flipout(networks.build("lenet5", 2, 1))
    before = networks.kl_divergence(network).item() / 64
    path = tmp_path / "svi.safetensors"
    history = networks.train_svi(network, *digits, recipe, checkpoint=path)
    assert history[-1].loss < history[0].loss
    assert networks.kl_divergence(network).item() / 64 < before
    assert (
        history[-1].loss > networks.kl_divergence(network).item() / 64
    )  # the loss includes the KL
    loaded = networks.load_weights(networks.to_flipout(networks.build("lenet5", 2, 1)), path)
    assert torch.equal(loaded.head.log_std, network.head.log_std)


def test_prediction_averages_over_the_posterior(digits):
    network = networks.to_flipout(networks.build("lenet5", 2, 1))
    images = digits[0][:4]
    with torch.no_grad():
        for layer in (m for m in network.modules() if hasattr(m, "log_std")):
            layer.log_std.fill_(-30.0)  # no noise left: the posterior is its mean
    mean = torch.log_softmax(torch.from_numpy(networks.predict_logits(network, images)).double(), 1)
    np.testing.assert_allclose(networks.predict_svi(network, images, 2), mean, atol=1e-6)


def test_prediction_of_one_random_layer_is_its_integral():
    # Logit difference w x with w ~ N(mu, s²): p = E[sigmoid(w x)], a one-dimensional integral.
    network = networks.Network(nn.Flatten(), networks.FlipoutLinear(1, 2), 1)
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor([[1.0], [0.0]]))
        network.head.bias.zero_()
        network.head.log_std.copy_(torch.tensor([[0.5], [-30.0]]))
    image, n = np.full((1, 1, 1), 255, dtype=np.uint8), 4_000

    def integrand(w):
        return mpmath.npdf(w, 1, mpmath.exp(0.5)) / (1 + mpmath.exp(-w))

    exact = float(mpmath.quad(integrand, mpmath.linspace(-20, 22, 9)))
    log_p = networks.predict_svi(network, image, n)
    assert np.exp(log_p[0, 0]) == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(n))


def test_seed_decides_and_metrics_accept(digits):
    network = networks.to_flipout(networks.build("lenet5", 2, 1))
    a, b, c = (networks.predict_svi(network, digits[0], 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 1e-4
    np.testing.assert_allclose(np.exp(a).sum(1), 1, atol=1e-12)
    assert np.isfinite(metrics.nll(a, digits[1]))
    assert all(m.training for m in network.modules())


def test_plain_network_is_refused(digits):
    with pytest.raises(InputError, match=r"use networks\.to_flipout\(network\)"):
        networks.predict_svi(networks.build("lenet5", 2, 1), digits[0])
    with pytest.raises(InputError, match="prior_std must be a finite number"):
        networks.train_svi(networks.build("lenet5", 2, 1), *digits, "lenet5-mnist", prior_std=0.0)

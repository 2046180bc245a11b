r"""Random last layers over fixed features: the Laplace approximation and Hamiltonian Monte Carlo.

MacKay, Neural Computation 1992, and Neal, 1996, whom the paper names among its neighbours; over the
last layer alone, as ll-Dropout is. The features h(x) of a trained network stay as they are, its
last layer :math:`\theta` (weights and biases, one row a class) has the prior
:math:`\mathcal N(0, 1 / \tau)`, element by element, and the posterior

.. math:: \log p(\theta \mid D) = \sum_i \log \mathrm{softmax}(\theta h_i)_{y_i}
          - \tfrac\tau2 \|\theta\|^2 + \mathrm{const},

which is concave: Newton's method finds its mode and the Hessian -A there. Laplace draws from
:math:`\mathcal N(\hat\theta, A^{-1})`; Hamiltonian Monte Carlo draws from the posterior itself,
with A as the matrix of masses, so that all directions have one scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_softmax, softmax

from temperance import InputError
from temperance_lab.checks import check_integer, check_number
from temperance_lab.networks.images import as_batch, check_images
from temperance_lab.networks.network import evaluating
from temperance_lab.networks.predictive import predictive_log_probabilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from temperance_lab.networks.network import Network

    Floats = NDArray[np.float64]

__all__ = ["LastLayer", "predict_last_layer", "sample_last_layer"]

BATCH = 500
STEP, LEAPS = 0.2, 8  # about a quarter of a period at one scale
WARM_UP, THIN = 50, 10  # trajectories before the first sample, and from one to the next


@dataclass
class LastLayer:
    """The posterior of a last layer: features with a column of ones, labels, prior precision."""

    h: Floats
    y: NDArray[np.int64]
    n_classes: int
    precision: float = 1.0
    mode: Floats = field(init=False, repr=False)
    root: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._onehot = np.eye(self.n_classes)[self.y]
        self.mode = self._newton()
        self.root = cholesky(self.curvature(self.mode), lower=True)

    def log_density(self, theta: Floats) -> float:
        """Return the log posterior density of ``theta`` ``(K, d + 1)``, but for a constant."""
        log_p = log_softmax(self.h @ theta.T, axis=1)
        prior = 0.5 * self.precision * np.sum(theta**2)
        return float(log_p[np.arange(len(self.y)), self.y].sum() - prior)

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient of the log density, in the shape of ``theta``."""
        p = softmax(self.h @ theta.T, axis=1)
        return (self._onehot - p).T @ self.h - self.precision * theta

    def curvature(self, theta: Floats) -> Floats:
        """Return the negative Hessian over all weights, class by class."""
        p = softmax(self.h @ theta.T, axis=1)
        k, d = theta.shape
        out = np.empty((k, d, k, d))
        for a in range(k):
            for b in range(a + 1):
                weight = p[:, a] * ((a == b) - p[:, b])
                out[a, :, b] = out[b, :, a] = (self.h * weight[:, None]).T @ self.h
        return out.reshape(k * d, k * d) + self.precision * np.eye(k * d)

    def _newton(self) -> Floats:
        """Return the mode; a step that does not go up is halved."""
        theta = np.zeros((self.n_classes, self.h.shape[1]))
        value = self.log_density(theta)
        for _ in range(100):
            slope = self.gradient(theta).ravel()
            step = np.linalg.solve(self.curvature(theta), slope)
            rise = float(slope @ step)
            if rise < 1e-10 * len(self.y):
                break
            size = 1.0
            while (new := self.log_density(theta + size * step.reshape(theta.shape))) < value:
                size /= 2
            theta, value = theta + size * step.reshape(theta.shape), new
        return theta

    def _at(self, u: Floats) -> Floats:
        """Return the weights at standardised coordinates around the mode."""
        return self.mode + solve_triangular(self.root.T, u).reshape(self.mode.shape)

    def laplace(self, n_samples: int, rng: np.random.Generator) -> Floats:
        """Return draws ``(n_samples, K, d + 1)`` from the normal distribution around the mode."""
        return np.stack([self._at(rng.normal(size=self.mode.size)) for _ in range(n_samples)])

    def hmc(self, n_samples: int, rng: np.random.Generator) -> tuple[Floats, float]:
        """Return draws of a Markov chain from the mode, and the share of accepted trajectories."""
        u, out, accepted = np.zeros(self.mode.size), [], 0
        total = WARM_UP + THIN * n_samples
        for i in range(1, total + 1):
            momentum = rng.normal(size=u.size)
            step = STEP * rng.uniform(0.8, 1.2)  # no trajectory is a period of all directions
            moved, energy = self._leap(u, momentum, step)
            if np.log(rng.random()) < energy:
                u, accepted = moved, accepted + 1
            if i > WARM_UP and (i - WARM_UP) % THIN == 0:
                out.append(self._at(u))
        return np.stack(out), accepted / total

    def _leap(self, u: Floats, momentum: Floats, step: float) -> tuple[Floats, float]:
        """Return where a trajectory ends, and the log of its probability to be accepted."""

        def force(at: Floats) -> Floats:
            return solve_triangular(self.root, self.gradient(self._at(at)).ravel(), lower=True)

        before = self.log_density(self._at(u)) - 0.5 * momentum @ momentum
        momentum = momentum + 0.5 * step * force(u)
        for leap in range(LEAPS):
            u = u + step * momentum
            momentum = momentum + (step if leap < LEAPS - 1 else 0.5 * step) * force(u)
        after = self.log_density(self._at(u)) - 0.5 * momentum @ momentum
        return u, float(after - before)


@torch.no_grad()
def features(network: Network, images: ArrayLike) -> Floats:
    """Return what the head sees of images, with a column of ones."""
    x = check_images(images)
    with evaluating(network):
        device = network.mean.device
        parts = [
            network.features(as_batch(x[i : i + BATCH], device)).double().cpu().numpy()
            for i in range(0, len(x), BATCH)
        ]
    h = np.concatenate(parts)
    return np.column_stack([h, np.ones(len(h))])


def sample_last_layer(
    network: Network,
    images: ArrayLike,
    labels: ArrayLike,
    method: str = "laplace",
    *,
    n_samples: int = 10,
    precision: float = 1.0,
    seed: int = 0,
) -> tuple[Floats, float]:
    """Draw last layers ``(n_samples, K, d + 1)`` given training images; biases are last.

    ``method`` is ``"laplace"`` or ``"hmc"``, ``precision`` that of the prior. The second value is
    the share of trajectories that the chain accepted, 1 for the independent draws of Laplace.
    """
    if method not in {"laplace", "hmc"}:
        raise InputError(f"method must be 'laplace' or 'hmc'. Got {method!r}.")
    n_samples = check_integer(n_samples, "n_samples", low=1)
    precision = check_number(precision, "precision", low=0.0, open_low=True)
    h, y = features(network, images), np.asarray(labels, np.int64)
    with torch.no_grad(), evaluating(network):
        n_classes = network(as_batch(check_images(images)[:1], network.mean.device)).shape[1]
    posterior = LastLayer(h, y, n_classes, precision)
    rng = np.random.default_rng(check_integer(seed, "seed"))
    if method == "laplace":
        return posterior.laplace(n_samples, rng), 1.0
    return posterior.hmc(n_samples, rng)


def predict_last_layer(network: Network, heads: Floats, images: ArrayLike) -> Floats:
    """Predictive log-probabilities ``(n, K)`` over last layers from `sample_last_layer`.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=3, in_channels=1)
    >>> images = np.random.default_rng(0).integers(256, size=(30, 28, 28), dtype=np.uint8)
    >>> heads, _ = networks.sample_last_layer(network, images, np.arange(30) % 3, n_samples=4)
    >>> networks.predict_last_layer(network, heads, images).shape
    (30, 3)
    """
    layers = torch.from_numpy(np.asarray(heads, np.float64)).to(network.mean.device)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        h = network.features(batch).double()
        return (h @ layer[:, :-1].T + layer[:, -1] for layer in layers)

    with evaluating(network):
        return predictive_log_probabilities(samples, images, network.mean.device)

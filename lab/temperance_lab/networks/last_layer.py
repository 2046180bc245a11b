r"""Random last layers over fixed features: the Laplace approximation and Hamiltonian Monte Carlo.

MacKay, Neural Computation 1992, and Neal, 1996, whom the paper names among its neighbours; over the
last layer alone, as ll-Dropout is. The features h(x) of a trained network stay as they are, its
last layer :math:`\theta` (weights and biases, one row a class) has the prior
:math:`\mathcal N(0, 1 / \tau)`, element by element, and the posterior

.. math:: \log p(\theta \mid D) = \sum_i \log \mathrm{softmax}(\theta h_i)_{y_i}
          - \tfrac\tau2 \|\theta\|^2 + \mathrm{const},

which is concave: Newton's method finds its mode and the Hessian -A there. Laplace draws from
:math:`\mathcal N(\hat\theta, A^{-1})`; Hamiltonian Monte Carlo draws from the posterior itself.
Its matrix of masses is -1 times the mean Hessian at states of the warm-up, so that all directions
have about one scale. The Hessian at the mode will not do: where training rows are nearly separable,
the density bends much more a step away from its mode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

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
CHAINS = 2
STAGES, WARM_UP, THIN = 3, 40, 10  # stages of a warm-up, their trajectories; those of one sample
STEP, PERIOD = 0.2, 1.5  # first step, and length of a trajectory: a quarter of a period
ACCEPTED = 0.8  # share of trajectories that the step is adapted to


class Sampled(NamedTuple):
    """Last layers ``(n, K, d + 1)``, the share of accepted trajectories, and R-hat.

    R-hat (Gelman and Rubin, 1992) is that of the log density, over halves of the chains; it is near
    1 where they have forgotten their start.
    """

    heads: Floats
    accepted: float = 1.0
    r_hat: float = 1.0


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

    def laplace(self, n_samples: int, rng: np.random.Generator) -> Sampled:
        """Return draws from the normal distribution around the mode."""
        draws = (rng.normal(size=self.mode.size) for _ in range(n_samples))
        steps = [solve_triangular(self.root.T, u).reshape(self.mode.shape) for u in draws]
        return Sampled(self.mode + np.stack(steps))

    def hmc(self, n_samples: int, rng: np.random.Generator) -> Sampled:
        """Return draws of Markov chains that start at the mode."""
        kept, densities, shares = [], [], []
        for chain in rng.spawn(CHAINS):
            walk = _Walk(self, self.mode, self.root, STEP, chain)
            states = [walk.go(i) for i in range(WARM_UP)]
            for _ in range(1, STAGES):
                some = [self.curvature(s) for s in states[:: -(WARM_UP // 4)]]
                root = cholesky(np.mean(some, axis=0), lower=True)
                walk = _Walk(self, states[-1], root, walk.step, chain)
                states = [walk.go(i) for i in range(WARM_UP)]
            walk.accepted = 0
            states = [walk.go() for _ in range(THIN * -(-n_samples // CHAINS))]
            kept += states[THIN - 1 :: THIN]
            densities += np.array_split([self.log_density(s) for s in states], 2)
            shares.append(walk.accepted / len(states))
        return Sampled(np.stack(kept[:n_samples]), float(np.mean(shares)), _r_hat(densities))


class _Walk:
    """Trajectories from a state on, in coordinates in which the masses are 1."""

    def __init__(
        self,
        posterior: LastLayer,
        start: Floats,
        root: Floats,
        step: float,
        rng: np.random.Generator,
    ) -> None:
        self.posterior, self.start, self.root = posterior, start, root
        self.step, self.rng, self.accepted = step, rng, 0
        self.u = np.zeros(start.size)
        self.density, self.force = self._at(self.u)

    def state(self, u: Floats) -> Floats:
        """Return the weights at a place."""
        return self.start + solve_triangular(self.root.T, u).reshape(self.start.shape)

    def _at(self, u: Floats) -> tuple[float, Floats]:
        theta = self.state(u)
        slope = self.posterior.gradient(theta).ravel()
        return self.posterior.log_density(theta), solve_triangular(self.root, slope, lower=True)

    def go(self, adapt: int | None = None) -> Floats:
        """Return the state after one more trajectory; ``adapt`` counts those of a warm-up."""
        step = self.step * self.rng.uniform(0.8, 1.2)  # no trajectory is a period of all directions
        momentum = self.rng.normal(size=self.u.size)
        before = self.density - 0.5 * momentum @ momentum
        u, density, force = self.u, self.density, self.force
        for _ in range(max(1, round(PERIOD / step))):
            momentum = momentum + 0.5 * step * force
            u = u + step * momentum
            density, force = self._at(u)
            momentum = momentum + 0.5 * step * force
        chance = np.exp(min(0.0, density - 0.5 * momentum @ momentum - before))
        if self.rng.random() < chance:
            self.u, self.density, self.force = u, density, force
            self.accepted += 1
        if adapt is not None:
            self.step *= np.exp(0.5 * (chance - ACCEPTED) * min(1.0, 5 / np.sqrt(adapt + 1)))
        return self.state(self.u)


def _r_hat(chains: list[Floats]) -> float:
    """Return how much wider all chains together are than one of them, as a ratio."""
    n = min(map(len, chains))
    within = np.mean([np.var(c, ddof=1) for c in chains])
    between = np.var([np.mean(c) for c in chains], ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))


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
) -> Sampled:
    """Draw last layers ``(n_samples, K, d + 1)`` given training images; biases are last.

    ``method`` is ``"laplace"`` or ``"hmc"``, ``precision`` that of the prior.
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
    return (
        posterior.laplace(n_samples, rng) if method == "laplace" else posterior.hmc(n_samples, rng)
    )


def predict_last_layer(network: Network, heads: Floats, images: ArrayLike) -> Floats:
    """Predictive log-probabilities ``(n, K)`` over last layers from `sample_last_layer`.

    Examples
    --------
    >>> import numpy as np
    >>> from temperance_lab import networks
    >>> network = networks.build("lenet5", n_classes=3, in_channels=1)
    >>> images = np.random.default_rng(0).integers(256, size=(30, 28, 28), dtype=np.uint8)
    >>> sampled = networks.sample_last_layer(network, images, np.arange(30) % 3, n_samples=4)
    >>> networks.predict_last_layer(network, sampled.heads, images).shape
    (30, 3)
    """
    layers = torch.from_numpy(np.asarray(heads, np.float64)).to(network.mean.device)

    def samples(batch: Tensor) -> Iterator[Tensor]:
        h = network.features(batch).double()
        return (h @ layer[:, :-1].T + layer[:, -1] for layer in layers)

    with evaluating(network):
        return predictive_log_probabilities(samples, images, network.mean.device)

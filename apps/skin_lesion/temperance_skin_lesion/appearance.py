r"""Does a picture look like those the network was trained on? A cat must not get a diagnosis.

The network has no class "none of these". What it sees is compared with what it saw of the
training lesions: with the mean :math:`\mu` and the covariance :math:`\Sigma` of the trunk's
features, averaged over the picture, the distance of a picture with features f is

.. math:: d = \sqrt{(f - \mu)^\top \Sigma^{-1} (f - \mu)}

(Mahalanobis, 1936; for networks Lee et al., NeurIPS 2018). Beyond the `FAMILIAR` quantile of the
training lesions the picture is foreign: referred, whatever its probabilities say. The trunk is
ImageNet's and never fine-tuned, so it has not forgotten how to tell cats from skin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["FAMILIAR", "Appearance", "fit", "load"]

FAMILIAR = 0.995
"""Share of the training lesions that look familiar: one in two hundred is referred for nothing."""

RIDGE = 1e-4
"""Of the mean variance, added to all: no direction is sure because it was never seen to vary."""


@dataclass(frozen=True, slots=True)
class Appearance:
    """How training lesions look; ``whitener @ whitener.T`` is the inverse covariance."""

    mean: NDArray[np.float32]
    whitener: NDArray[np.float32]
    limit: float

    def distance(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Mahalanobis distance of each row of features ``(n, 192)``."""
        return np.linalg.norm((features - self.mean) @ self.whitener, axis=1).astype(np.float64)

    def is_foreign(self, features: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Whether each row is farther from the training lesions than nearly all of them are."""
        return self.distance(features) > self.limit

    def save(self, path: Path) -> None:
        """Store as a file of the model."""
        np.savez_compressed(path, mean=self.mean, whitener=self.whitener, limit=self.limit)


def fit(features: NDArray[np.float32]) -> Appearance:
    """Learn from the features ``(n, 192)`` of training lesions how a lesion looks."""
    mean = features.mean(axis=0, dtype=np.float64)
    covariance = np.cov(features, rowvar=False, dtype=np.float64)
    ridge = RIDGE * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    whitener = np.linalg.cholesky(precision).astype(np.float32)
    learned = Appearance(mean.astype(np.float32), whitener, np.inf)
    limit = float(np.quantile(learned.distance(features), FAMILIAR))
    return Appearance(learned.mean, whitener, limit)


def load(path: Path) -> Appearance:
    """Return what `Appearance.save` stored."""
    with np.load(path, allow_pickle=False) as file:
        return Appearance(file["mean"], file["whitener"], float(file["limit"]))

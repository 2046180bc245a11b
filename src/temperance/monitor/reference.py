"""Windows like the reference: how probable that is, and which maps are then right.

`temperance.calibrate` weighs several kinds of shift against each other, since logits alone cannot
tell them apart. A monitor knows more: how much windows of the reference differ by chance. A window
that differs no more than that needs no correction but the one temperature at which the mean
confidence of the source is its accuracy. So the plausible maps of a window are joined by the maps
of the reference, with the probability that the window is like the reference.

The probability is that of a test with even odds: each mean rank z standard errors away from the
reference is normal of variance 1 there, and of variance 1 + (`SHIFT` / standard error)^2 elsewhere.
Two classes have no similarity. There the rows may still be rows of the reference in other
proportions, unless their logits look like those of the reference, shrunk or stretched (distance of
Kolmogorov and Smirnov).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from temperance.calibrate.accuracy import POINT_WEIGHTS, POINTS, log_odds
from temperance.calibrate.constants import NUMERICAL
from temperance.calibrate.problem import Logits
from temperance.calibrate.result import Calibration
from temperance.calibrate.solve import solve_confidence
from temperance.data.given import LabelledSample
from temperance.monitor.change import Ranks, Tally, residual

SHIFT = 0.1  # change of a mean rank that a shift brings (0.5 at home)
SHAPE = 0.1  # distance beyond chance from which logits are no rescaled ones
CHANCE = 1.36  # distance by chance, times the root of 1/n + 1/m, in one sample of twenty
MOST = 0.8  # largest probability: no statistic of logits excludes that labels have changed


class Reference:
    """The source of a monitor: its accuracy, and the temperatures that go with it.

    At the temperatures, the mean confidence of the source is its accuracy, and the ends of its
    error.
    """

    def __init__(self, sample: LabelledSample, ranks: Ranks) -> None:
        rows = Logits.of(sample.logits)
        self._ranks = ranks
        self.accuracy = float((rows.predicted == sample.labels).mean())
        share = float(np.clip(self.accuracy, 1e-3, 1 - 1e-3))
        error = 1 / np.sqrt(len(rows) * share * (1 - share))
        start = ranks.temperature
        limits = start / NUMERICAL.widest, start * NUMERICAL.widest
        wanted = expit(log_odds(self.accuracy) + error * POINTS)
        self.temperatures = [solve_confidence(rows, float(a), start, limits) for a in wanted]
        self._margins = _margins(rows)

    def probability(self, z: NDArray[Any], tally: Tally) -> float:
        """Return the probability that rows are like those of the reference."""
        odds = 0.0
        for name, variance in self._ranks.variance.items():
            away, error = residual(name, tally, self._ranks.own, variance)
            spread = 1 + (SHIFT / error) ** 2
            odds += 0.5 * float(np.log(spread)) - 0.5 * away**2 * (1 - 1 / spread)
        found = float(expit(odds))
        if self._margins is not None:
            margins = _margins(Logits.of(z))
            assert margins is not None  # noqa: S101 - of two classes too
            n, m = len(margins), len(self._margins)
            beyond = _distance(margins, self._margins) - CHANCE * np.sqrt(1 / n + 1 / m)
            found = 1 - (1 - found) * float(np.exp(-((max(beyond, 0.0) / SHAPE) ** 2)))
        return min(found, MOST)

    def join(self, cal: Calibration, z: NDArray[Any], tally: Tally) -> Calibration:
        """Return a calibration whose plausible maps are joined by those of the reference.

        Labels know better, and a refused calibration has no plausible maps: both stay as they are.
        """
        held = cal.details["plausible"]
        if held is None or cal.details["n_labelled"]:
            return cal
        share = self.probability(z, tally)
        total = float(np.sum(held["weights"]))
        joined = {
            "weights": [w / total * (1 - share) for w in held["weights"]]
            + (share * POINT_WEIGHTS).tolist(),
            "temperatures": [*held["temperatures"], *self.temperatures],
            "biases": [*held["biases"], *([[0.0] * len(held["biases"][0])] * len(POINTS))],
        }
        return replace(cal, details=cal.details | {"plausible": joined})


def _margins(rows: Logits) -> NDArray[np.float64] | None:
    """Return the sizes of the logits of two classes in units of their spread, sorted."""
    if rows.n_classes != 2:
        return None
    z = rows.filled[:, 0]
    return np.sort(np.abs(z)) / (float(np.std(z)) or 1.0)


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest distance between the distribution functions of two sorted samples."""
    both = np.concatenate([one, other])
    shares = (np.searchsorted(x, both, side="right") / len(x) for x in (one, other))
    return float(np.abs(np.subtract(*shares)).max())

"""The reference of a monitor: which maps are plausible for a window, beside those of `calibrate`.

`temperance.calibrate` weighs several kinds of shift against each other, since logits alone cannot
tell them apart. A monitor looks at one stream of rows, and knows more of it:

- how much windows of the reference differ by chance. A window that differs no more than that needs
  no correction but the one temperature at which the mean confidence of the source is its accuracy.
- how similar the rows are to those of the source (`similar` of `temperance.calibrate`), which
  needs no class mix and is then a check on the estimates that do: it counts `SIMILAR`.
- the class mix of the source. Where no mix is stated, rows unlike those of the source are taken to
  be of the same mix: classes that are predicted more often are then mistakes. Rows like those of
  the source are no mistakes, so that the mix has changed. The ratio of the odds of `similar`, here
  over at the source, is the share of the second explanation. It has the whole share where the
  first one finds no mistakes: an accuracy above both estimates that need no mix.

So the plausible maps of a window are joined by maps of each. The probability that a window is like
the reference is that of a test with even odds: each mean rank z standard errors away from the
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

from temperance.calibrate.accuracy import (
    POINT_WEIGHTS,
    POINTS,
    Source,
    estimate_with_source,
    log_odds,
)
from temperance.calibrate.constants import NUMERICAL
from temperance.calibrate.problem import Logits, Prior, about, thin
from temperance.calibrate.result import Calibration
from temperance.calibrate.solve import solve_confidence
from temperance.data.given import LabelledSample
from temperance.monitor.change import Ranks, Tally, residual

SHIFT = 0.1  # change of a mean rank that a shift brings (0.5 at home)
SHAPE = 0.1  # distance beyond chance from which logits are no rescaled ones
CHANCE = 1.36  # distance by chance, times the root of 1/n + 1/m, in one sample of twenty
SIMILAR = 0.25  # weight of `similar` for a window unlike the reference
MOST = 0.8  # largest probability: no statistic of logits excludes that labels have changed


class Reference:
    """The source of a monitor: its accuracy, and the maps that go with it.

    At the temperatures of these maps, the mean confidence of the source is its accuracy, and the
    ends of its error.
    """

    def __init__(self, sample: LabelledSample, ranks: Ranks) -> None:
        self._source = Source.of(sample)
        rows = self._source.rows
        self._ranks = ranks
        self.accuracy = float((rows.predicted == sample.labels).mean())
        share = float(np.clip(self.accuracy, 1e-3, 1 - 1e-3))
        error = 1 / np.sqrt(len(rows) * share * (1 - share))
        start = ranks.temperature
        self._limits = start / NUMERICAL.widest, start * NUMERICAL.widest
        wanted = expit(log_odds(self.accuracy) + error * POINTS)
        self._maps = self._maps_of(rows, wanted, POINT_WEIGHTS)
        self._margins = _margins(rows)

    @property
    def mix(self) -> Prior:
        """Return the class mix of the source."""
        return about(self._source.mix, rows=len(self._source.labels))

    def _maps_of(
        self, rows: Logits, accuracies: NDArray[Any], weights: NDArray[Any]
    ) -> dict[str, Any]:
        """Return temperatures at which the mean confidence of some rows is an accuracy."""
        start = self._ranks.temperature
        found = [solve_confidence(rows, float(a), start, self._limits) for a in accuracies]
        biases = [[0.0] * rows.n_classes] * len(found)
        return {"weights": weights.tolist(), "temperatures": found, "biases": biases}

    def probability(self, rows: Logits, tally: Tally) -> float:
        """Return the probability that rows are like those of the reference."""
        odds = 0.0
        for name, variance in self._ranks.variance.items():
            away, error = residual(name, tally, self._ranks.own, variance)
            spread = 1 + (SHIFT / error) ** 2
            odds += 0.5 * float(np.log(spread)) - 0.5 * away**2 * (1 - 1 / spread)
        found = float(expit(odds))
        margins = _margins(rows)
        if margins is not None and self._margins is not None:
            n, m = len(margins), len(self._margins)
            beyond = _distance(margins, self._margins) - CHANCE * np.sqrt(1 / n + 1 / m)
            found = 1 - (1 - found) * float(np.exp(-((max(beyond, 0.0) / SHAPE) ** 2)))
        return min(found, MOST)

    def join(
        self, cal: Calibration, same_mix: Calibration | None, z: NDArray[Any], tally: Tally
    ) -> Calibration:
        """Return a calibration whose plausible maps are joined by those that a monitor knows.

        ``same_mix`` is the calibration with the class mix of the source, where no mix is stated.
        Labels know better, and a refused calibration has no plausible maps: both stay as they are.
        """
        held = cal.details["plausible"]
        if held is None or cal.details["n_labelled"]:
            return cal
        rows = Logits.of(z)
        like = self.probability(rows, tally)
        parts = [(like, self._maps), (1 - like, held)]
        if rows.n_classes > 2:
            sample = rows.take(thin(rows))
            found = estimate_with_source(sample, self._source, None)
            at = [found.names.index("similar")]
            similar = replace(
                found, log_odds=found.log_odds[at], weights=np.ones(1), errors=found.errors[at]
            )
            wanted = similar.nodes(rows.n_classes)
            nodes = self._maps_of(sample, *wanted)
            other, same = held if same_mix is None else same_mix.details["plausible"] or held, 0.0
            if _accuracy(sample, other) < max(_accuracy(sample, held), float(np.dot(*wanted))):
                fall = float(similar.log_odds[0]) - log_odds(self.accuracy)
                same = -float(np.expm1(min(fall, 0.0)))
            parts[1:] = [
                ((1 - like) * SIMILAR, nodes),
                ((1 - like) * (1 - SIMILAR) * (1 - same), held),
                ((1 - like) * (1 - SIMILAR) * same, other),
            ]
        joined = {
            "weights": [
                share * w / float(np.sum(one["weights"]))
                for share, one in parts
                for w in one["weights"]
            ],
            "temperatures": [t for _, one in parts for t in one["temperatures"]],
            "biases": [b for _, one in parts for b in one["biases"]],
        }
        return replace(cal, details=cal.details | {"plausible": joined})


def _accuracy(rows: Logits, maps: dict[str, Any]) -> float:
    """Return the accuracy of the predictions by plausible maps."""
    place = np.arange(len(rows)), rows.predicted
    found = [
        rows.probabilities(t, np.array(b))[place].mean()
        for t, b in zip(maps["temperatures"], maps["biases"], strict=True)
    ]
    return float(np.average(found, weights=maps["weights"]))


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

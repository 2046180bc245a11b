"""Perturbed validation: a temperature from noisy source inputs.

Tomani, Gruber, Erdem, Cremers and Buettner, "Post-hoc uncertainty calibration for domain drift
scenarios", CVPR 2021. Gaussian noise of ten strengths, from none to the standard deviation of the
inputs, is added to labelled source inputs, and one temperature is fitted to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from temperance._core.arrays import like, to_numpy
from temperance._core.checks import check_labels, check_seed
from temperance.data.types import HasShape, LabelsLike
from temperance.maps import Temperature
from temperance.methods.pseudocal import Model, check_inputs, run_model
from temperance.supervised.temperature import fit_temperature

LEVELS = 10  # strengths of noise; the last equals the standard deviation of the inputs


def fit_perturbed(
    model: Model,
    inputs: HasShape | Sequence[Any],
    labels: LabelsLike,
    *,
    seed: int | np.random.Generator = 0,
) -> Temperature:
    """Fit a temperature to labelled source inputs under noise of growing strength.

    ``labels`` are those of the inputs. The other arguments are those of `fit_pseudocal`.

    Notes
    -----
    Guarantee: none. One temperature for all strengths of noise is too high without a shift.

    Examples
    --------
    >>> import numpy as np, temperance as tp
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> x = np.eye(3)[y] + 0.3 * rng.normal(size=(600, 3))
    >>> bool(tp.fit_perturbed(lambda x: 9 * x, x, y).temperature > 1)
    True
    """
    x = check_inputs(inputs)
    generator = check_seed(seed)
    n = int(x.shape[0])
    scale = float(np.std(to_numpy(x)))
    noisy = [run_model(model, x)]
    for level in range(1, LEVELS):
        strength = scale * level / (LEVELS - 1)
        noise = generator.normal(scale=strength, size=tuple(x.shape))
        noisy.append(run_model(model, x + like(noise, x)))
    logits = np.concatenate([to_numpy(z) for z in noisy])
    y = check_labels(labels, n, int(logits.shape[1]))
    return fit_temperature(logits, np.concatenate([y] * LEVELS))

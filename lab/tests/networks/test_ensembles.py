from __future__ import annotations

import numpy as np
import pytest

from temperance import InputError, metrics
from temperance_lab import networks

IMAGES = np.random.default_rng(0).integers(256, size=(10, 28, 28), dtype=np.uint8)


def test_prediction_is_the_mean_of_the_members_probabilities():
    members = [networks.build("lenet5", 3, 1, seed=seed) for seed in range(4)]
    logits = np.stack([networks.predict_logits(m, IMAGES) for m in members]).astype(np.float64)
    p = np.exp(logits - np.log(np.exp(logits).sum(2, keepdims=True)))
    log_p = networks.predict_ensemble(members, IMAGES)
    np.testing.assert_allclose(np.exp(log_p), p.mean(0), atol=1e-7)
    y = np.arange(10) % 3
    # Jensen: the NLL of the mean is at most the mean NLL.
    assert metrics.nll(log_p, y) <= np.mean([metrics.nll(z, y) for z in logits]) + 1e-12


def test_empty_ensemble_is_refused():
    with pytest.raises(InputError, match="at least one network"):
        networks.predict_ensemble([], IMAGES)

"""A simulated model in use: logits and labels whose signal, class mix and noise may change."""

from __future__ import annotations

import numpy as np

K = 4


def window(n, signal=2.5, mix=None, seed=0, k=K):
    """Return logits of a model that is too sure of itself, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(k, size=n, p=mix)
    z = rng.normal(size=(n, k))
    z[np.arange(n), y] += signal
    return 3 * z, y

"""Pictures made from noise with the spectrum of photographs: no data needed."""

from __future__ import annotations

import numpy as np


def pictures(n, height, width, channels=3, seed=0):
    """Colour clouds whose amplitude falls as 1/frequency, contrast and light varying by image."""
    rng = np.random.default_rng(seed)
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    falloff = 1 / np.maximum(np.hypot(down, right), 1 / max(height, width))
    noise = rng.normal(size=(n, channels, height, width))
    noise += 2 * noise[:, :1]  # channels go together
    clouds = np.fft.irfft2(np.fft.rfft2(noise) * falloff, (height, width))
    clouds /= clouds.std(axis=(1, 2, 3), keepdims=True)
    light, contrast = rng.uniform(90, 150, (n, 1, 1, 1)), rng.uniform(30, 60, (n, 1, 1, 1))
    return np.clip(light + contrast * clouds, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)

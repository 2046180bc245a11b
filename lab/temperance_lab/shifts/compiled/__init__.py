# pyright: basic
"""Corruptions in machine code (extra: ``fast``), by name.

Each changes images (n, H, W, C) into ``out``, with the random numbers and, but for the last bit of
a float32, the results of the function of that name in NumPy. Those that are not here are as fast
without.
"""

from __future__ import annotations

from temperance_lab.shifts.compiled import blur, digital, geometry, jpeg, noise, weather

CHANGES = {
    "gaussian_noise": noise.gaussian,
    "shot_noise": noise.shot,
    "speckle_noise": noise.speckle,
    "gaussian_blur": blur.gaussian,
    "defocus_blur": blur.defocus,
    "motion_blur": blur.motion,
    "zoom_blur": blur.zoom,
    "snow": weather.snow,
    "fog": weather.fog,
    "spatter": weather.spatter,
    "contrast": digital.contrast,
    "jpeg_compression": jpeg.jpeg,
    "pixelate": digital.pixelate,
    "elastic_transform": geometry.elastic,
}

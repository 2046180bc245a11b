"""Calibrations of every kind that a report must cope with."""

from __future__ import annotations

from functools import cache

import numpy as np

import temperance as tp

HOSTILE = [
    "<script>document.title='hacked'</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "x" * 10_000,
    "שלום עולם \u202e right to left",
    "{{ 7 * 7 }} {% for x in y %}",
    "\u2028 & &amp; \x00 \x1b[31m",
]


def simulated(n, k=5, seed=0, scale=9.0, drift=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    z = scale * (2 * np.eye(k)[y] + rng.normal(size=(n, k)))
    z[:, 0] += scale * drift
    return z, y


@cache
def calibration(kind):
    """Return a calibration by name."""
    source, (z, _) = simulated(1000, drift=0.0), simulated(2000, seed=1)
    flat = np.full(5, 0.2)
    if kind == "improved":
        return tp.calibrate(z, flat, source, classes=["mel", "nv", "bcc", "akiec", "df"])
    if kind == "without source":
        return tp.calibrate(z, flat)
    if kind == "no evidence":
        home, labels = simulated(2000, seed=2, scale=2.0, drift=0.0)
        calm = tp.fit_temperature(home, labels).temperature
        fresh, _ = simulated(2000, seed=3, scale=2.0, drift=0.0)
        return tp.calibrate(fresh / calm, flat, (home / calm, labels))
    if kind == "refused":
        return tp.calibrate(z[:12], flat)
    if kind == "estimated prior":
        return tp.calibrate(z, None, source)
    if kind == "many classes":
        wide, labels = simulated(1500, k=1000, drift=0.2)
        names = [f"{k} {'n' * 300}" for k in range(1000)]
        return tp.calibrate(wide, np.full(1000, 1e-3), (wide[:500], labels[:500]), classes=names)
    if kind == "hostile":
        rows, _ = simulated(2000, k=len(HOSTILE))
        return tp.calibrate(rows, np.full(len(HOSTILE), 1 / len(HOSTILE)), classes=HOSTILE)
    raise KeyError(kind)


KINDS = (
    "improved",
    "without source",
    "no evidence",
    "refused",
    "estimated prior",
    "many classes",
    "hostile",
)

"""Fits, estimates and metrics return what they returned when ``golden/functions.json`` was made."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
SUMMED, SEARCHED, AFFINE = 1e-9, 1e-6, 1e-5
METRICS = (
    "accuracy",
    "nll",
    "brier",
    "brier, sum",
    "ece",
    "ece, 7 bins",
    "adaptive_ece",
    "classwise_ece",
    "smooth_ece",
    "aurc",
    "excess_aurc",
    "risk_coverage",
    "evaluate",
    "bootstrap",
    "bootstrap, groups",
    "confidence, no source",
)


def run(script, numba):
    """Return what a script records now, with or without compiled kernels."""
    found = subprocess.run(
        [sys.executable, GOLDEN / script, "--print"],
        env=os.environ | {"TEMPERANCE_NUMBA": numba},
        capture_output=True,
        check=True,
    )
    return json.loads(found.stdout)


def differences(want, have, path="", *, rtol, scale=0.0):
    """Yield where two records differ by more than ``rtol`` of the largest number in their list.

    Numbers below 1e-3 are compared as if they were 1e-3: some are zero but for rounding.
    """
    if isinstance(want, dict) and isinstance(have, dict) and want.keys() == have.keys():
        for key in want:
            yield from differences(want[key], have[key], f"{path} | {key}", rtol=rtol)
    elif isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        scale = max((abs(w) for w in want if isinstance(w, float)), default=0.0)
        for i, pair in enumerate(zip(want, have, strict=True)):
            yield from differences(*pair, f"{path}[{i}]", rtol=rtol, scale=scale)
    elif isinstance(want, float) and isinstance(have, float):
        equal = want == have or (math.isnan(want) and math.isnan(have))
        if not equal and abs(want - have) > rtol * max(abs(want), scale, 1e-3):
            yield f"{path}: {want!r} became {have!r}"
    elif want != have:
        yield f"{path}: {want!r} became {have!r}"


def check(script, record, numba, tolerance):
    """Compare within ``tolerance(name)``, the relative difference that a result may show.

    The last bits are no part of the record: they depend on the processor, by which BLAS chooses
    its kernels and their blocks.
    """
    want, have = json.loads((GOLDEN / record).read_text()), run(script, numba)
    assert want.keys() == have.keys()
    found = [
        line
        for name in want
        for line in differences(want[name], have[name], name, rtol=tolerance(name))
    ]
    assert not found, "\n".join([f"{len(found)} numbers differ", *found[:20]])


def of_functions(name):
    """A metric is a sum; a fit is searched for, and stops within about 1e-8 of the optimum.

    Vector and matrix scaling stop within 1e-12 of the least NLL: 1e-6 in their flattest directions.
    """
    kind = name.split(" | ")[0]
    if kind.startswith(("vector", "matrix")):
        return AFFINE
    return SUMMED if kind in METRICS else SEARCHED


@pytest.mark.parametrize(
    "numba",
    [pytest.param("0", id="numpy"), pytest.param("1", id="compiled", marks=pytest.mark.slow)],
)
def test_functions_return_what_they_returned(numba):
    check("make.py", "functions.json", numba, of_functions)

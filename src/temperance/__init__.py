"""temperance: trustworthy confidence for a trained classifier on shifted data, without labels."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from temperance import data, maps, metrics
from temperance._core.checks import InputError, NotIdentified
from temperance._core.stats import Interval
from temperance._version import __version__ as __version__
from temperance.calibrate import calibrate
from temperance.calibrate.estimate_accuracy import estimate_accuracy
from temperance.calibrate.expected import Expected
from temperance.calibrate.prior_matched import fit_prior_matched
from temperance.calibrate.problem import about
from temperance.calibrate.result import Calibration, Finding
from temperance.calibrate.threshold import Threshold
from temperance.data.convert import binary_logits, from_probabilities
from temperance.io.artefact import load, save
from temperance.maps import BiasedTemperature, MatrixMap, Temperature, VectorMap
from temperance.methods.confidence import match_confidence
from temperance.methods.cpcs import fit_cpcs
from temperance.methods.label_shift import estimate_prior
from temperance.methods.lascal import fit_lascal
from temperance.methods.perturbed import fit_perturbed
from temperance.methods.pseudocal import fit_pseudocal
from temperance.methods.transcal import fit_transcal
from temperance.methods.utdc import fit_utdc
from temperance.methods.uts import fit_uts
from temperance.monitor import Limits, Monitor
from temperance.supervised.affine import fit_biased_temperature, fit_matrix, fit_vector
from temperance.supervised.attended import fit_attended
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:  # an editor knows what loads later
    from types import ModuleType

    from temperance import report as report
    from temperance.cli import demo as demo
    from temperance.interop import testing as testing
    from temperance.interop import torch as torch
    from temperance.interop.sklearn import (
        AttendedTemperatureScaling,
        BiasedTemperatureScaling,
        LabelFreeClassifier,
        MatrixScaling,
        PriorMatchedScaling,
        TemperatureScaling,
        UnsupervisedTemperatureScaling,
        VectorScaling,
    )
    from temperance.report import displays as display  # noqa: F401

_LAZY = {
    "demo": "temperance.cli.demo",
    "display": "temperance.report.displays",
    "report": "temperance.report",
    "testing": "temperance.interop.testing",
    "torch": "temperance.interop.torch",
}
"""Modules that load on first use: each needs an extra, or is needed by few."""

__all__ = [
    "AttendedTemperatureScaling",
    "BiasedTemperature",
    "BiasedTemperatureScaling",
    "Calibration",
    "Expected",
    "Finding",
    "InputError",
    "Interval",
    "LabelFreeClassifier",
    "Limits",
    "MatrixMap",
    "MatrixScaling",
    "Monitor",
    "NotIdentified",
    "PriorMatchedScaling",
    "Temperature",
    "TemperatureScaling",
    "Threshold",
    "UnsupervisedTemperatureScaling",
    "VectorMap",
    "VectorScaling",
    "about",
    "binary_logits",
    "calibrate",
    "data",
    "estimate_accuracy",
    "estimate_prior",
    "fit_attended",
    "fit_biased_temperature",
    "fit_cpcs",
    "fit_lascal",
    "fit_matrix",
    "fit_perturbed",
    "fit_prior_matched",
    "fit_pseudocal",
    "fit_temperature",
    "fit_transcal",
    "fit_utdc",
    "fit_uts",
    "fit_vector",
    "from_probabilities",
    "load",
    "maps",
    "match_confidence",
    "metrics",
    "save",
]


def __getattr__(name: str) -> ModuleType | Any:
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    if name in __all__:  # an estimator: scikit-learn imports pandas wherever it is installed
        return getattr(importlib.import_module("temperance.interop.sklearn"), name)
    msg = f"module 'temperance' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])

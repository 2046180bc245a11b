"""temperance: trustworthy confidence for a trained classifier on shifted data, without labels."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from temperance import maps, metrics, rows
from temperance._checks import InputError, NotIdentified
from temperance._version import __version__ as __version__
from temperance.artefact import load, save
from temperance.calibration import Calibration, Finding
from temperance.doors import binary_logits, from_probabilities
from temperance.front_door import calibrate
from temperance.interval import Interval
from temperance.labelfree.accuracy import estimate_accuracy, match_confidence
from temperance.labelfree.importance import fit_cpcs, fit_transcal
from temperance.labelfree.lascal import fit_lascal
from temperance.labelfree.prior_matched import fit_prior_matched
from temperance.labelfree.priors import estimate_prior
from temperance.labelfree.pseudo import fit_perturbed, fit_pseudocal
from temperance.labelfree.uts import fit_uts
from temperance.maps import BiasedTemperature, MatrixMap, Temperature, VectorMap
from temperance.prior import about
from temperance.supervised.affine import fit_biased_temperature, fit_matrix, fit_vector
from temperance.supervised.attended import fit_attended
from temperance.supervised.temperature import fit_temperature

if TYPE_CHECKING:  # an editor knows what loads later
    from types import ModuleType

    from temperance import datasets as datasets
    from temperance import display as display
    from temperance import report as report
    from temperance import shifts as shifts
    from temperance import testing as testing
    from temperance import torch as torch
    from temperance import zoo as zoo
    from temperance.estimators import (
        AttendedTemperatureScaling,
        BiasedTemperatureScaling,
        MatrixScaling,
        PriorMatchedScaling,
        TemperatureScaling,
        UnsupervisedTemperatureScaling,
        VectorScaling,
    )

_LAZY = ("datasets", "display", "report", "shifts", "testing", "torch", "zoo")
"""Rooms that load on first use: each needs an extra, or is needed by few."""

_ESTIMATORS = (
    "AttendedTemperatureScaling",
    "BiasedTemperatureScaling",
    "MatrixScaling",
    "PriorMatchedScaling",
    "TemperatureScaling",
    "UnsupervisedTemperatureScaling",
    "VectorScaling",
)
"""Loaded on first use too: scikit-learn imports pandas wherever it is installed."""

__all__ = [
    "AttendedTemperatureScaling",
    "BiasedTemperature",
    "BiasedTemperatureScaling",
    "Calibration",
    "Finding",
    "InputError",
    "Interval",
    "MatrixMap",
    "MatrixScaling",
    "NotIdentified",
    "PriorMatchedScaling",
    "Temperature",
    "TemperatureScaling",
    "UnsupervisedTemperatureScaling",
    "VectorMap",
    "VectorScaling",
    "about",
    "binary_logits",
    "calibrate",
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
    "fit_uts",
    "fit_vector",
    "from_probabilities",
    "load",
    "maps",
    "match_confidence",
    "metrics",
    "rows",
    "save",
]


def __getattr__(name: str) -> ModuleType | Any:
    if name in _LAZY:
        return importlib.import_module(f"temperance.{name}")
    if name in _ESTIMATORS:
        return getattr(importlib.import_module("temperance.estimators"), name)
    msg = f"module 'temperance' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])

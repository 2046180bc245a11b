"""scikit-learn: calibration maps as estimators, and a calibrated classifier.

`scaling` holds the maps: transformers and classifiers whose input are logits, one column per class.
`classifier` holds `LabelFreeClassifier`, which wraps a fitted classifier of features.
"""

from __future__ import annotations

from temperance.interop.sklearn.classifier import LabelFreeClassifier
from temperance.interop.sklearn.scaling import (
    AttendedTemperatureScaling,
    BiasedTemperatureScaling,
    MatrixScaling,
    PriorMatchedScaling,
    TemperatureScaling,
    UnsupervisedTemperatureScaling,
    VectorScaling,
)

__all__ = [
    "AttendedTemperatureScaling",
    "BiasedTemperatureScaling",
    "LabelFreeClassifier",
    "MatrixScaling",
    "PriorMatchedScaling",
    "TemperatureScaling",
    "UnsupervisedTemperatureScaling",
    "VectorScaling",
]

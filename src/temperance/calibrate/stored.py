"""The form of a stored calibration: what `Calibration.from_dict` demands of a file.

A file whose hash is right may still hold anything, for who can change a file can change its hash.
Reports and commands read these values without looking again, so they are checked once, here.

A form is written like the value that it describes::

    {"n": int, "classes": [str], "prior": ([float], None), "mix": {"distance": float}}

``[f]`` is a list of values of the form ``f``, ``(f, g)`` allows either, a dict names the keys that
must be there, and None is null.
"""

from __future__ import annotations

import math
from typing import Any, cast

from temperance._core.checks import InputError
from temperance.maps import check_temperature

Form = Any
LARGEST_STORED_BIAS = 1e100  # of a stored map: as large as any logit
NAMES: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    None: "null",
}
SHARES = ([float], None)
FINDING: Form = {"code": str, "title": str, "evidence": dict, "advice": str, "severity": str}
DETAILS: Form = {
    "n_target": int,
    "n_read": int,
    "n_solved": int,
    "n_source": int,
    "n_labelled": int,
    "n_classes": int,
    "classes": [(str, int)],
    "prior": SHARES,
    "prior_kind": str,
    "prior_low": SHARES,
    "prior_high": SHARES,
    "mix": (dict, None),
    "accuracy_before": SHARES,
    "probability_of_gain": (float, None),
    "estimates": [{"name": str, "value": float, "what": str}],
    "plausible": ({"weights": [float], "temperatures": [float], "biases": [[float]]}, None),
    "assumptions": [str],
    "would_change": [str],
    "guarantee": str,
    "fitted_on": {"target": str, "source": (str, None)},
    "versions": {"temperance": str},
    "predicted_mix": [float],
    "mix_before": [float],
    "mix_after": [float],
    "confidence_before": float,
    "confidence_after": float,
    "histograms": {
        "edges": [float],
        "target_before": [float],
        "target_after": [float],
        "source": ([float], None),
        "source_correct": ([(float, None)], None),
        "source_confidence": ([(float, None)], None),
    },
    "source": ({"accuracy": float, "ece": float, "temperature": float, "confidence": float}, None),
    "labelled": (
        {"accuracy": [float], "confidence": float, "expected": ([float], None)},
        None,
    ),
    "risk_coverage": (
        {
            "coverage": [float],
            "risk_before": [float],
            "risk_after": [float],
            "risk_after_low": [float],
            "risk_after_high": [float],
        },
        None,
    ),
    "method": str,
    "label_next": [int],
    "label_next_keys": [int],
    "seed": (int, None),
}
INTERVALS = ("temperature", "accuracy", "ece_before", "ece_after", "gain")
CALIBRATION: Form = {
    "verdict": str,
    "findings": [FINDING],
    "details": DETAILS,
    "map": dict,
    **dict.fromkeys(INTERVALS, ([float], None)),
}
MIXES = ("predicted_mix", "mix_before", "mix_after")
PER_CLASS = ("classes", "prior", "prior_low", "prior_high", *MIXES)  # of length K
SEVERITIES = ("refuse", "warn", "note")


def check_stored(facts: dict[str, Any]) -> None:
    """Raise unless facts that were read from a file have the form of a calibration."""
    check_form(facts, CALIBRATION, "calibration")
    for name in INTERVALS:
        _check_length(facts[name], 3, name)
    details: dict[str, Any] = facts["details"]
    for name in PER_CLASS:
        _check_length(details[name], details["n_classes"], name)
    _check_length(details["accuracy_before"], 3, "accuracy_before")
    labelled: dict[str, Any] = details["labelled"] or {}
    for name in ("accuracy", "expected"):
        _check_length(labelled.get(name), 3, f"labelled.{name}")
    bins: dict[str, Any] = details["histograms"]
    for name, counts in bins.items():
        _check_length(counts, len(bins["edges"]) - (name != "edges"), f"histograms.{name}")
    curves: dict[str, Any] = details["risk_coverage"] or {}
    for name, risks in curves.items():
        _check_length(risks, len(curves["coverage"]), f"risk_coverage.{name}")
    if details["plausible"] is not None:
        _check_plausible(**details["plausible"], n_classes=details["n_classes"])
    _check_length(details["label_next_keys"], len(details["label_next"]), "label_next_keys")
    if (facts["ece_before"] is None) is not (facts["ece_after"] is None):
        raise InputError("ece_before and ece_after must be known both, or neither.")
    for finding in facts["findings"]:
        if finding["severity"] not in SEVERITIES:
            msg = f"severity must be one of {', '.join(SEVERITIES)}. Got {finding['severity']!a}."
            raise InputError(msg)


def _check_plausible(
    weights: list[float],
    temperatures: list[float],
    biases: list[list[float]],
    n_classes: int,
) -> None:
    """Raise unless plausible maps are maps, with weights that have a sum."""
    if not weights or min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise InputError("plausible.weights must be non-negative numbers with a positive sum.")
    _check_length(temperatures, len(weights), "plausible.temperatures")
    _check_length(biases, len(weights), "plausible.biases")
    for temperature, bias in zip(temperatures, biases, strict=True):
        check_temperature(temperature)
        _check_length(bias, n_classes, "plausible.biases")
        if max(map(abs, bias)) > LARGEST_STORED_BIAS:
            raise InputError(f"plausible.biases must lie within ±{LARGEST_STORED_BIAS:g}.")


def _check_length(values: list[Any] | None, n: int, name: str) -> None:
    if values is not None and len(values) != n:
        raise InputError(f"{name} must hold {n} values. It holds {len(values)}.")


def check_form(value: object, form: Form, name: str) -> None:
    """Raise unless a value that was read from JSON has a form.

    >>> check_form({"n": 3, "mix": [0.5, 0.5]}, {"n": int, "mix": ([float], None)}, "facts")
    >>> check_form({"n": 3, "mix": "x"}, {"n": int, "mix": ([float], None)}, "facts")
    Traceback (most recent call last):
    temperance._core.checks.InputError: facts.mix must be a list or null. Got a text instead.
    """
    forms = cast("tuple[Form, ...]", form if isinstance(form, tuple) else (form,))
    fitting = [one for one in forms if _has_type(value, one)]
    if not fitting:
        kinds: list[Any] = [list if isinstance(f, list) else dict if isinstance(f, dict) else f
                            for f in forms]  # fmt: skip
        words = " or ".join(NAMES[kind] for kind in kinds)
        got = NAMES[None] if value is None else NAMES.get(type(value), type(value).__name__)
        raise InputError(f"{name} must be {words}. Got {got} instead.")
    form = fitting[0]
    if isinstance(form, list):
        (inner,) = cast("list[Form]", form)
        for place, one in enumerate(cast("list[object]", value)):
            check_form(one, inner, f"{name}[{place}]")
    elif isinstance(form, dict):
        held = cast("dict[str, object]", value)
        for key, inner in cast("dict[str, Form]", form).items():
            if key not in held:
                raise InputError(f"{name} must hold {key!r}. It does not.")
            check_form(held[key], inner, f"{name}.{key}")


def _has_type(value: object, form: Form) -> bool:
    """Return whether a value is of the type that a form asks for, whatever is inside."""
    if form is None:
        return value is None
    if isinstance(form, (list, dict)):
        return isinstance(value, type(cast("object", form)))
    if form is float:
        return type(value) in (int, float) and math.isfinite(float(cast("float", value)))
    return type(value) is form

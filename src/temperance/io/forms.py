"""The form of JSON values: which keys, which types, how long.

A form is written like the value that it describes::

    {"n": int, "classes": [str], "prior": ([float], None), "mix": {"distance": float}}

``[f]`` is a list of values of the form ``f``, ``(f, g)`` allows either, a dict names the keys that
must be there, and None is null. `check_form` refuses a value of another form and names the place.
"""

from __future__ import annotations

import math
from typing import Any, cast

from temperance._core.checks import InputError

Form = Any
NAMES = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "an object",
}


def check_form(value: object, form: Form, name: str) -> None:
    """Raise unless a value that was read from JSON has a form.

    >>> check_form({"n": 3, "mix": [0.5, 0.5]}, {"n": int, "mix": ([float], None)}, "facts")
    >>> check_form({"n": 3, "mix": "x"}, {"n": int, "mix": ([float], None)}, "facts")
    Traceback (most recent call last):
    temperance._core.checks.errors.InputError: facts.mix must be a list or null. Got a text instead.
    """
    if isinstance(form, tuple):
        _check_either(value, cast("tuple[Form, ...]", form), name)
    elif not _is_outwardly(value, form):
        raise InputError(f"{name} must be {_words(form)}. Got {_kind(value)} instead.")
    elif isinstance(form, list):
        (inner,) = cast("list[Form]", form)
        for place, one in enumerate(cast("list[object]", value)):
            check_form(one, inner, f"{name}[{place}]")
    elif isinstance(form, dict):
        held = cast("dict[str, object]", value)
        for key, inner in cast("dict[str, Form]", form).items():
            if key not in held:
                raise InputError(f"{name} must hold {key!r}. It does not.")
            check_form(held[key], inner, f"{name}.{key}")


def _check_either(value: object, forms: tuple[Form, ...], name: str) -> None:
    for form in forms:
        if _is_outwardly(value, form):
            check_form(value, form, name)
            return
    words = " or ".join(_words(form) for form in forms)
    raise InputError(f"{name} must be {words}. Got {_kind(value)} instead.")


def _is_outwardly(value: object, form: Form) -> bool:
    """Return whether a value is of the type that a form asks for, whatever is inside."""
    if form is None:
        return value is None
    if isinstance(form, (list, dict)):
        return isinstance(value, type(cast("object", form)))
    if form is float:
        return type(value) in (int, float) and math.isfinite(float(cast("float", value)))
    return type(value) is form


def _words(form: Form) -> str:
    if form is None:
        return "null"
    if isinstance(form, (list, dict)):
        return "a list" if isinstance(form, list) else "an object"
    return NAMES[form]


def _kind(value: object) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return "null" if value is None else NAMES.get(type(value), type(value).__name__)

"""Checks of input that several functions need.

A message is one sentence: the argument, what it must be, what came, and the way out.
"""

from __future__ import annotations

from temperance._core.checks.errors import (
    InputError,
    NotIdentified,
)
from temperance._core.checks.files import (
    check_regular,
    decoding,
    opened,
    read_bytes,
    shown_path,
)
from temperance._core.checks.labels import (
    by_column,
    check_classes,
    check_indices,
    check_labels,
    check_prior,
    check_sample_weight,
    check_weight_sum,
    check_weights,
    class_keys,
    class_order,
    names_for,
    plain_numbers,
    read_labels,
)
from temperance._core.checks.logits import (
    LARGEST,
    BlockCheck,
    are_sound,
    check_finite,
    check_logits,
    check_mapped,
    check_range,
    check_same_classes,
    check_scale,
    check_scores,
    check_simplex,
    check_values,
    masked,
)
from temperance._core.checks.scalars import (
    check_callable,
    check_choice,
    check_integer,
    check_number,
    check_seed,
)

__all__ = [
    "LARGEST",
    "BlockCheck",
    "InputError",
    "NotIdentified",
    "are_sound",
    "by_column",
    "check_callable",
    "check_choice",
    "check_classes",
    "check_finite",
    "check_indices",
    "check_integer",
    "check_labels",
    "check_logits",
    "check_mapped",
    "check_number",
    "check_prior",
    "check_range",
    "check_regular",
    "check_same_classes",
    "check_sample_weight",
    "check_scale",
    "check_scores",
    "check_seed",
    "check_simplex",
    "check_values",
    "check_weight_sum",
    "check_weights",
    "class_keys",
    "class_order",
    "decoding",
    "masked",
    "names_for",
    "opened",
    "plain_numbers",
    "read_bytes",
    "read_labels",
    "shown_path",
]

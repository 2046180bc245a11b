"""JSON that means one thing: no key twice, no NaN, no number that a float cannot hold."""

from __future__ import annotations

import json
import math
from typing import Any

from temperance._core.checks import InputError

MAX_DIGITS = 300  # of an integer; more would not fit a float


def parse(data: bytes | str) -> Any:
    """Return the value of a JSON text in UTF-8, in time linear in its length.

    An `InputError` holds the end of a sentence whose beginning names the file.

    >>> parse(b'{"about": [0.5, 0.5], "rows": 100}')
    {'about': [0.5, 0.5], 'rows': 100}
    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    temperance._core.checks.InputError: holds the key 'a' twice
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = json.loads(
            text,
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_number,
        )
        if "\\ud" in text.lower():  # half of a pair of UTF-16 may stand there
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InputError(f"is no JSON (line {error.lineno}: {error.msg})") from None
    except UnicodeDecodeError:
        raise InputError("is no JSON in UTF-8") from None
    except UnicodeEncodeError:
        raise InputError("holds text that UTF-8 cannot write") from None
    except RecursionError:
        raise InputError("nests JSON too deeply") from None
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InputError(f"holds the key {name[:40]!a} twice")
            seen.add(name)
    return values


def _no_constant(name: str) -> float:
    raise InputError(f"holds {name}, which is no number here")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise InputError(f"holds an integer of {len(digits):,} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InputError(f"holds {digits[:40]}, which is too large for a number")
    return value

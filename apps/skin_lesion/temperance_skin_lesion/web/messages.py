"""What pydantic finds wrong, as sentences for people."""

from __future__ import annotations

from typing import Any

__all__ = ["sentences"]

PLACES = ("body", "query", "path", "header")


def sentences(errors: Any) -> str:
    """Put each finding in a sentence; what was sent is not repeated, it may not be JSON at all."""
    said = []
    for found in errors:
        place = ".".join(str(part) for part in found["loc"] if part not in PLACES)
        words = str(found["msg"]).removeprefix("Value error, ").rstrip(".")
        said.append(f"{place}: {words}." if place else f"{words}.")
    return " ".join(said)

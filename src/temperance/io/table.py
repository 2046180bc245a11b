"""The content of a file of logits, whatever its format, and the columns that a format names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError, check_classes, check_labels, check_logits
from temperance.data.columns import Prefix, has_columns
from temperance.io.strict_json import parse

Keep = Literal["labels", "logits", "columns"]
Named = Literal["logits", "probabilities"]
Content = Literal["logits", "probabilities", "either"]
PREFIXES: dict[Named, Prefix] = {"logits": "logit", "probabilities": "prob"}
WRITTEN_ELEMENTS = 1 << 18  # elements that are read, mapped or written together
PROBABILITIES = (
    "It holds probabilities: add --probabilities, or save the scores before the softmax."
)
INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)


@dataclass(frozen=True)
class Table:
    """Rows of logits with what is known about them."""

    logits: NDArray[Any]
    """Array (n, K); a memory map where the format allows it, not read before it is needed."""
    labels: NDArray[Any] | None = None
    """Class indices, or names that ``classes`` lists."""
    classes: list[str] | None = None
    prior: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    """Patient, lesion, video or site of each row."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Other columns, as they stand, to be written again; labels and groups among them."""
    in_front: int = 0
    """Number of other columns that stand before the logits."""

    def __post_init__(self) -> None:
        check_logits(self.logits)
        n, k = self.logits.shape
        if self.classes is not None:
            names = [str(name) for name in check_classes(self.classes, k, as_text=True)]
            object.__setattr__(self, "classes", names)
        if self.labels is not None:
            object.__setattr__(self, "labels", self._index(self.labels))
        if self.groups is not None:
            object.__setattr__(self, "groups", self._written(self.groups, "groups", "iufbU"))
            if self.groups.shape != (n,):
                msg = f"groups must have shape ({n},), one per row. Got shape {self.groups.shape}."
                raise InputError(msg)
        if self.prior is not None:
            object.__setattr__(self, "prior", self._written(self.prior, "prior", "iuf"))

    @staticmethod
    def _written(values: NDArray[Any], name: str, kinds: str) -> NDArray[Any]:
        """Return values in a type that every format can write: numbers, or text."""
        kind = values.dtype.kind
        if kind in "OM" and "U" in kinds:  # dates, and what a column of Parquet holds
            return np.array([str(one) for one in values.flat]).reshape(values.shape)
        if kind not in kinds:
            words = " or text" if "U" in kinds else ""
            raise InputError(f"{name} must be numbers{words}. Got {values.dtype}.")
        plain = {"b": np.int64, "f": np.float64}.get(kind, values.dtype.newbyteorder("="))
        return values.astype(plain, copy=False)

    def _index(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Integers count columns; words are looked up among the names of the columns."""
        n, k = self.logits.shape
        words = labels.dtype.kind in "OU"
        if words and self.classes is None:
            given = [str(label) for label in labels.flat]
            row = next((i for i, label in enumerate(given) if not label.isdecimal()), 0)
            raise InputError(
                f"labels must be integers 0..{k - 1}, or names with the classes named too (in the "
                f"file, or with --classes). Got {given[row][:40]!r} without them, in row {row}."
            )
        return check_labels(labels, n, k, self.classes if words else None)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.logits.shape[0])

    def mapped(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield ``function`` of the logits, some rows at a time."""
        size = max(1, WRITTEN_ELEMENTS // self.logits.shape[1])
        for start in range(0, self.n, size):
            yield function(self.logits[start : start + size])

    def written(self, blocks: Iterable[NDArray[Any]], name: Named) -> Iterator[dict[str, Any]]:
        """Yield the columns of each block of logits or probabilities that replaces the logits.

        New columns stand where the logits stood, and replace others of the same name. With
        probabilities there are two more: the predicted class, by name where it has one, and its
        probability.
        """
        if self.labels is not None and self.labels.ndim == 2:
            msg = "labels must be one class per row in a .csv or .parquet file. Got shares of each"
            raise InputError(f"{msg} class: write a .npz or .safetensors file.")
        new = [f"{PREFIXES[name]}_{i}" for i in range(self.logits.shape[1])]
        answers = [] if name == "logits" else ["prediction", "confidence"]
        known = {"label": self.labels, "group": self.groups}
        absent = {n: v for n, v in known.items() if v is not None and n not in self.columns}
        replaced = {*new, *answers}
        held = list((self.columns | absent).items())
        parts = held[: self.in_front], held[self.in_front :]
        front, back = ([(n, v) for n, v in part if n not in replaced] for part in parts)
        start = 0
        for block in blocks:
            rows = slice(start, start := start + len(block))
            made: dict[str, Any] = dict(zip(new, block.T, strict=True))
            if answers:
                best = block.argmax(axis=1)
                names = best if self.classes is None else np.array(self.classes, object)[best]
                made |= dict(zip(answers, (names, block[np.arange(len(best)), best]), strict=True))
            yield {n: v[rows] for n, v in front} | made | {n: v[rows] for n, v in back}


def spelled(names: Iterable[str], where: str) -> dict[str, str]:
    """Return how a file names its labels and its groups, each in the singular or the plural."""
    held = set(names)
    found: dict[str, str] = {}
    for key in ("labels", "groups"):
        both = [name for name in (key, key[:-1]) if name in held]
        if len(both) > 1:
            msg = f"{where} must name its {key} once. It has both {both[0]!r} and {both[1]!r}"
            raise InputError(f"{msg}: rename the one that is something else.")
        if both:
            found[key] = both[0]
    return found


def kept(keep: Keep, header: Sequence[str], logits: Sequence[str], where: str) -> dict[str, str]:
    """Return the columns of a table that are read beside the logits, by what they are kept as."""
    if keep == "columns":
        return {name: name for name in header if name not in set(logits)}
    return spelled(header, where) if keep == "labels" else {}


def count_in_front(header: Sequence[str], logits: Sequence[str]) -> int:
    """Return how many other columns stand before the first column of the logits."""
    wanted = set(logits)
    return next(place for place, name in enumerate(header) if name in wanted)


def chosen(content: Content, is_there: Callable[[Named], bool], demand: str) -> Named:
    """Return which of the two a file is read for; ``demand`` begins the sentence of a refusal."""
    logits, probabilities = is_there("logits"), is_there("probabilities")
    if content == "logits" and probabilities and not logits:
        raise InputError(f"{demand} {PROBABILITIES}")
    if content == "probabilities":
        return "logits" if logits and not probabilities else "probabilities"
    return "probabilities" if probabilities and not logits else "logits"


def columns_named(header: Sequence[str], content: Content, where: str) -> Named:
    """Return which columns of a table are read: ``logit_0 …`` or ``prob_0 …``."""
    demand = f"{where} must have the columns logit_0, logit_1, …"
    return chosen(content, lambda name: has_columns(header, PREFIXES[name]), demand)


def array_named(names: Iterable[str], content: Content, where: str) -> Named:
    """Return which array of a file is read: ``logits`` or ``probabilities``."""
    held = [name for name in names if name != "__metadata__"]
    found = chosen(content, held.__contains__, f"{where} must hold an array named 'logits'.")
    if found not in held:
        shown = ", ".join(name[:40] for name in held[:8]) or "nothing"
        raise InputError(
            f"{where} must hold an array named {found!r}, (n, K). It holds {shown}; write it "
            f"with numpy.savez(path, {found}=z), or as safetensors."
        )
    return found


def as_they_stand(cells: list[str]) -> NDArray[Any]:
    """Return a column of text that is written again: integers where that gives the same text."""
    if all(INTEGER.fullmatch(cell) for cell in cells):
        numbers = np.array([int(cell) for cell in cells], dtype=np.int64)
        if [str(number) for number in numbers.tolist()] == cells:  # 007 is a name
            return numbers
    return np.array(cells, dtype=object)


def as_labels(cells: list[Any]) -> NDArray[Any]:
    """Return labels or groups: as integers where every cell is one, else as they are."""
    whole = all(INTEGER.fullmatch(c) if isinstance(c, str) else isinstance(c, int) for c in cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64) if whole else np.array(cells)
    except OverflowError:
        return np.array(cells)
    except ValueError:  # lists of several lengths
        return np.fromiter(cells, object, len(cells))


def named_in(metadata: Mapping[str, str | bytes], name: str) -> dict[str, Any]:
    """Return the class names that the metadata of a file hold as JSON, if they hold any."""
    if "classes" not in metadata:
        return {}
    try:
        classes = parse(metadata["classes"])
    except InputError:
        classes = None
    if not isinstance(classes, list):
        raise InputError(f"the classes in the metadata of {name} must be a JSON list of names.")
    return {"classes": classes}


def difference(some: Sequence[str], others: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the first class whose two names differ with both, for a sentence; None where none."""
    for place, (one, other) in enumerate(zip_longest(some, others)):
        if one != other:
            a, b = ("nothing" if name is None else repr(name[:80]) for name in (one, other))
            return place, a, b
    return None

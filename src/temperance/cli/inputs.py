"""From arguments to what the library takes: tables, class names, class mixes, artefacts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from temperance._core.checks import InputError, check_classes, check_number
from temperance._core.files import read_bytes, shown_path, walked
from temperance.calibrate.problem import about
from temperance.calibrate.result import Calibration
from temperance.io import artefact, formats
from temperance.io.atomic import check_target
from temperance.io.npy import read_array
from temperance.io.strict_json import parse
from temperance.io.table import Content, Keep, Table, difference
from temperance.maps import Map
from temperance.report.texts import applied

MAX_NAMES_BYTES = 16 << 20  # bytes of a file of names or of a class mix
PLACE_OF_LABELS = {
    ".npz": "an array 'labels'",
    ".safetensors": "an array 'labels'",
    ".npy": "labels in a second file, named with --labels",
}
ARTEFACT, PAGE = (".json", ".safetensors"), (".html", ".htm")


def read_table(
    path: Path,
    classes: str | None = None,
    labels: Path | None = None,
    *,
    otherwise: list[str] | None = None,
    keep: Keep = "labels",
    content: Content = "logits",
) -> Table:
    """Read rows, with names and labels that are given beside the file, or names known elsewhere."""
    names = None if classes is None else read_classes(classes)
    table = formats.read(path, names, otherwise=otherwise, keep=keep, content=content)
    if labels is None:
        return table
    if labels.suffix != ".npy":
        raise InputError(f"--labels must name a .npy file. Got {shown_path(labels)}.")
    return replace(table, labels=read_array(labels))


def read_labelled(
    path: Path,
    classes: str | None,
    labels: Path | None,
    otherwise: list[str] | None = None,
    *,
    probabilities: bool,
) -> Table:
    """Read rows that must have labels."""
    content = "probabilities" if probabilities else "logits"
    table = read_table(path, classes, labels, otherwise=otherwise, content=content)
    if table.labels is None:
        place = PLACE_OF_LABELS.get(path.suffix, "a column 'label'")
        raise InputError(f"{path.name} must have labels here. Add {place}.")
    return table


def pair_of(table: Table | None) -> Any:
    """Return logits and labels as the library takes them."""
    return None if table is None else (table.logits, table.labels)


def read_features(paths: Iterable[Path]) -> list[NDArray[Any]]:
    """Return the features of target and source, mapped from two .npy files."""
    for path in paths:
        if path.suffix != ".npy":
            msg = f"--features must be two .npy files, of target and source. Got {path.name!a}."
            raise InputError(msg)
    return [read_array(path) for path in paths]


def read_classes(text: str) -> list[str]:
    """Return class names from a JSON list in a file, or from ``cat,dog,owl``."""
    if not text.endswith(".json"):
        return [name.strip() for name in text.split(",")]
    names = _json(Path(text))
    if not isinstance(names, list) or not all(type(name) in {str, int} for name in names):
        raise InputError(f"{text} must hold a JSON list of class names.")
    return [str(name) for name in check_classes(names, len(names), text)]


def read_prior(text: str | None, target: Table, source: Table | None) -> Any:
    """Return the class mix of the target in a form that `temperance.calibrate` takes.

    ``text`` is a word, numbers with commas, or a JSON file: a list, an object by class name, ranges
    ``[low, high]`` in place of numbers, or ``{"about": …, "rows": 100}``.
    """
    k = target.logits.shape[1]
    if text is None:
        return target.prior
    if text == "uniform":
        return np.full(k, 1 / k)
    if text == "source":
        if source is None:
            raise InputError("--prior source needs a --source, whose class mix it takes.")
        return np.bincount(source.labels, minlength=k) / source.n  # pyright: ignore[reportArgumentType]
    if text.endswith(".json"):  # the library checks names and numbers
        value = _json(Path(text))
        if isinstance(value, dict) and "about" in value:
            return about(value["about"], value.get("rows", 100))
        if not isinstance(value, (dict, list)):
            raise InputError(f"{text} must hold a list of numbers or an object by class name.")
        return value
    try:
        plain = text.replace("_", "?").encode("ascii")  # Python reads 1_000, and any script
        return np.array([float(part) for part in plain.split(b",")])
    except ValueError:
        msg = "--prior must be a .json file, numbers like 0.7,0.2,0.1, 'uniform' or 'source'. Got"
        raise InputError(f"{msg} {text[:80]!a}.") from None


def _json(path: Path) -> Any:
    data = read_bytes(path, MAX_NAMES_BYTES)
    try:
        return parse(data)
    except InputError as error:
        raise InputError(f"{path.name} {error}.") from None


class Held(NamedTuple):
    """The map of an artefact, and the classes of the rows that it is for."""

    map: Map
    classes: list[str] | None
    n_classes: int | None  # None: a temperature alone is for any number of classes
    refused: str  # of a refused calibration: what is applied in place of a new one


def read_map(path: Path) -> Held:
    """Return the map of an artefact, the classes it is for, and what a refusal left."""
    held = artefact.load(path)
    if isinstance(held, Calibration):
        refused = applied(held) if held.verdict == "refused" else ""
        return Held(held.map, class_names(path), int(held.details["n_classes"]), refused)
    return Held(held, class_names(path), None, "")


def class_names(path: Path) -> list[str] | None:
    """Return the class names that an artefact was fitted for."""
    facts = artefact.read(path)
    names = facts.get("details", facts).get("classes")
    if names is None or names == [str(i) for i in range(len(names))]:  # numbers are no names
        return None
    return [str(name) for name in names]


def check_classes_of_map(held: Held, rows: Table, name: str) -> None:
    """Refuse rows with another number of classes, other names or another order than a map."""
    k = rows.logits.shape[1]
    if held.n_classes not in (None, k):
        msg = f"the rows must have the {held.n_classes} classes of {name}."
        raise InputError(f"{msg} Got {k} columns of logits.")
    check_same_names(held.classes, rows.classes, name)


def check_same_names(fitted: list[str] | None, given: list[str] | None, name: str) -> None:
    """Refuse rows whose classes have other names, or another order, than those of a map."""
    if fitted is not None and given is not None and (differs := difference(fitted, given)):
        place, mine, theirs = differs
        msg = f"the rows must have the classes of {name} in the same order. Class {place} is {mine}"
        raise InputError(f"{msg} in the map and {theirs} in the rows.")


def check_outputs(
    outputs: Iterable[tuple[str, Path | None, tuple[str, ...]]], *read: Path | str | None
) -> None:
    """Refuse, before any work, an output that cannot be written or would cost a file that is read.

    An output is an option with its file and the endings that the file may have; ``read`` are all
    arguments of the command that may name a file or a directory. Each is compared by what the file
    system holds there, so a link, a hard link, another spelling and a place inside a directory that
    is read are all refused.
    """
    written: dict[Path, str] = {}
    for option, path, endings in outputs:
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            wanted, got = " or ".join(endings), shown_path(path)
            raise InputError(f"{option} must end in {wanted}. Got {got}.")
        target, must = check_target(path), f"{option} must be another file than"
        if target in written:
            raise InputError(f"{must} {written[target]}. Got {shown_path(path)}.")
        written[target] = option
        for other in read:
            if other is not None and (lost := _at_stake(target, Path(other))) is not None:
                msg = f"{must} {shown_path(lost)}, which is read here and would be lost."
                raise InputError(f"{msg} Write it elsewhere.")


def _at_stake(target: Path, read: Path) -> Path | None:
    """Return the file or the directory that is read and that writing to a place would change."""
    place = Path(os.path.realpath(read))
    if target == place or _same_file(target, place):
        return read
    if not place.is_dir():
        return None
    if target.is_relative_to(place):
        return read / target.relative_to(place) if target.exists() else read
    for folder, _, files in walked(place):
        if target.is_relative_to(folder.resolve()):
            return folder
        for name in files:
            if _same_file(target, folder / name):
                return folder / name
    return None


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of the two files is not there
        return False


def check_share(value: float | None, name: str, *, open_low: bool = False) -> None:
    """Refuse a limit that is given and is no share."""
    if value is not None:
        check_number(value, name, low=0, high=1, open_low=open_low)

"""Logits in files: ``.npz``, ``.npy``, ``.csv``, ``.parquet`` and ``.safetensors``.

A file is read once, or mapped and not read at all; it is written whole or not at all. Parquet may
be a directory of files. No format runs code: pickles and object arrays are refused. What is wrong
with a file is said in one sentence, with the place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from temperance._core.checks import InputError, check_choice
from temperance._core.files import check_regular
from temperance._core.progress import tracked
from temperance.data.convert import logits_of
from temperance.io.atomic import replacing
from temperance.io.csv import read_csv, write_csv
from temperance.io.npy import read_npy, read_npz, write_npy, write_npz
from temperance.io.parquet import read_parquet, write_parquet
from temperance.io.table import Content, Keep, Named, Table, difference
from temperance.io.tensors import read_safetensors, write_safetensors

FORMATS = {
    ".npz": (read_npz, write_npz),
    ".npy": (read_npy, write_npy),
    ".csv": (read_csv, write_csv),
    ".parquet": (read_parquet, write_parquet),
    ".safetensors": (read_safetensors, write_safetensors),
}
TABLES = (".csv", ".parquet")  # hold any column beside the logits
RUN_CODE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin")


def read(
    path: str | os.PathLike[str],
    classes: list[str] | None = None,
    *,
    otherwise: list[str] | None = None,
    keep: Keep = "labels",
    content: Content = "logits",
) -> Table:
    """Return the logits of a file, and the labels, names, prior and groups that lie beside them.

    A file that has other names than ``classes`` is refused; ``otherwise`` are names for a file that
    has none and is given none. ``keep`` says what is read beside the logits: labels and groups,
    neither, or every other column of a CSV or Parquet file as it stands. Where ``content`` is
    "either", names decide what the numbers are, never values; probabilities become logits.

    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/target.npz"
    >>> np.savez(path, logits=np.array([[2.0, 0.5], [0.1, 1.0]]), labels=[0, 1])
    >>> read(path).labels
    array([0, 1])
    """
    file = Path(path)
    suffix = ".parquet" if _is_folder(file) else check_format(file)
    if not _is_folder(file):
        check_regular(file, "the input")
    try:
        found = FORMATS[suffix][0](file, keep, content)
        if content == "probabilities" or "probabilities" in found:
            given = found.pop("probabilities" if "probabilities" in found else "logits")
            found["logits"] = logits_of(given, "the probabilities")
        return Table(**_named(found, classes, otherwise))
    except InputError as error:
        place = "" if file.name in str(error) else f"{file.name}: "
        raise InputError(f"{place}{error}") from None


def _named(
    found: dict[str, Any], classes: list[str] | None, otherwise: list[str] | None
) -> dict[str, Any]:
    """Return what was found with the names of its columns: the file's own, else those given."""
    if classes is not None:
        held = [str(name) for name in found.get("classes", classes)]
        if differs := difference(held, classes):
            place, mine, given = differs
            raise InputError(
                f"classes must be the names that the file has, in their order. Class {place} is "
                f"{mine} in the file, and {given} is given: leave --classes out, or save the file "
                f"again."
            )
        return found | {"classes": classes}
    if otherwise is None or "classes" in found:
        return found
    shape = found["logits"].shape
    if len(shape) == 2 and shape[1] != len(otherwise):
        raise InputError(
            f"logits must have {len(otherwise)} columns, for the classes {otherwise[0]!r} to "
            f"{otherwise[-1]!r} that they go with. Got {shape[1]}."
        )
    return found | {"classes": otherwise}


def write(
    path: str | os.PathLike[str],
    table: Table,
    function: Callable[[NDArray[Any]], NDArray[Any]] = lambda logits: logits,
    name: Named = "logits",
) -> None:
    """Write ``function`` of the logits of a table, block by block, with all that lies beside them.

    ``name`` is what the function returns, "logits" or "probabilities".

    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/calibrated.csv"
    >>> write(path, Table(np.array([[2.0, 0.5]])), lambda z: z / 2)
    >>> print(Path(path).read_text("utf-8"))
    logit_0,logit_1
    1.0,0.25
    """
    suffix = check_format(path)
    check_choice(name, ("logits", "probabilities"), "name")
    with replacing(path) as file:
        FORMATS[suffix][1](file, tracked(table.mapped(function), "blocks"), table, name)


def _is_folder(path: Path) -> bool:
    """Return whether a path is a directory of Parquet files."""
    return path.is_dir() and path.suffix in {"", ".parquet"}


def is_table(path: Path) -> bool:
    """Return whether a path is of a format that holds any column beside the logits."""
    return _is_folder(path) or path.suffix.lower() in TABLES


def check_format(path: str | os.PathLike[str]) -> str:
    """Return the ending of a path when it names a format that is known."""
    suffix = Path(path).suffix.lower()
    if suffix in RUN_CODE:
        msg = f"{os.fspath(path)!r} must not be a pickle, whose reading can run code"
        raise InputError(f"{msg}: save the logits with numpy.savez(path, logits=...).")
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(f"{os.fspath(path)!r} must end in one of {known}.")
    return suffix

"""Messages of the library in the words of the command line, by the table ``wording.toml``."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import CycloptsError

_TABLE = files("temperance.cli").joinpath("wording.toml").read_text("utf-8")
WORDS: list[tuple[str, str]] = tomllib.loads(_TABLE)["words"]


def in_options(sentence: str) -> str:
    """Return a message of the library in the words of the command line.

    >>> in_options("prior must be 3 numbers; labelled rows belong in source=.")
    'prior must be 3 numbers; labelled rows belong in --source.'
    >>> in_options("give source=(logits, labels) too, or leave features out.")
    'give --source FILE too, or leave features out.'
    """
    for pattern, words in WORDS:
        sentence = re.sub(pattern, words, sentence)
    return sentence


def usage_error(error: CycloptsError) -> str:
    """Return what is wrong with the arguments; of many files, that a directory is one argument."""
    from cyclopts import UnusedCliTokensError

    unused = [Path(token) for token in getattr(error, "unused_tokens", None) or ()]
    if unused and all(path.exists() for path in unused):
        folders = {str(path.parent) for path in unused}
        way_out = (
            f"pass the directory, {folders.pop()!a}, to read all its Parquet files"
            if len(folders) == 1 and all(path.suffix == ".parquet" for path in unused)
            else "join the files first"
        )
        return f"one file or one directory is read at a time. Got {len(unused)} more: {way_out}."
    if isinstance(error, UnusedCliTokensError):
        return f"there is no place for {', '.join(ascii(str(path)) for path in unused)}."
    return str(error)

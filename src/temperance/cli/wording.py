"""Messages of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import CycloptsError

WORDS = (
    (
        r"Divide them by 100 and convert them, temperance\.from_probabilities\(p / 100\)",
        "Divide them by 100 and add --probabilities",
    ),
    (r"Convert them with temperance\.from_probabilities\(p\)", "Add --probabilities"),
    (r"convert them with temperance\.from_probabilities\(.*?\]?, axis=1\)\)", "save both columns"),
    (
        r", with temperance\.from_prob\w+\(numpy.*?axis=1\)\)(, or with .*? before the sigmoid)?",
        ": save two columns of probabilities, 1 - p and p, and add --probabilities",
    ),
    (r"or pass the scores before the softmax", "or save the scores before the softmax"),
    (r"logits are passed as they are", "leave --probabilities out if these are logits"),
    (
        r"pass the class mix you expect .* call temperance\.calibrate with a labelled source",
        "give the class mix of the target with --prior, or labelled rows with --source",
    ),
    (r"labelled rows belong in source=", "labelled rows belong in --source"),
    (r"or call temperance\.calibrate with classes=", "or name the columns with --classes"),
    (
        r"name the columns with classes= where that can be given, or pass \[.*?\]",
        "name the columns with --classes",
    ),
    (
        r"for a binary one-logit head use temperance\.binary_logits\(scores\)",
        "for a binary one-logit head save two columns, 0 and the score",
    ),
    (
        r"for dense predictions move the classes last and flatten, numpy.*dense_logits",
        "for dense predictions save one row per pixel, with the classes last",
    ),
    (r"\bpass the scores\b", "save the scores"),
    (r"\(temperance\.about\)", "(--prior)"),
    (r"the rows that label_next names", "the rows that the report names"),
    (r"\b(source|labelled)=\(logits, labels\)", r"--\1 FILE"),
    (r"\b(prior|source|labels|labelled|classes|features|penalty|bias|seed)=(?!\w)", r"--\1"),
)
"""Pattern and replacement, in this order. A test looks for what is missing here."""


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

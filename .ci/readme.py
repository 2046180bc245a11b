"""The README and the links of a release, for readers who do not have the repository.

A package index shows the README without the files beside it. The address of the repository is
known where the release is built (GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_REF_NAME): links and
pictures then lead there. A build elsewhere leaves pictures out and keeps the words of links.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]+)\)")  # to a file beside the README


def absolute(text: str, address: str | None, ref: str) -> str:
    """Return a text whose links lead to the repository, or nowhere if its address is not known."""

    def link(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if address is None:
            return "" if picture else words
        return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/{ref}/{path})"

    return LINK.sub(link, text)


class RepositoryLinks(MetadataHookInterface):
    """Fill in readme and urls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both."""
        name = os.environ.get("GITHUB_REPOSITORY")
        address = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
        ref = os.environ.get("GITHUB_REF_NAME", "main")
        text = (Path(self.root) / "README.md").read_text("utf-8")
        shown = absolute(text, address if name else None, ref)
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
        urls = {
            "Source": address,
            "Issues": f"{address}/issues",
            "Changelog": f"{address}/blob/{ref}/CHANGELOG.md",
        }
        metadata["urls"] = urls if name else {}

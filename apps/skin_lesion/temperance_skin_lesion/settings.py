"""How a server is set up; handed from the command line to its worker processes as JSON."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_urlsafe

from pydantic import BaseModel, ConfigDict, Field

from temperance_skin_lesion.agreement import Agreement

__all__ = ["Settings", "data_home"]

VARIABLE = "TEMPERANCE_SKIN_LESION_SETTINGS"


def data_home() -> Path:
    """Return the directory of the record, where nobody named one."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "temperance-skin-lesion"


class Settings(BaseModel):
    """Everything that is fixed while a server runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path
    weights: Path | None = None
    keep_images: bool = False
    silent: bool = False
    secure: bool = False
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    agreement: Agreement = Agreement()
    demo: bool = False
    oidc: Path | None = None
    key: str = Field(default_factory=lambda: token_urlsafe(32), repr=False)
    """Signs the state of a login at the identity provider, for all worker processes."""

    @property
    def record(self) -> Path:
        """File of the record."""
        return self.data / "assistant.sqlite3"

    @property
    def images(self) -> Path | None:
        """Directory of the pictures that are kept."""
        return self.data / "images" if self.keep_images else None

    def hand_over(self) -> None:
        """Put the settings where `taken_over` finds them in a worker process."""
        os.environ[VARIABLE] = self.model_dump_json()

    @classmethod
    def taken_over(cls) -> Settings:
        """Return the settings that the parent process handed over."""
        return cls.model_validate_json(os.environ[VARIABLE])

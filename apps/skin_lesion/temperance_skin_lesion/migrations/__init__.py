"""Migrations of the record, run by Alembic; a new record is created as the newest one leaves it.

Records before Alembic counted their schema in ``PRAGMA user_version``: 1 kept the names of files,
2 is revision 0001.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["upgrade"]


def upgrade(connection: Connection, path: Path) -> None:
    """Bring a record up to date inside the transaction of ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    stamped = connection.exec_driver_sql(
        "SELECT name FROM sqlite_master WHERE name = 'alembic_version'"
    ).scalar()
    if not stamped:
        if version > 2:
            raise RuntimeError(f"{path} was written by a newer version (schema {version}).")
        if version == 1:
            connection.exec_driver_sql('ALTER TABLE "case" DROP COLUMN name')
        command.stamp(config, "0001")
    else:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        try:
            ScriptDirectory.from_config(config).get_revision(found)
        except CommandError:
            raise RuntimeError(f"{path} was written by a newer version ({found}).") from None
    command.upgrade(config, "head")

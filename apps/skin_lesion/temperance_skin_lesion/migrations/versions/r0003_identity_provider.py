"""People whom an identity provider knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add who a person is at the identity provider; nobody is there yet."""
    op.add_column("person", sa.Column("subject", sa.String(), nullable=True))
    op.create_index("person_subject", "person", ["subject"], unique=True)

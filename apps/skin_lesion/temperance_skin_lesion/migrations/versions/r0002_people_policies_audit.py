"""Policies under change control, people, diagnoses that are added, and the audit chain."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

OLD = "before accounts"
STATUSES = "('proposed', 'accepted', 'rejected', 'refused', 'outside', 'same')"
CODES = ("mel", "nv", "bcc", "akiec", "bkl", "df", "vasc")
MALIGNANT = (0, 2, 3)
URGENT_MELANOMA = 0.2
"""Where urgent begins in the rules of a new installation."""


def text(name: str, default: str | None = "", *, nullable: bool = False) -> sa.Column:
    """Return a column of text; rows that are there get the default."""
    return sa.Column(name, sa.String(), nullable=nullable, server_default=default)


def upgrade() -> None:
    """Convert every row; nothing is dropped but columns whose content went elsewhere."""
    connection = op.get_bind()
    _policies(connection)
    _maps(connection)
    _activations(connection)
    _new_tables()
    _cases(connection)
    from temperance_skin_lesion.store import triggers  # the statements have no older form

    for statement in triggers():
        connection.exec_driver_sql(statement)


def _policies(connection: sa.Connection) -> None:
    # Read and made anew: a renamed table would take the references to it along.
    former = connection.exec_driver_sql("SELECT id, at, policy FROM policy ORDER BY id").all()
    op.drop_table("policy")
    op.create_table(
        "policy",
        sa.Column("id", sa.Integer(), primary_key=True),
        text("created", None),
        text("by", None),
        sa.Column("policy", sa.JSON(), nullable=False),
        text("reason", None),
        text("objection", None),
        sa.Column("comparison", sa.JSON(), nullable=False),
        text("status", None),
        text("decided", None, nullable=True),
        text("decided_by", None, nullable=True),
        sa.CheckConstraint(f"status IN {STATUSES}", name="policy_status"),
    )
    for key, at, stored in former:
        rules = json.loads(stored)
        # Urgent began nowhere; it must not begin below what counts as excluded.
        if rules["melanoma_ceiling"] > URGENT_MELANOMA:
            rules["urgent_melanoma"] = rules["melanoma_ceiling"]
        connection.execute(
            sa.text(
                "INSERT INTO policy VALUES "
                "(:id, :at, :old, :policy, '', '', '{}', 'accepted', :at, :old)"
            ),
            {"id": key, "at": at, "old": OLD, "policy": json.dumps(rules)},
        )


def _maps(connection: sa.Connection) -> None:
    with op.batch_alter_table("map", recreate="always") as table:
        table.add_column(text("by", OLD))
        table.add_column(text("decided_by", None, nullable=True))
        table.drop_column("within_agreement")
        table.drop_constraint("map_status", type_="check")
        table.create_check_constraint("map_status", f"status IN {STATUSES}")
    connection.execute(
        sa.text("UPDATE map SET decided_by = :old WHERE decided IS NOT NULL"), {"old": OLD}
    )
    # What could never be accepted needs no decision any more.
    connection.exec_driver_sql(
        "UPDATE map SET status = 'refused', decided = created WHERE status = 'proposed' "
        "AND verdict = 'refused'"
    )
    connection.exec_driver_sql(
        "UPDATE map SET status = 'outside', decided = created WHERE status = 'proposed' "
        "AND json_extract(summary, '$.objection') != ''"
    )


def _activations(connection: sa.Connection) -> None:
    """Merge the two histories, of maps and of policies, by their times."""
    maps = connection.exec_driver_sql("SELECT at, map_id FROM activation ORDER BY id").all()
    policies = connection.exec_driver_sql("SELECT created, id FROM policy ORDER BY id").all()
    op.drop_table("activation")
    op.create_table(
        "activation",
        sa.Column("id", sa.Integer(), primary_key=True),
        text("at", None),
        text("by", None),
        sa.Column("map_id", sa.Integer(), sa.ForeignKey("map.id"), nullable=False),
        sa.Column("policy_id", sa.Integer(), sa.ForeignKey("policy.id"), nullable=False),
    )
    steps = sorted(
        [(at, 0, "map", key) for at, key in maps] + [(at, 1, "policy", key) for at, key in policies]
    )
    current = {"map": None, "policy": None}
    for at, _, what, key in steps:
        current[what] = key
        if None not in current.values():
            connection.execute(
                sa.text(
                    "INSERT INTO activation (at, by, map_id, policy_id) "
                    "VALUES (:at, :by, :map, :policy)"
                ),
                {"at": at, "by": OLD, **current},
            )


def _new_tables() -> None:
    op.create_table(
        "diagnosis",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("case_id", sa.Integer(), sa.ForeignKey("case.id"), nullable=False),
        text("lesion", None),
        text("at", None),
        text("by", None),
        text("code", None, nullable=True),
        text("other", None),
        text("source", None),
    )
    op.create_index("diagnosis_lesion", "diagnosis", ["lesion", "id"])
    op.create_table(
        "person",
        sa.Column("id", sa.Integer(), primary_key=True),
        text("created", None),
        sa.Column("name", sa.String(), nullable=False, unique=True),
        text("role", None),
        text("password", None),
        text("closed", None, nullable=True),
        sa.CheckConstraint("role IN ('reader', 'clinician', 'approver')", name="person_role"),
    )
    op.create_table(
        "login",
        sa.Column("sha256", sa.String(), primary_key=True),
        sa.Column("person_id", sa.Integer(), sa.ForeignKey("person.id"), nullable=False),
        text("at", None),
        text("until", None),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), primary_key=True),
        text("at", None),
        text("name", None),
        text("address", None),
    )
    op.create_index("attempt_at", "attempt", ["at"])
    op.create_table(
        "entry",
        sa.Column("id", sa.Integer(), primary_key=True),
        text("at", None),
        text("by", None),
        text("kind", None),
        sa.Column("about", sa.JSON(), nullable=False),
        text("previous", None),
        text("sha256", None),
    )


def _cases(connection: sa.Connection) -> None:
    rows = connection.exec_driver_sql(
        "SELECT id, sha256, probabilities, predicted, decision, rule, why, diagnosis, diagnosed "
        'FROM "case" ORDER BY id'
    ).all()
    with op.batch_alter_table("case", recreate="always") as table:
        for name in ("by", "lesion", "site", "camera"):
            table.add_column(text(name))
        table.add_column(text("kept", None, nullable=True))
        table.add_column(sa.Column("repeats", sa.Integer(), nullable=True))
        table.add_column(sa.Column("hidden", sa.Boolean(), nullable=False, server_default="0"))
        for name, default in (
            ("views", "[]"),
            ("malignant", "[]"),
            ("quality", "{}"),
            ("rules", "[]"),
        ):
            table.add_column(sa.Column(name, sa.JSON(), nullable=False, server_default=default))
        table.add_column(sa.Column("agreement", sa.Integer(), nullable=True))
        table.add_column(text("urgency", "routine"))
        table.create_check_constraint(
            "case_urgency", "urgency IN ('urgent', 'soon', 'routine', 'retake')"
        )
        table.drop_column("diagnosis")
        table.drop_column("diagnosed")
    op.create_index("case_lesion", "case", ["lesion"])
    op.create_index("case_urgency_id", "case", ["urgency", "id"])
    first: dict[str, int] = {}
    for key, sha256, stored, predicted, decision, rule, why, diagnosis, diagnosed in rows:
        lesion = f"picture-{sha256[:16]}"
        p = json.loads(stored)
        malignant = sum(p[k] for k in MALIGNANT)
        connection.execute(
            sa.text(
                'UPDATE "case" SET by = :by, lesion = :lesion, repeats = :repeats, '
                "malignant = :malignant, rules = :rules, urgency = :urgency WHERE id = :id"
            ),
            {
                "id": key,
                "by": OLD,
                "lesion": lesion,
                "repeats": first.get(sha256),
                "malignant": json.dumps([malignant] * 3),
                "rules": json.dumps([] if decision == "answer" else [[rule, why]]),
                "urgency": _urgency(p, malignant, predicted, rule),
            },
        )
        first.setdefault(sha256, key)
        if diagnosis is not None:
            connection.execute(
                sa.text(
                    "INSERT INTO diagnosis (case_id, lesion, at, by, code, other, source) "
                    "VALUES (:case, :lesion, :at, :by, :code, '', 'unknown')"
                ),
                {
                    "case": key,
                    "lesion": lesion,
                    "at": diagnosed or "",
                    "by": OLD,
                    "code": CODES[diagnosis],
                },
            )


def _urgency(p: list[float], malignant: float, predicted: int, rule: str) -> str:
    """Return the urgency that the policy of a new installation gives to an older case."""
    if rule == "foreign":
        return "retake"
    if p[0] >= URGENT_MELANOMA or malignant >= 0.5 or predicted == 0:
        return "urgent"
    return "soon" if p[0] > 0.02 or malignant >= 0.1 or predicted in MALIGNANT else "routine"

"""Accounts: names, roles, passwords (Argon2id), sessions and limits on guessing.

A record without accounts belongs to whoever sits at the machine: everything is done as `LOCAL`, and
the server listens to the loopback address only. With the first account, everybody logs in. Where an
identity provider is configured (`temperance_skin_lesion.web.oidc`), everybody logs in from the
start, and the accounts of its people are made and changed by `log_in_from`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select

from temperance_skin_lesion import audit
from temperance_skin_lesion.store import Attempt, Login, Person, now

if TYPE_CHECKING:
    from argon2 import PasswordHasher
    from sqlalchemy.orm import Session

    from temperance_skin_lesion.store import Store

__all__ = [
    "LOCAL",
    "ROLES",
    "AccountError",
    "TooManyAttempts",
    "User",
    "add",
    "change",
    "has_passwords",
    "log_in",
    "log_in_from",
    "log_out",
    "log_out_everywhere",
    "who",
]

ROLES = ("reader", "clinician", "approver")
"""Each may do what the former may: look; judge, diagnose and propose; accept and restore."""

LEAST_LENGTH = 12
HOURS = 12
ATTEMPTS, WINDOW = 5, timedelta(minutes=15)


class AccountError(ValueError):
    """A name, a role or a password that is not taken, or a login that is wrong."""


class TooManyAttempts(RuntimeError):
    """Too many failed logins for one name or from one address."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether the user may do what ``role`` may."""
        return ROLES.index(self.role) >= ROLES.index(role)


LOCAL = User("local", "approver")
"""Whoever sits at the machine, where there are no accounts."""


@lru_cache
def hasher() -> PasswordHasher:
    """Return the hasher, with the library's recommended cost."""
    from argon2 import PasswordHasher

    return PasswordHasher()


@lru_cache
def decoy() -> str:
    """Return a hash to compare with where there is no account: the answer takes as long."""
    return hasher().hash(secrets.token_urlsafe(16))


def add(store: Store, name: str, role: str, password: str, by: str) -> None:
    """Add an account."""
    _check_name(name)
    if role not in ROLES:
        raise AccountError(f"role must be one of {', '.join(ROLES)}. Got {role!r}.")
    stored = _hashed(password)
    with store.writing() as session:
        if session.scalar(select(Person).where(func.lower(Person.name) == name.lower())):
            raise AccountError(f"There is an account {name} already.")
        session.add(Person(name=name, role=role, password=stored))
        audit.enter(session, by, "account added", {"name": name, "role": role})


def change(
    store: Store,
    name: str,
    by: str,
    *,
    role: str | None = None,
    password: str | None = None,
    close: bool = False,
) -> None:
    """Give an account another role or password, or close it; its sessions end."""
    if role is not None and role not in ROLES:
        raise AccountError(f"role must be one of {', '.join(ROLES)}. Got {role!r}.")
    stored = _hashed(password) if password is not None else None
    with store.writing() as session:
        person = session.scalar(select(Person).where(Person.name == name))
        if person is None:
            raise AccountError(f"There is no account {name}.")
        if person.closed:
            raise AccountError(f"The account {name} was closed for good; make another one.")
        if stored and person.subject:
            raise AccountError(f"{name} logs in at the identity provider and has no password here.")
        person.role = role or person.role
        person.password = stored or person.password
        if close:
            person.closed = now()
        session.execute(delete(Login).where(Login.person_id == person.id))
        about = {
            "name": name,
            "role": person.role,
            "closed": close,
            "password changed": bool(password),
        }
        audit.enter(session, by, "account changed", about)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{1,63}", name) or name == LOCAL.name:
        raise AccountError(
            f"name must have 2 to 64 letters, digits or . _ @ -. Got {name[:70]!r}; take another."
        )


def log_in(store: Store, name: str, password: str, address: str) -> str:
    """Return the secret of a new session.

    Raises
    ------
    AccountError
        Without telling whether the name or the password was wrong.
    TooManyAttempts
        After `ATTEMPTS` failures for the name within `WINDOW`, or four times as many from the
        address.
    """
    with store.writing() as session:
        _check_attempts(session, name, address)
        # Counted before the password is looked at: of many guesses at once, few are looked at.
        session.add(Attempt(name=name[:64], address=address))
        person = session.scalar(select(Person).where(Person.name == name, Person.closed.is_(None)))
    # An account of the identity provider has no password, and nothing equals none.
    right = _matches((person.password if person else "") or decoy(), password)
    if person is None or not right:
        raise AccountError("That name and password do not belong together.")
    with store.writing() as session:
        session.execute(delete(Attempt).where(Attempt.name == name))
        return _begin(session, person)


def log_in_from(store: Store, issuer: str, subject: str, name: str, role: str) -> str:
    """Return the secret of a new session of somebody whom an identity provider vouches for.

    The issuer and the subject say who it is: a name may be given to somebody else one day. The role
    is the one of this moment; a changed one ends the sessions that had the former.
    """
    key, by = f"{issuer} {subject}", f"identity provider {issuer}"
    with store.writing() as session:
        person = session.scalar(select(Person).where(Person.subject == key))
        if person is None:
            _check_name(name)
            if session.scalar(select(Person).where(func.lower(Person.name) == name.lower())):
                raise AccountError(
                    f"There is another account {name} on this server; whoever runs it can help."
                )
            person = Person(name=name, role=role, password="", subject=key)
            session.add(person)
            session.flush()
            about = {"name": name, "role": role, "subject": key}
            audit.enter(session, by, "account added", about)
        elif person.closed:
            raise AccountError(f"The account {person.name} was closed on this server.")
        elif person.role != role:
            person.role = role
            session.execute(delete(Login).where(Login.person_id == person.id))
            about = {"name": person.name, "role": role, "closed": False, "password changed": False}
            audit.enter(session, by, "account changed", about)
        return _begin(session, person)


def log_out_everywhere(store: Store, issuer: str, subject: str) -> None:
    """End the sessions of somebody to whom the identity provider gives no role any more."""
    with store.writing() as session:
        mine = select(Person.id).where(Person.subject == f"{issuer} {subject}")
        session.execute(delete(Login).where(Login.person_id.in_(mine)))


def _begin(session: Session, person: Person) -> str:
    """Return the secret of a new session."""
    session.execute(delete(Login).where(Login.until < now()))
    secret = secrets.token_urlsafe(32)
    until = datetime.now(UTC) + timedelta(hours=HOURS)
    session.add(
        Login(
            sha256=_sha256(secret),
            person_id=person.id,
            until=until.isoformat(timespec="milliseconds"),
        )
    )
    return secret


def log_out(store: Store, secret: str) -> None:
    """End a session."""
    with store.writing() as session:
        session.execute(delete(Login).where(Login.sha256 == _sha256(secret)))


def who(store: Store, secret: str | None, *, required: bool = False) -> User | None:
    """Return who holds a session.

    Everybody is `LOCAL` where there are no accounts, unless a session is ``required`` all the same.
    """
    with store.reading() as session:
        if not required and session.scalar(select(Person.id).limit(1)) is None:
            return LOCAL
        if not secret:
            return None
        found = session.execute(
            select(Person.name, Person.role)
            .join(Login, Login.person_id == Person.id)
            .where(Login.sha256 == _sha256(secret), Login.until > now(), Person.closed.is_(None))
        ).first()
        return User(*found) if found else None


def has_passwords(store: Store) -> bool:
    """Whether anybody has an account with a password."""
    with store.reading() as session:
        return session.scalar(select(Person.id).where(Person.password != "").limit(1)) is not None


def _check_attempts(session: Session, name: str, address: str) -> None:
    since = (datetime.now(UTC) - WINDOW).isoformat(timespec="milliseconds")
    session.execute(delete(Attempt).where(Attempt.at <= since))
    recent = select(func.count()).select_from(Attempt)
    for mine, limit in (
        (Attempt.name == name, ATTEMPTS),
        (Attempt.address == address, 4 * ATTEMPTS),
    ):
        if (session.scalar(recent.where(mine)) or 0) >= limit:
            minutes = int(WINDOW.total_seconds() // 60)
            raise TooManyAttempts(f"Too many failed logins. Try again in {minutes} minutes.")


def _hashed(password: str) -> str:
    if not LEAST_LENGTH <= len(password) <= 1000:
        raise AccountError(
            f"password must have at least {LEAST_LENGTH} characters. Got {len(password)}."
        )
    return hasher().hash(password)


def _matches(stored: str, password: str) -> bool:
    from argon2.exceptions import VerificationError

    try:
        return hasher().verify(stored, password[:1000])
    except VerificationError:
        return False


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

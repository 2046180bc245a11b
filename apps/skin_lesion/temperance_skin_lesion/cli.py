"""``temperance-skin-lesion``: serve, demo, predict, export, verify, users. Research use only."""

from __future__ import annotations

import argparse
import getpass
import ipaddress
import json
import os
import secrets
import socket
import ssl
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

from temperance_skin_lesion.agreement import Agreement
from temperance_skin_lesion.intake import PictureError, read_file
from temperance_skin_lesion.settings import Settings, data_home
from temperance_skin_lesion.store import private_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store
    from temperance_skin_lesion.web.schemas import JudgedCase

__all__ = ["main"]

AT_ONCE = 24
"""Files that are judged and put on record together."""

NOTICE = "Research use only. Not a medical device. Weights: CC BY-NC 4.0, non-commercial."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 something was not taken, 2 bad usage or bad input."""
    arguments = parser().parse_args(argv)
    os.umask(0o077)  # records and pictures are their owner's
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stdout = None
        return 0
    except (OSError, RuntimeError, ValueError) as error:
        print(f"temperance-skin-lesion: {error}", file=sys.stderr)
        return 2


def port_number(text: str) -> int:
    """Return a port that can be listened at."""
    number = int(text)
    if not 0 < number < 65536:
        raise argparse.ArgumentTypeError(f"a port is 1 to 65535. Got {text}.")
    return number


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="temperance-skin-lesion", description=NOTICE)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    record = argparse.ArgumentParser(add_help=False)
    record.add_argument("--data", type=Path, help="directory of the record (default: %(default)s)")
    record.set_defaults(data=data_home())
    weights = argparse.ArgumentParser(add_help=False)
    weights.add_argument("--weights", type=Path, help="directory of the model")
    network = argparse.ArgumentParser(add_help=False)
    network.add_argument("--host", default="127.0.0.1", help="address to listen at")
    network.add_argument("--port", type=port_number, default=8000)
    network.add_argument("--workers", type=int, default=1, help="processes, one core each")
    network.add_argument(
        "--name", action="append", default=[], help="another host name to answer to"
    )

    serve = commands.add_parser(
        "serve", parents=[record, weights, network], help="start the web application"
    )
    serve.add_argument(
        "--keep-images", action="store_true", help="keep the pictures, not only hashes"
    )
    serve.add_argument(
        "--silent", action="store_true", help="hide what is said until a diagnosis is entered"
    )
    serve.add_argument("--tls-cert", type=Path, help="certificate (PEM)")
    serve.add_argument("--tls-key", type=Path, help="key of the certificate (PEM)")
    serve.add_argument(
        "--behind-tls", action="store_true", help="a proxy in front of this server speaks TLS"
    )
    serve.add_argument(
        "--oidc", type=Path, help="JSON file of an identity provider at which people log in"
    )
    agreed = serve.add_argument_group(
        "what is agreed", "the range inside which calibrations and rules can be accepted"
    )
    for name, field in Agreement.model_fields.items():
        pair = name == "temperature"
        agreed.add_argument(
            f"--agreed-{name.replace('_', '-')}",
            type=int if field.annotation is int else float,
            default=field.default,
            nargs=2 if pair else None,
            metavar=("LOW", "HIGH") if pair else "NUMBER",
            help=f"{field.description or 'range of the temperature'} (default: %(default)s)",
        )
    serve.set_defaults(run=run_serve)

    demo = commands.add_parser(
        "demo", parents=[weights, network], help="start with pictures drawn by code"
    )
    demo.set_defaults(run=run_demo)

    predict = commands.add_parser(
        "predict", parents=[record, weights], help="judge pictures, no server"
    )
    predict.add_argument("images", nargs="+", type=Path, help="files, or folders of files")
    predict.add_argument("--json", action="store_true", help="JSON alone on stdout")
    predict.set_defaults(run=run_predict)

    export = commands.add_parser("export", parents=[record], help="write the log to stdout")
    export.add_argument("--format", choices=("csv", "jsonl", "audit"), default="csv")
    export.set_defaults(run=run_export)

    verify = commands.add_parser("verify", parents=[record], help="check the audit chain")
    verify.add_argument("file", nargs="?", type=Path, help="an export; without it, the record")
    verify.add_argument("--noted", metavar="HASH", help="a hash noted earlier, looked for in it")
    verify.set_defaults(run=run_verify)

    users = commands.add_parser("users", parents=[record], help="list, add or change accounts")
    users.add_argument("name", nargs="?", help="whose account; without it, list all")
    users.add_argument("--role", choices=("reader", "clinician", "approver"))
    users.add_argument("--password", action="store_true", help="ask for a new password")
    users.add_argument("--close", action="store_true", help="close the account for good")
    users.set_defaults(run=run_users)
    return top


def run_serve(arguments: argparse.Namespace) -> int:
    """Start the web application on a record that stays."""
    if bool(arguments.tls_cert) != bool(arguments.tls_key):
        raise ValueError("--tls-cert and --tls-key belong together; name both or none.")
    secure = bool(arguments.tls_cert) or arguments.behind_tls
    agreed = {name: getattr(arguments, f"agreed_{name}") for name in Agreement.model_fields}
    settings = Settings(
        data=arguments.data.resolve(),
        weights=arguments.weights and arguments.weights.resolve(),
        keep_images=arguments.keep_images,
        silent=arguments.silent,
        secure=secure,
        hosts=hosts(arguments.host, arguments.name),
        agreement=Agreement.model_validate(agreed),
        oidc=arguments.oidc and arguments.oidc.resolve(),
    )
    if settings.oidc:
        check_oidc(settings.oidc)
    if not is_loopback(arguments.host):
        check_network(settings, secure=secure)
    return listen(settings, arguments)


def check_oidc(path: Path) -> None:
    """Read the file of an identity provider before anything is served."""
    try:
        from temperance_skin_lesion.web.oidc import read_provider
    except ImportError:
        raise ValueError(
            "--oidc needs Authlib: pip install 'temperance-skin-lesion[oidc]'"
        ) from None
    read_provider(path)


def check_network(settings: Settings, *, secure: bool) -> None:
    """Refuse to open a server to the network without accounts or without TLS."""
    from temperance_skin_lesion import people
    from temperance_skin_lesion.store import Store

    if not secure:
        raise ValueError(
            "--host beyond this machine needs TLS: name --tls-cert and --tls-key, or --behind-tls "
            "if a proxy in front speaks it."
        )
    if settings.oidc:
        return
    private_directory(settings.data)
    store = Store(settings.record)
    try:
        if people.who(store, None) is not None:
            raise ValueError(
                f"--host beyond this machine needs accounts. Make the first one: "
                f"temperance-skin-lesion users NAME --role approver --data {settings.data}"
            )
    finally:
        store.close()


def run_demo(arguments: argparse.Namespace) -> int:
    """Start the web application on a record of drawn pictures that is gone afterwards."""
    import signal

    from temperance_skin_lesion import people

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)
    with tempfile.TemporaryDirectory(prefix="temperance-skin-lesion-") as directory:
        settings = Settings(
            data=Path(directory),
            weights=arguments.weights and arguments.weights.resolve(),
            keep_images=True,
            demo=True,
            hosts=hosts(arguments.host, arguments.name),
        )
        print("Drawing pictures and filling the record…", file=sys.stderr)
        assistant = open_assistant(settings)
        if not is_loopback(arguments.host):
            password = secrets.token_urlsafe(12)
            people.add(assistant.store, "demo", "approver", password, "demo")
            print(f"Name: demo  Password: {password}", file=sys.stderr)
        assistant.store.close()
        return listen(settings, arguments)


def hosts(host: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names under which the server answers."""
    known = Settings.model_fields["hosts"].default
    shown = f"[{host}]" if ":" in host else host
    mine = () if is_loopback(host) else (shown, socket.gethostname())
    return tuple(name.lower() for name in (*known, *mine, *names))


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: Settings, arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    settings.hand_over()
    print(NOTICE, file=sys.stderr)
    print("Loading the model…", file=sys.stderr, flush=True)
    import uvicorn

    from temperance_skin_lesion.web.protocol import OPTIONS

    secure = getattr(arguments, "tls_cert", None) is not None
    told = (arguments.host, arguments.port, secure)
    threading.Thread(target=announce, args=told, daemon=True).start()
    uvicorn.run(
        "temperance_skin_lesion.web.app:from_environment",
        factory=True,
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        timeout_graceful_shutdown=10,
        ssl_certfile=getattr(arguments, "tls_cert", None),
        ssl_keyfile=getattr(arguments, "tls_key", None),
        **OPTIONS,
    )
    return 0


def announce(host: str, port: int, secure: bool) -> None:
    """Print the address as soon as the server answers under it."""
    anywhere = host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not listened at
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    line = HTTPConnection(near, port, timeout=60)
    if secure:  # asked by itself, whose certificate names another host
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        line = HTTPSConnection(near, port, timeout=60, context=context)
    while True:  # with several workers the port is open before any of them can answer
        try:
            line.request("GET", "/static/icon.svg", headers={"Host": "localhost"})
            line.getresponse()
            break
        except (OSError, HTTPException):
            line.close()
            time.sleep(0.1)
    line.close()
    shown = socket.gethostname() if anywhere else f"[{host}]" if ":" in host else host
    print(f"http{'s' if secure else ''}://{shown}:{port}/", file=sys.stderr, flush=True)


def run_predict(arguments: argparse.Namespace) -> int:
    """Judge pictures with what is in force and put them on record."""
    cases, problems = judge_files(
        Settings(data=arguments.data, weights=arguments.weights), files_in(arguments.images)
    )
    if arguments.json:
        out = {"notice": NOTICE, "cases": [c.model_dump() for c in cases], "problems": problems}
        print(json.dumps(out, indent=2))
    else:
        print(NOTICE, file=sys.stderr)
        for case in cases:
            value = f"{case.malignant[0]:.3f}" if case.malignant else "-"
            reasons = " ".join(rule.why for rule in case.rules or []) or case.why
            said = (case.urgency, case.decision, case.predicted or "-", value, reasons)
            print("\t".join(map(str, (case.name, *said))))
        for problem in problems:
            print(problem, file=sys.stderr)
    return 1 if problems else 0


def judge_files(settings: Settings, paths: Sequence[Path]) -> tuple[list[JudgedCase], list[str]]:
    """Judge files, some at a time, and say how far it is; return cases and problems."""
    cases, problems, assistant = [], [], None
    for start in range(0, len(paths), AT_ONCE):
        pictures = []
        for path in paths[start : start + AT_ONCE]:
            try:
                with path.open("rb") as file:
                    pictures.append(read_file(file, path.name))
            except (PictureError, OSError) as error:
                problems.append(str(error))
        if pictures:
            from temperance_skin_lesion.web.schemas import JudgedCase

            assistant = assistant or open_assistant(settings)
            judged = assistant.judge(pictures, by=getpass.getuser())
            cases += [JudgedCase.judged(*pair) for pair in zip(judged, pictures, strict=True)]
        if sys.stderr.isatty() and len(paths) > AT_ONCE:
            done = min(start + AT_ONCE, len(paths))
            end = "\r" if done < len(paths) else "\n"
            print(f"{done} of {len(paths)} files", end=end, file=sys.stderr, flush=True)
    return cases, problems


def open_record(arguments: argparse.Namespace) -> Store:
    """Open a record that is there."""
    from temperance_skin_lesion.store import Store

    path = Settings(data=arguments.data).record
    if not path.is_file():
        raise FileNotFoundError(f"There is no record in {arguments.data}.")
    return Store(path)


def run_export(arguments: argparse.Namespace) -> int:
    """Write the log; the model is not needed."""
    from temperance_skin_lesion import audit
    from temperance_skin_lesion.web.export import csv_lines, json_lines

    ways = {"csv": csv_lines, "jsonl": json_lines, "audit": audit.lines}
    for line in ways[arguments.format](open_record(arguments)):
        sys.stdout.write(line)
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Check the audit chain of a record or of an export."""
    from temperance_skin_lesion import audit

    if arguments.file:
        with arguments.file.open(encoding="utf-8") as file:
            found = audit.verify(file)
    else:
        found = audit.verify_record(open_record(arguments))
    problems = found.problems
    noted = arguments.noted
    if noted and noted not in found.hashes:
        problems = [*problems, "No entry has the noted hash: the chain was cut or written anew."]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(found.hashes)} entries follow one another, and the cases are those entered.")
        if noted:
            print(f"The noted hash is that of entry {found.hashes.index(noted) + 1}.")
        else:
            print("Whether the chain was written anew, only a hash noted earlier tells (--noted).")
    print(f"Newest hash: {found.newest}")
    return 1 if problems else 0


def run_users(arguments: argparse.Namespace) -> int:
    """List accounts, or add, change or close one."""
    from sqlalchemy import select

    from temperance_skin_lesion import people
    from temperance_skin_lesion.store import Person, Store

    private_directory(arguments.data)
    store = Store(Settings(data=arguments.data).record)
    by = f"{getpass.getuser()} at the console"
    with store.reading() as session:
        found = {person.name: person for person in session.scalars(select(Person))}
    if arguments.name is None:
        for person in found.values():
            print(f"{person.name}\t{person.role}\t{'closed' if person.closed else 'open'}")
    elif arguments.name not in found:
        if not arguments.role:
            raise ValueError("A new account needs --role: reader, clinician or approver.")
        people.add(store, arguments.name, arguments.role, new_password(), by)
    elif not (arguments.role or arguments.password or arguments.close):
        raise ValueError(
            f"There is an account {arguments.name}. Say what to change: --role, --password or "
            f"--close."
        )
    else:
        password = new_password() if arguments.password else None
        people.change(
            store,
            arguments.name,
            by,
            role=arguments.role,
            password=password,
            close=arguments.close,
        )
    return 0


def new_password() -> str:
    """Read a password: twice from a terminal, once from a pipe."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Again: "):
        raise ValueError("The passwords differ; try again.")
    return password


def open_assistant(settings: Settings) -> Assistant:
    """Load the model and open the record."""
    import torch

    from temperance_skin_lesion import demo, model
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    torch.set_num_threads(1)
    private_directory(settings.data)
    loaded = model.load(settings.weights)
    if not settings.demo:
        return Assistant(loaded, Store(settings.record))
    assistant = Assistant(demo.for_demo(loaded), Store(settings.record), settings.images)
    demo.fill(assistant, loaded.source)
    return assistant


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Files as given, and those inside folders, sorted."""
    found = []
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        found += inside
    return found

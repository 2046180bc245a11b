"""``temperance-skin-lesion``: serve, demo, predict, export. Research use only."""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from temperance_skin_lesion.clinic import Agreement
from temperance_skin_lesion.decision import FOREIGN
from temperance_skin_lesion.intake import MAX_BYTES, PictureError, read
from temperance_skin_lesion.settings import Settings, data_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance_skin_lesion.assistant import Assistant

__all__ = ["main"]

NOTICE = "Research use only. Not a medical device. Weights: CC BY-NC 4.0, non-commercial."
TOKEN = "TEMPERANCE_SKIN_LESION_TOKEN"  # noqa: S105 - the name of a variable


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 done, 1 something was not taken, 2 bad usage or bad input."""
    arguments = parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError, ValueError) as error:
        print(f"temperance-skin-lesion: {error}", file=sys.stderr)
        return 2


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
    network.add_argument("--port", type=int, default=8000)
    network.add_argument("--workers", type=int, default=1, help="processes, one core each")

    serve = commands.add_parser(
        "serve", parents=[record, weights, network], help="start the web application"
    )
    serve.add_argument(
        "--keep-images", action="store_true", help="keep the pictures, not only hashes"
    )
    serve.add_argument("--name", action="append", default=[], help="another host name to answer to")
    agreed = Agreement()
    serve.add_argument(
        "--agreed-temperature",
        nargs=2,
        type=float,
        default=agreed.temperature,
        metavar=("LOW", "HIGH"),
    )
    serve.add_argument("--agreed-bias", type=float, default=agreed.bias, metavar="LOGITS")
    serve.add_argument("--agreed-rows", type=int, default=agreed.rows, metavar="PICTURES")
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
    export.add_argument("--format", choices=("csv", "jsonl"), default="csv")
    export.set_defaults(run=run_export)
    return top


def run_serve(arguments: argparse.Namespace) -> int:
    """Start the web application on a record that stays."""
    settings = Settings(
        data=arguments.data.resolve(),
        weights=arguments.weights and arguments.weights.resolve(),
        keep_images=arguments.keep_images,
        agreement=Agreement(
            temperature=tuple(arguments.agreed_temperature),
            bias=arguments.agreed_bias,
            rows=arguments.agreed_rows,
        ),
        **entrance(arguments.host, arguments.name),
    )
    return listen(settings, arguments)


def run_demo(arguments: argparse.Namespace) -> int:
    """Start the web application on a record of drawn pictures that is gone afterwards."""
    from temperance_skin_lesion.demo import fill

    with tempfile.TemporaryDirectory(prefix="temperance-skin-lesion-") as directory:
        settings = Settings(
            data=Path(directory),
            weights=arguments.weights and arguments.weights.resolve(),
            demo=True,
            **entrance(arguments.host, []),
        )
        print("Drawing pictures and filling the log…", file=sys.stderr)
        fill(open_assistant(settings))
        return listen(settings, arguments)


def entrance(host: str, names: Sequence[str]) -> dict[str, object]:
    """Who may come in: everybody on this machine; over the network, whoever has the token."""
    known = Settings.model_fields["hosts"].default
    if is_loopback(host):
        return {"hosts": (*known, *names)}
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    if TOKEN not in os.environ:
        print(f"Open to the network. Token: {token}", file=sys.stderr)
    shown = f"[{host}]" if ":" in host else host
    return {"token": token, "hosts": (*known, shown, *names)}


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: Settings, arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import uvicorn

    settings.hand_over()
    print(NOTICE, file=sys.stderr)
    print(f"http://{arguments.host}:{arguments.port}/", file=sys.stderr)
    uvicorn.run(
        "temperance_skin_lesion.web.app:from_environment",
        factory=True,
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    return 0


def run_predict(arguments: argparse.Namespace) -> int:
    """Judge pictures with the map in force and put them on record."""
    from temperance_skin_lesion.web.api import JudgedCase

    settings = Settings(data=arguments.data, weights=arguments.weights)
    pictures, problems = [], []
    for path in files_in(arguments.images):
        try:
            with path.open("rb") as file:
                pictures.append(read(file.read(MAX_BYTES + 1), path.name))
        except (PictureError, OSError) as error:
            problems.append(str(error))
    cases = []
    if pictures:
        judged = open_assistant(settings).judge(pictures)
        cases = [JudgedCase.judged(*pair) for pair in zip(judged, pictures, strict=True)]
    if arguments.json:
        out = {"notice": NOTICE, "cases": [c.model_dump() for c in cases], "problems": problems}
        print(json.dumps(out, indent=2))
    else:
        print(NOTICE, file=sys.stderr)
        for case in cases:
            said = f"{case.predicted}\t{case.probabilities[case.predicted]:.3f}"
            said = "-\t-" if case.rule == FOREIGN else said
            print(f"{case.name}\t{case.decision}\t{said}\t{case.why}")
        for problem in problems:
            print(problem, file=sys.stderr)
    return 1 if problems else 0


def run_export(arguments: argparse.Namespace) -> int:
    """Write the log; the model is not needed."""
    from temperance_skin_lesion.store import Store
    from temperance_skin_lesion.web.api import csv_lines, json_lines

    path = Settings(data=arguments.data).record
    if not path.is_file():
        raise FileNotFoundError(f"There is no record in {arguments.data}.")
    for line in (csv_lines if arguments.format == "csv" else json_lines)(Store(path)):
        sys.stdout.write(line)
    return 0


def open_assistant(settings: Settings) -> Assistant:
    """Load the model and open the record."""
    import torch

    from temperance_skin_lesion import model
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    torch.set_num_threads(1)
    settings.data.mkdir(parents=True, exist_ok=True)
    return Assistant(model.load(settings.weights), Store(settings.record))


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Files as given, and those inside folders, sorted."""
    found = []
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        found += inside
    return found

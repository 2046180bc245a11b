"""A mutation fuzzer over every file that the command line reads.

``python tests/helpers/mutants.py 20000`` makes so many damaged files and hands each to a command,
in processes with bounded memory. A command must give a result (exit code 0 or 1) or one sentence
and exit code 2; anything else, a crash, a hang, a traceback, exit code 70, a file left behind, an
artefact that loads as something else, is printed with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path

import numpy as np

import temperance as tp
from temperance.cli import main
from temperance.io import artefact, formats

MEMORY = 6 << 30  # bytes that a process may map
PATIENCE = 20.0  # seconds of computing that one command may take; a batch ends one that waits
BATCH = 500  # mutants per process
UNHURT = 0.02  # share of the files that are left as they are
N, K = 60, 3
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
WORDS = (
    b"NaN", b"Infinity", b"null", b"true", b"-1", b"1e999", b"9" * 400, b"9" * 6000, b"1_0",
    b"\xff", b"\x00", b"\n", b'"', b"{", b"[", b"}", b"]", b",", b"logit_0", b"logit_999999999",
    b"\xd9\xa1", b"()", b"(-1, 3)", b"|O", b"<f8", b"<U4", b"__class__", b"\\ud800", b"a" * 70000,
)  # fmt: skip


def sound_files(folder):
    """Write one sound file of every kind, and return which command reads it where."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=N)
    z = 2 * np.eye(K)[y] + rng.normal(size=(N, K))
    classes = ["a", "bé", "c"]
    table = formats.Table(z, y, classes, groups=np.arange(N) // 2)
    for suffix in formats.FORMATS:
        formats.write(folder / f"t{suffix}", table)
    np.savez_compressed(folder / "packed.npz", logits=z.astype("f4"), labels=y, classes=classes)
    np.save(folder / "y.npy", y)
    tp.save(tp.Temperature(2.0), folder / "map.json")
    matrix = tp.MatrixMap(np.eye(K) + 0.1, np.zeros(K))
    tp.save(matrix, folder / "map.safetensors", classes=classes, prior=[0.2, 0.3, 0.5])
    tp.calibrate(z, np.full(K, 1 / K), (z, y), classes=classes).save(folder / "cal.json")
    (folder / "prior.json").write_text('{"a": 0.2, "b\\u00e9": [0.2, 0.4], "c": 0.5}', "utf-8")
    (folder / "about.json").write_text('{"about": [0.2, 0.3, 0.5], "rows": 100}')
    (folder / "names.json").write_text('["x", "y", "z"]')
    np.save(folder / "features.npy", rng.normal(size=(N, 4)))
    monitor = tp.Monitor((z, y), tp.about([0.3, 0.3, 0.4], rows=50), classes)
    monitor.add(z, at="2026-11-01", segments=y % 2, labelled=(z[:5], y[:5]))
    monitor.accept(monitor.propose())
    monitor.add(z[:40], at="2026-11-02")
    monitor.add(None, at="2026-11-02", labelled=(z[:9], y[:9]))
    monitor.save(folder / "state.jsonl")
    tables = {f"t{suffix}": _reading_rows for suffix in formats.FORMATS}
    return tables | {
        "packed.npz": _reading_rows,
        "y.npy": lambda f, _: ["evaluate", "t.npy", "--labels", f],
        "map.json": _reading_map,
        "map.safetensors": _reading_map,
        "cal.json": _reading_map,
        "prior.json": lambda f, _: ["calibrate", "t.npz", "--prior", f],
        "about.json": lambda f, _: ["calibrate", "t.npz", "--prior", f],
        "names.json": lambda f, _: ["evaluate", "t.npy", "--labels", "y.npy", "--classes", f],
        "features.npy": lambda f, _: [
            *["calibrate", "t.npz", "--source", "t.npz", "--features", f, "features.npy"]
        ],
        "state.jsonl": _reading_state,
    }


def _reading_rows(file, rng):
    ways = [
        ["apply", file, "--map", "map.json", "--out", f"out{rng.choice(list(formats.FORMATS))}"],
        ["apply", file, "--map", "map.json", "--out", "out.csv", "--probabilities"],
        ["evaluate", file, "--labels", "y.npy"] if file.suffix == ".npy" else ["evaluate", file],
        ["calibrate", file, "--prior", "uniform", "--out", "out.json"],
        ["calibrate", "t.npz", "--source", file],
        ["calibrate", file, "--probabilities", "--prior", "uniform"],
        ["calibrate", "t.npz", "--prior", "uniform", "--labelled", file],
    ]
    return ways[rng.choice(len(ways), p=[0.5, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05])]


def _reading_map(file, rng):
    ways = [
        ["inspect", file],
        ["inspect", file, "--json"],
        ["apply", "t.npz", "--map", file, "--out", "out.npz"],
        ["report", file, "--out", "out.html"],
    ]
    return ways[rng.integers(len(ways))]


def _reading_state(file, rng):
    ways = [
        ["show", file],
        ["show", file, "--json"],
        ["show", file, "--prometheus"],
        ["report", file, "--out", "out.html"],
        ["propose", file, "--out", "out.json"],
        ["accept", file, "--outside-limits"],
        ["rollback", file],
        ["add", file, "t.npz", "--at", "2026-11-03"],
        ["add", file, "--at", "2026-11-02", "--labelled", "t.csv"],
        ["merge", file, "state.jsonl"],
    ]
    return ["monitor", *ways[rng.integers(len(ways))]]


def mutated(data, rng, others):
    """Return bytes with one to four damages."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(len(data) + 1))
        length = int(rng.integers(1, 1 + min(64, max(1, len(data)))))
        end = place + length
        match rng.integers(9):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.integers(8)
            case 1:
                data[place:end] = rng.bytes(length)
            case 2:
                del data[place:end]
            case 3:
                data[place:place] = data[place:end]
            case 4:
                del data[place:]
            case 5:
                width = int(rng.choice([1, 2, 4, 8]))
                number = NUMBERS[rng.integers(len(NUMBERS))] % 256**width
                data[place : place + width] = number.to_bytes(width, "little")
            case 6:
                data[place : place + int(rng.integers(8))] = WORDS[rng.integers(len(WORDS))]
            case 7:
                other = others[rng.integers(len(others))]
                start = int(rng.integers(len(other)))
                data[place:end] = other[start : start + length]
            case _:
                data[place:end] = bytes(length)
    return bytes(data)


def forged(path, rng, others):
    """Return a file that is well-formed outside and damaged inside, or None for other kinds."""
    if path.suffix == ".npz":
        stream = io.BytesIO()
        how = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(stream, "w", how) as new:
            names = old.namelist()
            chosen = names[rng.integers(len(names))]
            for name in names:
                content = old.read(name)
                new.writestr(name, mutated(content, rng, others) if name == chosen else content)
        return stream.getvalue()
    if path.suffix == ".json" and path.name in {"map.json", "cal.json"}:
        facts = artefact.read(path)
        _scramble(facts, rng)
        unsigned = {name: value for name, value in facts.items() if name != "sha256"}
        with contextlib.suppress(ValueError):
            text = json.dumps(unsigned, sort_keys=True, separators=(",", ":"), allow_nan=False)
            unsigned["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        return json.dumps(unsigned).encode()
    if path.suffix == ".jsonl":
        return _signed_again(path.read_bytes().splitlines(), rng, others)
    return None


def _signed_again(lines, rng, others):
    """Return a state of a monitor with wrong facts in one record, under a right checksum."""
    chosen = int(rng.integers(len(lines)))
    record = json.loads(lines[chosen])["record"]
    if "source" in record and rng.random() < 0.5:
        inside = mutated(base64.b64decode(record["source"]), rng, others)
        record["source"] = base64.b64encode(inside).decode()
    else:
        _scramble(record, rng)
    body = json.dumps(record, separators=(",", ":")).encode()
    checksum = hashlib.sha256(body).hexdigest()[:16].encode()
    lines[chosen] = b'{"sha256":"' + checksum + b'","record":' + body + b"}"
    return b"\n".join(lines) + b"\n"


VALUES = (None, -1, 0, 1e308, 5e-324, "x", [], {}, [[]], True, "\ud800", 2**70, [1, 2], "1")


def _scramble(facts, rng):
    """Put a strange value somewhere into nested facts, or drop one."""
    while True:
        keys = list(facts) if isinstance(facts, dict) else list(range(len(facts)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        inner = facts[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            facts = inner
        elif rng.random() < 0.2:
            del facts[key]
            return
        else:
            facts[key] = VALUES[rng.integers(len(VALUES))]
            return


class Mutants:
    """Damaged files, each by its number: the same number makes the same file."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = sound_files(folder)
        self.sound = {name: (folder / name).read_bytes() for name in self.commands}
        self.loaded = {
            name: tp.load(folder / name) for name in ("map.json", "map.safetensors", "cal.json")
        }

    def try_one(self, number):
        """Run a command on a mutant; return what is wrong with its answer, or None."""
        rng = np.random.default_rng(number)
        name = list(self.commands)[rng.integers(len(self.commands))]
        others = list(self.sound.values())
        inside = forged(self.folder / name, rng, others) if rng.random() < 0.4 else None
        data = mutated(self.sound[name], rng, others) if inside is None else inside
        data = self.sound[name] if rng.random() < UNHURT else data
        path = self.folder / f"mutant{Path(name).suffix}"
        path.write_bytes(data)
        arguments = [str(a) for a in self.commands[name](Path(path.name), rng)]
        wrong = self._run(arguments)
        if wrong is None and name in self.loaded and inside is None:
            wrong = self._changed(name, path)
        left = [p.name for p in self.folder.iterdir() if p.name.endswith(".tmp")]
        wrong = wrong or (f"left {left}" if left else None)
        for out in self.folder.glob("out.*"):
            out.unlink()
        path.unlink()
        return None if wrong is None else f"mutant {number} of {name}, {arguments}: {wrong}"

    def _run(self, arguments):
        out, err = io.StringIO(), io.StringIO()
        start = time.process_time()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        except BaseException:  # noqa: BLE001 - whatever it is, it is reported
            return traceback.format_exc(limit=-3)
        taken = time.process_time() - start
        said = err.getvalue()
        if code not in (0, 1, 2):
            return f"exit code {code}: {said}"
        if taken > PATIENCE:
            return f"{taken:.0f} s"
        notes = said.count("is not complete, because its writer was stopped")
        if code == 2 and (out.getvalue() or said.count("\n") != 1 + notes or len(said) > 1000):
            return f"no single sentence: {out.getvalue()!r} {said!r}"
        return None

    def _changed(self, name, path):
        """Say so when an artefact that was not signed anew loads as something else."""
        try:
            got = tp.load(path)
        except tp.InputError:
            return None
        same = self.loaded[name]
        alike = got == same if name != "cal.json" else got.to_dict() == same.to_dict()
        return None if alike else f"loads as {got!r:.300}"


def run(first, n):
    """Try so many mutants in this process; return what was wrong."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            mutants = Mutants(Path())
            return [w for i in range(first, first + n) if (w := mutants.try_one(i)) is not None]
        finally:
            os.chdir(here)


def run_apart(first, n):
    """Try mutants in a process with bounded memory and time, which a crash would end."""
    command = [sys.executable, __file__, "--batch", str(first), str(n)]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=120 + n * 5
        )
    except subprocess.TimeoutExpired:
        return [f"mutants {first} to {first + n - 1}: no end in sight"]
    if done.returncode != 0:
        return [f"mutants {first} to {first + n - 1} ended the process: {done.stderr[-2000:]}"]
    return json.loads(done.stdout)


def _main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutants", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, nargs=2)
    given = parser.parse_args()
    if given.batch:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        print(json.dumps(run(*given.batch)))  # noqa: T201
        return 0
    wrong = []
    for first in range(given.seed, given.seed + given.mutants, BATCH):
        wrong += run_apart(first, min(BATCH, given.seed + given.mutants - first))
        print(f"{first + BATCH - given.seed} tried, {len(wrong)} wrong", flush=True)  # noqa: T201
    print(*wrong, sep="\n\n")  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(_main())

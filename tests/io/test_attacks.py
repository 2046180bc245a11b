"""Files that once stopped the program: each is refused at once, in one sentence, in little memory.

Every case came from an attack on an earlier version, where it ended in a traceback, in minutes of
work, in gigabytes, or in numbers that the file does not hold.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import temperance as tp
from temperance.cli import main
from temperance.io import formats

Z = np.random.default_rng(0).normal(size=(300, 3))


def refusal(path, **options):
    """Return the sentence with which a file is refused; it must be quick and cost no memory."""
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(tp.InputError) as caught:
            formats.read(path, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5
    assert peak < 64 << 20
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


# --------------------------------------------------------------------------------- NumPy arrays


def npy(header):
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(80)


HEADERS = {
    "cut": "{'descr': '<f8', 'fortran_order': False, 'shape': (3,",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 3)}",
    "both negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -3)}",
    "huge and empty": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**63}, 0)}}",
    "axes": f"{{'descr': '<f8', 'fortran_order': False, 'shape': {(1,) * 70}}}",
    "boolean": "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 3)}",
    "float": "{'descr': '<f8', 'fortran_order': False, 'shape': (3.0, 3)}",
    "list": "{'descr': '<f8', 'fortran_order': False, 'shape': [3, 3]}",
    "no dtype": "{'descr': 'wrong', 'fortran_order': False, 'shape': (3, 3)}",
    "records": "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 3)}",
    "void": "{'descr': '|V0', 'fortran_order': False, 'shape': (3, 3)}",
    "nested": "(" * 5000,
    "a call": "__import__('os').system('true')",
    "a set": "{1, 2}",
    "an order": "{'descr': '<f8', 'fortran_order': 1, 'shape': (3, 3)}",
    "too much": "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 3)}",
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_of_arrays(tmp_path, case):
    content = npy(HEADERS[case])
    (tmp_path / "t.npy").write_bytes(content)
    assert "t.npy" in refusal(tmp_path / "t.npy")
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "t.npz", "w", how) as archive:
            archive.writestr("logits.npy", content)
        assert "t.npz" in refusal(tmp_path / "t.npz")


def test_an_array_without_rows(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((0, 3)))
    assert "at least one row" in refusal(tmp_path / "t.npy")


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_compressions_that_numpy_does_not_write(tmp_path, how):
    np.save(tmp_path / "z.npy", Z)
    with zipfile.ZipFile(tmp_path / "t.npz", "w", how) as archive:
        archive.write(tmp_path / "z.npy", "logits.npy")
    assert "must be stored or deflated" in refusal(tmp_path / "t.npz")


def short_stream(path, rows, claimed):
    """Write a zip whose deflate stream holds fewer bytes than it announces, with a right CRC."""
    header = npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({claimed}, 3)}}")[:-80]
    plain = header + np.ones((rows, 3)).tobytes()
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(plain) + packer.flush()
    announced = len(header) + claimed * 24
    name, crc = b"logits.npy", zlib.crc32(plain)
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(packed), announced, len(name), 0)
    local = b"PK\x03\x04" + common + name + packed
    entry = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry + name), len(local), 0)
    path.write_bytes(local + entry + name + b"PK\x05\x06" + end)


def test_a_stream_that_ends_early_gives_no_memory_of_others(tmp_path):
    short_stream(tmp_path / "whole.npz", 300, 300)
    assert formats.read(tmp_path / "whole.npz").n == 300  # the forger knows the format
    short_stream(tmp_path / "t.npz", 33, 300)
    message = refusal(tmp_path / "t.npz")
    assert "must hold 7,200 bytes for shape (300, 3). It holds 792" in message


def test_every_damage_to_a_compressed_file_is_told(tmp_path):
    path = tmp_path / "t.npz"
    np.savez_compressed(path, logits=Z[:40], labels=np.arange(40) % 3, classes=["a", "b", "c"])
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            formats.read(path)
        except tp.InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - the others are results


@pytest.mark.parametrize("length", [1, 9])  # of a long text Python does not see that it is none
def test_names_that_are_no_text(tmp_path, length):
    np.savez(tmp_path / "t.npz", logits=Z, classes=[letter * length for letter in "abc"])
    data = (tmp_path / "t.npz").read_bytes()
    last = ("c" * length).encode("utf-32-le")
    assert data.count(last) == 1
    wrong = last[:-4] + b"\xff\xff\xff\x7f"
    (tmp_path / "t.npz").write_bytes(data.replace(last, wrong))
    assert "t.npz" in refusal(tmp_path / "t.npz")


def test_an_array_that_is_there_twice(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.write(tmp_path / "z.npy", "logits.npy")
        archive.write(tmp_path / "z.npy", "logits")
    assert "holds 'logits' twice" in refusal(tmp_path / "t.npz")


# -------------------------------------------------------------------------------------- columns

HEADS = {
    "logit_0,logit_999999999": "Missing: logit_1.",
    "logit_0,logit_20000000": "Missing: logit_1.",
    "logit_0,logit_" + "9" * 100_000: "in plain digits",
    "logit_00,logit_01": "in plain digits. Got 'logit_00'",
    "logit_0,logit_1,logit_01": "in plain digits. Got 'logit_01'",
    "logit_٠,logit_١": "in plain digits",
    "logit_0,logit_²": "logit_0, logit_1",
}


@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
def test_columns_that_count_in_a_strange_way(tmp_path, head):
    width = head.count(",") + 1
    (tmp_path / "t.csv").write_text(f"{head}\n{','.join('1' * width)}\n", "utf-8")
    assert HEADS[head] in refusal(tmp_path / "t.csv")
    table = pa.table({name: [1.0] for name in head.split(",")})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert HEADS[head] in refusal(tmp_path / "t.parquet")


@pytest.mark.parametrize("cell", ["0_1", "١", "1²", "9" * 6000, "0x1"])
def test_labels_that_only_python_reads_as_numbers(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_text(f"logit_0,logit_1,label\n1,2,0\n1,2,{cell}\n", "utf-8")
    assert "labels must be integers 0..1" in refusal(path)


def test_logits_that_only_python_reads_as_numbers(tmp_path):
    for cell in ("1_0", "١", "nan(1)"):
        (tmp_path / "t.csv").write_text(f"logit_0,logit_1\n1,{cell}\n", "utf-8")
        assert "line 2, column logit_1 must be a number" in refusal(tmp_path / "t.csv")


@pytest.mark.parametrize("start", ["", "logit_0,logit_1\n1,2\n", 'logit_0,logit_1,x\n1,2,"'])
def test_a_line_without_an_end(tmp_path, start):
    """A file of 40 GB that takes no place on the disk."""
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(start.encode())
        file.truncate(40 << 30)
    assert "t.csv must have lines of at most 16,777,216 characters" in refusal(tmp_path / "t.csv")


def write_repeated(archive, name, values, times):
    """Write an array whose values are repeated, in little memory."""
    facts = {"descr": values.dtype.str, "fortran_order": False, "shape": (len(values) * times,)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, facts)
        for _ in range(times):
            file.write(values.tobytes())


def test_more_class_names_than_columns(tmp_path):
    """Two megabytes of names, a million times the same, once took five gigabytes."""
    np.save(tmp_path / "z.npy", Z)
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "z.npy", "logits.npy")
        write_repeated(archive, "classes", np.array(["abcd"] * 100_000), 100)
    assert "classes.npy in t.npz must hold 3 values" in refusal(tmp_path / "t.npz")


# ---------------------------------------------------------------------------------------- JSON


def complaint(capsys, *arguments, code=2):
    start = time.process_time()
    assert main([str(argument) for argument in arguments]) == code
    assert time.process_time() - start < 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert len(captured.err) < 600
    return captured.err


@pytest.fixture
def rows(tmp_path):
    np.savez(tmp_path / "rows.npz", logits=Z, labels=np.arange(300) % 3)
    tp.save(tp.Temperature(2.0), tmp_path / "map.json")
    return tmp_path


def test_keys_are_compared_in_linear_time(capsys, rows):
    many = ",".join(f'"k{i}":0' for i in range(300_000))
    (rows / "t.json").write_text(f'{{{many},"k299999":1}}')
    assert "holds the key 'k299999' twice" in complaint(capsys, "inspect", rows / "t.json")
    assert "twice" in complaint(capsys, "calibrate", rows / "rows.npz", "--prior", rows / "t.json")


JSON = {
    "[0.5, 0.25, 1e999]": "too large for a number",
    f"[0.5, 0.25, {'9' * 401}]": "an integer of 401 digits",
    f"[0.5, 0.25, {'9' * 6000}]": "an integer of 6,000 digits",
    f"[0.5, 0.25, {'9' * 290}]": "prior must be 3 numbers",
    "[NaN, 0.5, 0.5]": "holds NaN",
    "[" * 100_000: "nests JSON too deeply",
    '{"0": 0.5, "1": 0.25, "2": 0.2, "2": 0.25}': "holds the key '2' twice",
    f'{{"0": 0.5, "1": 0.25, "{"x" * 70_000}": 0.25}}': "xxx'…, but the columns have no names",
    '[0.5, 0.25, "\\ud800"]': "holds text that UTF-8 cannot write",
    '{"0": 0.5, "1": 0.25, "\\uD83D": 0.25}': "holds text that UTF-8 cannot write",
    '{"0": 0.5, "1": 0.25, "\\uD83D\\uDE00": 0.25}': "but the columns have no names",
    "": "is no JSON",
    "\x00": "is no JSON",
    '{"about": {"about": 3}, "rows": -1}': "prior must sum to 1",
    "7": "p.json must hold a list of numbers",
    "null": "p.json must hold a list of numbers",
}


@pytest.mark.parametrize("text", JSON, ids=range(len(JSON)))
def test_priors(capsys, rows, text):
    (rows / "p.json").write_text(text)
    said = complaint(capsys, "calibrate", rows / "rows.npz", "--prior", rows / "p.json")
    assert JSON[text] in said


def test_class_names_that_are_integers(capsys, rows):
    (rows / "names.json").write_text("[1, 2, 3]")
    arguments = ["evaluate", str(rows / "rows.npz"), "--classes", str(rows / "names.json")]
    assert main(arguments) == 0
    capsys.readouterr()
    for bad in ("[[1], 2, 3]", "[1, 2]", "[1, 1, 2]", '{"a": 1}', f"[1, 2, {'9' * 6000}]"):
        (rows / "names.json").write_text(bad)
        complaint(capsys, *arguments)


@pytest.mark.parametrize("metadata", ["null", "7", '"x"', '{"temperance": "{}"}', "{}"])
def test_artefacts_of_safetensors_with_a_strange_header(tmp_path, metadata):
    header = f'{{"__metadata__": {metadata}}}'.encode()
    (tmp_path / "t.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(tp.InputError, match="cannot be loaded: it "):
        tp.load(tmp_path / "t.safetensors")
    assert "t.safetensors" in refusal(tmp_path / "t.safetensors")


# ----------------------------------------------------------------------- what is no regular file


@pytest.fixture
def strange(rows):
    """Return a pipe that nobody writes to, and devices that never end."""
    os.mkfifo(rows / "pipe")
    places = {"pipe": rows / "pipe", "zero": "/dev/zero", "random": "/dev/urandom"}
    for name, place in places.items():
        for ending in (".json", ".html", *formats.FORMATS):
            (rows / f"{name}{ending}").symlink_to(place)
    tp.Monitor((Z, np.arange(300) % 3)).save(rows / "rows.jsonl")
    tp.calibrate(Z, np.full(3, 1 / 3)).save(rows / "cal.json")
    return rows


ARGUMENTS = [
    ["calibrate", "{}.npz"],
    ["calibrate", "{}.csv"],
    ["calibrate", "{}.parquet"],
    ["calibrate", "{}.safetensors"],
    ["calibrate", "rows.npz", "--prior", "{}.json"],
    ["calibrate", "rows.npz", "--classes", "{}.json", "--prior", "uniform"],
    ["calibrate", "rows.npz", "--source", "{}.npy"],
    ["fit", "{}.npy", "--out", "m.json"],
    ["fit", "rows.npz", "--labels", "{}.npy", "--out", "m.json"],
    ["apply", "rows.npz", "--map", "{}.json", "--out", "o.npz"],
    ["apply", "rows.npz", "--map", "{}.safetensors", "--out", "o.npz"],
    ["evaluate", "rows.npz", "--map", "{}.json"],
    ["report", "{}.json", "--out", "r.html"],
    ["inspect", "{}.json"],
    ["calibrate", "rows.npz", "--labelled", "{}.csv"],
    ["calibrate", "rows.npz", "--features", "{}.npy", "{}.npy"],
    ["monitor", "start", "state.jsonl", "--source", "{}.npz"],
    ["monitor", "show", "{}.json"],
    ["monitor", "add", "{}.json", "rows.npz"],
    ["monitor", "add", "rows.jsonl", "{}.csv"],
    ["monitor", "add", "rows.jsonl", "--labelled", "{}.npy"],
    ["monitor", "merge", "rows.jsonl", "{}.json"],
    ["report", "cal.json", "--labelled", "{}.npz", "--out", "r.html"],
]
OUTPUTS = [
    ["calibrate", "rows.npz", "--prior", "uniform", "--out", "{}.json"],
    ["calibrate", "rows.npz", "--prior", "uniform", "--report", "{}.html"],
    ["fit", "rows.npz", "--out", "{}.safetensors"],
    *(["apply", "rows.npz", "--map", "map.json", "--out", f"{{}}{e}"] for e in formats.FORMATS),
    ["report", "cal.json", "--out", "{}.html"],
    ["monitor", "start", "{}.json", "--source", "rows.npz"],
    ["monitor", "report", "rows.jsonl", "--out", "{}.html"],
    ["monitor", "propose", "rows.jsonl", "--out", "{}.json"],
]


def test_pipes_and_devices_are_refused_at_once(strange):
    code = (
        "import json, resource, sys; from temperance.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # an endless read takes more\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    for name in ('pipe', 'zero', 'random'):\n"
        "        assert main([a.format(name) for a in arguments]) == 2, (arguments, name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(ARGUMENTS + OUTPUTS)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,  # of a busy machine; a pipe makes its reader wait for ever
        cwd=strange,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 3 * len(ARGUMENTS + OUTPUTS)
    assert done.stderr.count("save what it holds to a file first") == 3 * len(ARGUMENTS)
    assert not (strange / "m.json").exists()


def test_a_pipe_inside_a_directory(tmp_path):
    (tmp_path / "days").mkdir()
    os.mkfifo(tmp_path / "days" / "a.parquet")
    assert "which is a pipe" in refusal(tmp_path / "days")
    with pytest.raises(tp.InputError, match="which is a pipe"):
        tp.data.as_rows(tmp_path / "days")
    with pytest.raises(tp.InputError, match="which is a pipe"):
        tp.data.as_rows(tmp_path / "days" / "a.parquet")


# -------------------------------------------------------------------------- directories of Parquet


def write_part(path, columns):
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path)


def part(start, stop, k=3, **beside):
    z = np.random.default_rng(start).normal(size=(stop - start, k))
    z += np.eye(k)[beside.get("label", 0)]
    return {f"logit_{i}": z[:, i] for i in range(k)} | beside


DRIFTS = {
    "one class more": (part(100, 150, k=4), "b.parquet .* It has 'logit_3' besides"),
    "one class less": (part(100, 150, k=2), "b.parquet .* It lacks 'logit_2'"),
    "no label": ({"label": None}, "b.parquet .* It lacks 'label'"),
    "words": ({"logit_1": ["1"] * 50}, "b.parquet, column logit_1 must be numbers. Got string"),
    "dates": (
        {"logit_1": pa.array([0] * 50, pa.timestamp("s"))},
        "b.parquet, column logit_1 must be numbers. Got timestamp",
    ),
    "a null": (
        {"logit_2": [1.0] * 49 + [None]},
        "b.parquet, row 49, column logit_2 must not be empty",
    ),
    "a null label": (
        {"label": pa.array([0] * 49 + [None], pa.int64())},
        "b.parquet, row 49, column label must not be empty",
    ),
}


@pytest.mark.parametrize("case", DRIFTS)
def test_a_file_that_differs_from_the_first_is_named_with_its_column(tmp_path, case):
    change, sentence = DRIFTS[case]
    days = tmp_path / "days"
    write_part(days / "a.parquet", part(0, 100, label=np.arange(100) % 3))
    second = part(100, 150, label=np.arange(50) % 3) | change
    if case.startswith("one class"):
        second = change | {"label": np.arange(50) % 2}
    write_part(days / "b.parquet", {k: v for k, v in second.items() if v is not None})
    with pytest.raises(tp.InputError, match=sentence):
        formats.read(days)
    with pytest.raises(tp.InputError, match=sentence):
        tp.metrics.nll(days)
    dataset = pa.dataset.dataset(days)
    with pytest.raises(tp.InputError, match=r"logit_\d|label"):
        tp.metrics.nll(dataset)


def test_a_label_that_only_the_second_file_has(tmp_path):
    days = tmp_path / "days"
    write_part(days / "a.parquet", part(0, 100))
    write_part(days / "b.parquet", part(100, 150, label=np.arange(50) % 3))
    assert "b.parquet must have the columns that a.parquet has. It has 'label'" in refusal(days)


def test_classes_that_two_files_name_in_two_ways(tmp_path):
    days = tmp_path / "days"
    days.mkdir()
    for name, classes in (("a", ["x", "y", "z"]), ("b", ["y", "x", "z"])):
        table = pa.table(part(0, 50)).replace_schema_metadata({"classes": json.dumps(classes)})
        parquet.write_table(table, days / f"{name}.parquet")
    assert "b.parquet must name the classes as a.parquet does" in refusal(days)


def test_a_directory_without_parquet(tmp_path):
    (tmp_path / "days").mkdir()
    assert "days must hold Parquet files. It holds none." in refusal(tmp_path / "days")
    (tmp_path / "days" / "_SUCCESS").write_bytes(b"")
    assert "It holds none" in refusal(tmp_path / "days")
    write_part(tmp_path / "days" / "a.parquet", part(0, 50))
    (tmp_path / "days" / "notes.txt").write_text("hello")
    assert "notes.txt must be Parquet" in refusal(tmp_path / "days")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv, to be no superuser")
def test_a_directory_that_cannot_be_read_is_no_empty_one(tmp_path):
    """Rows of an unreadable part were missing in silence."""
    write_part(tmp_path / "days" / "a.parquet", part(0, 50))
    write_part(tmp_path / "days" / "b" / "b.parquet", part(50, 99))
    (tmp_path / "days" / "b").chmod(0)
    code = "import sys, temperance as tp; tp.data.as_rows(sys.argv[1]).n"
    weak = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    run = subprocess.run(
        [*weak, sys.executable, "-c", code, tmp_path / "days"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (tmp_path / "days" / "b").chmod(0o755)
    assert "InputError: a directory must be one that can be read" in run.stderr
    assert "Permission denied" in run.stderr


def test_a_column_whose_name_is_no_text(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table(part(0, 60) | {"note": [1] * 60}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"note", b"n\xffte"))
    assert "t.parquet must be Parquet, but it is damaged or none ('utf-8'" in refusal(path)


def strange_columns(n):
    """Return columns of types that are neither numbers nor text."""
    return {
        "lists": pa.array([[1] * (i % 3) for i in range(n)]),
        "records": pa.array([{"a": 1}] * n),
        "bytes": pa.array([b"\xff"] * n),
        "no date of Python's": pa.array([2**62] * n, pa.timestamp("us")),
        "days": pa.array(range(n), pa.date32()),
        "nothing": pa.nulls(n),
    }


@pytest.mark.parametrize("kind", strange_columns(1))
@pytest.mark.parametrize("column", ["label", "group", "note"])
def test_columns_of_strange_types_are_carried_or_refused(capsys, rows, kind, column):
    write_part(rows / "t.parquet", part(0, 60) | {column: strange_columns(60)[kind]})
    for out in ("o.parquet", "o.csv", "o.npz", "o.safetensors"):
        command = ["apply", rows / "t.parquet", "--map", rows / "map.json", "--out", rows / out]
        code = main([*map(str, command)])
        assert (code, (rows / out).exists()) in {(0, True), (2, False)}
        assert capsys.readouterr().err.count("\n") == 1
    np.savez(rows / "source.npz", logits=Z, labels=np.arange(300) % 3)
    assert main(["monitor", "start", str(rows / "s"), "--source", str(rows / "source.npz")]) == 0
    add = ["monitor", "add", str(rows / "s"), str(rows / "t.parquet"), "--at", "2026-11-16"]
    assert main([*add, "--segment", column]) in {0, 1, 2}


@pytest.mark.parametrize("column", ["label", "note"])
@pytest.mark.parametrize("encoded", [True, False])
def test_a_word_that_fills_the_memory(tmp_path, column, encoded):
    """A word of a megabyte, once in the file and named by every row, once took twenty gigabytes."""
    words = pa.DictionaryArray.from_arrays(np.zeros(2_000, np.int32), pa.array(["x" * (1 << 20)]))
    table = pa.table(part(0, 2_000) | {column: words})
    if not encoded:  # the type is that of plain words, though the file holds one
        table = table.replace_schema_metadata(None)
    parquet.write_table(table, tmp_path / "t.parquet", store_schema=encoded)
    keep = "labels" if column == "label" else "columns"
    assert "grow to 2,097,152,000" in refusal(tmp_path / "t.parquet", keep=keep)
    if column == "label":
        with pytest.raises(tp.InputError, match="grow to 2,097,152,000"):
            tp.metrics.ece(tmp_path / "t.parquet")


SAME = {
    "dictionaries of words": lambda c: c | {"label": pa.array(c["word"]).dictionary_encode()},
    "dictionaries of numbers": lambda c: (
        c | {"logit_1": pa.array(c["logit_1"]).dictionary_encode()}
    ),
    "half floats": lambda c: c | {"logit_0": c["logit_0"].astype(np.float16)},
    "integers": lambda c: c | {"logit_0": np.round(c["logit_0"]).astype(np.int32)},
    "another order": lambda c: dict(reversed(c.items())),
    "single precision": lambda c: c | {"logit_2": c["logit_2"].astype(np.float32)},
}


@pytest.mark.parametrize("case", SAME)
def test_other_ways_to_store_the_same_numbers(tmp_path, case):
    """Whatever Arrow calls the types of a file, its numbers are read as they are."""
    words = np.array(["x", "y", "z"])
    days = tmp_path / "days"
    given = []
    for i, name in enumerate(("a", "b", "c")):
        y = np.random.default_rng(i).integers(3, size=60)
        columns = part(100 * i, 100 * i + 60, label=y, word=words[y])
        if name == "b":
            changed = SAME[case](columns)
            columns = changed | ({"label": pa.array(y)} if "words" not in case else {})
        elif "words" in case:
            columns["label"] = words[y]
        given.append((columns, y))
        write_part(days / f"{name}.parquet", {k: v for k, v in columns.items() if k != "word"})
    z = np.concatenate(
        [
            np.stack([np.asarray(columns[f"logit_{k}"]).astype(float) for k in range(3)], axis=1)
            for columns, _ in given
        ]
    )
    y = np.concatenate([y for _, y in given])
    table = formats.read(days, ["x", "y", "z"])
    np.testing.assert_array_equal(table.logits, z)
    np.testing.assert_array_equal(table.labels, y)
    rows = tp.data.as_rows(days, classes=["x", "y", "z"] if "words" in case else None)
    assert tp.fit_temperature(rows) == tp.fit_temperature(z, y)


def test_empty_files_among_full_ones(tmp_path):
    days = tmp_path / "days"
    write_part(days / "a.parquet", {"logit_0": pa.array([], pa.null()), "x": []})
    write_part(days / "b.parquet", part(0, 60))
    write_part(days / "c.parquet", part(0, 0))
    assert formats.read(days).n == 60
    assert tp.data.as_rows(days).n == 60
    (days / "b.parquet").unlink()
    refusal(days)

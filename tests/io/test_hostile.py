"""Files that are damaged, hostile or merely wrong: one sentence, with the place."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from temperance import InputError
from temperance.io import formats
from temperance.io.formats import Table

GOOD = "logit_0,logit_1,label\n1.0,2.0,1\n0.5,0.25,0\n"


def refusal(path):
    with pytest.raises(InputError) as caught:
        formats.read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def csv_file(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GOOD + "0.5,oops,0\n", "t.csv, line 4, column logit_1 must be a number. Got 'oops'."),
        (GOOD + "0.5,,0\n", "line 4, column logit_1 must be a number. Got an empty cell."),
        (GOOD + "1_0,0.5,0\n", "line 4, column logit_0"),
        (GOOD + "0.5,0.5\n", "line 4 must have 3 cells, as the header has. It has 2."),
        (GOOD + "\n0.5,0.5,0,9\n", "line 5 must have 3 cells"),
        (GOOD + '"0.5,0.5,0\n', "line 4"),
        ("logit_0,logit_2,label\n1,2,0\n", "Missing: logit_1."),
        ("a,b\n1,2\n", "Got 'a', 'b'; rename the columns"),
        ("logit_0;logit_1\n1;2\n", "part the columns by commas"),
        ("prob_0,prob_1\n.5,.5\n", "probabilities"),
        ("logit_0,logit_0,logit_1\n1,2,3\n", "names 'logit_0' twice"),
        ("", "no columns at all"),
        ("logit_0,logit_1\n", "t.csv: logits must have at least one row"),
        ("logit_0,logit_1,label\n1,2,cat\n", "Got 'cat' without them"),
        ("logit_0,logit_1,label\n1,2,1\n1,2,cat\n", "Got 'cat' without them, in row 1."),
        ("logit_0,logit_1,label\n1,2,7\n", "Row 0 holds 7"),
        (GOOD + "\n0.5,0.5,\n", "t.csv, line 5, column label must not be empty. Fill it"),
        (GOOD + "0.5,0.5, \n", "line 4, column label must not be empty"),
        ("logit_0,logit_1,group\n1,2,a\n1,2,\n", "line 3, column group must not be empty"),
        ("logit_0,logit_1,label,labels\n1,2,1,0\n", "both 'labels' and 'label'"),
    ],
)
def test_csv(tmp_path, text, place):
    assert place in refusal(csv_file(tmp_path, text))


def test_csv_that_is_not_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(GOOD.encode() + b"\xff\xfe")
    assert "UTF-8" in refusal(path)
    path.write_bytes(b"logit_0,logit_1\n1,\x00\n")
    assert "line 2" in refusal(path)


def test_an_object_array_is_refused_by_its_header(tmp_path):
    bomb = np.array([[print, 1.0]], dtype=object)
    np.save(tmp_path / "t.npy", bomb, allow_pickle=True)
    assert "object array" in refusal(tmp_path / "t.npy")
    np.savez(
        tmp_path / "t.npz", logits=np.zeros((3, 2)), classes=np.array(["a", "b"], dtype=object)
    )
    assert "classes.npy in t.npz" in refusal(tmp_path / "t.npz")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".parquet"])
@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"GIF89a" * 50])
def test_another_kind_of_file_under_a_known_name(tmp_path, suffix, content):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content)
    assert f"t{suffix}" in refusal(path)


@pytest.mark.parametrize("name", ["model.pt", "z.pkl", "z.joblib"])
def test_pickles_are_refused_by_their_names(tmp_path, name):
    assert "can run code" in refusal(tmp_path / name)


def test_no_file_or_an_unknown_ending(tmp_path):
    assert "No such file" in refusal(tmp_path / "t.npz")
    assert "must end in one of .npz" in refusal(tmp_path / "t.xls")
    (tmp_path / "d.npz").mkdir()
    assert "a directory" in refusal(tmp_path / "d.npz")


def header_of(shape, dtype="<f4"):
    stream = io.BytesIO()
    facts = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    rows = 300_000_000  # 2.4 GB of zeros in 2.4 MB
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("logits.npy", "w", force_zip64=True) as member,
    ):
        member.write(header_of((rows, 2)))
        zeros = bytes(1 << 24)
        for _ in range(8):
            member.write(zeros)
    # The directory is made to announce all of it; the header of the array already does.
    data = path.read_bytes()
    written = len(header_of((rows, 2))) + 8 * (1 << 24)
    announced = len(header_of((rows, 2))) + rows * 8
    path.write_bytes(data.replace(written.to_bytes(4, "little"), announced.to_bytes(4, "little")))
    assert "grow to 2,400,0" in refusal(path)


def test_an_array_that_announces_more_than_it_holds(tmp_path):
    path = tmp_path / "t.npy"
    path.write_bytes(header_of((10**9, 10)) + bytes(800))
    assert "It holds 800" in refusal(path)
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", header_of((10**6, 10)) + bytes(800))
    assert "It holds 800" in refusal(tmp_path / "t.npz")


def test_a_damaged_member_is_noticed_by_its_checksum(tmp_path):
    path = tmp_path / "t.npz"
    z = np.random.default_rng(0).normal(size=(500, 4))
    np.savez_compressed(path, logits=z)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "t.npz" in refusal(path)


def test_npz_without_logits_says_what_it_holds(tmp_path):
    np.savez(tmp_path / "t.npz", predictions=np.zeros((3, 2)), ground_truth=np.zeros(3))
    assert "It holds predictions, ground_truth" in refusal(tmp_path / "t.npz")


def test_parquet_names_row_and_column(tmp_path):
    path = tmp_path / "t.parquet"
    z = np.random.default_rng(0).normal(size=200_000)
    z1 = pd.Series(z)
    z1[150_000] = None
    frame = pa.table({"logit_0": z, "logit_1": pa.array(z1, from_pandas=True)})
    parquet.write_table(frame, path)
    assert "row 150000, column logit_1 must not be empty" in refusal(path)
    parquet.write_table(pa.table({"logit_0": z[:3], "logit_1": ["a", "b", "c"]}), path)
    assert "column logit_1 must be numbers. Got string" in refusal(path)
    parquet.write_table(pa.table({"logit_1": z[:3]}), path)
    assert "Missing: logit_0" in refusal(path)


def test_a_parquet_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("temperance._core.files.PATIENT", 1 << 24)  # a small bomb
    path = tmp_path / "t.parquet"
    zeros = pa.table({"logit_0": np.zeros(2 << 20), "logit_1": np.zeros(2 << 20)})
    parquet.write_table(zeros, path)
    assert "grow to 33,554,432" in refusal(path)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_what_was_there(tmp_path, interruption):
    path = tmp_path / "out.npz"
    path.write_bytes(b"the old file")
    table = Table(np.tile([1.0, 2.0], (500_000, 1)))
    calls = []

    def interrupted(block):
        calls.append(len(block))
        if len(calls) == 2:
            raise interruption
        return block

    with pytest.raises(interruption):
        formats.write(path, table, interrupted)
    assert path.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_output_needs_a_directory_and_a_known_ending(tmp_path):
    table = Table(np.zeros((2, 2)))
    with pytest.raises(InputError, match="directory that exists"):
        formats.write(tmp_path / "nowhere" / "t.npz", table)
    with pytest.raises(InputError, match="must end in one of"):
        formats.write(tmp_path / "t.txt", table)

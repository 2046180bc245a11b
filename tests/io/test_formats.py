"""Files as other libraries write them, and files written here as other libraries read them."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch
from scipy.special import softmax

from temperance import InputError
from temperance.io import formats
from temperance.io.formats import Table

N, K = 40, 4
CLASSES = ["cat", "dog", "owl", "elk"]
EXACT = {} if pd.__version__ >= "3" else {"float_precision": "round_trip"}  # pandas 2 rounds
read_csv = partial(pd.read_csv, **EXACT)


@pytest.fixture(scope="module")
def logits():
    return np.random.default_rng(0).normal(size=(N, K)).astype(np.float32)


@pytest.fixture(scope="module")
def labels():
    return np.arange(N) % K


def frame_of(logits, labels, names=False):
    columns = {f"logit_{k}": logits[:, k] for k in range(K)}
    label = [CLASSES[y] for y in labels] if names else labels
    return {"file": [f"{i}.png" for i in range(len(labels))], "label": label} | columns


def numpy_stored(path, z, y):
    np.savez(path.with_suffix(".npz"), logits=z, labels=y, classes=CLASSES)
    return path.with_suffix(".npz")


def numpy_compressed(path, z, y):
    np.savez_compressed(path.with_suffix(".npz"), logits=z, labels=y, classes=CLASSES)
    return path.with_suffix(".npz")


def numpy_fortran(path, z, y):
    np.savez_compressed(path.with_suffix(".npz"), logits=np.asfortranarray(z), labels=y)
    return path.with_suffix(".npz")


def pandas_csv(path, z, y):
    pd.DataFrame(frame_of(z, y)).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def pandas_csv_with_bom(path, z, y):
    frame = pd.DataFrame(frame_of(z, y))
    frame.to_csv(path.with_suffix(".csv"), index=False, encoding="utf-8-sig", lineterminator="\r\n")
    return path.with_suffix(".csv")


def polars_csv(path, z, y):
    pl.DataFrame(frame_of(z, y)).write_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def pyarrow_csv(path, z, y):
    arrow_csv.write_csv(pa.table(frame_of(z, y)), path.with_suffix(".csv"))  # quotes its header
    return path.with_suffix(".csv")


def pandas_parquet(path, z, y):
    pd.DataFrame(frame_of(z, y)).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def polars_parquet(path, z, y):
    pl.DataFrame(frame_of(z, y)).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pyarrow_parquet(path, z, y):
    parquet.write_table(pa.table(frame_of(z, y)), path.with_suffix(".parquet"), row_group_size=7)
    return path.with_suffix(".parquet")


def safetensors_numpy(path, z, y):
    metadata = {"classes": json.dumps(CLASSES)}
    save_file({"labels": y, "logits": z}, path.with_suffix(".safetensors"), metadata)
    return path.with_suffix(".safetensors")


def safetensors_torch(path, z, y):
    tensors = {"logits": torch.from_numpy(z), "labels": torch.from_numpy(y)}
    save_torch(tensors, path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


WRITERS = [
    numpy_stored,
    numpy_compressed,
    numpy_fortran,
    pandas_csv,
    pandas_csv_with_bom,
    polars_csv,
    pyarrow_csv,
    pandas_parquet,
    polars_parquet,
    pyarrow_parquet,
    safetensors_numpy,
    safetensors_torch,
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_of_another_library_comes_back_as_it_was(tmp_path, logits, labels, write):
    table = formats.read(write(tmp_path / "table", logits, labels))
    np.testing.assert_array_equal(table.logits.astype(np.float32), logits)
    np.testing.assert_array_equal(table.labels, labels)


def test_npy_holds_logits_alone(tmp_path, logits):
    np.save(tmp_path / "z.npy", logits)
    table = formats.read(tmp_path / "z.npy")
    np.testing.assert_array_equal(table.logits, logits)
    assert table.labels is None


def test_all_that_npz_may_hold(tmp_path, logits):
    prior, groups = np.full(K, 1 / K), np.arange(N) // 2
    words = np.array(CLASSES)[np.arange(N) % K]
    path = tmp_path / "t.npz"
    np.savez(path, logits=logits, labels=words, classes=CLASSES, prior=prior, groups=groups)
    table = formats.read(path)
    np.testing.assert_array_equal(table.labels, np.arange(N) % K)
    np.testing.assert_array_equal(table.prior, prior)
    np.testing.assert_array_equal(table.groups, groups)
    assert table.classes == CLASSES


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_names_that_differ_from_those_in_the_file_are_refused(tmp_path, logits, suffix):
    path = tmp_path / f"t{suffix}"
    formats.write(path, Table(logits, classes=CLASSES))
    assert formats.read(path, CLASSES).classes == CLASSES
    with pytest.raises(InputError, match=r"t\..* Class 2 is 'owl' in the file, and 'elk' is given"):
        formats.read(path, ["cat", "dog", "elk", "owl"])
    with pytest.raises(InputError, match="Class 3 is 'elk' in the file, and nothing is given"):
        formats.read(path, CLASSES[:3])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".csv", ".parquet"])
@pytest.mark.parametrize("ending", ["", "s"])
def test_labels_and_groups_in_the_singular_and_the_plural(tmp_path, logits, suffix, ending):
    path = tmp_path / f"t{suffix}"
    beside = {f"label{ending}": np.arange(N) % K, f"group{ending}": np.arange(N) // 2}
    columns = {f"logit_{k}": logits[:, k] for k in range(K)}
    writers = {
        ".npz": lambda: np.savez(path, logits=logits, **beside),
        ".safetensors": lambda: save_file({"logits": logits} | beside, path),
        ".csv": lambda: pd.DataFrame(columns | beside).to_csv(path, index=False),
        ".parquet": lambda: pd.DataFrame(columns | beside).to_parquet(path),
    }
    writers[suffix]()
    table = formats.read(path)
    np.testing.assert_array_equal(table.labels, np.arange(N) % K)
    np.testing.assert_array_equal(table.groups, np.arange(N) // 2)


def test_columns_are_put_in_the_order_of_their_numbers(tmp_path):
    path = tmp_path / "t.csv"
    order = np.random.default_rng(1).permutation(12)
    header = ",".join(f"logit_{k}" for k in order)
    row = ",".join(str(k) for k in order)
    path.write_text(f"{header}\n{row}\n")
    np.testing.assert_array_equal(formats.read(path).logits, [np.arange(12)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_tensors_of_every_width(tmp_path, dtype):
    exact = torch.tensor([[0.5, -2.0], [3.0, 1.25]], dtype=getattr(torch, dtype))
    save_torch({"logits": exact}, tmp_path / "t.safetensors")
    table = formats.read(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(table.logits, exact.float().numpy())


@pytest.mark.parametrize("suffix", list(formats.FORMATS))
def test_what_is_written_is_read_again(tmp_path, logits, labels, suffix):
    table = Table(logits, labels, CLASSES, groups=np.arange(N) // 2)
    path = tmp_path / f"t{suffix}"
    formats.write(path, table)
    again = formats.read(path)
    np.testing.assert_array_equal(again.logits.astype(np.float32), logits)
    if suffix != ".npy":
        np.testing.assert_array_equal(again.labels, labels)
        np.testing.assert_array_equal(again.groups.astype(int), np.arange(N) // 2)
    if suffix in {".npz", ".safetensors", ".parquet"}:
        assert again.classes == CLASSES


@pytest.mark.parametrize("source", [".csv", ".parquet"])
@pytest.mark.parametrize("target", [".csv", ".parquet"])
def test_every_column_of_a_table_is_carried_as_it_stands(tmp_path, logits, source, target):
    beside = {
        "patient": [f"{i:03d}" for i in range(N)],  # no number: its zeros count
        "age": list(range(N)),
        "label": [None if i == 3 else CLASSES[i % K] for i in range(N)],
        "note": ['said "no", twice\nno more' if i % 2 else "ü" for i in range(N)],
        "prob_0": [0.25] * N,  # of the model itself, before the map
    }
    columns = {f"logit_{k}": logits[:, k] for k in range(K)}
    front = {name: beside.pop(name) for name in ("patient", "age")}  # where people have them
    frame = pd.DataFrame(front | columns | beside)
    beside |= front
    path, out = tmp_path / f"in{source}", tmp_path / f"out{target}"
    frame.to_csv(path, index=False) if source == ".csv" else frame.to_parquet(path)
    table = formats.read(path, CLASSES, keep="columns")
    formats.write(out, table, lambda z: np.full_like(z, 0.5), "probabilities")
    text = {"patient": str, "note": str}
    again = pd.read_csv(out, dtype=text) if target == ".csv" else pd.read_parquet(out)
    new = [*(f"prob_{k}" for k in range(K)), "prediction", "confidence"]
    assert list(again) == ["patient", "age", *new, "label", "note"]
    assert set(again["prediction"]) == {CLASSES[0]}
    assert (again["confidence"] == 0.5).all()
    assert (again["prob_0"] == 0.5).all()
    for name in ("patient", "age", "note"):
        assert again[name].tolist() == beside[name]
    expected = [label or "" for label in beside["label"]]
    assert again["label"].fillna("").tolist() == expected


def test_columns_of_several_blocks_stay_with_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("temperance.io.table.WRITTEN_ELEMENTS", 2 * 7)  # seven rows
    z = np.random.default_rng(0).normal(size=(50, 2))
    frame = pd.DataFrame({"logit_0": z[:, 0], "logit_1": z[:, 1], "row": np.arange(50)})
    whole, days = pa.Table.from_pandas(frame), tmp_path / "days"  # a directory of two files
    days.mkdir()
    parquet.write_table(whole[:30], days / "a.parquet", row_group_size=11)
    parquet.write_table(whole[30:], days / "b.parquet")
    table = formats.read(days, keep="columns")
    for name in ("o.csv", "o.parquet"):
        formats.write(tmp_path / name, table)
        read = read_csv if name == "o.csv" else pd.read_parquet
        again = read(tmp_path / name)
        np.testing.assert_array_equal(again["logit_1"], z[:, 1])
        np.testing.assert_array_equal(again["row"], np.arange(50))


def test_names_from_elsewhere_are_for_files_without(tmp_path, logits):
    words = {"label": [CLASSES[i % K] for i in range(N)]}
    frame = pd.DataFrame({f"logit_{k}": logits[:, k] for k in range(K)} | words)
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = formats.read(tmp_path / "t.csv", otherwise=CLASSES)
    assert table.classes == CLASSES
    np.testing.assert_array_equal(table.labels, np.arange(N) % K)
    formats.write(tmp_path / "t.npz", table)
    assert formats.read(tmp_path / "t.npz", otherwise=["a", "b", "c", "d"]).classes == CLASSES
    with pytest.raises(InputError, match=r"t.csv: logits must have 2 columns.* Got 4"):
        formats.read(tmp_path / "t.csv", otherwise=["yes", "no"])
    assert formats.read(tmp_path / "t.csv", keep="logits").labels is None


def test_others_read_what_is_written(tmp_path, logits, labels):
    table = Table(logits, labels)
    for suffix in formats.FORMATS:
        formats.write(tmp_path / f"t{suffix}", table, lambda z: z * 2)
    names = [f"logit_{k}" for k in range(K)]
    others = [
        np.load(tmp_path / "t.npy"),
        np.load(tmp_path / "t.npz")["logits"],
        load_file(tmp_path / "t.safetensors")["logits"],
        pd.read_csv(tmp_path / "t.csv", dtype=np.float32)[names].to_numpy(),
        pl.read_parquet(tmp_path / "t.parquet")[names].to_numpy(),
    ]
    for other in others:
        assert other.dtype == np.float32
        np.testing.assert_array_equal(other, 2 * logits)


def test_probabilities_are_named_as_what_they_are(tmp_path, logits):
    table = Table(logits)
    p = softmax(logits.astype(np.float64), axis=1)
    for suffix in formats.FORMATS:
        path = tmp_path / f"p{suffix}"
        formats.write(path, table, lambda z: softmax(z.astype(np.float64), axis=1), "probabilities")
        again = formats.read(path, content="probabilities")
        np.testing.assert_array_equal(again.logits, np.log(p))
        if suffix != ".npy":  # which has no names
            assert formats.read(path, content="either").logits.tolist() == np.log(p).tolist()
            with pytest.raises(InputError, match="It holds probabilities: add --probabilities"):
                formats.read(path)
    assert np.load(tmp_path / "p.npz").files == ["probabilities"]
    assert next(iter(pd.read_csv(tmp_path / "p.csv"))) == "prob_0"


@pytest.mark.parametrize("suffix", sorted(formats.FORMATS))
def test_numbers_that_are_no_probabilities_are_refused_as_such(tmp_path, logits, suffix):
    path = tmp_path / f"z{suffix}"
    formats.write(path, Table(logits))
    with pytest.raises(InputError, match=r"probabilities must be .*rows that sum to 1. Row 0"):
        formats.read(path, content="probabilities")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_probabilities_of_a_table_name_the_answer(tmp_path, logits, labels, suffix):
    path = tmp_path / f"p{suffix}"
    p = softmax(logits.astype(np.float64), axis=1)
    for classes in (CLASSES, None):
        formats.write(path, Table(logits, labels, classes), lambda _: p, "probabilities")
        frame = read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
        names = np.arange(K) if classes is None else np.array(classes)
        assert frame["prediction"].tolist() == names[p.argmax(axis=1)].tolist()
        np.testing.assert_array_equal(frame["confidence"], p.max(axis=1))


GROUPS = {
    "booleans": lambda i: i % 2 == 0,
    "another byte order": lambda i: i.astype(">i8"),
    "halves": lambda i: i.astype(np.float16),
    "long doubles": lambda i: i.astype(np.longdouble),
    "days": lambda i: i.astype("datetime64[D]"),
    "words": lambda i: np.array(["a", "b,\n", "é"])[i % 3],
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("suffix", formats.FORMATS)
def test_groups_of_every_type_can_be_written(tmp_path, logits, suffix, kind):
    groups = GROUPS[kind](np.arange(len(logits)) // 5)
    formats.write(tmp_path / f"t{suffix}", Table(logits, groups=groups))
    again = formats.read(tmp_path / f"t{suffix}").groups
    if suffix == ".npy" or (suffix == ".safetensors" and kind in {"days", "words"}):
        assert again is None  # a file without a place for them
    else:
        for both in ((groups, again), (again, groups)):  # the same rows are together
            names = [
                dict(zip(*map(np.ndarray.tolist, both), strict=True))[g] for g in both[0].tolist()
            ]
            assert names == both[1].tolist()


@pytest.mark.parametrize("values", [np.array([1j, 2]), np.array([b"a", b"b"]), np.zeros(2, "V4")])
def test_groups_and_priors_that_no_file_can_hold(values):
    with pytest.raises(InputError, match=r"groups must be numbers or text\. Got "):
        Table(np.eye(2), groups=values)
    with pytest.raises(InputError, match=r"prior must be numbers\. Got "):
        Table(np.eye(2), prior=values)


@pytest.mark.parametrize("dtype", [">f4", np.longdouble])
def test_a_prior_of_every_type_can_be_written(tmp_path, logits, dtype):
    table = Table(logits, prior=np.full(3, 1 / 4).astype(dtype))
    formats.write(tmp_path / "t.safetensors", table)
    assert formats.read(tmp_path / "t.safetensors").prior.tolist() == [1 / 4] * 3


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_shares_of_classes_have_no_column(tmp_path, logits, suffix):
    table = Table(logits, labels=np.full(logits.shape, 1 / logits.shape[1]))
    with pytest.raises(InputError, match="labels must be one class per row"):
        formats.write(tmp_path / f"t{suffix}", table)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.uint32, np.int64])
def test_groups_of_every_integer_are_read_alike_by_safetensors(tmp_path, logits, dtype):
    """Integers of 16 bits were once written under the name of another type of 16 bits."""
    groups = (np.arange(N) * 3).astype(dtype)
    path = tmp_path / "t.safetensors"
    formats.write(path, Table(logits, groups=groups))
    for found in (load_file(path)["groups"], formats.read(path).groups):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, groups)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_large_file_is_mapped_and_passes_through_in_blocks(tmp_path, suffix):
    z = np.random.default_rng(0).normal(size=(400_000, 10)).astype(np.float32)  # 16 MB
    formats.write(tmp_path / f"big{suffix}", Table(z))
    expected = z[::1000] / 2
    del z
    tracemalloc.start()
    table = formats.read(tmp_path / f"big{suffix}")
    formats.write(tmp_path / f"half{suffix}", table, lambda block: block / 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(table.logits, np.memmap)
    assert peak < 12e6
    np.testing.assert_array_equal(formats.read(tmp_path / f"half{suffix}").logits[::1000], expected)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_text_or_columns_is_opened_once(tmp_path, logits, monkeypatch, suffix):
    formats.write(tmp_path / f"t{suffix}", Table(logits))
    opened = []
    real = type(tmp_path).open

    def counting(path, *options, **more):
        opened.append(path)
        return real(path, *options, **more)

    monkeypatch.setattr(type(tmp_path), "open", counting)
    formats.read(tmp_path / f"t{suffix}")
    assert len(opened) <= 1

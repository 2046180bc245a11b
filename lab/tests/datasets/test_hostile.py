"""Broken and hostile files: refused in a sentence, before they cost memory or run anything."""

from __future__ import annotations

import gzip
import io
import os
import pickle  # noqa: TID251 - writes the attacks
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from temperance import InputError
from temperance_lab import datasets
from temperance_lab.datasets import files

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


class Attack:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def cifar(folder, content):
    (folder / "cifar-10-batches-py").mkdir()
    for name in BATCHES:
        (folder / "cifar-10-batches-py" / name).write_bytes(content)


def test_pickle_in_a_batch_is_not_run(tmp_path):
    attack = pickle.dumps({"data": Attack(tmp_path / "harm"), "labels": []})
    pickle.loads(attack)  # noqa: S301 - the attack works where it is let
    assert (tmp_path / "harm").exists()
    (tmp_path / "harm").rmdir()
    cifar(tmp_path, attack)
    with pytest.raises(InputError, match=r"holds the name .*mkdir, which no batch needs"):
        datasets.load("cifar10", tmp_path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "module_and_name",
    [b"builtins\neval", b"numpy\nload", b"numpy.core.multiarray\nscalar", b"numpy\nfromfile"],
)
def test_no_other_name_can_be_reached(tmp_path, module_and_name):
    cifar(tmp_path, b"\x80\x02c" + module_and_name + b"\n(X\x01\x00\x00\x00atR.")
    with pytest.raises(InputError, match="which no batch needs"):
        datasets.load("cifar10", tmp_path)


def test_names_in_a_stand_in_are_not_reached(tmp_path):
    # getattr on a stand-in through protocol 4's dotted names.
    dotted = b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93."
    cifar(tmp_path, dotted)
    with pytest.raises(InputError, match="which no batch needs"):
        datasets.load("cifar10", tmp_path)


@pytest.mark.parametrize(
    "batch",
    [
        {"data": np.zeros((2, 3072), dtype=np.float64), "labels": [0, 1]},
        {"data": np.zeros((2, 3071), dtype=np.uint8), "labels": [0, 1]},
        {"data": np.zeros((2, 3072), dtype=np.uint8), "labels": [0]},
        {"data": np.zeros((2, 3072), dtype=np.uint8), "labels": ["a", "b"]},
        {"data": np.zeros((2, 3072), dtype=np.uint8), "labels": [0, 10]},
        {"data": np.zeros((2, 3072), dtype=np.uint8, order="F"), "labels": [0, 1]},
        {"data": [1, 2], "labels": [0, 1]},
        {"labels": [0, 1]},
        [1, 2, 3],
    ],
)
def test_batch_of_something_else_is_refused(tmp_path, batch):
    cifar(tmp_path, pickle.dumps(batch))
    with pytest.raises(InputError):
        datasets.load("cifar10", tmp_path)


def test_every_truncation_of_a_batch_is_refused():
    x = np.random.default_rng(0).integers(256, size=(1, 3072), dtype=np.uint8)
    content = pickle.dumps({"data": x, "labels": [0]}, 2)
    for length in [*range(60), *range(len(content) - 60, len(content))]:
        with pytest.raises(InputError):
            datasets.batches.read_batch(content[:length], "batch")


def test_array_that_lies_about_its_size_is_refused(tmp_path):
    content = pickle.dumps({"data": np.zeros((1, 3072), dtype=np.uint8), "labels": [0]}, 2)
    lie = content.replace(b"K\x01M\x00\x0c\x86", b"M\xff\xffM\x00\x0c\x86")
    assert lie != content
    cifar(tmp_path, lie)
    with pytest.raises(InputError, match=r"an array of type 'u1' and shape \(65535, 3072\)"):
        datasets.load("cifar10", tmp_path)


def test_pickled_npz_is_not_run(tmp_path):
    objects = np.array([Attack(tmp_path / "harm")], dtype=object)
    np.savez(tmp_path / "mnist.npz", x_train=objects, y_train=[0], x_test=[0], y_test=[0])
    with pytest.raises(InputError, match="allow_pickle"):
        datasets.load("mnist", tmp_path)
    assert not (tmp_path / "harm").exists()


def test_npz_without_the_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "mnist.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="x_train"):
        datasets.load("mnist", tmp_path)


def test_npz_bomb_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1_000)
    zeros = np.zeros(100_000, dtype=np.uint8)
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez_compressed(tmp_path / "mnist.npz", **dict.fromkeys(names, zeros))
    with pytest.raises(InputError, match=r"claims 400,[0-9]+ bytes, more than the 1,000 allowed"):
        datasets.load("mnist", tmp_path)


def mnist_with(folder, content):
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
        labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 1) + b"\x05"
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


HEADER = bytes([0, 0, 8, 3])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + struct.pack(">3I", 1, 28, 28) + bytes(783), "the 1 entries .* It holds less"),
        (HEADER + struct.pack(">3I", 1, 28, 28) + bytes(785), "the 1 entries .* It holds more"),
        (HEADER + struct.pack(">3I", 2**32 - 1, 2**16, 2**16), "claims 18,446,[0-9,]+ bytes"),
        (bytes([0, 0, 13, 3]) + bytes(12), "must be an idx file .* starts with 00 00 0d 03"),
        (HEADER + bytes(3), "must be an idx file"),
        (b"", "must be an idx file"),
    ],
)
def test_idx_must_hold_what_it_announces(tmp_path, content, message):
    mnist_with(tmp_path, content)
    with pytest.raises(InputError, match=message):
        datasets.load("mnist", tmp_path)


def test_gzip_bomb_is_read_no_further_than_announced(tmp_path):
    # One digit announced, a gigabyte of zeros behind it: a million bytes of file.
    bomb = HEADER + struct.pack(">3I", 1, 28, 28)
    packer = zlib.compressobj(9, wbits=31)
    content = packer.compress(bomb)
    block = bytes(1 << 20)
    for _ in range(64):
        content += packer.compress(block)
    content += packer.flush()
    mnist_with(tmp_path, HEADER)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    read = files.read_bytes(tmp_path / "train-images-idx3-ubyte.gz", 800)
    assert len(read) == 801
    with pytest.raises(InputError, match="It holds more"):
        datasets.load("mnist", tmp_path)


def test_broken_gzip_is_named(tmp_path):
    mnist_with(tmp_path, HEADER + struct.pack(">3I", 1, 28, 28) + bytes(784))
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz is not"):
        datasets.load("mnist", tmp_path)


def test_archive_is_not_unpacked(tmp_path):
    inside = tmp_path / "data"
    inside.mkdir()
    with tarfile.open(inside / "cifar-10-python.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../escaped")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"harm"))
        link = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    with pytest.raises(InputError, match="has no data_batch_1"):
        datasets.load("cifar10", inside)
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_archive_member_that_claims_a_terabyte_is_refused(tmp_path):
    member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    member.size = 1 << 40
    content = member.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match=r"claims 1,099,511,627,776 bytes"):
        datasets.load("cifar10", tmp_path)


def test_archive_that_is_none_is_named(tmp_path):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"<html>404</html>")
    with pytest.raises(InputError, match=r"cifar-10-python\.tar\.gz is not"):
        datasets.load("cifar10", tmp_path)


def test_file_of_published_length_must_have_the_published_checksum(tmp_path, monkeypatch):
    mnist_with(tmp_path, HEADER + struct.pack(">3I", 1, 28, 28) + bytes(784))
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    assert len(datasets.load("mnist", tmp_path).y_test) == 1  # another length: a subset, taken
    key = "mnist/t10k-images-idx3-ubyte.gz"
    monkeypatch.setitem(files.PUBLISHED, key, (path.stat().st_size, "0" * 32))
    with pytest.raises(InputError, match=r"published length but MD5 [0-9a-f]{32}, not 0000"):
        datasets.load("mnist", tmp_path)


def test_labels_beyond_the_classes_are_refused(tmp_path):
    x = np.zeros((2, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=[0, 10], x_test=x, y_test=[0, 1])
    with pytest.raises(InputError, match=r"train labels must lie in 0\.\.9.* Got 0\.\.10"):
        datasets.load("mnist", tmp_path)


# --------------------------------------------------------------------------------- photographs


def png_claiming(width, height) -> bytes:
    """A PNG of a few bytes whose header claims any size."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(8_000, 8_000), (10_000, 10_000), (60_000, 60_000)])
def test_photograph_bomb_is_refused_undecoded(tmp_path, size):
    (tmp_path / "val" / "n00000001").mkdir(parents=True)
    (tmp_path / "val" / "n00000001" / "a.png").write_bytes(png_claiming(*size))
    with pytest.raises(InputError, match=r"a\.png must"):
        datasets.load("imagenet", tmp_path)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\xff\xd8\xff\xe0 not a JPEG", None])
def test_photograph_that_is_none_is_named(tmp_path, content):
    (tmp_path / "val" / "n00000001").mkdir(parents=True)
    path = tmp_path / "val" / "n00000001" / "a.jpg"
    if content is None:  # cut short
        Image.fromarray(
            np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)
        ).save(path)
        content = path.read_bytes()[:900]
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.jpg must be a readable JPEG or PNG"):
        datasets.load("imagenet", tmp_path)


def test_table_cannot_name_files_elsewhere(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    folder.mkdir()
    for name, text in (
        ("images.txt", "1 ../../secret.jpg"),
        ("image_class_labels.txt", "1 1"),
        ("train_test_split.txt", "1 1"),
        ("classes.txt", "1 a"),
    ):
        (folder / name).write_text(text + "\n")
    with pytest.raises(InputError, match=r"must name files below images. Got '../../secret.jpg'"):
        datasets.load("cub200", tmp_path)


def test_zip_cannot_name_files_elsewhere(tmp_path):
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / "HAM10000_metadata.csv").write_text("lesion_id,image_id,dx\na,../evil,mel\n")
    with zipfile.ZipFile(inside / "HAM10000_images.zip", "w") as archive:
        archive.writestr("../evil.jpg", b"harm")
    with pytest.raises(InputError, match=r"1 of 1 are missing, first \.\./evil"):
        datasets.load("ham10000", inside)
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lesion_id,image_id,dx\na,b,flu\n", "Line 2 gives 'a', 'b' and 'flu'"),
        ("lesion_id,image_id,dx\n,b,mel\n", "Line 2 gives '', 'b' and 'mel'"),
        ("image_id,dx\nb,mel\n", "Line 2 gives None"),
        ("lesion_id,image_id,dx\n", "at least one row"),
    ],
)
def test_metadata_must_say_all(tmp_path, text, message):
    (tmp_path / "HAM10000_metadata.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        datasets.load("ham10000", tmp_path)

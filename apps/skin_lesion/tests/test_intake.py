"""Hostile, broken and odd files: each is refused with a sentence, or read right."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("PIL", reason="the extra 'app' is not installed")

from PIL import Image

from temperance_skin_lesion import intake
from temperance_skin_lesion.intake import PictureError, display_name, read


def encoded(array, kind="PNG", **options):
    intake._register_heif()
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def photo(rng):
    return rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def png_claiming(width, height):
    """A PNG of a few bytes whose header promises a picture of any size."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(10_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


PILLOW = [kind for kind in intake.FORMATS if kind != "DICOM"]


@pytest.mark.parametrize("kind", PILLOW)
def test_every_format_is_read(photo, kind):
    picture = read(encoded(photo, kind), f"mole.{intake.FORMATS[kind][0]}")
    assert picture.pixels.shape == (64, 64, 3)
    assert picture.pixels.dtype == np.uint8
    assert (picture.format, picture.width, picture.height) == (kind, 120, 90)
    assert picture.note == ""


def test_a_picture_of_the_networks_size_is_not_touched(rng):
    exact = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert np.array_equal(read(encoded(exact), "a.png").pixels, exact)


def test_the_square_is_the_centre_one():
    wide = np.zeros((64, 192, 3), dtype=np.uint8)
    wide[:, 64:128] = np.arange(64, dtype=np.uint8)[:, None] + 100
    assert np.array_equal(read(encoded(wide), "a.png").pixels, wide[:, 64:128])


@pytest.mark.parametrize("size", [(20_000, 20_000), (2**31 - 1, 1), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_costs_its_header(size):
    bomb = png_claiming(*size)
    tracemalloc.start()
    with pytest.raises(PictureError, match=r"pixels|decoded"):
        read(bomb, "bomb.png")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_file_that_unpacks_to_more_than_it_announces_is_damaged():
    with pytest.raises(PictureError, match=r"damaged|blank"):
        read(png_claiming(100, 100)[:-30], "liar.png")


@pytest.mark.parametrize("kind", PILLOW)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_file_is_refused(photo, kind, share):
    whole = encoded(photo, kind)
    with pytest.raises(PictureError, match=r"damaged|not a picture"):
        read(whole[: int(len(whole) * share)], "half.jpg")


@pytest.mark.parametrize(
    "content",
    [
        b"MZ\x90\x00" + bytes(1000),
        b"%PDF-1.7 " + bytes(1000),
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"\x7fELF" + bytes(1000),
        b"PK\x03\x04" + bytes(1000),
    ],
    ids=["program", "pdf", "svg", "elf", "zip"],
)
def test_something_else_renamed_to_a_picture_is_refused(content):
    with pytest.raises(PictureError, match="not a picture"):
        read(content, "mole.jpg")


def test_a_picture_renamed_to_another_format_is_read_and_remarked(photo):
    assert "contains a PNG" in read(encoded(photo), "mole.jpg").note


def test_empty_blank_small_animated_and_large_files_are_refused(photo, rng):
    frames = [Image.fromarray(rng.integers(0, 256, (80, 80, 3), dtype=np.uint8)) for _ in range(2)]
    moving = io.BytesIO()
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:])
    for content, word in [
        (b"", "empty"),
        (encoded(np.full((80, 80, 3), 7, dtype=np.uint8)), "blank"),
        (encoded(photo[:63]), "at least 64"),
        (moving.getvalue(), "several pictures"),
        (encoded(photo) + bytes(intake.MAX_BYTES), "25 MB"),
    ]:
        with pytest.raises(PictureError, match=word):
            read(content, "x.png")


def test_a_turned_photograph_is_put_upright(photo):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to show
    turned = read(encoded(np.ascontiguousarray(np.rot90(photo)), exif=exif), "a.png")
    assert np.array_equal(turned.pixels, read(encoded(photo), "a.png").pixels)


def test_grey_sixteen_bit_palette_and_transparent_pictures_become_colour(rng):
    grey = rng.integers(0, 256, (64, 64), dtype=np.uint8)
    expected = np.repeat(grey[..., None], 3, axis=2)
    sixteen = grey.astype(np.uint16) * 257
    assert np.array_equal(read(encoded(grey), "a.png").pixels, expected)
    assert np.array_equal(read(encoded(sixteen), "a.png").pixels, expected)
    palette = io.BytesIO()
    Image.fromarray(expected).quantize(256).save(palette, "PNG")
    assert np.array_equal(read(palette.getvalue(), "a.png").pixels, expected)
    clear = np.dstack([expected, np.where(grey > 127, 255, 0).astype(np.uint8)])
    shown = read(encoded(clear), "a.png").pixels
    assert np.array_equal(shown, np.where((grey > 127)[..., None], expected, 255))


@given(
    flips=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 255)), min_size=1, max_size=30),
    kind=st.sampled_from(PILLOW),
)
def test_any_damage_gives_a_picture_or_a_sentence(flips, kind):
    photo = np.random.default_rng(1).integers(0, 256, (70, 70, 3), dtype=np.uint8)
    content = bytearray(encoded(photo, kind))
    for place, value in flips:
        content[place % len(content)] = value
    try:
        assert read(bytes(content), "x").pixels.shape == (64, 64, 3)
    except PictureError as error:
        said = str(error)
    else:
        said = "x: "
    assert said.startswith("x: ")


@given(st.text(max_size=400))
def test_a_displayed_name_is_short_printable_and_no_path(name):
    shown = display_name(name)
    assert 0 < len(shown) <= intake.MAX_NAME
    assert not set(shown) & set("/\\\0\n\r\t\x7f\u202e")
    assert shown not in {".", ".."}
    assert display_name(shown) == shown


def dicom(pixels, photometric="RGB", syntax="1.2.840.10008.1.2.1", frame=None, **facts):
    """A DICOM file with a picture, as a dermatoscope exports one; a ``frame`` is compressed."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.uid import UID, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.4"
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = UID(syntax)
    data = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
    data.Rows, data.Columns = pixels.shape[:2]
    data.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    if pixels.ndim == 3:
        data.PlanarConfiguration = 0
    data.PhotometricInterpretation = photometric
    data.BitsAllocated = data.BitsStored = 8 * pixels.dtype.itemsize
    data.HighBit = data.BitsStored - 1
    data.PixelRepresentation = 0
    data.PatientName = "Doe^Jane"
    for name, value in facts.items():
        setattr(data, name, value)
    data.PixelData = pixels.tobytes() if frame is None else encapsulate([frame])
    buffer = io.BytesIO()
    data.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def test_dicom_is_read(rng):
    exact = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    picture = read(dicom(exact), "a.dcm")
    assert np.array_equal(picture.pixels, exact)
    assert (picture.format, picture.note) == ("DICOM", "")
    grey = exact[..., 0]
    three = np.repeat(grey[..., None], 3, axis=2)
    assert np.array_equal(read(dicom(grey, "MONOCHROME2"), "a.dcm").pixels, three)
    assert np.array_equal(read(dicom(grey, "MONOCHROME1"), "a.dcm").pixels, 255 - three)
    deep = grey.astype(np.uint16) * 257
    assert read(dicom(deep, "MONOCHROME2"), "a.dcm").pixels == pytest.approx(three, abs=3)


def test_dicom_that_cannot_be_judged_is_refused(rng):
    exact = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for content, word in [
        (dicom(exact, NumberOfFrames=4), "several pictures"),
        (dicom(exact, Rows=20_000, Columns=20_000), "at most 25 million"),
        (dicom(exact, Rows=600), "damaged"),
        (dicom(exact)[:2000], "damaged"),
        (b"\0" * 128 + b"DICM" + bytes(200), "damaged"),
    ]:
        with pytest.raises(PictureError, match=word):
            read(content, "x.dcm")


JPEG_SYNTAX, JPEG_2000, RLE = (f"1.2.840.10008.1.2.{end}" for end in ("4.50", "4.90", "5"))


def test_dicom_with_a_jpeg_inside_is_read(photo):
    jpeg, exact = encoded(photo, "JPEG"), encoded(photo, "JPEG2000", no_jp2=True)
    for content, file in [
        (dicom(photo, "YBR_FULL_422", JPEG_SYNTAX, jpeg), jpeg),
        (dicom(photo, "YBR_RCT", JPEG_2000, exact), encoded(photo)),
    ]:
        found = read(content, "a.dcm")
        assert (found.format, found.width, found.height) == ("DICOM", 120, 90)
        assert np.array_equal(found.pixels, read(file, "a").pixels)


def test_dicom_that_unpacks_to_more_than_it_states_is_refused_unread(rng):
    """Each is small on the line, and had gigabytes of memory before it was refused."""
    small = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    large = encoded(np.full((9_000, 9_000), 90, dtype=np.uint8), "JPEG")
    runs = struct.pack("<16I", 1, 64, *[0] * 14) + b"\x81\x00" * 2_000_000
    deflated = {"syntax": "1.2.840.10008.1.2.1.99", "EncapsulatedDocument": bytes(20_000_000)}
    for content, word in [
        (dicom(small, **deflated), "deflated as a whole"),
        (dicom(small, "YBR_FULL_422", JPEG_SYNTAX, large), "damaged"),
        (dicom(small, syntax=RLE, frame=runs), "RLE Lossless"),
    ]:
        assert len(content) < 5_000_000
        tracemalloc.start()
        with pytest.raises(PictureError, match=word):
            read(content, "bomb.dcm")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * len(content) + 2**20


def chained(photo, links):
    """A TIFF file with ``links`` empty pictures behind the first."""
    content = bytearray(encoded(photo, "TIFF"))
    content += bytes(len(content) % 2)
    (start,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, start)
    struct.pack_into("<I", content, start + 2 + 12 * entries, len(content))
    fields = [(256, 64), (257, 64), (258, 8), (259, 1), (262, 1), (273, 8), (278, 64), (279, 4096)]
    link = struct.pack("<H", len(fields))
    link += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    ends = [len(content) + (i + 1) * (len(link) + 4) for i in range(links)]
    return bytes(content) + b"".join(link + struct.pack("<I", end) for end in [*ends[:-1], 0])


def test_a_file_that_would_take_minutes_is_refused_at_once(photo):
    flat = encoded(np.full((2_000, 2_000, 3), 120, np.uint8), "JPEG", progressive=True)
    png = encoded(photo)
    scan = flat[flat.rindex(b"\xff\xda") : -2]
    for content, word in [
        (chained(photo, 100_000), "several pictures"),
        (flat[:-2] + 1_000 * scan + flat[-2:], "very many parts or scans"),
        (flat[:2] + 5_000_000 * b"\xff\xfe\x00\x02" + flat[2:], "very many parts"),
        (png[:33] + 1_500_000 * (bytes(4) + b"prIv" + bytes(4)) + png[33:], "very many parts"),
    ]:
        started = time.process_time()
        with pytest.raises(PictureError, match=word):
            read(content, "slow")
        assert time.process_time() - started < 1


def test_a_film_behind_a_photograph_is_no_part_of_it(photo):
    """Telephones append one, in which any bytes occur."""
    jpeg = encoded(photo, "JPEG", progressive=True)
    found = read(jpeg + b"\xff\xda" * 500, "motion.jpg")
    assert np.array_equal(found.pixels, read(jpeg, "still.jpg").pixels)


def test_a_photograph_with_another_behind_it_is_the_first(photo):
    """Telephones put a second, smaller picture (depth, light) behind the photograph."""
    two = io.BytesIO()
    first = Image.fromarray(photo)
    first.save(two, "MPO", save_all=True, append_images=[first.resize((70, 70))])
    found = read(two.getvalue(), "phone.jpg")
    assert (found.format, found.width, found.height, found.note) == ("JPEG", 120, 90, "")
    assert np.array_equal(found.pixels, read(encoded(photo, "JPEG"), "a.jpg").pixels)


@pytest.mark.parametrize("kind", ["TIFF", "HEIF", "DICOM"])
def test_what_browsers_do_not_show_becomes_a_jpeg_of_the_whole_picture(kind):
    from temperance_skin_lesion.drawings import lesion

    photo = lesion(np.random.default_rng(0), 500)[:400]
    content = dicom(photo) if kind == "DICOM" else encoded(photo, kind)
    with Image.open(io.BytesIO(intake.viewable(content))) as shown:
        assert (shown.format, shown.size) == ("JPEG", (500, 400))
        assert np.abs(np.asarray(shown).astype(int) - photo).mean() < 4


def test_a_heic_photograph_is_nearly_the_jpeg(rng):
    from temperance_skin_lesion.drawings import lesion

    photo = lesion(rng, 400)
    heic, jpeg = (
        read(encoded(photo, kind, quality=95), "a").pixels.astype(int) for kind in ("HEIF", "JPEG")
    )
    assert np.abs(heic - jpeg).mean() < 2


def test_a_large_jpeg_is_decoded_small_and_nearly_alike():
    from temperance_skin_lesion.drawings import lesion

    small = Image.fromarray(lesion(np.random.default_rng(0), 250))
    large = np.asarray(small.resize((2000, 2000), Image.Resampling.BICUBIC))
    content = encoded(large, "JPEG", quality=92)
    drafted = read(content, "a.jpg")
    whole = np.asarray(Image.fromarray(large).resize((64, 64), Image.Resampling.LANCZOS))
    assert (drafted.width, drafted.height) == (2000, 2000)
    assert np.abs(drafted.pixels.astype(int) - whole).mean() < 1.5
    with Image.open(io.BytesIO(drafted.preview)) as preview:
        assert preview.size == (intake.PREVIEW_SIDE, intake.PREVIEW_SIDE)


GROWTH = """
import sys, threading
from temperance_skin_lesion import intake
intake.read(open(sys.argv[1], "rb").read(), "w.jpg")
contents = [open(path, "rb").read() for path in sys.argv[2:]]
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
before = peak()
threads = [threading.Thread(target=intake.read, args=(c, "a.jpg")) for c in contents]
for thread in threads: thread.start()
for thread in threads: thread.join()
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_four_pictures_of_49_megapixels_stay_under_300_mb(tmp_path, lesions):
    """Progressive ones, whose coefficients are held whole: the worst that JPEG has."""
    tile = np.random.default_rng(0).integers(0, 256, (70, 70, 3), dtype=np.uint8)
    large = Image.fromarray(np.tile(tile, (100, 100, 1)))
    assert large.size == (7000, 7000)
    large.save(tmp_path / "a.jpg", "JPEG", quality=60, progressive=True, subsampling=0)
    (tmp_path / "w.jpg").write_bytes(lesions(1)[0])
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, tmp_path / "w.jpg", *[tmp_path / "a.jpg"] * 4],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert float(done.stdout) < 300

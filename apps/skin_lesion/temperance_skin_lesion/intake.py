"""From the bytes that somebody sent to a 64 x 64 picture, or a sentence that says why not.

Nothing about a file is believed but its content: not its name, not its declared type, not its size.
Width and height are read from the header and limited *before* a pixel is decoded, so a small file
that unpacks to gigabytes is refused for the price of its header. A JPEG is decoded at the smallest
of its scales that is large enough, and one file at a time is read and decoded, always by the same
thread: memory is that of one picture, however many people send some. A file that would keep this
thread busy for minutes (a chain of pictures, thousands of scans) is refused as well.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "MAX_FILES",
    "SHOWN_BY_BROWSERS",
    "Picture",
    "PictureError",
    "display_name",
    "read",
    "read_file",
    "viewable",
]

MAX_BYTES = 25 * 2**20
MAX_FILES = 200
MAX_PIXELS = 50_000_000
"""Of a JPEG file, which is decoded at a smaller scale."""

MAX_WHOLE = 25_000_000
"""Pixels of a file in any other format, which is decoded whole."""

MAX_SCANS = 100
"""Of a progressive JPEG, which goes over all its pixels in each; ten are usual."""

MAX_PARTS = 20_000
"""Of a JPEG or a PNG, which are read one by one; some thousands are many."""

JPEG_MARKER = re.compile(rb"\xff[\x02-\xcf\xd9-\xfe]")
"""Of a segment with a length, or of the end; the data of a scan hold none."""

MIN_SIDE = 64
PREVIEW_SIDE = 320
VIEW_SIDE = 2000
MAX_NAME = 120
FORMATS = {
    "JPEG": ("jpg", "jpeg", "jpe", "jfif"),
    "PNG": ("png",),
    "WEBP": ("webp",),
    "BMP": ("bmp",),
    "TIFF": ("tif", "tiff"),
    "HEIF": ("heic", "heif", "hif"),
    "DICOM": ("dcm", "dicom"),
}
SHOWN_BY_BROWSERS = ("JPEG", "PNG", "WEBP", "BMP")

DEFLATED = b"1.2.840.10008.1.2.1.99"
"""DICOM that is compressed as a whole, header and all: what it unpacks to is not known before."""

UNCOMPRESSED = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
JPEG_INSIDE = ("1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.91")
"""Transfer syntaxes of DICOM that are read: pixels as they are, JPEG and JPEG 2000."""

DICOM_ELEMENTS = (
    *("Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PlanarConfiguration"),
    *("PhotometricInterpretation", "BitsAllocated", "BitsStored", "HighBit"),
    *("PixelRepresentation", "PixelData"),
    *(f"{c}PaletteColorLookupTableDescriptor" for c in ("Red", "Green", "Blue")),
    *(f"{c}PaletteColorLookupTableData" for c in ("Red", "Green", "Blue")),
)
"""What of a DICOM file is read at all; its patient is not."""

_decoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decoder")


class PictureError(ValueError):
    """A file that is not taken; the message is written for the person who sent it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A photograph as the network reads it and as people see it, and what is known of the file."""

    name: str
    sha256: str
    format: str
    width: int
    height: int
    pixels: NDArray[np.uint8]
    preview: bytes
    note: str = ""


def read(content: bytes, name: str) -> Picture:
    """Check and decode the content of a file.

    Raises
    ------
    PictureError
        With a sentence for the sender: what was wrong with which file, and what to do.
    """
    return read_file(BytesIO(content), name)


def read_file(file: BinaryIO, name: str) -> Picture:
    """Check and decode a file, as `read` does, whose content is read when its turn comes."""
    return _decoder.submit(_read, file, display_name(name)).result()


def _read(file: BinaryIO, name: str) -> Picture:
    content = file.read(MAX_BYTES + 1)  # one byte beyond the limit is enough to know
    if not content:
        raise PictureError(f"{name}: the file is empty.")
    if len(content) > MAX_BYTES:
        raise PictureError(
            f"{name}: the file is larger than the {MAX_BYTES // 2**20} MB that are taken. Export "
            f"it as JPEG."
        )
    found, (width, height), square = _decoded(content, name, _square)
    side = (MIN_SIDE, MIN_SIDE)
    small = square if square.size == side else square.resize(side, Image.Resampling.LANCZOS)
    pixels = np.asarray(small)
    if pixels.std(axis=(0, 1)).max() < 1:
        raise PictureError(f"{name}: the picture is blank, there is nothing to see on it.")
    return Picture(
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        format=found,
        width=width,
        height=height,
        pixels=pixels,
        preview=_as_jpeg(square),
        note=_note(name, found),
    )


def viewable(content: bytes) -> bytes:
    """Return the whole picture as a JPEG, for formats that browsers do not show."""
    _, _, whole = _decoder.submit(_decoded, content, "picture", _whole).result()
    return _as_jpeg(whole)


def display_name(name: str) -> str:
    r"""Last component of a name, printable and short: for showing only, never for opening.

    Examples
    --------
    >>> display_name("../../etc/passwd")
    'passwd'
    >>> display_name("C:\\photos\\mole.jpg")
    'mole.jpg'
    >>> display_name("..")
    'unnamed'
    """
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(c for c in last if unicodedata.category(c)[0] not in "CZ" or c == " ")
    stripped = printable.strip(" .")
    if len(stripped) > MAX_NAME:
        stripped = f"{stripped[: MAX_NAME - 9]}…{stripped[-8:]}"
    return stripped or "unnamed"


Decoded = tuple[str, tuple[int, int], Image.Image]
"""Format, size and picture of a file."""


def _decoded(content: bytes, name: str, shape: Callable[[Image.Image], Image.Image]) -> Decoded:
    """Decode a file and give it a shape; failures of decoders become a `PictureError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities of metadata, which is not used
            if content[128:132] == b"DICM":
                return _decoded_dicom(content, name, shape)
            return _decoded_image(content, name, shape)
    except PictureError:
        raise
    except UnidentifiedImageError:
        shown = ", ".join("HEIC" if kind == "HEIF" else kind for kind in FORMATS)
        raise PictureError(
            f"{name}: this is not a picture in one of the formats {shown}. Export it as JPEG."
        ) from None
    except Image.DecompressionBombError:
        raise PictureError(_too_large(name)) from None
    except Exception:  # noqa: BLE001 - a decoder fed with hostile bytes may raise anything
        raise PictureError(
            f"{name}: the file is damaged or incomplete and cannot be decoded. Send it again."
        ) from None


def _decoded_image(
    content: bytes, name: str, shape: Callable[[Image.Image], Image.Image]
) -> Decoded:
    _register_heif()
    if content.startswith(b"\xff\xd8"):
        _check_jpeg(content, name)
    elif content.startswith(b"\x89PNG"):
        _check_png(content, name)
    readable = tuple(kind for kind in FORMATS if kind != "DICOM")
    with Image.open(BytesIO(content), formats=readable) as image:
        # A JPEG with more pictures behind the first (of the same camera, at once) is called MPO.
        found = "JPEG" if image.format == "MPO" else str(image.format)
        _check_header(image, found, name)
        size = image.size
        if found == "JPEG":
            image.draft("RGB", (PREVIEW_SIDE, PREVIEW_SIDE))
        return found, size, shape(ImageOps.exif_transpose(image))


def _decoded_dicom(
    content: bytes, name: str, shape: Callable[[Image.Image], Image.Image]
) -> Decoded:
    from pydicom import dcmread

    if DEFLATED in content:
        raise PictureError(_compressed(name, "deflated as a whole"))
    data = dcmread(BytesIO(content), specific_tags=list(DICOM_ELEMENTS))
    width, height = int(data.Columns), int(data.Rows)
    _check_size(width, height, MAX_WHOLE, name)
    if int(data.get("NumberOfFrames", 1) or 1) > 1:
        raise PictureError(_several(name))
    syntax = data.file_meta.TransferSyntaxUID
    if syntax in JPEG_INSIDE:
        _check_inside(data, name)
    elif syntax not in UNCOMPRESSED:
        raise PictureError(_compressed(name, syntax.name))
    return "DICOM", (width, height), shape(Image.fromarray(_dicom_pixels(data)))


def _check_inside(data: Any, name: str) -> None:
    """Refuse a JPEG inside a DICOM file that is not of the size which the file states."""
    from pydicom.encaps import generate_frames

    frame = next(generate_frames(data.PixelData, number_of_frames=1))
    if frame.startswith(b"\xff\xd8"):
        _check_jpeg(frame, name)
    with Image.open(BytesIO(frame), formats=("JPEG", "JPEG2000")) as inside:
        if inside.size != (int(data.Columns), int(data.Rows)):
            raise ValueError("the picture is of another size than stated")


def _dicom_pixels(data: Any) -> NDArray[np.uint8]:
    from pydicom.pixels import apply_color_lut, convert_color_space

    kind = str(data.PhotometricInterpretation)
    pixels = np.asarray(data.pixel_array)
    if kind == "PALETTE COLOR":
        pixels = apply_color_lut(pixels, data)
    elif kind.startswith("YBR") and data.file_meta.TransferSyntaxUID in UNCOMPRESSED:
        pixels = convert_color_space(pixels, kind, "RGB")
    if pixels.dtype != np.uint8:
        low, high = float(pixels.min()), float(pixels.max())
        pixels = ((pixels - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)
    return 255 - pixels if kind == "MONOCHROME1" else pixels


def _as_jpeg(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


@lru_cache
def _register_heif() -> None:
    """Teach Pillow to read HEIC."""
    from pillow_heif import register_heif_opener

    register_heif_opener(thumbnails=False)


def _check_header(image: Image.Image, found: str, name: str) -> None:
    """Refuse by what the header says, before anything is decoded."""
    # A progressive JPEG is held whole, two bytes for each value; CMYK has four values.
    limit = MAX_PIXELS if found == "JPEG" and image.mode != "CMYK" else MAX_WHOLE
    _check_size(*image.size, limit, name)
    # Whether there is a second picture; how many there are, a long chain of them would not tell.
    if getattr(image, "is_animated", False) and image.format != "MPO":
        raise PictureError(_several(name))


def _check_jpeg(content: bytes, name: str) -> None:
    """Refuse a JPEG of very many parts or scans.

    What stands behind the end (telephones put a film there) is no part of it.
    """
    parts = scans = 0
    place = 2
    while parts <= MAX_PARTS and scans <= MAX_SCANS:
        marker = JPEG_MARKER.search(content, place)
        if marker is None or marker.group() == b"\xff\xd9":
            return
        parts += 1
        scans += marker.group() == b"\xff\xda"
        place = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2], "big")
    raise PictureError(_many_parts(name))


def _check_png(content: bytes, name: str) -> None:
    """Refuse a PNG of very many parts."""
    parts, place = 0, 8
    while place < len(content):
        parts += 1
        if parts > MAX_PARTS:
            raise PictureError(_many_parts(name))
        place += 12 + int.from_bytes(content[place : place + 4], "big")


def _many_parts(name: str) -> str:
    return f"{name}: the file is cut into very many parts or scans. Export it again."


def _several(name: str) -> str:
    return f"{name}: the file holds several pictures; send one still picture."


def _compressed(name: str, how: str) -> str:
    return f"{name}: the DICOM file is compressed in a way that is not read ({how}). Export JPEG."


def _check_size(width: int, height: int, limit: int, name: str) -> None:
    if width * height > limit:
        raise PictureError(_too_large(name, width, height, limit))
    if min(width, height) < MIN_SIDE:
        raise PictureError(
            f"{name}: the picture is {width} x {height} pixels; each side must have at least "
            f"{MIN_SIDE}."
        )


def _too_large(name: str, width: int = 0, height: int = 0, limit: int = MAX_PIXELS) -> str:
    size = f"{width} x {height}" if width else "too many"
    return (
        f"{name}: the picture has {size} pixels; at most {limit // 10**6} million in all are "
        f"decoded ({MAX_PIXELS // 10**6} million of a JPEG). Reduce it before sending."
    )


def _square(image: Image.Image) -> Image.Image:
    """Centre square of at most the preview's size, in colour."""
    image = _eight_bits(image)
    side = min(PREVIEW_SIDE, *image.size)  # small pictures are resized once only
    return _in_colour(ImageOps.fit(image, (side, side), Image.Resampling.LANCZOS))


def _whole(image: Image.Image) -> Image.Image:
    """All of the picture, of at most `VIEW_SIDE` pixels a side, in colour."""
    image = _eight_bits(image)
    image.thumbnail((VIEW_SIDE, VIEW_SIDE), Image.Resampling.LANCZOS)
    return _in_colour(image)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Picture of one byte for each value, without a palette."""
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode.startswith("I") or image.mode == "F":  # deep grey, which PIL would clip
        deep = np.asarray(image)
        return Image.fromarray((deep / 257 if deep.max() > 255 else deep).astype(np.uint8))
    return image


def _in_colour(image: Image.Image) -> Image.Image:
    """Picture in RGB, on white where it is transparent."""
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _note(name: str, found: str) -> str:
    """Say when the name promises another format than the content has."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    known = {ending for endings in FORMATS.values() for ending in endings}
    if ending in known and ending not in FORMATS[found]:
        return f"The file is named .{ending} but contains a {found} picture."
    return ""

"""From the bytes that somebody sent to a 64 x 64 picture, or a sentence that says why not.

Nothing about a file is believed but its content: not its name, not its declared type, not its size.
Width and height are read from the header and limited *before* a pixel is decoded, so a small file
that unpacks to gigabytes is refused for the price of its header. A JPEG is decoded at the smallest
of its scales that is large enough, and one file at a time is decoded, always by the same thread:
memory is that of one picture, however many people send some.
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
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FORMATS", "MAX_BYTES", "MAX_FILES", "Picture", "PictureError", "display_name", "read"]

MAX_BYTES = 25 * 2**20
MAX_FILES = 200
MAX_PIXELS = 50_000_000
"""Of a JPEG file, which is decoded at a smaller scale."""

MAX_WHOLE = 25_000_000
"""Pixels of a file in any other format, which is decoded whole."""

MIN_SIDE = 64
PREVIEW_SIDE = 320
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
    """Check and decode one file.

    Raises
    ------
    PictureError
        With a sentence for the sender: what was wrong with which file, and what to do.
    """
    name = display_name(name)
    if not content:
        raise PictureError(f"{name}: the file is empty.")
    if len(content) > MAX_BYTES:
        raise PictureError(
            f"{name}: the file is larger than the {MAX_BYTES // 2**20} MB that are taken. Export "
            f"it as JPEG."
        )
    found, (width, height), pixels, preview = _decoder.submit(_decode, content, name).result()
    return Picture(
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        format=found,
        width=width,
        height=height,
        pixels=pixels,
        preview=preview,
        note=_note(name, found),
    )


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


Decoded = tuple[str, tuple[int, int], Any, bytes]
"""Format, size, pixels and preview of a file."""


def _decode(content: bytes, name: str) -> Decoded:
    """Format, size, 64 x 64 pixels and preview; failures of decoders become a `PictureError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities of metadata, which is not used
            found = _decode_dicom(content, name) or _decode_image(content, name)
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
    if found[2].std(axis=(0, 1)).max() < 1:
        raise PictureError(f"{name}: the picture is blank, there is nothing to see on it.")
    return found


def _decode_image(content: bytes, name: str) -> Decoded:
    _register_heif()
    readable = tuple(kind for kind in FORMATS if kind != "DICOM")
    with Image.open(BytesIO(content), formats=readable) as image:
        _check_header(image, name)
        size, found = image.size, str(image.format)
        if found == "JPEG":
            image.draft("RGB", (PREVIEW_SIDE, PREVIEW_SIDE))
        square = _square(image)
    return found, size, *_finished(square)


def _decode_dicom(content: bytes, name: str) -> Decoded | None:
    """Read a DICOM file; None for anything else."""
    if content[128:132] != b"DICM":
        return None
    from pydicom import dcmread
    from pydicom.pixels import apply_color_lut, convert_color_space

    data = dcmread(BytesIO(content))
    height, width = int(data.Rows), int(data.Columns)
    _check_size(width, height, MAX_WHOLE, name)
    if int(data.get("NumberOfFrames", 1) or 1) > 1:
        raise PictureError(f"{name}: the file holds several pictures; send one still picture.")
    kind = str(data.PhotometricInterpretation)
    pixels = np.asarray(data.pixel_array)
    if kind == "PALETTE COLOR":
        pixels = apply_color_lut(pixels, data)
    elif kind.startswith("YBR") and data.file_meta.TransferSyntaxUID.is_compressed is False:
        pixels = convert_color_space(pixels, kind, "RGB")
    if pixels.dtype != np.uint8:
        low, high = float(pixels.min()), float(pixels.max())
        pixels = ((pixels - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)
    if kind == "MONOCHROME1":
        pixels = 255 - pixels
    return "DICOM", (width, height), *_finished(_square(Image.fromarray(pixels)))


def _finished(square: Image.Image) -> tuple[NDArray[np.uint8], bytes]:
    """Pixels at the network's size, and a JPEG for people."""
    side = (MIN_SIDE, MIN_SIDE)
    small = square if square.size == side else square.resize(side, Image.Resampling.LANCZOS)
    buffer = BytesIO()
    square.save(buffer, "JPEG", quality=85)
    return np.asarray(small), buffer.getvalue()


@lru_cache
def _register_heif() -> None:
    """Teach Pillow to read HEIC."""
    from pillow_heif import register_heif_opener

    register_heif_opener(thumbnails=False)


def _check_header(image: Image.Image, name: str) -> None:
    """Refuse by what the header says, before anything is decoded."""
    limit = MAX_PIXELS if image.format == "JPEG" else MAX_WHOLE
    _check_size(*image.size, limit, name)
    if getattr(image, "n_frames", 1) > 1:
        raise PictureError(f"{name}: the file holds several pictures; send one still picture.")


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
    """Centre square of at most the preview's size, upright, colour, on white where transparent."""
    image = ImageOps.exif_transpose(image)
    if image.mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif image.mode.startswith("I") or image.mode == "F":  # deep grey, which PIL would clip
        deep = np.asarray(image)
        image = Image.fromarray((deep / 257 if deep.max() > 255 else deep).astype(np.uint8))
    side = max(MIN_SIDE, min(PREVIEW_SIDE, *image.size))
    if min(image.size) < PREVIEW_SIDE:  # small pictures are resized once only
        side = min(image.size)
    square = ImageOps.fit(image, (side, side), Image.Resampling.LANCZOS)
    if square.mode in {"RGBA", "LA", "PA"} or "transparency" in square.info:
        square = square.convert("RGBA")
        square = Image.alpha_composite(Image.new("RGBA", square.size, "white"), square)
    return square.convert("RGB")


def _note(name: str, found: str) -> str:
    """Say when the name promises another format than the content has."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    known = {ending for endings in FORMATS.values() for ending in endings}
    if ending in known and ending not in FORMATS[found]:
        return f"The file is named .{ending} but contains a {found} picture."
    return ""

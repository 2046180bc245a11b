"""From the bytes that somebody sent to a 64 x 64 picture, or a sentence that says why not.

Nothing about a file is believed but its content: not its name, not its declared type, not its size.
Width and height are read from the header and limited *before* a pixel is decoded, so a small file
that unpacks to gigabytes is refused for the price of its header.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FORMATS", "MAX_BYTES", "MAX_FILES", "Picture", "PictureError", "display_name", "read"]

MAX_BYTES = 25 * 2**20
MAX_FILES = 200
MAX_PIXELS = 50_000_000
MIN_SIDE = 64
MAX_NAME = 120
FORMATS = {
    "JPEG": ("jpg", "jpeg", "jpe", "jfif"),
    "PNG": ("png",),
    "WEBP": ("webp",),
    "BMP": ("bmp",),
}

# Decoding a large photograph takes 150 MB: two at a time bound the memory of a full house.
_decoding = threading.BoundedSemaphore(2)


class PictureError(ValueError):
    """A file that is not taken; the message is written for the person who sent it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A photograph as the network reads it, and what is known of the file."""

    name: str
    sha256: str
    format: str
    width: int
    height: int
    pixels: NDArray[np.uint8]
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
            f"{name}: the file has {len(content) / 2**20:.1f} MB; at most "
            f"{MAX_BYTES // 2**20} MB are taken. Export it as JPEG."
        )
    with _decoding:
        found, (width, height), pixels = _decode(content, name)
    return Picture(
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        format=found,
        width=width,
        height=height,
        pixels=pixels,
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


def _decode(content: bytes, name: str) -> tuple[str, tuple[int, int], NDArray[np.uint8]]:
    """Format, size and 64 x 64 pixels; every failure of the decoder becomes a `PictureError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities of metadata, which is not used
            with Image.open(BytesIO(content), formats=tuple(FORMATS)) as image:
                _check_header(image, name)
                size, found = image.size, str(image.format)
                pixels = _square(image)
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError(
            f"{name}: this is not a picture in one of the formats {', '.join(FORMATS)}, whatever "
            f"its name says."
        ) from None
    except Image.DecompressionBombError:
        raise PictureError(_too_large(name)) from None
    except Exception:  # noqa: BLE001 - a decoder fed with hostile bytes may raise anything
        raise PictureError(
            f"{name}: the file is damaged or incomplete and cannot be decoded. Send it again."
        ) from None
    if pixels.std(axis=(0, 1)).max() < 1:
        raise PictureError(f"{name}: the picture is blank, there is nothing to see on it.")
    return found, size, pixels


def _check_header(image: Image.Image, name: str) -> None:
    """Refuse by what the header says, before anything is decoded."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise PictureError(_too_large(name, width, height))
    if min(width, height) < MIN_SIDE:
        raise PictureError(
            f"{name}: the picture is {width} x {height} pixels; each side must have at least "
            f"{MIN_SIDE}."
        )
    if getattr(image, "n_frames", 1) > 1:
        raise PictureError(f"{name}: the file is an animation; send one still picture.")


def _too_large(name: str, width: int = 0, height: int = 0) -> str:
    size = f"{width} x {height}" if width else "too many"
    return (
        f"{name}: the picture has {size} pixels; at most {MAX_PIXELS // 10**6} million in all are "
        f"decoded. Reduce it before sending."
    )


def _square(image: Image.Image) -> NDArray[np.uint8]:
    """Centre square at the network's size, upright, colour, on white where transparent."""
    image = ImageOps.exif_transpose(image)
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    elif image.mode.startswith("I"):  # 16-bit grey, which PIL would clip
        image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).astype(np.uint8))
    square = ImageOps.fit(image.convert("RGB"), (MIN_SIDE, MIN_SIDE), Image.Resampling.LANCZOS)
    return np.asarray(square)


def _note(name: str, found: str) -> str:
    """Say when the name promises another format than the content has."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    known = {ending for endings in FORMATS.values() for ending in endings}
    if ending in known and ending not in FORMATS[found]:
        return f"The file is named .{ending} but contains a {found} picture."
    return ""

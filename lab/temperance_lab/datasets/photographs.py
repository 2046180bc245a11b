"""Photographs of any size to one array: decoded within bounds, scaled, cut to a square."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from temperance import InputError
from temperance_lab.datasets.files import MAX_MEMBER, check_size, reading
from temperance_lab.progress import tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

__all__ = ["album", "is_photograph", "read_photographs"]

MAX_PIXELS = 50_000_000
"""Twice the largest photograph of ImageNet; what claims more is a decompression bomb."""

DEFAULT_SIZE = 224


def is_photograph(name: str) -> bool:
    """Whether a file name has the suffix of a photograph."""
    return PurePosixPath(name).suffix.lower() in {".jpg", ".jpeg", ".png"}


def album(places: Iterable[Path]) -> dict[str, Callable[[], bytes]]:
    """Collect photographs by name without suffix, from folders and from zips that stay packed."""
    found: dict[str, Callable[[], bytes]] = {}
    for place in places:
        if place.is_dir():
            found |= {
                p.stem: p.read_bytes for p in sorted(place.rglob("*")) if is_photograph(p.name)
            }
            continue
        with reading(place):
            archive = zipfile.ZipFile(place)
            for member in archive.infolist():
                if is_photograph(member.filename):
                    check_size(member.file_size, place, MAX_MEMBER)
                    name = PurePosixPath(member.filename).stem
                    # The default binds this member; a closure would always read the last one.
                    found[name] = lambda member=member, archive=archive: archive.read(member)
    return found


def read_photographs(
    readers: Mapping[str, Callable[[], bytes]], names: Sequence[str], size: int | None
) -> NDArray[np.uint8]:
    """Decode photographs to ``(n, size, size, 3)``: shorter side to ``size``, centre square.

    Without ``size``, 224 pixels, or the shorter side of the first photograph if that is less.
    """
    images = np.empty((0, size or DEFAULT_SIZE, size or DEFAULT_SIZE, 3), dtype=np.uint8)
    for i, name in enumerate(tracked(names, "photographs")):
        with reading(Path(name)):
            photograph = _decoded(readers[name](), name)
        if i == 0:
            side = size or min(DEFAULT_SIZE, *photograph.size)
            check_size(len(names) * side * side * 3, Path(name))
            images = np.empty((len(names), side, side, 3), dtype=np.uint8)
        images[i] = _square(photograph, images.shape[1])
    return images


def _decoded(content: bytes, name: str) -> Image:
    """Decode one photograph, as RGB, after a look at how large it says it is."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        msg = "photographs must find the package pillow: pip install temperance-lab."
        raise InputError(msg) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our bound is tighter
            image = Image.open(io.BytesIO(content), formats=("JPEG", "PNG"))
            _check_pixels(image.width * image.height, name)
            return image.convert("RGB")
    except Image.DecompressionBombError as error:
        msg = f"{name} must be a photograph. {error}"
        raise InputError(msg) from error
    except (OSError, SyntaxError, struct.error) as error:
        msg = f"{name} must be a readable JPEG or PNG. {error}; fetch it again."
        raise InputError(msg) from error


def _check_pixels(n_pixels: int, name: str) -> None:
    if n_pixels > MAX_PIXELS:
        msg = (
            f"{name} must have at most {MAX_PIXELS:,} pixels. It claims {n_pixels:,}; it is broken "
            f"or hostile."
        )
        raise InputError(msg)


def _square(photograph: Image, size: int) -> NDArray[np.uint8]:
    """Scale the shorter side to ``size`` and cut the centre."""
    from PIL import Image

    scale = size / min(photograph.size)
    width, height = (max(size, round(side * scale)) for side in photograph.size)
    if (width, height) != photograph.size:
        photograph = photograph.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return np.asarray(photograph.crop((left, top, left + size, top + size)))

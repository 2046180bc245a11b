"""What a batch of images is here, and how one walks through it in pieces.

A batch is ``uint8``, ``(N, H, W, C)`` with one channel or three, or ``(N, H, W)`` grey; whatever is
done to it comes back in the shape it came in.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from temperance._core.checks import InputError
from temperance._core.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Change = Callable[[NDArray[np.uint8], NDArray[np.uint8], int], None]

CHUNK = 1 << 19  # values worked on at once: their float32 copies stay in the cache
HEAP = 1 << 24  # bytes
RUNS = 4  # of chunks for each thread: one that is late leaves the rest to others
SMALLEST, CHANNELS = 8, (1, 3)
SMALL = 64  # pixels: the longer side up to which images are treated as in CIFAR-10-C


def check_images(images: ArrayLike) -> NDArray[np.uint8]:
    """Return ``images`` as a ``uint8`` array of shape (N, H, W, C), or say what is wrong."""
    x = np.asarray(images)
    if x.dtype != np.uint8:
        msg = (
            f"images must have dtype uint8, values from 0 to 255. Got {x.dtype} instead; scale to "
            f"0…255 and convert with np.rint(images).astype(np.uint8)."
        )
        raise InputError(msg)
    if x.ndim == 3:
        x = x[..., np.newaxis]
    if x.ndim != 4 or x.shape[3] not in CHANNELS:
        msg = (
            f"images must have shape (N, H, W, C) with C = 1 or 3, or (N, H, W) if grey. Got shape "
            f"{np.shape(images)} instead; for one image pass image[np.newaxis], for channels first "
            f"images.transpose(0, 2, 3, 1)."
        )
        raise InputError(msg)
    if min(x.shape[1:3]) < SMALLEST:
        msg = (
            f"images must be at least {SMALLEST} pixels high and wide. Got shape "
            f"{np.shape(images)} instead."
        )
        raise InputError(msg)
    return x


def in_chunks(
    images: NDArray[np.uint8], change: Change, threads: int = 1, *, joined: bool = False
) -> NDArray[np.uint8]:
    """Change a few images at a time, so that memory stays bounded, in one thread or in several.

    ``change`` gets some images, the place of the result and the number of the chunk. Which images
    are a chunk depends on their size alone, so neither the threads nor the images that follow make
    a difference. A thread gets a run of chunks: one after the other, or ``joined`` as one, for
    what asks for no number and needs no room that grows with the images.
    """
    # A freed block of this size teaches glibc to keep smaller ones. Otherwise it returns every
    # large temporary to the system and asks for it again, page by page: two to three times slower.
    np.empty(HEAP, np.uint8)
    out = np.empty(images.shape, np.uint8)
    step = chunk_length(images)
    run = max(1, -(-len(images) // (step * RUNS * threads)))
    if joined:
        step, run = step * run, 1

    def work(number: int) -> None:
        part = slice(number * step, (number + 1) * step)
        # A copy of what may not be written: for Numba it would be another type, to compile again.
        change(np.require(images[part], requirements=["C", "W"]), out[part], number)

    numbers = range(-(-len(images) // step))
    if min(threads, len(numbers)) < 2:
        deque(map(work, numbers), maxlen=0)
    else:
        runs = (numbers[start : start + run] for start in range(0, len(numbers), run))
        deque(in_threads(lambda few: deque(map(work, few), maxlen=0), runs, threads), maxlen=0)
    return out


def chunk_length(images: NDArray[np.uint8]) -> int:
    """How many images of this size are worked on at once."""
    return max(1, CHUNK // math.prod(images.shape[1:]))


def by_numpy(change: Callable[[NDArray[np.uint8], int], NDArray[Any]]) -> Change:
    """Let a function that returns new arrays work on chunks.

    The last chunk is filled up: a matrix product may sum in another order when it has fewer rows,
    and an image must not depend on how many others come with it.
    """

    def filled(piece: NDArray[np.uint8], out: NDArray[np.uint8], number: int) -> None:
        missing = chunk_length(piece) - len(piece)
        if missing:
            piece = np.concatenate([piece, np.zeros((missing, *piece.shape[1:]), np.uint8)])
        out[:] = to_bytes(change(piece, number))[: len(out)]

    return filled


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Round to the nearest of 0…255, overwriting ``values``.

    The published code truncates, which darkens every image by half a grey level.
    """
    if values.dtype == np.uint8:
        return values
    np.clip(values, 0, 255, out=values)
    if values.dtype.kind == "f":
        np.rint(values, out=values)
    return values.astype(np.uint8)


def to_planes(x: NDArray[np.uint8]) -> NDArray[np.floating]:
    """(n, H, W, C) bytes to (C, n, H, W) floats: channel by channel, plane after plane."""
    return x.transpose(3, 0, 1, 2).astype(np.float32, order="C")


def from_planes(planes: NDArray[np.floating]) -> NDArray[np.uint8]:
    """(C, n, H, W) floats, overwritten, to (n, H, W, C) bytes; they must round to 0…255."""
    out = np.empty((*planes.shape[1:], len(planes)), np.uint8)
    rounded = np.rint(planes, out=planes).astype(np.uint8)
    for channel, plane in enumerate(rounded):  # one transposing copy would be far slower
        out[..., channel] = plane
    return out

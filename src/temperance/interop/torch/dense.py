"""Dense predictions as rows: every pixel, voxel or token is a row, read without a flat copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from temperance._core import arrays
from temperance._core.arrays import as_array, as_numbers, namespace
from temperance._core.checks import InputError
from temperance.data import Block, StreamRows
from temperance.data.convert import two_columns
from temperance.data.rows import rows_per_block


def dense_logits(
    logits: object, labels: object = None, *, ignore_index: int | None = 255, axis: int = 1
) -> StreamRows:
    """Return dense logits (B, C, H, W) as rows (n, C) that every fit reads, flattened lazily.

    Row by row this is ``z.movedim(1, -1).reshape(-1, C)`` without the pixels whose label is
    ``ignore_index``. No flat copy is made: pixels are cut out block by block, on the device where
    they are.

    Parameters
    ----------
    logits : array of shape (B, C, ...), or an iterable of batches (logits, labels)
        With `stream_logits(model, loader)`, a fit runs the model once per pass and holds one batch
        at a time. One channel is a binary head: it becomes the two columns of `binary_logits`.
    labels : array of shape (B, ...) or (B, 1, ...), optional
        A class index per pixel. Batches bring their own.
    ignore_index : int or None
        The label of pixels to leave out: often 255, sometimes -100 (PyTorch's default) or -1.
        Without labels nothing is left out.
    axis : int
        Where the classes are: 1, or -1 for token classifiers (B, L, C).

    Examples
    --------
    >>> import torch, temperance as tp
    >>> z = torch.randn(2, 5, 8, 8)
    >>> y = torch.randint(5, (2, 8, 8))
    >>> y[:, 0] = 255
    >>> rows = tp.torch.dense_logits(z, y)
    >>> rows.n, rows.n_classes
    (112, 5)
    """
    array = None if isinstance(logits, (list, tuple)) else as_array(logits)
    batches: Any = logits if array is None else [(array, labels)]
    again = isinstance(batches, Iterable) and not isinstance(batches, Iterator)
    if array is None and (labels is not None or not again):
        raise InputError(
            f"logits must be an array of shape (B, C, ...), or batches (logits, labels) that can "
            f"be iterated again. Got {type(logits).__name__}; run a model over a loader with "
            f"stream_logits(model, loader)."
        )

    def images() -> Iterator[Block]:
        for z, y in batches:
            yield from _images(z, y, ignore_index, axis)

    return StreamRows(images)


def _images(z: Any, labels: object, ignore_index: int | None, axis: int) -> Iterator[Block]:
    """Yield blocks of the pixels of a batch, without those to be ignored."""
    array = as_numbers(z)
    if array is None or array.ndim < 3:
        got = type(z).__name__ if array is None else f"shape {tuple(array.shape)}"
        raise InputError(
            f"logits must be dense, of shape (B, C, ...). Got {got}; rows of shape (n, K) need no "
            f"flattening."
        )
    array = arrays.host_view(array)
    xp = namespace(array)
    array = xp.moveaxis(array, axis, -1)
    k = int(array.shape[-1])
    y = None
    if labels is not None:  # one channel is a binary head
        y = _dense_labels(labels, tuple(array.shape[:-1]), max(2, k), ignore_index)
    size = rows_per_block(k)
    for b in range(array.shape[0]):
        flat = xp.reshape(array[b, ...], (-1, k))
        for part in (slice(i, i + size) for i in range(0, flat.shape[0], size)):
            pixels, wanted = flat[part, :], None if y is None else y[b, part]
            if wanted is not None and (wanted < 0).any():
                keep = wanted >= 0
                wanted, pixels = wanted[keep], pixels[arrays.beside(keep, array), :]
            if pixels.shape[0]:
                yield Block(two_columns(pixels) if k == 1 else pixels, wanted, None)


def _dense_labels(
    labels: object, shape: tuple[int, ...], k: int, ignore_index: int | None
) -> NDArray[np.int64]:
    """Return labels as (B, pixels), with -1 for what is to be ignored."""
    array = as_array(labels)
    y: NDArray[Any] = np.empty(0) if array is None else arrays.to_numpy(array)
    if y.shape == (shape[0], 1, *shape[1:]):
        y = y[:, 0]
    if y.shape != shape:
        raise InputError(
            f"labels must have shape {shape}, one per pixel of the logits. Got {y.shape}; resize "
            f"the logits to the labels first."
        )
    whole = y.astype(np.int64).reshape(shape[0], -1)
    ignored = whole == ignore_index if ignore_index is not None else np.zeros(whole.shape, bool)
    bad = (whole < 0) | (whole >= k) | (whole != y.reshape(whole.shape))
    bad &= ~ignored
    if bad.any():
        image, pixel = (int(i) for i in np.argwhere(bad)[0])
        value = y.reshape(whole.shape)[image, pixel]
        raise InputError(
            f"labels must lie in 0..{k - 1} or be ignore_index={ignore_index}. Pixel {pixel} of "
            f"image {image} holds {value}; name the label to leave out with ignore_index."
        )
    return np.where(ignored, -1, whole)

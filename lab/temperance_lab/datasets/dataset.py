"""What every loader returns: images and labels, split, with names and groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from temperance import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Dataset", "Split"]


class Split(NamedTuple):
    """Something known of every row, for the training rows and for the test rows."""

    train: NDArray[Any]
    test: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Images, uint8 ``(n, H, W, C)``, and their classes, split into training and test.

    Attributes
    ----------
    x_train, x_test
        Images, uint8, channels last; grey images have one channel.
    y_train, y_test
        Class numbers, int64, ``0 … K-1``.
    classes
        The K names, in the order of the numbers.
    groups
        By name, what rows have in common: ``groups["lesion_id"].test`` are the lesions that
        `temperance.metrics.bootstrap` draws as a whole, ``groups["site"]`` the domains.
    """

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    groups: dict[str, Split] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            if x.dtype != np.uint8 or x.ndim != 4 or y.shape != (len(x),):
                msg = (
                    f"{part} images must be uint8 (n, H, W, C) with one label each. Got "
                    f"{x.dtype} of shape {x.shape} and labels of shape {y.shape}."
                )
                raise InputError(msg)
            if len(y) and not 0 <= y.min() <= y.max() < len(self.classes):
                msg = (
                    f"{part} labels must lie in 0..{len(self.classes) - 1}, one number per class. "
                    f"Got {int(y.min())}..{int(y.max())}."
                )
                raise InputError(msg)

    def __repr__(self) -> str:
        n_train, n_test = len(self.y_train), len(self.y_test)
        size = "x".join(map(str, self.x_test.shape[1:]))
        groups = f", groups: {', '.join(self.groups)}" if self.groups else ""
        return (
            f"Dataset({n_train} training and {n_test} test images of {size}, "
            f"{len(self.classes)} classes{groups})"
        )

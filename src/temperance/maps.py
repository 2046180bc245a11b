"""Calibration maps: frozen values that take logits to logits.

A map is called on logits and returns logits of the same kind, dtype and device; on a torch tensor
gradients flow through it. All maps follow the same shape, ``z -> A z + b``, from one number to a
matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, final

import numpy as np

from temperance._core import arrays, checks
from temperance._core.arrays import Array, Floats, namespace


class Map(ABC):
    """A frozen function from logits to calibrated logits."""

    kind: ClassVar[str]

    @property
    def n_classes(self) -> int | None:
        """Return the number of classes that the map was fitted for; None when any will do."""
        bias: Floats | None = getattr(self, "bias", None)
        return None if bias is None else len(bias)

    @abstractmethod
    def _apply(self, z: Array) -> Array: ...

    def __call__(self, logits: object) -> Array:
        """Return calibrated logits of the kind, dtype and device of ``logits``."""
        z = checks.check_logits(logits)
        if self.n_classes is not None:
            checks.check_same_classes(int(z.shape[1]), self.n_classes, "logits")
        z = checks.check_values(z)
        with np.errstate(over="ignore", invalid="ignore"):
            calibrated = namespace(z).astype(self._apply(arrays.widened(z)), z.dtype)
        checks.check_range(calibrated)
        return calibrated

    def predict_proba(self, logits: object) -> Array:
        """Return calibrated class probabilities, of the kind, dtype and device of ``logits``."""
        return arrays.softmax(self(logits))

    def parameters(self) -> dict[str, Floats]:
        """Return the numbers that make the map, by name."""
        names: list[str] = [field.name for field in fields(self)]  # pyright: ignore[reportArgumentType]
        return {name: np.asarray(getattr(self, name), dtype=np.float64) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Map) or other.kind != self.kind:
            return False
        mine, theirs = self.parameters(), other.parameters()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((self.kind, *(v.tobytes() for v in self.parameters().values())))


def check_temperature(value: object) -> float:
    """Return a temperature under which logits within ±1e100 stay finite."""
    return checks.check_number(value, "temperature", low=1e-200, high=1e200)


def _freeze(owner: object, name: str, value: object, ndim: int) -> None:
    given = arrays.as_numbers(value)
    real = None if given is None else arrays.to_numpy(given)
    if real is None or real.ndim != ndim or min(real.shape) < 2 or not np.isfinite(real).all():
        got = type(value).__name__ if real is None else f"shape {real.shape}"
        demand = f"finite numbers with {ndim} axes of two classes or more"
        raise checks.InputError(f"{name} must be {demand}. Got {got} instead.")
    frozen = np.array(real, dtype=np.float64)
    frozen.flags.writeable = False
    object.__setattr__(owner, name, frozen)


@final
@dataclass(frozen=True, eq=False)
class Temperature(Map):
    """``z -> z / temperature``: one positive number that divides the logits.

    It keeps the ranking of the classes, and so the accuracy. A temperature above 1 lowers
    confidence. Equals ``1 / beta_`` of scikit-learn's temperature method.

    >>> Temperature(2.0)(np.array([[2.0, 0.0]]))
    array([[1., 0.]])
    """

    temperature: float
    kind: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", check_temperature(self.temperature))

    def _apply(self, z: Array) -> Array:
        return z / self.temperature


@final
@dataclass(frozen=True, eq=False)
class BiasedTemperature(Map):
    """``z -> z / temperature + bias``: a temperature and one offset per class.

    The form of bias-corrected temperature scaling (Alexandari et al., 2020) and of prior-matched
    scaling. It can move predictions.

    >>> BiasedTemperature(2.0, [0.0, 1.0])(np.array([[2.0, 0.0]]))
    array([[1., 1.]])
    """

    temperature: float
    bias: Floats
    kind: ClassVar[str] = "biased"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", check_temperature(self.temperature))
        _freeze(self, "bias", self.bias, 1)

    def _apply(self, z: Array) -> Array:
        return _affine(z / self.temperature, self.bias)


@final
@dataclass(frozen=True, eq=False)
class VectorMap(Map):
    """``z -> scale * z + bias``: vector scaling, a gain and an offset per class.

    >>> VectorMap([1.0, 2.0], [0.0, 1.0])(np.array([[2.0, 1.0]]))
    array([[2., 3.]])
    """

    scale: Floats
    bias: Floats
    kind: ClassVar[str] = "vector"

    def __post_init__(self) -> None:
        _freeze(self, "scale", self.scale, 1)
        _freeze(self, "bias", self.bias, 1)
        checks.check_same_classes(len(self.scale), len(self.bias), "scale")

    def _apply(self, z: Array) -> Array:
        return _affine(z * arrays.like(self.scale, z), self.bias)


@final
@dataclass(frozen=True, eq=False)
class MatrixMap(Map):
    """``z -> weight @ z + bias``: matrix scaling, row k of ``weight`` makes class k.

    >>> MatrixMap([[1.0, 0.0], [1.0, 1.0]], [0.0, 1.0])(np.array([[2.0, 1.0]]))
    array([[2., 4.]])
    """

    weight: Floats
    bias: Floats
    kind: ClassVar[str] = "matrix"

    def __post_init__(self) -> None:
        _freeze(self, "weight", self.weight, 2)
        _freeze(self, "bias", self.bias, 1)
        checks.check_same_classes(self.weight.shape[0], len(self.bias), "weight rows")
        checks.check_same_classes(self.weight.shape[1], len(self.bias), "weight columns")

    def _apply(self, z: Array) -> Array:
        return _affine(z @ arrays.like(self.weight.T, z), self.bias)


def _affine(scaled: Array, bias: Floats) -> Array:
    return scaled + arrays.like(bias, scaled)


IDENTITY = Temperature(1.0)
MAPS: dict[str, type[Map]] = {
    m.kind: m for m in (Temperature, BiasedTemperature, VectorMap, MatrixMap)
}

__all__ = ["IDENTITY", "MAPS", "BiasedTemperature", "Map", "MatrixMap", "Temperature", "VectorMap"]

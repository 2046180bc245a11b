"""A model and its calibration map as one module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from temperance._core.checks import InputError
from temperance.calibrate.result import Calibration
from temperance.interop.torch.collect import evaluating
from temperance.interop.torch.exchange import device_of, find_logits, is_one_logit
from temperance.maps import MAPS, Map

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@final
class CalibratedModule(nn.Module):
    """A model whose logits pass through a calibration map: what to deploy.

    The output keeps the form of the model's: a tensor, or a tuple, dict or Hugging Face output in
    which only the logits are replaced. Dense logits (B, C, H, W) are calibrated along their
    classes. A binary head with one logit keeps its one logit: the difference of the two calibrated
    columns, so ``sigmoid`` of it is calibrated.

    The numbers of the map are buffers: they are in the state_dict, move with the module, and stay
    float64 under ``half()``, which would round the temperature. The model itself, and its own
    state_dict, are left as they were.

    Parameters
    ----------
    model : torch.nn.Module
    map : Map or Calibration
        The result of a fit; of a Calibration, its map.
    axis : int
        Where the classes of dense logits are: 1, or -1 for token classifiers (B, L, C).

    Examples
    --------
    >>> import torch, temperance as tp
    >>> module = tp.torch.CalibratedModule(torch.nn.Identity(), tp.Temperature(2.0))
    >>> module(torch.tensor([[2.0, 0.0]]))
    tensor([[1., 0.]])
    >>> module.predict_proba(torch.tensor([[2.0, 0.0]])).round(decimals=3)
    tensor([[0.7310, 0.2690]])
    >>> module.state_dict()["temperature"]
    tensor(2., dtype=torch.float64)
    """

    def __init__(self, model: nn.Module, map: Map | Calibration, *, axis: int = 1) -> None:  # noqa: A002
        super().__init__()
        if not isinstance(model, nn.Module):
            got = type(model).__name__
            raise InputError(f"model must be a torch.nn.Module. Got {got} instead.")
        fitted = map.map if isinstance(map, Calibration) else map
        if not isinstance(fitted, Map):
            raise InputError(
                f"map must be a calibration map or a Calibration, as fits return. Got "
                f"{type(map).__name__} instead."
            )
        self.model = model
        self.kind = fitted.kind
        self.axis = axis
        for name, value in fitted.parameters().items():
            self.register_buffer(name, _placed(torch.tensor(value), device_of(model)))

    @property
    def map(self) -> Map:
        """The map that the buffers hold, as a frozen value."""
        values = {name: buffer.tolist() for name, buffer in self.named_buffers(recurse=False)}
        return MAPS[self.kind](**values)

    def extra_repr(self) -> str:
        """Return the map, for the printed form of the module."""
        empty = any(buffer.is_meta for buffer in self.buffers(recurse=False))
        with np.printoptions(threshold=10):
            return f"map={self.kind}" if empty else f"map={self.map}"

    def forward(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the model with calibrated logits."""
        # A first argument by name, because torch.export reads shapes and names off the signature.
        inputs = () if x is None and not args else (x, *args)
        logits, put = find_logits(self.model(*inputs, **kwargs))
        return put(self.calibrate(logits))

    def calibrate(self, logits: Tensor) -> Tensor:
        """Return calibrated logits of the same shape and dtype."""
        z = logits.float() if logits.dtype.itemsize < 4 else logits
        if is_one_logit(logits, self.axis):
            v = self._affine(torch.stack((torch.zeros_like(z), z), dim=-1))
            return (v[..., 1] - v[..., 0]).to(logits.dtype)
        axis = self.axis if logits.ndim > 2 else -1
        return self._affine(z.movedim(axis, -1)).movedim(-1, axis).to(logits.dtype)

    def _affine(self, z: Tensor) -> Tensor:
        """Apply the map along the last axis."""
        at = {name: buffer.to(z.dtype) for name, buffer in self.named_buffers(recurse=False)}
        if "bias" in at and at["bias"].shape[0] != z.shape[-1]:
            raise InputError(
                f"model must return {at['bias'].shape[0]} classes, as the map was fitted for. Got "
                f"{z.shape[-1]} instead."
            )
        if self.kind == "matrix":  # autocast would run the product in half precision
            device = z.device.type
            half = torch.is_autocast_enabled(device)
            with torch.autocast(device, enabled=False) if half else nullcontext():
                return functional.linear(z, at["weight"], at["bias"])
        scaled = z * at["scale"] if self.kind == "vector" else z / at["temperature"]
        return scaled + at["bias"] if "bias" in at else scaled

    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return calibrated class probabilities, in evaluation mode and without gradients.

        A binary head with one logit gives two columns.
        """
        with torch.no_grad(), evaluating(self):
            z, _ = find_logits(self(*args, **kwargs))
        axis = self.axis if z.ndim > 2 else 1
        if is_one_logit(z, axis):
            z = z.reshape(-1, 1) if z.ndim < 2 else z
            z = torch.cat((torch.zeros_like(z), z), dim=axis)
        return torch.softmax(z, dim=axis)

    def export_program(self, path: str | Path | None, example: Any) -> ExportedProgram:
        """Export with torch.export, verify, and save to ``path`` unless it is None.

        The program maps inputs to calibrated logits, for any batch size. It is run beside this
        module on other batches, of other sizes too; where they differ by more than 1e-5 an
        `InputError` is raised and no file is left.

        Parameters
        ----------
        path : str, Path or None
            A file name that ends in ``.pt2``.
        example : tensor, tuple of positional or dict of keyword arguments
            Inputs with the batch on their first axis.
        """
        from temperance.interop.torch.export import export_program

        return export_program(self, None if path is None else Path(path), example)

    def export_onnx(self, path: str | Path, example: Any) -> None:
        """Export to one ONNX file whose output is ``logits``, for any batch size.

        The file is run in onnxruntime beside this module as in `export_program`, before it gets its
        name. Needs onnx, onnxscript and onnxruntime.
        """
        from temperance.interop.torch.export import export_onnx

        export_onnx(self, Path(path), example)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CalibratedModule:
        exact = dict(self.named_buffers(recurse=False))
        self._buffers = {}
        try:
            super()._apply(fn, recurse)
            for name, buffer in exact.items():  # follow to a device, but not to a narrower dtype
                exact[name] = _placed(buffer, fn(buffer.new_empty(0, dtype=torch.float32)).device)
        finally:
            self._buffers = dict(exact)
        return self


def _placed(buffer: Tensor, device: torch.device | None) -> Tensor:
    if device is not None and device.type == "mps":  # MPS has no float64
        buffer = buffer.float()
    empty = buffer.is_meta and device is not None
    return torch.empty_like(buffer, device=device) if empty else buffer.to(device)

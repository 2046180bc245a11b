"""The forms of batches and outputs: where inputs, labels and logits are.

A batch is a tensor, a tuple ``(inputs, labels)``, or a dict with the labels under one of
`LABEL_KEYS`; inputs are a tensor, a tuple of positional or a dict of keyword arguments. An output
is a tensor, a tuple that starts with one, a dict, or an object with ``.logits``.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from temperance._core.checks import InputError

LABEL_KEYS = ("labels", "label", "targets", "target")
LOGITS_KEYS = ("logits", "out")
WRAPPERS = ("_orig_mod", "module", "model")  # of torch.compile, DataParallel, CalibratedModule

Step = Callable[[nn.Module, Any], tuple[Any, Any]]


def run(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """Return the output of the model on a batch, and the labels of the batch or None."""
    inputs, labels = _split(batch)
    if isinstance(inputs, Mapping):
        args, kwargs = _arguments(model, {k: v for k, v in inputs.items() if k not in LABEL_KEYS})
        return model(*args, **kwargs), labels
    if type(inputs) in (tuple, list):  # but a named tuple, such as a packed sequence, is one input
        return model(*inputs), labels
    return model(inputs), labels


def _split(batch: Any) -> tuple[Any, Any]:
    """Return the inputs and the labels of a batch."""
    if isinstance(batch, Mapping):
        return batch, next((batch[key] for key in LABEL_KEYS if key in batch), None)
    if not isinstance(batch, (tuple, list)) or not batch:
        return batch, None
    entries = list(batch)
    if len(entries) == 1:
        return _split(entries[0])
    y = entries[1]
    indices = isinstance(y, Tensor) and 0 < y.numel() == len(y) and not y.is_floating_point()
    if len(entries) > 2 and not indices:
        raise InputError(
            f"the second entry of a batch must be its labels. Got a batch of {len(entries)} "
            f"entries, the second {_describe(y)}; say what is what with step=lambda "
            f"model, batch: (output, labels)."
        )
    return entries[0], y


def _arguments(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Pass a dict of inputs by name where forward has the names, else the one tensor in it."""
    try:
        parameters = forward_signature(model).parameters
    except (TypeError, ValueError):  # a scripted module
        parameters = {}
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return [], dict(inputs)
    named = {name: value for name, value in inputs.items() if name in parameters}
    if named:
        return [], named
    tensors = [value for value in inputs.values() if isinstance(value, Tensor)]
    if len(tensors) == 1:
        return tensors, {}
    raise InputError(
        f"a dict batch must hold one tensor beside its labels, or arguments of model.forward "
        f"({', '.join(parameters)}). Got {', '.join(map(str, inputs))}; say what is what with "
        f"step=lambda model, batch: (output, labels)."
    )


def forward_signature(model: nn.Module) -> inspect.Signature:
    """Return the signature of ``model.forward``, or of the inner model of a wrapper."""
    signature = inspect.signature(model.forward)
    kinds = {p.kind for p in signature.parameters.values()}
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        for name in WRAPPERS:
            inner = getattr(model, name, None)
            if isinstance(inner, nn.Module):
                return forward_signature(inner)
    return signature


def find_logits(output: Any) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """Return the logits in an output, and the function that puts others in their place."""
    if isinstance(output, Tensor):
        return output, lambda z: z
    if isinstance(getattr(output, "logits", None), Tensor):
        return output.logits, lambda z: _with_logits(output, z)
    if isinstance(output, Mapping):
        tensors = [key for key, value in output.items() if isinstance(value, Tensor)]
        keys = [key for key in LOGITS_KEYS if key in tensors] or tensors
        if len(keys) == 1 or (keys and keys[0] in LOGITS_KEYS):

            def put_item(z: Tensor) -> Any:
                other: Any = copy.copy(output)  # outputs are dicts of some kind
                other[keys[0]] = z
                return other

            return output[keys[0]], put_item
    if isinstance(output, (tuple, list)):
        losses = [isinstance(entry, Tensor) and entry.ndim == 0 for entry in output]
        if False in losses:  # a loss may come first
            i = losses.index(False)
            logits, put = find_logits(output[i])
            return logits, lambda z: _as(output, [*output[:i], put(z), *output[i + 1 :]])
    raise InputError(
        f"model must return logits: a tensor, a tuple that starts with one, a dict with 'logits' "
        f"or 'out', or an object with .logits. Got {_describe(output)}; wrap it in a module that "
        f"returns its logits."
    )


def _with_logits(output: Any, z: Tensor) -> Any:
    if hasattr(output, "_replace"):
        return output._replace(logits=z)
    if dataclasses.is_dataclass(output):
        return dataclasses.replace(output, logits=z)  # pyright: ignore[reportArgumentType]
    other = copy.copy(output)
    other.logits = z
    return other


def _as(sequence: Any, entries: list[Any]) -> Any:
    """Return the entries as a list, tuple or named tuple, whichever ``sequence`` is."""
    make = getattr(sequence, "_make", type(sequence))
    return make(entries)


def device_of(model: nn.Module) -> torch.device | None:
    """Return where the first weight of a model is; None for a model without weights."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type != "meta":
            return tensor.device
    return None


def to_device(batch: Any, device: torch.device | None) -> Any:
    """Return a batch with every tensor in it, at any depth, on the device."""
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "fiub":
        return torch.from_numpy(np.array(batch)).to(device)  # torch takes no read-only memory
    move = getattr(batch, "to", None)
    if move is not None:  # tensors, packed sequences, Hugging Face batches
        return batch if device is None else move(device)
    if isinstance(batch, Mapping):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return _as(batch, [to_device(value, device) for value in batch])
    return batch


def is_one_logit(logits: Tensor, axis: int = 1) -> bool:
    """Return whether the logits are the scores of a binary head with one output."""
    return logits.ndim < 2 or logits.shape[axis] == 1


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} with keys {', '.join(map(str, value))}"
    return f"a {type(value).__name__}"

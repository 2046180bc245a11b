"""The features of a batch: the input of the layer that makes the logits, seen by a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, final

from torch import Tensor, nn

from temperance._core.checks import InputError

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

HEADS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers that can make logits


@final
class FeatureHook:
    """Holds the features of the last batch that the model has run, inside a ``with`` block.

    Parameters
    ----------
    model : torch.nn.Module
    layer : True, torch.nn.Module or str
        A layer of the model, or its name, whose *output* are the features; True for the *input* of
        the last linear or convolutional layer that runs and gives one number per class.
    """

    def __init__(self, model: nn.Module, layer: bool | nn.Module | str) -> None:
        self._model = model
        self._layer = None if layer is True else _find_layer(model, layer)
        self._handles: list[RemovableHandle] = []
        self._runs: list[tuple[nn.Module, Any, Any]] = []
        self._head: nn.Module | None = None

    def __enter__(self) -> Self:
        heads = [m for m in self._model.modules() if isinstance(m, HEADS)]
        for module in [self._layer] if self._layer is not None else heads:
            self._handles.append(module.register_forward_hook(self._record))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def take(self, logits: Tensor) -> Tensor:
        """Return the features of the batch with these logits, flattened to (n, d)."""
        runs, self._runs = self._runs, []
        n = logits.shape[0]
        if self._layer is not None:
            found = [output for _, _, output in runs if _rows_of(output) == n]
        else:
            k = {logits[0].numel(), logits[0].numel() // 2}  # half of it: a head with one logit
            made = [(m, x) for m, x, z in runs if _rows_of(z) == n and z[0].numel() in k]
            self._head = self._head or (made[-1][0] if made else None)
            found = [x for m, x in made if m is self._head and _rows_of(x) == n]
        if not found:
            raise InputError(
                "features must be True, or a layer of the model that runs once for each batch. No "
                "such layer was seen to run; name it, as in features=model.avgpool, and pass the "
                "model before torch.compile or torch.jit."
            )
        return found[-1].detach().as_subclass(Tensor).flatten(1)

    def _record(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        self._runs.append((module, inputs[0] if inputs else None, output))


def _find_layer(model: nn.Module, layer: object) -> nn.Module:
    modules = dict(model.named_modules())
    if isinstance(layer, str) and layer in modules:
        return modules[layer]
    if isinstance(layer, nn.Module) and any(layer is m for m in modules.values()):
        return layer
    got = repr(layer) if isinstance(layer, str) else type(layer).__name__
    raise InputError(
        f"features must be True, a layer of the model or its name. Got {got}, which is none of "
        f"{', '.join(name for name in list(modules)[1:6])}, …"
    )


def _rows_of(value: Any) -> int | None:
    return value.shape[0] if isinstance(value, Tensor) and value.ndim > 1 else None

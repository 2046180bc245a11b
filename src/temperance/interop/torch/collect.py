"""Run a model over a loader: all logits at once, or batch by batch in several passes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, final, overload

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from temperance._core.arrays import as_array
from temperance._core.checks import InputError, check_scores
from temperance._core.progress import tracked
from temperance.data.convert import two_columns
from temperance.interop.torch import exchange
from temperance.interop.torch.exchange import Step, find_logits, is_one_logit

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

STEP = "step(model, batch) returns (output, labels or None)"
HEADS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers that can make logits


@overload
def collect_logits(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    step: Step | None = None,
    features: Literal[False] = False,
) -> tuple[Tensor, Tensor | None]: ...
@overload
def collect_logits(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    step: Step | None = None,
    features: Literal[True] | nn.Module | str,
) -> tuple[Tensor, Tensor | None, Tensor]: ...
def collect_logits(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    step: Step | None = None,
    features: bool | nn.Module | str = False,
) -> tuple[Tensor, Tensor | None] | tuple[Tensor, Tensor | None, Tensor]:
    """Run a model over a loader and return its logits, and the labels if the loader has them.

    The model stays where it is, and batches go there. It runs in evaluation mode and without
    gradients; afterwards every submodule is back in the mode it was in, also after an error. An
    autocast context around the call stays in force, and the logits keep their dtype. A run of more
    than a second shows a progress bar on a terminal.

    Parameters
    ----------
    model : torch.nn.Module
        Its output is a tensor, a tuple that starts with one, a dict with ``"logits"`` or ``"out"``,
        or an object with ``.logits``, as Hugging Face models return.
    loader : iterable of batches
        A batch is ``x``, ``(x, y)``, ``(x, y, metadata)`` or a dict with the labels under
        ``"labels"``, ``"label"``, ``"targets"`` or ``"target"``. Where ``x`` is a tuple or a dict,
        it becomes positional or keyword arguments.
    step : callable, optional
        ``step(model, batch) -> (output, labels or None)`` for batches and models of another form.
    features : bool, torch.nn.Module or str
        True returns the features too: the input of the layer that makes the logits. A layer of the
        model, or its name, returns the output of that layer.

    Returns
    -------
    logits : torch.Tensor of shape (n, K), on the CPU
        A binary head with one logit ``s`` gives the two columns ``(0, s)`` of `binary_logits`; its
        labels 0.0 and 1.0 become integers. Dense logits (n, C, H, W) are for `dense_logits`.
    labels : torch.Tensor of shape (n,), on the CPU, or None
    features : torch.Tensor of shape (n, d), on the CPU
        Only where asked for.

    See Also
    --------
    stream_logits : the same, batch by batch, without holding everything.

    Examples
    --------
    >>> import torch, temperance as tp
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).train()
    >>> data = torch.utils.data.TensorDataset(torch.randn(10, 2, 2), torch.arange(10) % 3)
    >>> logits, labels = tp.torch.collect_logits(model, torch.utils.data.DataLoader(data, 4))
    >>> logits.shape, labels.shape, model.training
    (torch.Size([10, 3]), torch.Size([10]), True)
    >>> *_, features = tp.torch.collect_logits(model, [torch.randn(5, 2, 2)], features=True)
    >>> features.shape
    torch.Size([5, 4])
    """
    stream = stream_logits(model, loader, step=step)
    seen: list[Tensor] = []
    pieces: list[tuple[Tensor, Tensor | None]] = []
    hook = FeatureHook(model, features) if features is not False else None
    with evaluating(model), hook or nullcontext():
        for z, y in stream:
            pieces.append((_to_cpu(z), None if y is None else _to_cpu(y)))
            if hook is not None:
                seen.append(_to_cpu(hook.take(z)))
    sizes = {tuple(z.shape[1:]) for z, _ in pieces}
    if len(sizes) > 1:
        raise InputError(
            f"model must return logits of one size to be collected. Got sizes {sorted(sizes)}; use "
            f"dense_logits(stream_logits(model, loader)), which flattens each batch."
        )
    logits = torch.cat([z for z, _ in pieces])
    if logits.ndim == 2 and logits.shape[1] == 2 and not logits[:, 0].any():
        check_scores(logits[:, 1], "the outputs of the model")  # of a one-logit head
    given = [y for _, y in pieces if y is not None]
    labels = torch.cat(given) if given else None
    if hook is None:
        return logits, labels
    if len({x.shape[1] for x in seen}) > 1:
        msg = "features must be of one size. Got another size in another batch: name another layer."
        raise InputError(msg)
    return logits, labels, torch.cat(seen)


def stream_logits(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    step: Step | None = None,
) -> LogitStream:
    """Return what `collect_logits` collects as an iterable of ``(logits, labels)`` batches.

    Nothing is kept: each pass runs the model over the loader again, so memory is that of one batch,
    and a fit costs as many runs as it makes passes (a temperature: two or three). Logits stay on
    the device of the model. The loader must yield the same batches each time, in any order: switch
    random augmentation off.

    Parameters are those of `collect_logits`.

    Examples
    --------
    >>> import torch, temperance as tp
    >>> loader = [(torch.randn(4, 2), torch.tensor([0, 1, 2, 0]))] * 2
    >>> stream = tp.torch.stream_logits(torch.nn.Linear(2, 3), loader)
    >>> [z.shape for z, y in stream]
    [torch.Size([4, 3]), torch.Size([4, 3])]
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model must be a torch.nn.Module. Got {type(model).__name__} instead; load the model "
            f"first, or wrap a function in a module."
        )
    if isinstance(loader, Dataset) and not isinstance(loader, IterableDataset):
        raise InputError(
            f"loader must yield batches. Got {type(loader).__name__}, which holds single examples; "
            f"wrap it in a torch DataLoader."
        )
    if not isinstance(loader, Iterable) or isinstance(loader, (str, bytes, Tensor)):
        raise InputError(
            f"loader must be an iterable of batches, such as a torch DataLoader. Got "
            f"{type(loader).__name__} instead; one batch is passed as [batch]."
        )
    if not callable(step or exchange.run):
        raise InputError(f"step must be a function. Got {type(step).__name__} instead; {STEP}.")
    return LogitStream(model, loader, step or exchange.run)


@final
@dataclass(frozen=True, eq=False)
class LogitStream:
    """The logits of a model over a loader, computed anew on each pass; see `stream_logits`."""

    model: nn.Module
    loader: Iterable[Any]
    step: Step

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        first: tuple[tuple[int, ...], bool] | None = None
        device = exchange.device_of(self.model)
        for i, batch in enumerate(tracked(self.loader, "batches")):
            # Both contexts end before the yield, because the caller may stop iterating.
            with torch.no_grad(), evaluating(self.model):
                answer: Any = self.step(self.model, exchange.to_device(batch, device))
            if not (isinstance(answer, tuple) and len(answer) == 2):
                got = type(answer).__name__
                raise InputError(f"step must return a pair. Got {got} instead; {STEP}.")
            output, y = answer
            z = find_logits(output)[0].detach()
            if as_array(z) is None:
                msg = "model must return logits that hold their numbers. Got a sparse, quantised,"
                raise InputError(f"{msg} nested or meta tensor.")
            z = z.as_subclass(Tensor)
            labels = None if y is None else _as_labels(y, z, i)
            form = (tuple(z.shape[1:2]), labels is not None)
            first = first or form
            if form[0] != first[0]:
                shape, before = (f"(n, {k[0]})" if k else "(n,)" for k in (form[0], first[0]))
                raise InputError(
                    f"model must return the same number of classes for every batch. Batch {i} has "
                    f"shape {shape} after {before}; does it squeeze a batch of one row?"
                )
            if form[1] != first[1]:
                raise InputError(
                    f"loader must yield labels with every batch or with none. Batch {i} has "
                    f"{'labels' if form[1] else 'none'}, unlike the first."
                )
            if z.ndim < 3 and is_one_logit(z):
                z = two_columns(z)
                if labels is not None and labels.is_floating_point():  # of a binary cross-entropy
                    whole = labels.to(torch.int64)
                    labels = whole if bool((whole == labels).all()) else labels
            yield z, labels
        if first is None:
            raise InputError("loader must yield at least one batch. Got none; was it used up?")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and every submodule back into its own mode after."""
    before = [(m, m.training) for m in model.modules() if hasattr(m, "training")]  # frozen: none
    try:
        with suppress(NotImplementedError):  # an exported program: its mode was settled at export
            model.eval()
        yield
    finally:
        for module, training in before:  # parents come before their children
            if module.training != training:
                module.train(training)  # some models do more in train() than set the flag


def _to_cpu(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU; a slice would keep the whole batch in memory."""
    return tensor.to("cpu", copy=True)


def _as_labels(y: Any, z: Tensor, batch: int) -> Tensor:
    """Return the labels of a batch as a tensor with one row per row of logits."""
    n = z.shape[0] if z.ndim else 1
    try:
        labels = torch.as_tensor(y).as_subclass(Tensor)
        if z.ndim < 3 and labels.numel() == n:
            return labels.reshape(n)  # one index per row; loaders give (n, 1) too
        good = labels.shape == z.shape if z.ndim < 3 else labels.shape[:1] == (n,)
        got = f"shape {tuple(labels.shape)}"
    except (TypeError, ValueError, RuntimeError):
        labels, good, got = y, False, type(y).__name__
    if not good:
        raise InputError(
            f"labels must be numbers, one per row of logits. Batch {batch} has logits of shape "
            f"{tuple(z.shape)} and labels of {got}; say what is what with step=lambda model, "
            f"batch: (output, labels), where labels may be None."
        )
    return labels


@final
class FeatureHook:
    """Holds the features of the last batch that the model has run, inside a ``with`` block.

    ``layer`` is a layer of the model, or its name, whose *output* are the features; True for the
    *input* of the last linear or convolutional layer that runs and gives one number per class.
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
            k = math.prod(logits.shape[1:])
            made = [  # of half as many numbers: a head with one logit
                (m, x)
                for m, x, z in runs
                if _rows_of(z) == n and math.prod(z.shape[1:]) in {k, k // 2}
            ]
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

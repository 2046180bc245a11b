"""Exports that are run beside the module before they are called done.

An exporter that silently computes something else is worse than none, so every export is loaded back
from its file and compared with the module on three batches: the example itself, one row, and more
rows than the example with other values.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from temperance._core.checks import InputError
from temperance.interop.torch.collect import evaluating
from temperance.interop.torch.exchange import device_of, find_logits, forward_signature, to_device
from temperance.interop.torch.module import CalibratedModule
from temperance.io.atomic import check_target, replacing

if TYPE_CHECKING:
    from torch.export import ExportedProgram

EXPORT_TOLERANCE = 1e-5
Call = tuple[tuple[Any, ...], dict[str, Any]]


def export_program(module: CalibratedModule, path: Path | None, example: Any) -> ExportedProgram:
    """Export, save, load back and verify; see `CalibratedModule.export_program`."""
    if path is not None and path.suffix != ".pt2":
        raise InputError(f"path must end in .pt2, as torch.export demands. Got {str(path)!r}.")
    call = _call(module, example)
    with _exporting(module, "torch.export"):
        program = torch.export.export(**_traced(module, call), strict=False)
        if path is None:
            _verify(module, call, lambda args, kwargs: program.module()(*args, **kwargs))
            return program
        with _whole_file(path) as temporary:
            torch.export.save(program, temporary)
            loaded = torch.export.load(temporary)
            _verify(module, call, lambda args, kwargs: loaded.module()(*args, **kwargs))
        return loaded


def export_onnx(module: CalibratedModule, path: Path, example: Any) -> None:
    """Export, load back into onnxruntime and verify; see `CalibratedModule.export_onnx`."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            msg = f"export_onnx needs {package}: pip install 'temperance[onnx]'"
            raise ModuleNotFoundError(msg, name=package)
    import onnxruntime

    call = _call(module, example)
    with _exporting(module, "ONNX"), _whole_file(path) as temporary:
        traced = _traced(module, call)
        torch.onnx.export(
            traced.pop("mod"),
            **traced,
            f=temporary,
            output_names=["logits"],
            external_data=False,
            dynamo=True,
            verbose=False,
        )
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])

        def run(args: Any, kwargs: Any) -> Tensor:
            arrays = [t.cpu().numpy() for t in pytree.tree_leaves((args, kwargs))]
            names = [entry.name for entry in session.get_inputs()]
            return torch.from_numpy(session.run(None, dict(zip(names, arrays, strict=True)))[0])

        _verify(module, call, run)


def _traced(module: CalibratedModule, call: Call) -> dict[str, Any]:
    """Return what exporters ask for: the model, inputs, and which sizes are free.

    Two rows or more, for a batch of one would be taken for a constant.
    """
    args, kwargs = _rows(call, range(max(2, _batch_size(call))))
    named = dict(zip(_names(module, len(args)), args, strict=True)) | kwargs
    batch = torch.export.Dim("batch")
    shapes = pytree.tree_map(lambda t: {0: batch} if _batched(t) else None, named)
    logits = _Logits(module, list(named))
    return {"mod": logits, "args": args, "kwargs": kwargs, "dynamic_shapes": shapes}


class _Logits(nn.Module):
    """The module with its logits as the only output, and the names of its inputs."""

    def __init__(self, module: CalibratedModule, names: list[str]) -> None:
        super().__init__()
        self.module = module

        def forward(*args: Any, **kwargs: Any) -> Tensor:
            return find_logits(module(*args, **kwargs))[0]

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
        self.forward = forward


def _names(module: CalibratedModule, n: int) -> list[str]:
    """Return the names that the model gives to its first positional inputs."""
    try:
        parameters = list(forward_signature(module).parameters.values())[:n]
    except (TypeError, ValueError):  # a scripted module
        parameters = []
    plain = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return plain if len(plain) == n else [f"input_{i}" for i in range(n)]


def _verify(module: CalibratedModule, call: Call, run: Callable[[Any, Any], Tensor]) -> None:
    n = _batch_size(call)
    for rows, scale in ((range(n), 1.0), (range(1), 1.0), (range(n, -1, -1), 0.5)):
        args, kwargs = _rows(call, rows, scale)
        expected = find_logits(module(*args, **kwargs))[0].cpu()
        got = run(args, kwargs).cpu()
        if got.shape != expected.shape:
            raise InputError(
                f"the export must return logits of shape {tuple(expected.shape)} for a batch of "
                f"{len(rows)}. Got {tuple(got.shape)}; does the model count on its batch size?"
            )
        if not torch.allclose(got, expected, rtol=EXPORT_TOLERANCE, atol=EXPORT_TOLERANCE):
            error = float((got.double() - expected.double()).abs().max())
            raise InputError(
                f"the export must agree with the module to {EXPORT_TOLERANCE:g}. For a batch of "
                f"{len(rows)} they differ by {error:.3g}; export a float32 model, or deploy the "
                f"module itself."
            )


def _call(module: CalibratedModule, example: Any) -> Call:
    """Return the example as arguments, on the device of the module."""
    example = to_device(example, device_of(module))
    if isinstance(example, Tensor):
        call: Call = ((example,), {})
    elif isinstance(example, tuple):
        call = (example, {})
    elif isinstance(example, dict):
        call = ((), example)
    else:
        call = ((), {})
    sizes = {t.shape[0] for t in pytree.tree_leaves(call) if _batched(t)}
    if len(sizes) != 1 or 0 in sizes:
        raise InputError(
            f"example must be a tensor, a tuple of positional or a dict of keyword arguments, all "
            f"with the same number of rows. Got {type(example).__name__} with {sorted(sizes)} rows."
        )
    return call


def _batched(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


def _batch_size(call: Call) -> int:
    return next(t.shape[0] for t in pytree.tree_leaves(call) if _batched(t))


def _rows(call: Call, rows: range, scale: float = 1.0) -> Call:
    """Return the arguments with the given rows, modulo their number; floating values scaled."""

    def cut(t: Any) -> Any:
        if not _batched(t):
            return t
        picked = t[[row % t.shape[0] for row in rows]]
        return picked * scale if t.is_floating_point() else picked

    return pytree.tree_map(cut, call)


@contextmanager
def _exporting(module: nn.Module, form: str) -> Iterator[None]:
    """Run an export in evaluation mode, without gradients, quietly, with one kind of error."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    try:
        with evaluating(module), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about its own internals
            log.setLevel(logging.ERROR)
            yield
    except (InputError, OSError):
        raise
    except Exception as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        reason = (str(root).strip().splitlines() or [""])[0]
        raise InputError(
            f"model must be one that {form} can express. Got {type(root).__name__}: {reason}; "
            f"deploy the module itself, or change the model."
        ) from error
    finally:
        log.setLevel(level)


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write to; the file gets its own name when everything went well, or none."""
    target = check_target(path)
    with TemporaryDirectory() as folder:
        temporary = Path(folder) / f"model{target.suffix}"
        yield temporary
        with temporary.open("rb") as made, replacing(target) as file:
            shutil.copyfileobj(made, file)

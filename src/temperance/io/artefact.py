"""Save and load: one file, checked before it is used, never a pickle.

An artefact holds facts, one per line, as JSON::

    {
    "format": "temperance",
    "version": 1,                    of the format; a newer one is refused
    "package": "0.1.0",
    "kind": "map",                   or "calibration"
    "map": {"kind": "temperature", "temperature": 1.44},
    "classes": ["cat", "dog"],       or null
    "prior": [0.5, 0.5],             or null
    "fitted_on": "9f86d081884c…",    sha256 of the data, or null
    "findings": [],
    "sha256": "2c26b46b68ff…"        of all the above
    }

A float is written with the digits that give it back exactly, so the same map gives the same bytes.
A path that ends in ``.safetensors`` stores the same facts in the header of a safetensors file and
the arrays of the map in binary: for a matrix over many classes (K = 1,000: 8 MB instead of 20).

The hash guards against damage, not against malice: who can change a file can change its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from temperance._core import checks
from temperance._core.arrays import Floats, is_numpy
from temperance._core.checks import InputError
from temperance._core.files import decoding, read_bytes, shown_path
from temperance._version import __version__
from temperance.data.given import array_digest
from temperance.io.atomic import check_target, write_bytes
from temperance.io.strict_json import parse
from temperance.maps import MAPS, Map

Facts = dict[str, Any]
Tensors = Mapping[str, Floats]

FORMAT = "temperance"
VERSION = 1
MAX_BYTES = 128 << 20  # bytes; a larger file is no calibration


def save(
    obj: object,
    path: str | os.PathLike[str],
    *,
    classes: object = None,
    prior: object = None,
    fitted_on: str | None = None,
) -> None:
    """Write a map or a calibration to one file, whole or not at all.

    The file is written beside its final place, flushed to the disk and renamed, so a crash leaves
    the old file or the new one, never a part.

    Parameters
    ----------
    obj : Map or Calibration
    path : path of the file
        ``.safetensors`` stores arrays in binary; everything else is JSON.
    classes, prior : sequences of length K, optional
        With a map: class names in the order of the columns, and the class prior it was fitted for.
    fitted_on : str, optional
        With a map: `fingerprint` of the data it was fitted on.

    Examples
    --------
    >>> import tempfile, temperance as tp
    >>> path = tempfile.mkdtemp() + "/map.json"
    >>> tp.save(tp.Temperature(1.44), path, classes=["cat", "dog"])
    >>> tp.load(path)
    Temperature(temperature=1.44)
    """
    if isinstance(obj, Map):
        kind, facts = "map", _map_facts(obj, classes, prior, fitted_on)
    elif (kind := getattr(obj, "kind", None)) in _READERS and classes is prior is fitted_on is None:
        facts = cast("Any", obj).to_dict()
    else:
        way_out = "; of a fitted estimator take its map_" if hasattr(obj, "map_") else " instead"
        raise InputError(f"obj must be a map or a calibration. Got {type(obj).__name__}{way_out}.")
    header = {"format": FORMAT, "version": VERSION, "package": __version__, "kind": kind}
    target = check_target(path)
    pack = _to_safetensors if target.suffix == ".safetensors" else _to_json
    data = pack(header | facts)
    if len(data) > MAX_BYTES:
        msg = f"the artefact must stay below {MAX_BYTES >> 20} MB. Got {len(data) >> 20} MB: "
        raise InputError(msg + "save to a path that ends in .safetensors, or fit fewer parameters.")
    write_bytes(target, data)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the map or the calibration that `save` wrote.

    A damaged file, a newer format, a wrong hash, a value that no fit produces (NaN, a temperature
    that is not positive, wrong lengths) raise `InputError`, which says what is wrong.
    """
    facts = read(path)
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise _refuse(path, f"holds an object of unknown kind {kind!r}")
    reader = _READERS[kind]
    try:
        return reader(facts)
    except InputError as error:
        raise _refuse(path, f"holds a wrong value: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _refuse(path, f"lacks a fact or holds one of a wrong type ({error!r})") from None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the facts of an artefact after checking format and hash, without building anything."""
    data = read_bytes(path, MAX_BYTES)
    # A safetensors file begins with the length of its header, a multiple of 8; "{" is odd.
    unpack = _from_json if data[:1] == b"{" else _from_safetensors
    try:
        facts, tensors = unpack(data)
        own_hash = _hash({n: v for n, v in facts.items() if n != "sha256"}, tensors)
    except InputError as error:
        raise _refuse(path, str(error)) from None
    except (ValueError, RecursionError) as error:  # of the hash: no JSON that could be written
        raise _refuse(path, f"is damaged ({error})") from None
    if facts.get("format") != FORMAT:
        raise _refuse(path, "is not a temperance artefact")
    version = facts.get("version")
    if type(version) is not int or version < 1:
        raise _refuse(path, f"has the impossible format version {version!r}")
    if version > VERSION:
        raise _refuse(path, f"has format {version}, newer than {VERSION}: update temperance")
    if facts.pop("sha256", None) != own_hash:
        raise _refuse(path, "does not match its own sha256: it was damaged or edited by hand")
    if not isinstance(facts.get("package"), str):
        raise _refuse(path, "does not say which version wrote it")
    if tensors:
        described = facts.get("map")
        facts["map"] = (described if isinstance(described, dict) else {}) | dict(tensors)
    return facts


def register(kind: str, reader: Callable[[dict[str, Any]], object]) -> None:
    """Let `save` write objects of a kind, by their ``to_dict``, and `load` build them from that."""
    _READERS[kind] = reader


def describe_map(fitted: Map) -> dict[str, Any]:
    """Return a map as plain facts: its kind and its parameters."""
    return {"kind": fitted.kind} | {k: v.tolist() for k, v in fitted.parameters().items()}


def build_map(facts: Mapping[str, Any]) -> Map:
    """Return the map that `describe_map` described."""
    parameters = {name: value for name, value in facts.items() if name != "kind"}
    make = MAPS.get(facts["kind"])
    if make is None:
        known = ", ".join(MAPS)
        msg = f"the kind of a map must be one of {known}. Got {facts['kind']!r} instead."
        raise InputError(msg)
    return make(**parameters)


def _map_facts(fitted: Map, classes: object, prior: object, fitted_on: object) -> Facts:
    names = None if classes is None else _names(classes, fitted.n_classes)
    k = fitted.n_classes if names is None else len(names)
    q = None if prior is None else checks.check_prior(prior, k or _length(prior))
    if fitted_on is not None and not re.fullmatch("[0-9a-f]{64}", str(fitted_on)):
        got = checks.shown(fitted_on)
        raise InputError(f"fitted_on must be a sha256, as fingerprint() returns. Got {got}.")
    return {
        "map": describe_map(fitted),
        "classes": names,
        "prior": None if q is None else q.tolist(),
        "fitted_on": fitted_on,
        "findings": [],
    }


def _read_map(facts: Facts) -> Map:
    fitted = build_map(facts["map"])
    _map_facts(fitted, facts["classes"], facts["prior"], facts["fitted_on"])
    return fitted


def _names(classes: object, n_classes: int | None) -> list[Any]:
    names = checks.check_classes(classes, n_classes or _length(classes))
    for name in names:
        text = isinstance(name, str) and name == name.encode(errors="ignore").decode()
        if not (text or isinstance(name, (int, np.integer))):
            got = f"{checks.shown(name)} of {type(name).__name__}"
            raise InputError(f"classes must be strings or integers. Got {got}.")
    return [str(name) if isinstance(name, str) else int(name) for name in names]


def _length(values: object) -> int:
    try:
        return len(cast("Any", values))
    except TypeError:  # no sequence, or an array without dimensions
        return 0


_READERS: dict[str, Callable[[dict[str, Any]], object]] = {"map": _read_map}


def _hash(facts: Facts, tensors: Tensors) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode() + array_digest(tensors[name]))
    return digest.hexdigest()


def _to_json(facts: Facts) -> bytes:
    signed = facts | {"sha256": _hash(facts, {})}
    lines = [f"{_compact(name)}: {_compact(value)}" for name, value in signed.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Turn NumPy values into what JSON knows."""
    if is_numpy(value) or isinstance(value, np.generic):
        return cast("Any", value).tolist()
    raise InputError(f"facts must be JSON. Got {type(value).__name__} instead.")


def _from_json(data: bytes | str) -> tuple[Facts, Tensors]:
    facts = parse(data)
    if not isinstance(facts, dict):
        raise InputError("holds no JSON object")
    return cast("Facts", facts), {}


def _to_safetensors(facts: Facts) -> bytes:
    from safetensors.numpy import save as serialise

    described = facts["map"]
    tensors = {n: np.asarray(v, np.float64) for n, v in described.items() if isinstance(v, list)}
    facts = facts | {"map": {n: v for n, v in described.items() if n not in tensors}}
    return serialise(tensors, {FORMAT: _compact(facts | {"sha256": _hash(facts, tensors)})})


def _from_safetensors(data: bytes) -> tuple[Facts, Tensors]:
    from safetensors.numpy import load as deserialise

    try:
        with decoding("it", "an artefact"):
            tensors = deserialise(data)
    except InputError:
        raise InputError("is neither JSON nor safetensors, or is damaged") from None
    header: Facts = parse(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata: Facts = header.get("__metadata__") or {}
    facts, _ = _from_json(str(metadata.get(FORMAT, "{}")))
    return facts, tensors


def _refuse(path: object, reason: str) -> InputError:
    return InputError(f"the file {shown_path(path)} cannot be loaded: it {reason.rstrip('.')}.")

"""Artefacts: what is saved comes back, what is damaged is refused, what is killed was not begun."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch
from gallery import MAPS
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as serialise
from simulated import logits

import temperance as tp
from temperance.data.given import fingerprint
from temperance.io import artefact

SUFFIXES = ["json", "safetensors"]
SHA = "0" * 64


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    return tmp_path / f"map.{request.param}"


def signed(facts):
    """Facts as a file whose hash is right, however wrong they are."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return json.dumps(facts | {"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def plain_facts(**changes):
    facts = {
        "format": "temperance",
        "version": 1,
        "package": tp.__version__,
        "kind": "map",
        "map": {"kind": "biased", "temperature": 1.5, "bias": [0.5, -0.5]},
        "classes": ["cat", "dog"],
        "prior": [0.25, 0.75],
        "fitted_on": SHA,
        "findings": [],
    }
    return facts | changes


# -------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", MAPS)
def test_a_map_comes_back_to_the_last_bit(path, kind):
    fitted = MAPS[kind](7)
    tp.save(fitted, path)
    assert tp.load(path) == fitted
    assert type(tp.load(path)) is type(fitted)


@given(
    st.floats(1e-200, 1e200),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=5),
    st.sampled_from(SUFFIXES),
)
def test_every_float_comes_back(tmp_path_factory, temperature, bias, suffix):
    path = tmp_path_factory.getbasetemp() / f"any.{suffix}"
    fitted = tp.BiasedTemperature(temperature, bias)
    tp.save(fitted, path)
    got = tp.load(path)
    assert got.temperature == temperature
    assert got.bias.tobytes() == np.array(bias, dtype=float).tobytes()  # -0.0 is not 0.0


def test_the_same_inputs_give_the_same_bytes(path):
    z, y = logits(200, 4, sharpness=2.0)
    written = []
    for _ in range(2):
        tp.save(tp.fit_matrix(z, y, penalty=0.1), path, fitted_on=fingerprint(z, y))
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_the_file_says_what_it_holds(path):
    names = ["mélanome", "nævus", "其他"]
    tp.save(
        tp.BiasedTemperature(2.0, [0.0, 1.0, 2.0]),
        path,
        classes=names,
        prior=[0.5, 0.25, 0.25],
        fitted_on=SHA,
    )
    facts = artefact.read(path)
    assert facts["format"] == "temperance"
    assert facts["version"] == 1
    assert facts["package"] == tp.__version__
    assert facts["kind"] == "map"
    assert facts["map"]["kind"] == "biased"
    assert np.asarray(facts["map"]["bias"]).tolist() == [0.0, 1.0, 2.0]
    assert facts["classes"] == names
    assert facts["prior"] == [0.5, 0.25, 0.25]
    assert facts["fitted_on"] == SHA
    assert facts["findings"] == []
    assert "mélanome".encode() in path.read_bytes()  # readable by people too


def test_json_has_a_fact_a_line_and_is_json(tmp_path):
    path = tmp_path / "map.json"
    tp.save(tp.Temperature(1.44), path)
    text = path.read_text("utf-8")
    assert json.loads(text)["map"] == {"kind": "temperature", "temperature": 1.44}
    assert len(text.splitlines()) == 12
    assert text.endswith("}\n")


def test_safetensors_is_read_by_its_own_library(tmp_path):
    from safetensors import safe_open

    path = tmp_path / "map.safetensors"
    tp.save(MAPS["matrix"](5), path)
    with safe_open(path, framework="numpy") as file:
        assert (file.get_tensor("weight") == MAPS["matrix"](5).weight).all()
        assert json.loads(file.metadata()["temperance"])["map"] == {"kind": "matrix"}


def test_a_large_matrix_is_smaller_in_binary(tmp_path):
    rng = np.random.default_rng(0)
    fitted = tp.MatrixMap(rng.normal(size=(200, 200)), np.zeros(200))
    for suffix in SUFFIXES:
        tp.save(fitted, tmp_path / f"m.{suffix}")
        assert tp.load(tmp_path / f"m.{suffix}") == fitted
    sizes = [(tmp_path / f"m.{suffix}").stat().st_size for suffix in SUFFIXES]
    assert sizes[1] < sizes[0] / 2
    assert sizes[1] < 200 * 201 * 8 + 2_000


def test_the_name_of_a_file_does_not_decide_how_it_is_read(path):
    tp.save(MAPS["vector"](3), path)
    renamed = path.rename(path.with_suffix(".cal"))
    assert tp.load(renamed) == MAPS["vector"](3)


def test_a_calibration_is_saved_and_loaded_alike(path):
    z, y = logits(400, 4, sharpness=3.0, seed=1)
    cal = tp.calibrate(z[:200], prior=np.full(4, 0.25), source=(z[200:], y[200:]))
    cal.save(path)
    again = tp.load(path)
    assert isinstance(again, tp.Calibration)
    assert again.to_dict() == cal.to_dict()
    assert again.map == cal.map
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


# -------------------------------------------------------------------------------- fingerprints


def test_a_fingerprint_sees_values_shapes_and_types_and_nothing_else():
    z = np.arange(12.0).reshape(4, 3)
    same = [np.asfortranarray(z), z.astype(">f8"), torch.tensor(z), z.copy()[:, :], z.tolist()]
    assert {fingerprint(x) for x in same} == {fingerprint(z)}
    other = [z + 1e-15 * (z == 5), z.reshape(3, 4), z.astype(np.float32), z.ravel(), z[:-1]]
    assert len({fingerprint(x) for x in [*other, z]}) == 1 + len(other)
    assert fingerprint(z, None) != fingerprint(z)
    assert fingerprint(z, [0, 1]) != fingerprint(z, [1, 0])
    assert fingerprint(["a", "b"]) != fingerprint(["a", "c"])


def test_a_fingerprint_of_a_large_array_is_taken_in_parts(monkeypatch):
    z = np.random.default_rng(0).normal(size=(1000, 7))
    whole = fingerprint(z)
    monkeypatch.setattr("temperance.data.given.HASHED", 100)
    assert fingerprint(z) == whole


@pytest.mark.parametrize("bad", [object(), {"a": 1}, np.array([{}]), "text"])
def test_a_fingerprint_of_what_is_no_array_is_refused(bad):
    with pytest.raises(tp.InputError, match=r"array.* must"):
        fingerprint(bad)


# ----------------------------------------------------------------------------------- refusals

WRONG = {
    "newer format": ({"version": 2}, "has format 2, newer than 1: update temperance"),
    "format zero": ({"version": 0}, "impossible format version 0"),
    "format in words": ({"version": "1"}, "impossible format version '1'"),
    "format true": ({"version": True}, "impossible format version True"),
    "another program's": ({"format": "onnx"}, "not a temperance artefact"),
    "unknown kind": ({"kind": "spline"}, "unknown kind 'spline'"),
    "kind a list": ({"kind": []}, "unknown kind"),
    "T zero": ({"map": {"kind": "temperature", "temperature": 0.0}}, r"finite number in \[1e-200"),
    "T negative": ({"map": {"kind": "temperature", "temperature": -2.0}}, "Got -2.0"),
    "T in words": ({"map": {"kind": "temperature", "temperature": "2"}}, "Got '2'"),
    "T null": ({"map": {"kind": "temperature", "temperature": None}}, "Got None"),
    "T true": ({"map": {"kind": "temperature", "temperature": True}}, "Got True"),
    "unknown map": ({"map": {"kind": "beta"}}, "one of temperature, biased.* Got 'beta'"),
    "map a list": ({"map": [1, 2]}, "wrong type"),
    "map null": ({"map": None}, "wrong type"),
    "map without kind": ({"map": {"temperature": 1.0}}, "lacks a fact"),
    "map without T": ({"map": {"kind": "temperature"}}, "lacks a fact"),
    "map with more": ({"map": {"kind": "temperature", "temperature": 1.0, "x": 1}}, "wrong type"),
    "bias in words": ({"map": {"kind": "biased", "temperature": 1.0, "bias": ["1", "2"]}}, "bias"),
    "bias ragged": ({"map": {"kind": "biased", "temperature": 1.0, "bias": [1, [2]]}}, "bias"),
    "wrong lengths": (
        {"map": {"kind": "vector", "scale": [1.0, 2.0], "bias": [0.0, 0.0, 0.0]}},
        "scale must have 3 columns",
    ),
    "matrix not square": (
        {"map": {"kind": "matrix", "weight": [[1.0, 2.0]] * 3, "bias": [0.0] * 3}},
        "weight columns",
    ),
    "classes of another length": ({"classes": ["a", "b", "c"]}, "2 distinct names"),
    "classes twice": ({"classes": ["a", "a"]}, "1 of them distinct"),
    "classes not names": ({"classes": [1.5, None]}, "strings or integers"),
    "prior of another length": ({"prior": [0.5, 0.25, 0.25]}, "prior must be 2 numbers"),
    "prior that does not sum to 1": ({"prior": [0.5, 0.6]}, "sum to 1. Got 1.1"),
    "prior in words": ({"prior": "uniform"}, "prior must be"),
    "fitted on a wish": ({"fitted_on": "my data"}, "sha256"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_facts_with_a_right_hash_are_refused(tmp_path, case):
    changes, message = WRONG[case]
    path = tmp_path / "wrong.json"
    path.write_bytes(signed(plain_facts(**changes)))
    with pytest.raises(tp.InputError, match=f"wrong.json' cannot be loaded: it .*{message}"):
        tp.load(path)


@pytest.mark.parametrize("missing", ["format", "version", "kind", "map", "classes", "prior"])
def test_missing_facts_are_refused(tmp_path, missing):
    facts = plain_facts()
    del facts[missing]
    path = tmp_path / "part.json"
    path.write_bytes(signed(facts))
    with pytest.raises(tp.InputError, match="cannot be loaded"):
        tp.load(path)


def test_the_right_facts_are_not(tmp_path):
    path = tmp_path / "right.json"
    path.write_bytes(signed(plain_facts()))
    assert tp.load(path) == tp.BiasedTemperature(1.5, [0.5, -0.5])


RAW = {
    "empty": (b"", "neither JSON nor safetensors"),
    "blank": (b" \n", "neither JSON nor safetensors"),
    "text": (b"T = 1.44", "neither JSON nor safetensors"),
    "pickle": (b"\x80\x04K\x01.", "neither JSON nor safetensors"),
    "npz": (b"PK\x03\x04" + bytes(100), "neither JSON nor safetensors"),
    "list": (b"[1, 2]", "neither JSON nor safetensors"),
    "half": (b'{"format": "temp', "is no JSON .line 1"),
    "two": (b"{}{}", "is no JSON .line 1"),
    "not UTF-8": (b'{"format": "\xff"}', "is no JSON in UTF-8"),
    "UTF-16": ('{"format": "temperance"}'.encode("utf-16"), "neither JSON nor safetensors"),
    "nested": (b'{"a":' * 100_000, "nests JSON too deeply"),
    "nested lists": (b'{"a":' + b"[" * 100_000, "nests JSON too deeply"),
    "long integer": (b'{"a": ' + b"9" * 5_000 + b"}", "an integer of 5,000 digits"),
    "NaN": (b'{"a": NaN}', "holds NaN"),
    "Infinity": (b'{"a": -Infinity}', "holds -Infinity"),
    "overflow": (
        b'{"format": "temperance", "version": 1, "a": 1e999}',
        "holds 1e999, which is too large",
    ),
    "duplicate": (b'{"version": 1, "version": 2}', "holds the key 'version' twice"),
    "duplicate inside": (b'{"map": {"bias": 1, "bias": 2}}', "holds the key 'bias' twice"),
    "no hash": (json.dumps(plain_facts()).encode(), "does not match its own sha256"),
    "null hash": (json.dumps(plain_facts(sha256=None)).encode(), "own sha256"),
    "object": (b"{}", "not a temperance artefact"),
    "safetensors of others": (b"\x08" + bytes(7) + b"{}      ", "not a temperance artefact"),
    "huge header": (b"\xff" * 8 + b"{}", "neither JSON nor safetensors"),
}


def test_facts_beside_tensors_must_be_an_object_too(tmp_path):
    path = tmp_path / "list.safetensors"
    path.write_bytes(serialise({"bias": np.zeros(2)}, {"temperance": "[1, 2]"}))
    with pytest.raises(tp.InputError, match="holds no JSON object"):
        tp.load(path)


@pytest.mark.parametrize("case", RAW)
def test_files_that_are_no_artefact_are_refused(tmp_path, case):
    data, message = RAW[case]
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(tp.InputError, match=f"cannot be loaded: it .*{message}"):
        tp.load(path)


def test_an_edited_number_is_noticed(path):
    tp.save(tp.BiasedTemperature(1.5, [0.25, 0.5]), path)
    data = path.read_bytes()
    assert data.count(b"1.5") == 1
    path.write_bytes(data.replace(b"1.5", b"2.5"))
    with pytest.raises(tp.InputError, match="damaged or edited by hand"):
        tp.load(path)


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(artefact, "MAX_BYTES", 1 << 20)
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing, on paper
    with pytest.raises(tp.InputError, match=r"at most 1 MB here\. It has more"):
        tp.load(path)
    with pytest.raises(tp.InputError, match=r"below 1 MB\..*safetensors"):
        tp.save(tp.MatrixMap(np.ones((600, 600)), np.zeros(600)), tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("bad", ["no such file", ".", "a\0b", 7, None, b"x", ["a"]])
def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tp.InputError, match="path must name a file that can be read"):
        tp.load(bad)


@pytest.mark.parametrize("bad", ["no such directory/x.json", ".", "a\0b", None, 1.5])
def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tp.InputError, match="must be a file in a directory that exists"):
        tp.save(tp.Temperature(1.0), bad)


@pytest.mark.parametrize("obj", [1.5, None, {"T": 1}, tp.Temperature, "map", np.ones(3)])
def test_only_maps_and_calibrations_are_saved(tmp_path, obj):
    with pytest.raises(tp.InputError, match="obj must be a map or a calibration"):
        tp.save(obj, tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"classes": ["a", "b"]}, "classes must hold 3 distinct names"),
        ({"classes": [(1, 2), "b", "c"]}, "classes must"),
        ({"classes": ["a", "b", "\ud800"]}, "text that UTF-8 can write"),
        ({"classes": 5}, "classes must"),
        ({"prior": [0.5, 0.5]}, "prior must be 3 numbers"),
        ({"prior": iter([1])}, "prior must be"),
        ({"fitted_on": b"0" * 64}, "fitted_on must be a sha256"),
        ({"fitted_on": "A" * 64}, "fitted_on must be a sha256"),
    ],
)
def test_facts_about_a_map_are_checked_before_they_are_written(tmp_path, facts, message):
    with pytest.raises(tp.InputError, match=message):
        tp.save(tp.BiasedTemperature(1.0, [0.0, 1.0, 2.0]), tmp_path / "x.json", **facts)
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------- damage


@pytest.fixture(scope="module", params=SUFFIXES)
def sound(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / f"m.{request.param}"
    fitted = tp.VectorMap([1.25, 0.5, 3.75], [0.1, -0.2, 0.3])
    tp.save(fitted, path, classes=["a", "b", "é"], prior=[0.5, 0.25, 0.25], fitted_on=SHA)
    return path.read_bytes(), fitted, path.with_name("damaged")


def assert_refused_or_same(damaged, fitted, path):
    path.write_bytes(damaged)
    try:
        got = tp.load(path)
    except tp.InputError as error:
        assert len(str(error)) > 20  # noqa: PT017 - a sentence
    else:
        assert got == fitted


def test_every_flipped_bit_is_noticed_or_harmless(sound):
    data, fitted, path = sound
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        assert_refused_or_same(bytes(flipped), fitted, path)


def test_every_truncation_is_noticed(sound):
    data, _, path = sound
    for length in range(len(data) - 1):  # the last byte of JSON is an empty line
        path.write_bytes(data[:length])
        with pytest.raises(tp.InputError):
            tp.load(path)


@given(data=st.data())
def test_random_damage_is_noticed_or_harmless(sound, data):
    original, fitted, path = sound
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.sampled_from(["overwrite", "insert", "delete", "copy"])):
            case "overwrite":
                damaged[position] = data.draw(st.integers(0, 255))
            case "insert":
                damaged[position:position] = data.draw(st.binary(min_size=1, max_size=20))
            case "delete":
                del damaged[position : position + data.draw(st.integers(1, 20))]
            case "copy":
                damaged[position:position] = damaged[: data.draw(st.integers(1, 60))]
        if not damaged:
            return
    assert_refused_or_same(bytes(damaged), fitted, path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ["temperature", "accuracy", "ece_before", "ece_after", "gain"])
@pytest.mark.parametrize("wrong", ["too large", "outside", "upside down"])
def test_an_interval_without_its_value_is_refused_with_a_right_hash(tmp_path, name, wrong):
    y = np.arange(300) % 3
    z = 3 * (2 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(300, 3)))
    path = tmp_path / "cal.json"
    tp.calibrate(z, np.full(3, 1 / 3), (z, y)).save(path)
    facts = {k: v for k, v in json.loads(path.read_text("utf-8")).items() if k != "sha256"}
    value, low, high = facts[name]
    intervals = {
        "too large": [1e308, low, high],
        "outside": [high + 1, low, high],
        "upside down": [value, high, low],
    }
    path.write_bytes(signed(facts | {name: intervals[wrong]}))
    with pytest.raises(tp.InputError, match=f"{name} must be finite and inside its interval"):
        tp.load(path)


PLAUSIBLE = ("details", "plausible")
RESIGNED = {
    "tiny temperature": (("map", "temperature"), 5e-324, "temperature must be a finite number"),
    "tiny plausible": ((*PLAUSIBLE, "temperatures", 0), 5e-324, "temperature must be a finite"),
    "no weights": ((*PLAUSIBLE, "weights"), [], "plausible.weights must be"),
    "negative weight": ((*PLAUSIBLE, "weights", 0), -1.0, "plausible.weights must be"),
    "one map": ((*PLAUSIBLE, "temperatures"), [1.0], "plausible.temperatures must hold"),
    "short bias": ((*PLAUSIBLE, "biases", 0), [0.0], "plausible.biases must hold"),
    "huge bias": ((*PLAUSIBLE, "biases", 0, 0), 1e300, "plausible.biases must lie within"),
    "other method": (("details", "method"), "vector", "method must be one of"),
    "other prior": (("details", "prior_kind"), "x", "prior_kind must be one of"),
    "other map": (("map",), {"kind": "vector", "scale": [1.0], "bias": [0.0]}, "kind of the map"),
    "other classes": (("map", "bias"), [0.0, 0.0], "map must have"),
}


@pytest.mark.parametrize("case", RESIGNED)
def test_a_calibration_that_was_signed_again_is_refused(tmp_path, case):
    place, value, sentence = RESIGNED[case]
    y = np.arange(300) % 3
    z = 3 * (2 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(300, 3)))
    path = tmp_path / "cal.json"
    tp.calibrate(z, np.full(3, 1 / 3), (z, y)).save(path)
    facts = {k: v for k, v in json.loads(path.read_text("utf-8")).items() if k != "sha256"}
    facts["map"] = {"kind": "biased", "temperature": 2.0, "bias": [0.0, 0.0, 0.0]}
    path.write_bytes(signed(facts))
    tp.load(path)
    inner = facts
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_bytes(signed(facts))
    with pytest.raises(tp.InputError, match=sentence) as caught:
        tp.load(path)
    assert not str(caught.value).endswith("..")


@given(
    st.dictionaries(st.sampled_from(sorted(plain_facts())), json_values, max_size=4),
    st.dictionaries(
        st.sampled_from(["kind", "temperature", "bias", "scale", "weight"]), json_values, max_size=3
    ),
)
def test_any_facts_with_a_right_hash_give_a_map_or_a_refusal(tmp_path_factory, changes, inside):
    path = tmp_path_factory.getbasetemp() / "facts.json"
    facts = plain_facts(**changes)
    if isinstance(facts.get("map"), dict):
        facts["map"] = facts["map"] | inside
    path.write_bytes(signed(facts))
    with suppress(tp.InputError):
        assert isinstance(tp.load(path), tp.maps.Map)


# --------------------------------------------------------------------------------- the file


def test_a_new_file_has_the_usual_permissions_and_leaves_nothing_beside_it(path):
    tp.save(tp.Temperature(2.0), path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert list(path.parent.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real" / "map.json")
    tp.save(tp.Temperature(2.0), link)
    assert link.is_symlink()
    assert tp.load(tmp_path / "real" / "map.json") == tp.Temperature(2.0)


CRASHES = """
import json, os, resource, signal, sys
from pathlib import Path
import numpy as np, temperance as tp

OLD, NEW = (tp.MatrixMap(np.eye(150) * s, np.zeros(150)) for s in (1.0, 2.0))
told = {}

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid

def outcome(pid, path):
    status = os.waitpid(pid, 0)[1]
    found = [name for name, fitted in (("old", OLD), ("new", NEW)) if tp.load(path) == fitted]
    beside = len(list(path.parent.iterdir())) - 1
    tp.save(NEW, path)  # what was left behind is in nobody's way
    return {"status": os.waitstatus_to_exitcode(status), "found": found, "beside": beside,
            "again": tp.load(path) == NEW}

def killed_at(event, path):
    def watch(name, args):
        if name == event and ".tmp" in str(args[0]):
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    tp.save(NEW, path)

def disk_full(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        tp.save(NEW, path)
    except OSError:
        os._exit(3)

def for_ever(path):
    while True:
        tp.save(NEW, path)
        tp.save(OLD, path)

for suffix in ("json", "safetensors"):
    path = Path(sys.argv[1]) / suffix / f"map.{suffix}"
    path.parent.mkdir()
    for name, work in {
        "open": lambda: killed_at("open", path),
        "rename": lambda: killed_at("os.rename", path),
        "full": lambda: disk_full(path),
    }.items():
        tp.save(OLD, path)
        told[f"{suffix} {name}"] = outcome(child(work), path)
        for rubbish in path.parent.glob(".*.tmp"):
            rubbish.unlink()
    told[f"{suffix} any"] = []
    for _ in range(6):
        pid = child(lambda: for_ever(path))
        while not any(name.endswith(".tmp") for name in os.listdir(path.parent)):
            pass
        os.kill(pid, signal.SIGKILL)  # somewhere between the first byte and the rename
        told[f"{suffix} any"].append(outcome(pid, path))
        for rubbish in path.parent.glob(".*.tmp"):
            rubbish.unlink()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def crashes(tmp_path_factory):
    """What was found after real processes, forked by one of their own, died while saving."""
    directory = tmp_path_factory.mktemp("crashes")
    command = [sys.executable, "-c", CRASHES, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("step", ["open", "rename"])
def test_a_kill_just_before_a_step_leaves_the_old_file_whole(crashes, step, suffix):
    """The interpreter's own audit events stop the process at the steps of a real save."""
    told = crashes[f"{suffix} {step}"]
    assert told["status"] == -signal.SIGKILL
    assert told["found"] == ["old"]
    assert told["again"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_kills_at_any_moment_leave_one_of_the_two_files(crashes, suffix):
    told = crashes[f"{suffix} any"]
    assert {t["status"] for t in told} == {-signal.SIGKILL}
    assert all(t["found"] in (["old"], ["new"]) for t in told)
    assert any(t["beside"] for t in told), "no kill hit a save in the middle: nothing was tested"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_old_file_and_no_rubbish(crashes, suffix):
    """A limit on the size of files makes the write itself fail, as a full disk does."""
    told = crashes[f"{suffix} full"]
    assert told == {"status": 3, "found": ["old"], "beside": 0, "again": True}


def test_of_an_estimator_the_map_is_saved(tmp_path):
    z = np.array([[2.0, 0.0]] * 4)
    fitted = tp.TemperatureScaling().fit(z, [0, 0, 0, 1])
    with pytest.raises(tp.InputError, match=r"Got TemperatureScaling; .* take its map_"):
        tp.save(fitted, tmp_path / "map.json")
    tp.save(fitted.map_, tmp_path / "map.json")
    assert tp.load(tmp_path / "map.json") == fitted.map_

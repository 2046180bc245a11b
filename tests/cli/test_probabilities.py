"""Probabilities go into every command, in every format, and come out to go in again."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import temperance as tp
from temperance.cli import main
from temperance.io import formats

K = 4
SUFFIXES = sorted(formats.FORMATS)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    y = rng.integers(K, size=900)
    z = 3 * (1.3 * np.eye(K)[y] + rng.normal(size=(900, K)))
    return z, y


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Write logits and their softmax in every format, as other programs would."""
    path = tmp_path_factory.mktemp("probabilities")
    z, y = data
    for suffix in SUFFIXES:
        table = formats.Table(z, y)
        formats.write(path / f"z{suffix}", table)
        formats.write(path / f"p{suffix}", table, lambda z: softmax(z, axis=1), "probabilities")
    np.savez(path / "unnamed.npz", logits=softmax(z, axis=1), labels=y)
    np.save(path / "y.npy", y)
    frame = pd.DataFrame(softmax(z, axis=1), columns=[f"prob_{k}" for k in range(K)])
    frame.insert(0, "patient", [f"{i:03d}" for i in range(900)])
    frame.to_csv(path / "clinic.csv", index=False)
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def labels_of(path):
    return ["--labels", path.parent / "y.npy"] if path.suffix == ".npy" else []


def numbers(value):
    """Yield the numbers in a JSON document, in order."""
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, (int, float)):
        yield float(value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_computed_is_what_the_logits_give(folder, capsys, suffix):
    """The logarithm of a softmax is the logits but for a constant per row."""
    z, p = folder / f"z{suffix}", folder / f"p{suffix}"
    for command in (["evaluate"], ["fit", "--method", "temperature"]):
        found = []
        for path, flag in ((z, []), (p, ["--probabilities"])):
            out = ["--out", folder / "map.json"] if command[0] == "fit" else []
            arguments = [command[0], path, *command[1:], *out, *labels_of(path), *flag, "--json"]
            found.append(json.loads(run(capsys, *arguments)))
        np.testing.assert_allclose(*(list(numbers(one)) for one in found), rtol=1e-6)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_calibrate_reads_them_as_target_and_source(folder, capsys, suffix, data):
    p = folder / f"p{suffix}"
    source = folder / "p.csv"
    arguments = ["calibrate", p, "--source", source, "--prior", "source", "--probabilities"]
    facts = json.loads(run(capsys, *arguments, "--json"))
    z, y = data
    expected = tp.calibrate(
        tp.from_probabilities(softmax(z, axis=1)),
        np.bincount(y) / len(y),
        (tp.from_probabilities(softmax(z, axis=1)), y),
    )
    assert facts["verdict"] == expected.verdict
    np.testing.assert_allclose(facts["map"]["temperature"], expected.map.temperature, rtol=1e-6)


def test_an_array_may_have_no_name_of_its_own(folder, capsys):
    run(capsys, "evaluate", folder / "unnamed.npz", "--probabilities")
    assert main(["evaluate", str(folder / "unnamed.npz")]) == 2
    assert "Add --probabilities" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s != ".npy"])
def test_what_apply_writes_is_read_again(folder, capsys, suffix, data):
    z, _ = data
    tp.save(tp.Temperature(2.0), folder / "two.json")
    once, twice = folder / f"once{suffix}", folder / f"twice{suffix}"
    for path, out in ((folder / f"z{suffix}", once), (once, twice)):
        run(capsys, "apply", path, "--map", folder / "two.json", "--out", out, "--probabilities")
    again = formats.read(twice, content="probabilities").logits
    np.testing.assert_allclose(softmax(again, axis=1), softmax(z / 4, axis=1), rtol=1e-6)
    run(capsys, "evaluate", twice, "--probabilities")
    assert main(["apply", str(once), "--map", str(folder / "two.json"), "--out",
                 str(folder / "z.csv")]) == 2  # fmt: skip
    assert "add --probabilities" in capsys.readouterr().err


def test_columns_keep_their_places_and_the_answer_is_named(folder, capsys):
    tp.save(tp.Temperature(2.0), folder / "named.json", classes=["mel", "nv", "bcc", "akiec"])
    arguments = ["apply", folder / "clinic.csv", "--map", folder / "named.json", "--probabilities"]
    run(capsys, *arguments, "--out", folder / "answers.csv")
    frame = pd.read_csv(folder / "answers.csv", dtype={"patient": str})
    new = [f"prob_{k}" for k in range(K)]
    assert list(frame) == ["patient", *new, "prediction", "confidence"]
    assert frame["patient"].tolist() == [f"{i:03d}" for i in range(900)]
    names = np.array(["mel", "nv", "bcc", "akiec"])
    assert frame["prediction"].tolist() == names[frame[new].to_numpy().argmax(axis=1)].tolist()
    np.testing.assert_array_equal(frame["confidence"], frame[new].max(axis=1))


def test_half_precision_logits_give_probabilities_that_sum_to_one(folder, capsys, data):
    z, _ = data
    np.save(folder / "half.npy", z.astype(np.float16))
    tp.save(tp.Temperature(2.0), folder / "two.json")
    for out in ("half.parquet", "half_p.npy"):
        run(capsys, "apply", folder / "half.npy", "--map", folder / "two.json",
            "--out", folder / out, "--probabilities")  # fmt: skip
    p = np.load(folder / "half_p.npy")
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_a_report_takes_labelled_probabilities(folder, capsys):
    cal = folder / "cal.json"
    arguments = ["calibrate", folder / "p.csv", "--prior", "uniform", "--probabilities"]
    main([str(a) for a in [*arguments, "--out", cal]])
    capsys.readouterr()
    page = ["report", cal, "--labelled", folder / "p.parquet", "--probabilities"]
    run(capsys, *page, "--out", folder / "r.html")


def test_a_few_labelled_rows_of_the_target(folder, capsys, data):
    z, y = data
    np.savez(folder / "thirty.npz", logits=z[:30], labels=y[:30])
    np.savez(folder / "target.npz", logits=z)
    command = ["calibrate", folder / "target.npz", "--labelled", folder / "thirty.npz", "--json"]
    expected = tp.calibrate(z, labelled=(z[:30], y[:30])).to_dict()
    code = main([str(a) for a in command])
    facts = json.loads(capsys.readouterr().out)
    assert code == int(expected["verdict"] == "refused")
    assert facts == json.loads(json.dumps(expected))
    assert main([str(a) for a in [*command, "--prior", "source"]]) == 2
    assert "needs a --source" in capsys.readouterr().err


# --------------------------------------------------------------------------------------- gates


def gated(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_gates_of_a_calibration(folder, capsys):
    command = ["calibrate", folder / "z.npz", "--source", folder / "z.npz", "--prior", "source"]
    code, out, _ = gated(capsys, *command, "--json")
    facts = json.loads(out)
    assert code == 0
    assert "failed" not in facts
    value = facts["accuracy"][0]
    assert gated(capsys, *command, "--min-accuracy", value - 0.001)[0] == 0
    code, out, said = gated(capsys, *command, "--min-accuracy", min(1, value + 0.001))
    assert code == 1
    assert f"Gate missed: accuracy {value:.4f} is below" in out
    assert "spans the gate" in said
    code, out, _ = gated(capsys, *command, "--max-ece", 0, "--json")
    assert code == 1
    assert json.loads(out)["failed"][0].startswith("ECE ")


def test_a_gate_is_missed_where_nothing_is_known(tmp_path, capsys):
    np.savez(tmp_path / "few.npz", logits=np.random.default_rng(0).normal(size=(12, 3)))
    command = ["calibrate", tmp_path / "few.npz", "--prior", "uniform"]
    code, out, _ = gated(capsys, *command, "--min-accuracy", "0", "--max-ece", "1")
    assert code == 1
    assert "accuracy is not known, and 0 was demanded" in out
    assert "ECE is not known, and 1 was demanded" in out
    code, _, said = gated(capsys, *command, "--min-accuracy", "1.5")
    assert code == 2
    assert "--min-accuracy must be a finite number in [0, 1]" in said

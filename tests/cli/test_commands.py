"""Every command, as a person types it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import temperance as tp
from temperance.cli import demo, main
from temperance.io import formats


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files as users have them: MNIST digits, source and rotated, in several formats."""
    path = tmp_path_factory.mktemp("files")
    source, target = demo.load("source"), demo.load("rotated_60")
    names = source.classes
    np.savez(path / "source.npz", logits=source.logits, labels=source.labels, classes=names)
    np.savez(path / "target.npz", logits=target.logits, classes=names)
    np.savez(path / "test.npz", logits=target.logits, labels=target.labels, classes=names)
    np.save(path / "z.npy", source.logits)
    np.save(path / "y.npy", source.labels)
    exact = source.logits.astype(np.float32)  # half precision loses digits as text
    frame = pd.DataFrame({f"logit_{k}": exact[:, k] for k in range(10)})
    frame["label"] = source.labels
    frame.to_csv(path / "source.csv", index=False)
    frame.to_parquet(path / "source.parquet")
    (path / "prior.json").write_text(json.dumps(demo.class_mix().tolist()))
    return path


@pytest.fixture(scope="module")
def calibrated(folder):
    out = folder / "cal.json"
    arguments = ["calibrate", folder / "target.npz", "--prior", folder / "prior.json"]
    arguments += ["--source", folder / "source.npz", "--out", out]
    arguments += ["--report", folder / "report.html"]
    assert main([str(argument) for argument in arguments]) == 0
    return out


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_calibrate_writes_what_the_library_computes(folder, calibrated):
    target, source = demo.load("rotated_60"), demo.load("source")
    expected = tp.calibrate(
        target.logits,
        demo.class_mix(),
        (source.logits, source.labels),
        classes=source.classes,
    )
    assert tp.load(calibrated).to_dict() == expected.to_dict()
    assert (folder / "report.html").read_text("utf-8") == expected.to_html()


def test_calibrate_says_what_it_means(folder, capsys):
    code, out, _ = run(
        capsys,
        *("calibrate", folder / "target.npz", "--prior", "uniform"),
        *("--source", folder / "source.npz"),
    )
    assert code == 0
    assert "Verdict: improved" in out
    assert "On these 4,000 rows the model says it is 88% sure on average" in out
    assert "TP104 warn" in out
    assert "\x1b[" not in out  # no colours in a pipe


def test_json_stands_alone(folder, capsys):
    code, out, _ = run(
        capsys,
        *("calibrate", folder / "target.npz", "--prior", "uniform", "--json"),
        *("--source", folder / "source.parquet"),
    )
    facts = json.loads(out)
    assert code == 0
    assert facts["verdict"] == "improved"
    assert facts["details"]["n_target"] == 4000


@pytest.mark.parametrize(
    ("prior", "kind"),
    [
        ([0.1] * 10, "given"),
        ({str(k): 0.1 for k in range(10)}, "given"),
        ([[0.05, 0.2]] * 10, "range"),
        ({"about": [0.1] * 10, "rows": 50}, "about"),
        ({str(k): [0.05, 0.2] for k in range(10)}, "range"),
    ],
)
def test_every_form_of_prior(folder, capsys, tmp_path, prior, kind):
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(prior))
    code, out, _ = run(
        capsys,
        *("calibrate", folder / "target.npz", "--prior", path, "--json"),
        *("--source", folder / "source.npz"),
    )
    assert code == 0
    assert json.loads(out)["details"]["prior_kind"] == kind


def test_a_refusal_is_said_saved_and_ends_with_1(capsys, tmp_path):
    z = np.random.default_rng(0).normal(size=(12, 3))
    np.savez(tmp_path / "few.npz", logits=z)
    code, out, _ = run(
        capsys,
        "calibrate",
        tmp_path / "few.npz",
        "--prior",
        "uniform",
        "--out",
        tmp_path / "c.json",
    )
    assert code == 1
    assert "Verdict: refused" in out
    assert "12 target rows are too few" in out
    assert tp.load(tmp_path / "c.json").map == tp.Temperature(1.0)


@pytest.mark.parametrize("command", ["apply", "evaluate"])
def test_a_refused_calibration_is_not_used_in_silence(capsys, tmp_path, command):
    rng = np.random.default_rng(0)
    z, rows, cal = rng.normal(size=(12, 3)), tmp_path / "few.npz", tmp_path / "c.json"
    np.savez(rows, logits=z, labels=rng.integers(3, size=12))
    run(capsys, "calibrate", rows, "--prior", "uniform", "--out", cal)
    more = ["--out", tmp_path / "o.npz"] if command == "apply" else ["--json"]
    code, shown, said = run(capsys, command, rows, "--map", cal, *more)
    assert code == 1
    assert f"temperance: {cal} holds a refused calibration" in said
    if command == "apply":
        np.testing.assert_array_equal(np.load(tmp_path / "o.npz")["logits"], z)
    else:
        facts = json.loads(shown)
        assert facts["before"] == facts["after"]


@pytest.mark.parametrize("with_source", [False, True])
def test_a_refusal_says_what_is_applied_in_its_place(capsys, tmp_path, with_source):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    z = 6 * (np.eye(3)[y] + rng.normal(size=(400, 3)))
    few, old, cal = tmp_path / "few.npz", tmp_path / "old.npz", tmp_path / "c.json"
    np.savez(few, logits=z[:12])
    np.savez(old, logits=z, labels=y)
    known = ["--source", old] if with_source else ["--prior", "uniform"]
    run(capsys, "calibrate", few, *known, "--out", cal)
    _, _, said = run(capsys, "apply", few, "--map", cal, "--out", tmp_path / "o.npz")
    kept = np.array_equal(np.load(tmp_path / "o.npz")["logits"], z[:12])
    assert kept is not with_source
    assert ("The model's own confidence is kept" in said) is kept
    assert ("The temperature of the labelled source" in said) is with_source


@pytest.mark.parametrize("command", ["apply", "evaluate"])
def test_a_calibration_is_for_as_many_classes_as_it_was_fitted_with(capsys, tmp_path, command):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    z = 6 * (np.eye(3)[y] + rng.normal(size=(400, 3)))
    rows, wide, cal = tmp_path / "rows.npz", tmp_path / "wide.npz", tmp_path / "c.json"
    np.savez(rows, logits=z, labels=y)
    np.savez(wide, logits=np.tile(z, 2), labels=y)
    run(capsys, "calibrate", rows, "--source", rows, "--no-bias", "--out", cal)
    assert isinstance(tp.load(cal).map, tp.Temperature)
    more = ["--out", tmp_path / "o.npz"] if command == "apply" else []
    code, _, said = run(capsys, command, wide, "--map", cal, *more)
    assert code == 2
    assert "the rows must have the 3 classes of c.json. Got 6 columns" in said


def test_the_report_of_calibrate_has_the_title_and_model_given(capsys, folder, tmp_path):
    page = tmp_path / "r.html"
    words = ("--title", "Week 47", "--model", "LeNet-5")
    run(capsys, "calibrate", folder / "target.npz", "--prior", "uniform", "--report", page, *words)
    text = page.read_text("utf-8")
    assert "<h1>Week 47</h1>" in text
    assert "LeNet-5" in text
    _, _, said = run(capsys, "calibrate", folder / "target.npz", "--prior", "uniform", *words)
    assert "Add --report" in said


@pytest.mark.parametrize("file", ["source.npz", "source.csv", "source.parquet"])
def test_fit_agrees_with_the_library(folder, capsys, tmp_path, file):
    out = tmp_path / "map.json"
    code, shown, _ = run(capsys, "fit", folder / file, "--out", out)
    source = demo.load("source")
    expected = tp.fit_temperature(source.logits, source.labels)
    assert code == 0
    assert tp.load(out).temperature == pytest.approx(expected.temperature, rel=1e-6)
    assert f"Temperature {expected.temperature:.4g}" in shown


def test_fit_takes_labels_from_a_second_file(folder, capsys, tmp_path):
    out = tmp_path / "map.json"
    code, shown, _ = run(
        capsys, "fit", folder / "z.npy", "--labels", folder / "y.npy", "--out", out, "--json"
    )
    assert code == 0
    assert json.loads(shown)["map"]["temperature"] == tp.load(out).temperature


@pytest.mark.parametrize("method", ["vector", "matrix", "biased", "attended"])
def test_every_method_can_be_fitted(folder, capsys, tmp_path, method):
    out = tmp_path / "map.safetensors"
    more = ["--penalty", 0.1] if method == "matrix" else []  # a matrix can separate these rows
    code, _, _ = run(capsys, "fit", folder / "source.npz", "--method", method, *more, "--out", out)
    assert code == 0
    assert tp.load(out).kind == {"attended": "temperature"}.get(method, method)


def test_rows_that_a_matrix_can_separate_are_refused_without_a_penalty(folder, capsys, tmp_path):
    out = tmp_path / "map.json"
    command = ["fit", folder / "source.npz", "--method", "matrix", "--out", out]
    code, _, said = run(capsys, *command)
    assert code == 1
    assert "set a penalty" in said
    assert not out.exists()
    code, _, said = run(capsys, "fit", folder / "source.npz", "--penalty", 1, "--out", out)
    assert code == 2
    assert "--penalty goes with" in said


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet", ".safetensors"])
def test_apply_is_the_map(folder, calibrated, capsys, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    code, shown, said = run(
        capsys, "apply", folder / "target.npz", "--map", calibrated, "--out", out
    )
    assert code == 0
    assert shown == ""
    assert str(out) in said
    expected = tp.load(calibrated).map(demo.load("rotated_60").logits)
    np.testing.assert_array_equal(formats.read(out).logits.astype(np.float16), expected)


def test_apply_can_write_probabilities(folder, calibrated, capsys, tmp_path):
    out = tmp_path / "p.csv"
    arguments = ("apply", folder / "target.npz", "--map", calibrated, "--out", out)
    code, _, _ = run(capsys, *arguments, "--probabilities")
    assert code == 0
    p = pd.read_csv(out)
    columns = [f"prob_{k}" for k in range(10)]
    assert list(p) == [*columns, "prediction", "confidence"]
    np.testing.assert_allclose(p[columns].sum(axis=1), 1, atol=1e-6)  # half precision in, not out
    np.testing.assert_array_equal(p["confidence"], p[columns].max(axis=1))


@pytest.fixture
def clinic(tmp_path):
    """A table as a clinic keeps it, with names for classes and nothing that lists them."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    z = 2 * np.eye(3)[y] + rng.normal(size=(300, 3))
    words = np.array(["mel", "nv", "bcc"])
    np.savez(tmp_path / "val.npz", logits=z, labels=y, classes=words)
    np.savez(tmp_path / "bare.npz", logits=z)
    frame = pd.DataFrame({f"logit_{k}": z[:, k] for k in range(3)})
    frame["patient"], frame["label"] = [f"{i:04d}" for i in range(300)], words[y]
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    (tmp_path / "prior.json").write_text(json.dumps({"bcc": 0.3, "mel": 0.3, "nv": 0.4}))
    return tmp_path


def test_apply_keeps_the_columns_of_a_table_and_knows_the_classes(clinic, capsys):
    cal, table = clinic / "cal.json", pd.read_csv(clinic / "clinic.csv", dtype={"patient": str})
    tp.save(tp.Temperature(2.0), cal, classes=["mel", "nv", "bcc"])
    command = ("apply", clinic / "clinic.csv", "--map", cal, "--probabilities", "--out")
    code, _, said = run(capsys, *command, clinic / "p.csv")
    assert code == 0
    assert "prob_0 to prob_2 are the classes mel, nv, bcc." in said
    p = pd.read_csv(clinic / "p.csv", dtype={"patient": str})
    new = ["prob_0", "prob_1", "prob_2", "prediction", "confidence"]
    assert list(p) == [*new, "patient", "label"]
    pd.testing.assert_frame_equal(p[["patient", "label"]], table[["patient", "label"]])
    run(capsys, "apply", clinic / "clinic.csv", "--map", cal, "--out", clinic / "z.parquet")
    assert formats.read(clinic / "z.parquet").classes == ["mel", "nv", "bcc"]
    run(capsys, *command, clinic / "p.npz")
    held = np.load(clinic / "p.npz")
    assert held["classes"].tolist() == ["mel", "nv", "bcc"]
    assert held["labels"].tolist() == np.load(clinic / "val.npz")["labels"].tolist()


@pytest.mark.parametrize(
    ("target", "source"), [("clinic.csv", "val.npz"), ("val.npz", "clinic.csv")]
)
def test_names_known_from_one_file_serve_for_the_other(clinic, capsys, target, source):
    code, out, said = run(
        capsys,
        *("calibrate", clinic / target, "--source", clinic / source),
        *("--prior", clinic / "prior.json", "--json"),
    )
    assert code == 0, said
    facts = json.loads(out)["details"]
    assert facts["classes"] == ["mel", "nv", "bcc"]
    assert facts["prior"] == [0.3, 0.4, 0.3]


def test_names_known_from_a_map_serve_for_the_rows(clinic, capsys):
    cal, names = clinic / "cal.json", ["mel", "nv", "bcc"]
    command = ("calibrate", clinic / "bare.npz", "--prior", clinic / "prior.json", "--out", cal)
    assert run(capsys, *command, "--classes", ",".join(names))[0] == 0
    code, out, said = run(capsys, "evaluate", clinic / "clinic.csv", "--map", cal, "--json")
    assert code == 0, said
    assert json.loads(out)["rows"] == 300
    audited = ("report", cal, "--labelled", clinic / "clinic.csv", "--out", clinic / "r.html")
    assert run(capsys, *audited)[0] == 0


def test_labels_of_the_target_are_not_looked_at(clinic, capsys):
    text = (clinic / "clinic.csv").read_text().replace("mel", "").replace("nv", "no such class")
    (clinic / "clinic.csv").write_text(text)
    command = ("calibrate", clinic / "clinic.csv", "--source", clinic / "val.npz")
    assert run(capsys, *command)[0] == 0


def test_evaluate_measures_before_and_after(folder, calibrated, capsys):
    code, out, _ = run(capsys, "evaluate", folder / "test.npz", "--map", calibrated, "--json")
    facts = json.loads(out)
    rows = demo.load("rotated_60")
    expected = tp.metrics.evaluate(rows.logits, rows.labels)
    assert code == 0
    assert facts["before"]["nll"][0] == pytest.approx(expected.nll)
    assert facts["after"]["ece"][0] < facts["before"]["ece"][0]
    low, high = facts["before"]["accuracy"][1:]
    assert low < expected.accuracy < high


def test_a_gate_fails_with_1_and_says_why(folder, calibrated, capsys):
    arguments = ("evaluate", folder / "test.npz", "--map", calibrated)
    code, out, _ = run(capsys, *arguments, "--max-ece", "0.01", "--min-accuracy", "0.99")
    assert code == 1
    assert "Gate missed: ECE" in out
    assert "Gate missed: accuracy" in out
    code, _, _ = run(capsys, *arguments, "--max-ece", "0.9")
    assert code == 0


def test_a_gate_inside_the_interval_is_noted(folder, calibrated, capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "five.npz", logits=rng.normal(size=(5, 3)), labels=[0, 1, 2, 0, 1])
    arguments = ("evaluate", tmp_path / "five.npz", "--json")
    _, out, said = run(capsys, *arguments)
    assert said == ""
    for name, option in (("ece", "--max-ece"), ("accuracy", "--min-accuracy")):
        value, low, high = json.loads(out)["before"][name]
        for limit in ((low + value) / 2, (value + high) / 2):
            code, _, said = run(capsys, *arguments, option, limit)
            assert code == ((value > limit) if name == "ece" else (value < limit))
            assert f"{low:.4f} to {high:.4f}, spans the gate {limit:g}" in said
    arguments = ("evaluate", folder / "test.npz", "--map", calibrated)
    _, _, said = run(capsys, *arguments, "--max-ece", "0.9")  # thousands of rows, far away
    assert said == ""


def test_groups_in_a_file_widen_the_intervals(capsys, tmp_path):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 20)
    y = rng.integers(3, size=600)
    hard = np.where(rng.random(30)[patient] < 0.5, y, (y + 1) % 3)
    z = 3 * np.eye(3)[hard] + rng.normal(size=(600, 3))
    widths = []
    for extra in ({}, {"groups": patient}):
        np.savez(tmp_path / "t.npz", logits=z, labels=y, **extra)
        _, out, _ = run(capsys, "evaluate", tmp_path / "t.npz", "--json")
        facts = json.loads(out)
        assert facts["groups"] == (30 if extra else None)
        _, low, high = facts["before"]["accuracy"]
        widths.append(high - low)
    assert widths[1] > 2 * widths[0]
    _, out, _ = run(capsys, "evaluate", tmp_path / "t.npz")
    assert "measured on 600 labelled rows in 30 groups" in out


def test_report_sets_measured_beside_estimated(folder, calibrated, capsys, tmp_path):
    out = tmp_path / "report.html"
    code, _, _ = run(capsys, "report", calibrated, "--out", out, "--labelled", folder / "test.npz")
    text = out.read_text("utf-8")
    assert code == 0
    assert 'id="measured"' in text
    assert "measured on 4,000 labelled rows" in text


def test_inspect_shows_what_is_held(calibrated, capsys, tmp_path):
    code, out, _ = run(capsys, "inspect", calibrated)
    assert code == 0
    assert "calibration, format 1" in out
    assert "sha256: matches" in out
    assert "Verdict: improved" in out
    tp.save(tp.Temperature(2.0), tmp_path / "map.json", classes=["a", "b"])
    code, out, _ = run(capsys, "inspect", tmp_path / "map.json")
    assert code == 0
    assert "temperature 2" in out
    tp.save(tp.MatrixMap(np.eye(3), np.zeros(3)), tmp_path / "map.safetensors")
    code, out, _ = run(capsys, "inspect", tmp_path / "map.safetensors", "--json")
    assert json.loads(out)["map"]["weight"] == np.eye(3).tolist()
    code, out, _ = run(capsys, "inspect", calibrated, "--json")
    assert json.loads(out)["kind"] == "calibration"


def test_other_classes_or_another_order_are_refused(capsys, tmp_path):
    tp.save(tp.Temperature(2.0), tmp_path / "map.json", classes=["cat", "dog", "owl"])
    z = np.random.default_rng(0).normal(size=(50, 3))
    np.savez(tmp_path / "t.npz", logits=z, classes=["cat", "owl", "dog"])
    code, _, said = run(
        capsys,
        "apply",
        tmp_path / "t.npz",
        "--map",
        tmp_path / "map.json",
        "--out",
        tmp_path / "o.npz",
    )
    assert code == 2
    assert "Class 1 is 'dog' in the map and 'owl' in the rows" in said
    assert not (tmp_path / "o.npz").exists()


def test_the_same_command_writes_the_same_bytes(folder, capsys, tmp_path):
    for name in ("a", "b"):
        arguments = ("calibrate", folder / "target.npz", "--prior", folder / "prior.json")
        run(
            capsys,
            *arguments,
            "--out",
            tmp_path / f"{name}.json",
            "--report",
            tmp_path / f"{name}.html",
        )
    for suffix in ("json", "html"):
        first, second = ((tmp_path / f"{n}.{suffix}").read_bytes() for n in "ab")
        assert first == second


def test_calibrate_says_from_which_confidence_rows_may_be_accepted(capsys, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2300)
    z = 5 * (2 * np.eye(3)[y] + rng.normal(size=(2300, 3)))
    np.savez(tmp_path / "target.npz", logits=z[:1000])
    np.savez(tmp_path / "source.npz", logits=z[1000:2000], labels=y[1000:2000])
    np.savez(tmp_path / "some.npz", logits=z[2000:], labels=y[2000:])
    arguments = ("calibrate", tmp_path / "target.npz", "--source", tmp_path / "source.npz")
    arguments += ("--max-error", "0.1")
    for more, guaranteed, said in (
        ((), False, "are estimated to be wrong"),
        (("--labelled", tmp_path / "some.npz"), True, "are guaranteed to be wrong"),
    ):
        code, out, _ = run(capsys, *arguments, *more, "--json")
        found = json.loads(out)["threshold"]
        assert code == 0
        assert found["guaranteed"] is guaranteed
        assert 0 < found["coverage"] <= 1
        assert found["error"][2] <= 0.1
        words = " ".join(run(capsys, *arguments, *more)[1].split())
        assert f"at least {found['confidence']:.4f}" in words
        assert said in words


def test_where_no_confidence_is_high_enough_no_row_is_accepted(folder, capsys):
    arguments = ("calibrate", folder / "target.npz", "--source", folder / "source.npz")
    assert "Accept no row" in run(capsys, *arguments, "--max-error", "0.001")[1]


def test_a_refused_calibration_accepts_nothing(folder, capsys):
    code, out, _ = run(capsys, "calibrate", folder / "target.npz", "--max-error", "0.3", "--json")
    assert code == 1
    assert json.loads(out)["threshold"] is None


@pytest.mark.parametrize("share", ["0", "1.5", "nan"])
def test_a_largest_error_is_a_share(folder, capsys, share):
    code, _, said = run(capsys, "calibrate", folder / "target.npz", "--max-error", share)
    assert code == 2
    assert "--max-error must be a finite number in (0, 1]" in said

"""The demo tells the truth, and its logits are what the script makes."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import pytest
from scipy.special import softmax

import temperance as tp
from temperance.cli import demo, main
from temperance.io.formats import Table
from temperance.report import texts


@pytest.fixture(scope="module")
def hard():
    return demo.compare(60)


@pytest.fixture(scope="module")
def labelled(hard):
    return demo.add_labels(hard)


def test_the_shipped_files_are_small():
    shipped = list((files("temperance.cli") / "demo_data").iterdir())
    assert sum(file.stat().st_size for file in shipped if file.name.endswith(".npz")) < 400_000


def test_rows_are_what_the_story_says():
    source, mild, hard = (demo.load(n) for n in ("source", "rotated_30", "rotated_60"))
    assert [t.logits.shape for t in (source, mild, hard)] == [(2000, 10), (4000, 10), (4000, 10)]
    assert {t.logits.dtype for t in (source, mild, hard)} == {np.dtype(np.float16)}
    np.testing.assert_array_equal(mild.labels, hard.labels)  # the same digits, turned further
    accuracies = [tp.metrics.accuracy(t.logits, t.labels) for t in (source, mild, hard)]
    assert accuracies[0] > 0.98 > accuracies[1] > 0.85
    assert accuracies[2] < 0.5


@pytest.mark.parametrize("degrees", demo.DEGREES)
def test_without_labels_it_is_better_than_the_model_and_likelier_than_the_paper(degrees):
    compared = demo.compare(degrees)
    own, uts, ours, oracle = (
        compared.outcome(m) for m in ("uncalibrated", "UTS", "temperance", "TS-Target")
    )
    assert compared.calibration.verdict == "improved"
    assert ours.nll < uts.nll < own.nll
    assert max(ours.ece, uts.ece) < own.ece  # after 30 degrees the two are within noise
    assert ours.brier < own.brier
    assert oracle.accuracy == own.accuracy  # a temperature moves no prediction
    low, high = compared.calibration.accuracy[1:]
    assert low < ours.accuracy < high


def width(interval):
    return interval[2] - interval[1]


def test_the_three_situations_are_what_the_headings_say(labelled):
    mild = demo.compare(30)
    own, ours = mild.outcome("uncalibrated"), mild.outcome("temperance")
    assert ours.ece < own.ece / 2  # helped
    assert not texts.unsure(mild.calibration)
    refused, own = labelled.parts["logits alone"]
    assert refused.verdict == "refused"
    assert refused.accuracy is None
    few, known = labelled.parts["30 labels"]
    assert few.verdict == "improved"
    assert not texts.unsure(few)  # known
    assert known.ece < own.ece / 4
    unlabelled, doubtful = labelled.parts["class mix and source"]
    assert width(few.accuracy) < width(unlabelled.accuracy) / 2
    assert known.ece < doubtful.ece / 2
    assert known.nll < doubtful.nll
    truth = demo.load("rotated_60")
    for calibration, outcome in list(labelled.parts.values())[1:]:
        p = calibration.predict_proba(truth.logits.astype(np.float64))
        right = np.mean(p.argmax(axis=1) == truth.labels)
        assert outcome.accuracy == pytest.approx(right, abs=1e-3)
        assert calibration.accuracy[1] <= right <= calibration.accuracy[2]
        assert calibration.ece_after[1] <= outcome.ece <= calibration.ece_after[2]


def test_only_the_labels_that_were_asked_for_are_used(labelled):
    calibrations = [calibration for calibration, _ in labelled.parts.values()]
    assert labelled.rows == calibrations[0].label_next(30)
    assert [one.details["n_labelled"] for one in calibrations] == [0, 0, 30, 30]


def test_the_target_labels_reach_only_the_oracle(monkeypatch, hard):
    rotated = demo.load("rotated_60")
    wrong = np.where(np.arange(rotated.n) % 4 == 0, 9 - rotated.labels, rotated.labels)
    tables = {"source": demo.load("source"), "rotated_60": Table(rotated.logits, wrong)}
    monkeypatch.setattr(demo, "load", tables.__getitem__)
    again = demo.compare(60)
    for method in ("uncalibrated", "TS-source", "UTS", "temperance"):
        assert again.outcome(method).temperature == hard.outcome(method).temperature
    assert again.outcome("TS-Target").temperature != hard.outcome("TS-Target").temperature


def test_a_stranger_reads_what_happened(capsys, tmp_path, labelled):
    mild = demo.compare(30)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    unwrapped = out.replace(" ", "")
    for words in (
        "The network says it is 88% sure. In truth it is right 39% of the time",
        "1. Calibration without labels helps: 30 degrees",
        "2. Calibration is refused: 60 degrees",
        "3. 30 labels turn 'refused' into 'known': 60 degrees",
        "logits alone refused not known",
        f"30 labels improved {texts.between(labelled.parts['30 labels'][0].accuracy)}",
        "Without one label of these digits",
        "Verdict: improved",
        "Verdict: refused",
        "lower is better",
        f"would let {mild.outcome('uncalibrated').accepted_wrong:,} wrong digits through",
        f"Open the report: {tmp_path / 'demo' / 'report.html'}",
    ):
        assert words.replace(" ", "") in unwrapped
    for name in ("uncalibrated", "TS-source", "UTS", "temperance", "TS-Target"):
        assert len(re.findall(rf"{name} ", out)) >= 1


def test_the_clerk_accepts_what_the_numbers_say(hard):
    rotated = demo.load("rotated_60")
    own, ours = hard.outcome("uncalibrated"), hard.outcome("temperance")
    p = softmax(rotated.logits.astype(np.float64), axis=1)
    accepted = p.max(axis=1) >= demo.ACCEPTED_CONFIDENCE
    assert own.accepted == pytest.approx(accepted.sum(), abs=4)  # half precision near the limit
    wrong = accepted & (p.argmax(axis=1) != rotated.labels)
    assert own.accepted_wrong == pytest.approx(wrong.sum(), abs=4)
    assert ours.accepted_wrong < own.accepted_wrong / 2


def test_its_files_go_through_the_commands_it_names(capsys, tmp_path, labelled):
    paths = demo.write_files(tmp_path, labelled)
    out = str(tmp_path / "cal.json")
    arguments = ["calibrate", str(paths["target"]), "--source", str(paths["source"]), "--out", out]
    assert main(arguments) == 0
    assert tp.load(out).to_dict() == tp.load(paths["calibration"]).to_dict()
    few = str(tmp_path / "few.json")
    assert main([*arguments[:-1], few, "--labelled", str(paths["few"])]) == 0
    best, _ = labelled.parts["30 labels and both"]
    assert tp.load(few).accuracy == pytest.approx(best.accuracy)
    assert main(["evaluate", str(paths["labelled"]), "--map", few]) == 0
    assert main(["inspect", str(paths["calibration"])]) == 0
    assert "ECE (lower is better)" in capsys.readouterr().out
    page = tmp_path / "named.html"
    named = ["--title", "Scans of May", "--model", "reader 7", "--out", str(page)]
    assert main(["report", str(paths["calibration"]), *named]) == 0
    assert "<h1>Scans of May</h1>" in page.read_text("utf-8")
    assert "Model: <bdi>reader 7</bdi>" in page.read_text("utf-8")


def test_the_shipped_logits_are_those_of_the_digits(shared_data):
    """The labels are those of the test digits that the script draws."""
    with np.load(shared_data / "mnist.npz") as mnist:
        y_train, y_test = mnist["y_train"], mnist["y_test"]
    rng = np.random.default_rng(0)
    held_out = rng.permutation(len(y_train))[:5000]
    picked = rng.choice(len(y_test), 4000, replace=False)
    np.testing.assert_array_equal(demo.load("source").labels, y_train[held_out[:2000]])
    np.testing.assert_array_equal(demo.load("rotated_60").labels, y_test[picked])

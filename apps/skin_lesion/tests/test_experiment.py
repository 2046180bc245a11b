"""The unseen-clinic experiment: its splits, its records, and that the manual quotes them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")

from temperance_skin_lesion import ham10000
from temperance_skin_lesion.classes import CODES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "skin_lesion"
MAPS = {
    "uncalibrated",
    "TS, source",
    "ATS, source, θ = 1e-5",
    "ATS, source, θ = 0.1",
    "UTS, source mix",
    "UTS, clinic mix",
    "prior-matched, source mix",
    "prior-matched, clinic mix",
    "TS-Target (labels)",
}


@pytest.fixture
def script(monkeypatch):
    """Import a script of the experiment, whose folder is no package."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for name in {path.stem for path in FOLDER.glob("*.py")} - known:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("site", ham10000.SITES)
def test_no_lesion_of_the_unseen_clinic_was_validated_on(site):
    with np.load(FOLDER / "logits" / f"ham_{site}.npz") as file:
        assert not set(file["source_groups"]) & set(file["target_groups"])
        assert not set(file["source_rows"]) & set(file["target_rows"])
        assert file["target_logits"].shape == (len(file["target_labels"]), len(CODES))


@pytest.mark.parametrize("site", [*ham10000.SITES, None])
def test_a_lesion_is_trained_on_validated_on_or_unseen(site, script):
    rng = np.random.default_rng(0)
    lesions = np.sort(rng.integers(0, 200, 300))
    data = ham10000.Lesions(
        images=np.zeros((300, 1), dtype=np.uint8),
        labels=lesions % 7,
        lesions=lesions,
        sites=rng.choice(ham10000.SITES, 300),  # lesions photographed at two sites among them
        names=np.arange(300).astype(str),
        rows=np.arange(300),
    )
    parts = [set(part.lesions) for part in script("train").divide(data, site)]
    for i, part in enumerate(parts):
        assert not part & set().union(*parts[:i], *parts[i + 1 :])
    assert bool(parts[2]) == (site is not None)


def test_melanomas_found_counts_those_most_suspected(script):
    labels = np.array([0, 1, 0, 1, 1, 1, 1, 1, 1, 0])
    logits = np.zeros((10, 7))
    logits[:, 0] = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    found = script("run").melanomas_found
    assert found(logits, labels, rate=0.2) == pytest.approx(1 / 3)
    assert found(logits, labels, rate=0.3) == pytest.approx(2 / 3)
    assert found(logits, labels, rate=1) == 1


@pytest.mark.parametrize("site", ham10000.SITES)
def test_a_record_holds_every_map_with_intervals_around_its_scores(site, script):
    record = script("quote").read(site)
    assert set(record["calibrators"]) == MAPS
    scored = [found for found in record["calibrators"].values() if "not_identified" not in found]
    for found in scored:
        for key in ("nll", "brier", "ece", "accuracy", "melanomas_found", "aurc"):
            value, low, high = found[key]
            assert low <= value <= high or (key == "ece" and low <= high)
        assert found["risk_coverage"][0][-1] == 1
    # A temperature moves no prediction, and the labelled one has the least NLL of all of them.
    plain = [found for found in scored if found["bias"] is None]
    assert len({found["accuracy"][0] for found in plain}) == 1
    least = min(found["nll"][0] for found in plain)
    assert record["calibrators"]["TS-Target (labels)"]["nll"][0] == pytest.approx(least, abs=1e-6)


def test_the_uncalibrated_scores_of_a_record_are_those_of_the_logits(script):
    for site in ham10000.SITES:
        with np.load(FOLDER / "logits" / f"ham_{site}.npz") as file:
            z, y = file["target_logits"].astype(float), file["target_labels"]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        found = script("quote").read(site)["calibrators"]["uncalibrated"]
        rows = np.arange(len(y))
        assert found["accuracy"][0] == pytest.approx(np.mean(p.argmax(axis=1) == y))
        assert found["nll"][0] == pytest.approx(-np.log(p[rows, y]).mean())
        assert found["brier"][0] == pytest.approx(((p - np.eye(7)[y]) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("site", ham10000.SITES)
def test_what_the_manual_says_of_the_prior_is_so(site, script):
    """With the wrong mix worse than doing nothing, with the right one better than with labels."""
    found = script("quote").read(site)["calibrators"]
    brier = {name: scores["brier"][0] for name, scores in found.items() if "brier" in scores}
    assert brier["prior-matched, source mix"] > brier["uncalibrated"]
    assert brier["prior-matched, clinic mix"] < brier["TS-Target (labels)"]


def test_the_server_held_the_load_without_an_error(script):
    record = script("quote").read("load")
    assert (record["workers"], record["in_flight"]) == (2, 20)
    assert record["seconds"] >= 60
    assert record["errors"] == 0
    assert record["cases_recorded"] == record["requests"] > 0


def test_no_foreign_picture_of_the_record_was_answered(script):
    record = script("quote").read("foreign")
    for found in record["no_lesions"].values():
        assert found["answered_before"] > 0.05 * found["pictures"]  # the test is needed
        assert found["answered"] == 0
        assert found["foreign"] >= 0.99 * found["pictures"]
    for site in ham10000.SITES:
        seen, unseen = (record[kind][site] for kind in ("validation", "unseen"))
        assert seen["foreign"] <= 0.02 * seen["pictures"]
        assert unseen["foreign"] <= 0.08 * unseen["pictures"]


def test_the_record_is_of_the_shipped_statistics(script, model):
    from temperance_skin_lesion import appearance

    record = script("quote").read("foreign")
    assert record["limit"] == model.appearance.limit
    assert record["familiar"] == appearance.FAMILIAR
    page = script("quote").PAGE.read_text("utf-8")
    assert f"{100 * appearance.FAMILIAR:g} % of them" in page
    assert "<!-- quoted: foreign -->" in page


def test_the_manual_quotes_the_records(script):
    quote = script("quote")
    page = quote.PAGE.read_text("utf-8")
    assert quote.quoted(page) == page
    for site in ham10000.SITES:
        assert f"<!-- quoted: {site} -->" in page


def test_the_manual_states_what_a_new_installation_does(script):
    from temperance_skin_lesion.clinic import Agreement
    from temperance_skin_lesion.decision import Policy

    page = " ".join(script("quote").PAGE.read_text("utf-8").split())
    policy, agreed = Policy(), Agreement()
    low, high = agreed.temperature
    assert f"has at least {policy.threshold:.2f}," in page
    assert f"at least {policy.melanoma_threshold:.2f} or at most {policy.melanoma_ceiling}" in page
    assert f"temperature {low:g} to {high:g}, class offsets at most {agreed.bias:g} apart" in page
    assert f"at least {agreed.rows} pictures" in page

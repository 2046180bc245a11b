"""The skin-lesion study: training, splits, records, and what the manual says of them."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")

import torch

from temperance_skin_lesion import drawings, network
from temperance_skin_lesion import model as models
from temperance_skin_lesion.classes import CODES

FOLDER = Path(__file__).parents[2] / "experiments" / "skin_lesion"
SITES = ("rosendahl", "vidir_modern", "vidir_molemax")
PAGE = Path(__file__).parents[3] / "docs" / "assistant.md"
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


@pytest.fixture(scope="module")
def ham10000():
    """The reader of the data set, which is a script of the experiment too."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("ham10000")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("ham10000", None)


@pytest.fixture(scope="module")
def model():
    """The shipped model."""
    torch.set_num_threads(1)
    return models.load()


@pytest.fixture(scope="module")
def data(ham10000, shared_data):
    return ham10000.load(shared_data / "ham10000_64")


@pytest.fixture(scope="module")
def validation(ham10000, data):
    return ham10000.split(data, 0.2)[1]


def record_of(name):
    return json.loads((FOLDER / "records" / f"{name}.json").read_text("utf-8"))


def drawn(n):
    return np.stack([drawings.lesion(np.random.default_rng(i), 64) for i in range(n)])


@pytest.mark.parametrize("site", SITES)
def test_no_lesion_of_the_unseen_clinic_was_validated_on(site):
    with np.load(FOLDER / "logits" / f"ham_{site}.npz") as file:
        assert not set(file["source_groups"]) & set(file["target_groups"])
        assert not set(file["source_rows"]) & set(file["target_rows"])
        assert file["target_logits"].shape == (len(file["target_labels"]), len(CODES))


@pytest.mark.parametrize("site", [*SITES, None])
def test_a_lesion_is_trained_on_validated_on_or_unseen(site, script, ham10000):
    rng = np.random.default_rng(0)
    lesions = np.sort(rng.integers(0, 200, 300))
    data = ham10000.Lesions(
        images=np.zeros((300, 1), dtype=np.uint8),
        labels=lesions % 7,
        lesions=lesions,
        sites=rng.choice(SITES, 300),  # lesions photographed at two sites among them
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


@pytest.mark.parametrize("site", SITES)
def test_a_record_holds_every_map_with_intervals_around_its_scores(site):
    record = record_of(site)
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


def test_the_uncalibrated_scores_of_a_record_are_those_of_the_logits():
    for site in SITES:
        with np.load(FOLDER / "logits" / f"ham_{site}.npz") as file:
            z, y = file["target_logits"].astype(float), file["target_labels"]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        found = record_of(site)["calibrators"]["uncalibrated"]
        rows = np.arange(len(y))
        assert found["accuracy"][0] == pytest.approx(np.mean(p.argmax(axis=1) == y), abs=1e-5)
        assert found["nll"][0] == pytest.approx(-np.log(p[rows, y]).mean(), abs=1e-4)
        assert found["brier"][0] == pytest.approx(
            ((p - np.eye(7)[y]) ** 2).sum(axis=1).mean(), abs=1e-4
        )


@pytest.mark.parametrize("site", SITES)
def test_what_the_manual_says_of_the_prior_is_so(site):
    """With the wrong mix worse than doing nothing, with the right one better than with labels."""
    found = record_of(site)["calibrators"]
    brier = {name: scores["brier"][0] for name, scores in found.items() if "brier" in scores}
    assert brier["prior-matched, source mix"] > brier["uncalibrated"]
    assert brier["prior-matched, clinic mix"] < brier["TS-Target (labels)"]


def test_the_server_held_the_load_without_an_error():
    record = record_of("load")
    assert (record["workers"], record["in_flight"]) == (2, 20)
    assert record["seconds"] >= 60
    assert record["errors"] == 0
    assert record["cases_recorded"] == record["requests"] > 0


def test_what_the_manual_says_of_maps_that_hide_melanomas_is_so():
    """What cannot be accepted answers most melanomas as something else; what can, hardly any."""
    clinics = record_of("study")["clinics"]
    found = {(site, mix): one for site in SITES for mix, one in clinics[site]["calibrated"].items()}
    refused = [key for key, one in found.items() if one["objection"]]
    assert refused == [("vidir_molemax", "counted")]
    for key, one in found.items():
        assert one["missed_here"] > 0.5 if key in refused else one["missed_here"] < 0.05


def test_what_the_manual_says_of_the_study_is_so():
    """With the mix stated every interval holds; thirty diagnoses mend the accuracy elsewhere."""
    clinics = record_of("study")["clinics"]
    assert list(clinics) == list(SITES)
    for found in clinics.values():
        assert all(share["holds"] == 1 for share in found["mix_stated"].values())
        ten, thirty = (next(s for s in found["steps"] if s["labels"] == n) for n in (10, 30))
        assert thirty["estimated"]["accuracy"]["holds"] >= 0.9
        assert found["mix_stated"]["accuracy"]["width"] < ten["measured"]["accuracy"]["width"]
    nothing = clinics["vidir_molemax"]["steps"][0]["estimated"]
    assert nothing["accuracy"]["holds"] == nothing["sensitivity"]["holds"] == 0


def test_no_foreign_picture_of_the_record_was_answered():
    record = record_of("foreign")
    for found in record["no_lesions"].values():
        assert found["answered_before"] > 0.05 * found["pictures"]  # the test is needed
        assert found["answered"] == 0
        assert found["foreign"] >= 0.99 * found["pictures"]
    for site in SITES:
        seen, unseen = (record[kind][site] for kind in ("validation", "unseen"))
        assert seen["foreign"] <= 0.02 * seen["pictures"]
        assert unseen["foreign"] <= 0.08 * unseen["pictures"]


def test_the_record_is_of_the_shipped_statistics(model):
    from temperance_skin_lesion import appearance

    record = record_of("foreign")
    assert record["limit"] == pytest.approx(model.appearance.limit, abs=1e-3)
    assert record["familiar"] == appearance.FAMILIAR
    page = PAGE.read_text("utf-8")
    assert f"{100 * appearance.FAMILIAR:g} % of them" in page


def test_the_manual_states_what_a_new_installation_does():
    from temperance_skin_lesion.agreement import Agreement
    from temperance_skin_lesion.decision import Policy

    page = " ".join(PAGE.read_text("utf-8").split())
    policy, agreed = Policy(), Agreement()
    low, high = agreed.temperature
    assert f"has at least {policy.threshold:.2f}," in page
    assert f"at least {policy.melanoma_threshold:.2f} or at most {policy.melanoma_ceiling}" in page
    assert f"temperature {low:g} to {high:g}, class offsets at most {agreed.bias:g} apart" in page
    assert f"at least {agreed.rows} pictures" in page
    assert f"at least {policy.agreement} of the 8 orientations agree" in page
    assert f"an answer needs at least {agreed.threshold:g}, melanoma" in page
    assert f"at most {100 * agreed.missed_rate:g} % of the melanomas" in page


def test_the_manual_says_what_the_rules_do_to_validation_melanomas(model):
    import temperance as tp
    from temperance_skin_lesion.decision import Policy, examine

    source = model.source
    fitted = tp.Temperature(model.facts["temperature"][0])
    p = fitted.predict_proba(source.logits.astype(float))
    agreement = (source.views.argmax(axis=2) == p.argmax(axis=1)[:, None]).sum(axis=1)
    found = examine(p, Policy(), agreement)
    melanoma = source.labels == 0
    urgent, soon, routine = np.bincount(found.urgency[melanoma], minlength=3)
    missed = np.sum(melanoma & found.answered & (found.predicted != 0))
    page = " ".join(PAGE.read_text("utf-8").split())
    assert f"Of the {melanoma.sum()} melanomas among the validation pictures" in page
    assert f"call {urgent} urgent, {soon} soon and {routine} routine" in page
    assert f"answer {missed} as something else" in page


def test_the_data_card_counts_right(data):
    card = (models.SHIPPED.parent / "DATA_CARD.md").read_text("utf-8")
    assert f"{len(data):,} of the 10,015" in card
    assert f"{len(np.unique(data.lesions)):,} lesions have {len(data):,} pictures" in card
    for site in SITES:
        here = data.sites == site
        counts = np.bincount(data.labels[here], minlength=len(CODES))
        cells = " | ".join(f"{n:,}" for n in (here.sum(), *counts))
        assert any(line.startswith(f"| {site} ") and cells in line for line in card.splitlines())


def test_what_is_shipped_can_be_loaded_and_knows_its_lesions(tmp_path, model, script, ham10000):
    images = drawn(60)
    rows = np.arange(60)
    # Every second picture shows what the model thinks second: a temperature fits such labels.
    ranked = np.argsort(-model.look(images).logits, axis=1)
    labels = ranked[rows, rows % 2]
    data = ham10000.Lesions(images, labels, rows, np.full(60, "here"), rows.astype(str), rows)
    script("shipping").ship(model.net, data[rows < 40], data[rows >= 40], tmp_path)
    again = models.load(tmp_path)
    assert again.source.logits == pytest.approx(model.look(images[40:]).logits, abs=1e-5)
    upright, _ = network.look(model.net, images[:40])
    assert again.appearance.is_foreign(upright).mean() == pytest.approx(1 / 40)  # beyond 99.5 %
    low, high = again.facts["temperature"][1:]
    assert low <= again.facts["temperature"][0] <= high
    # Maps belong to logits: another idea of what a lesion looks like is no other model.
    script("shipping").ship(model.net, data[rows < 30], data[rows >= 40], tmp_path)
    assert models.load(tmp_path).id == again.id
    assert models.load(tmp_path).appearance.limit != again.appearance.limit


def test_training_learns_what_can_be_learned(monkeypatch, script):
    """Two kinds of pictures, told apart after a few steps; the seed decides everything."""
    training = script("fine_tuning")
    pictures = drawn(48)
    labels = np.arange(48) % 2
    pictures[labels == 1] = 255 - pictures[labels == 1]
    views = training.features(network.LesionNet(), pictures)
    assert views.shape == (training.VIEWS, 48, 192, 3, 3)
    assert not np.array_equal(views[0], views[1])
    recipe = dataclasses.replace(training.RECIPE, epochs=3, batch_size=16)
    monkeypatch.setattr(training, "RECIPE", recipe)
    net = training.fine_tune(views, labels)
    logits = training.predict(net, views[0])
    assert np.mean(logits.argmax(axis=1) == labels) > 0.95
    assert logits == pytest.approx(network.logits(net, pictures), abs=0.05)
    again = training.predict(training.fine_tune(views, labels), views[0])
    assert np.array_equal(logits, again)


def test_a_split_keeps_lesions_whole_and_classes_in_proportion(ham10000):
    rng = np.random.default_rng(0)
    lesions = np.sort(rng.integers(0, 600, 1000))
    labels = (lesions * 7919) % 7
    data = ham10000.Lesions(
        images=np.zeros((1000, 1), dtype=np.uint8),
        labels=labels,
        lesions=lesions,
        sites=np.full(1000, "here"),
        names=np.arange(1000).astype(str),
        rows=np.arange(1000),
    )
    for share in (0.2, 0.4):
        train, out = ham10000.split(data, share)
        assert not set(train.lesions) & set(out.lesions)
        assert sorted([*train.rows, *out.rows]) == list(range(1000))
        assert len(out) == pytest.approx(1000 * share, rel=0.1)
        assert np.bincount(out.labels) / len(out) == pytest.approx(
            np.bincount(labels) / 1000, abs=0.03
        )


def test_the_shipped_validation_lesions_are_those_of_the_split(validation, model):
    assert np.array_equal(model.source.labels, validation.labels)
    assert np.array_equal(model.source.lesions, validation.lesions)
    rows = slice(0, 20)
    seen = model.look(validation.images[rows])
    assert seen.logits == pytest.approx(model.source.logits[rows], abs=0.02)
    assert seen.views == pytest.approx(model.source.views[rows], abs=0.05)


@pytest.mark.slow
def test_the_supplements_configuration_takes_a_step(script):
    from temperance_lab import networks

    supplement = script("supplement")
    recipe = networks.RECIPES[supplement.RECIPE]
    assert (recipe.epochs, recipe.batch_size, recipe.optimizer) == (100, 32, "adam")
    assert (recipe.flip, recipe.rotate) == ("hv", 12.5)
    rates = [recipe.rate(epoch / 100) for epoch in (0, 9, 10, 25, 99)]
    assert rates == pytest.approx([1e-4, 1e-4, 0.95e-4, 1e-4 * 0.95**2, 1e-4 * 0.95**9])
    net = supplement.build()
    mean = net.mean.clone()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    images = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    (epoch,) = networks.train(net, images, np.array([0, 1]), dataclasses.replace(recipe, epochs=1))
    assert np.isfinite(epoch.loss)
    assert torch.equal(net.mean, mean)
    trained = [n for n, _ in net.named_parameters()]
    moved = [n for n in trained if not torch.equal(net.state_dict()[n], before[n])]
    assert len(moved) > 0.9 * len(trained)
    assert networks.predict_logits(net, images).shape == (2, len(CODES))


def test_imagenet_weights_are_taken_by_order_and_shape(tmp_path, script):
    from temperance import InputError

    supplement = script("supplement")

    def body(width):
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, width, 3), torch.nn.BatchNorm2d(width), torch.nn.Conv2d(width, 4, 1)
        )

    given = body(5)
    renamed = {f"layer{i}": t for i, t in enumerate(given.state_dict().values()) if t.ndim}
    torch.save(renamed | {"fc": torch.zeros(7)}, tmp_path / "w.pth")
    taken = body(5)
    supplement.load_body(taken, tmp_path / "w.pth")
    x = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(taken.eval()(x), given.eval()(x))
    with pytest.raises(InputError, match=r"where 0\.weight needs"):
        supplement.load_body(body(6), tmp_path / "w.pth")


def test_held_out_lesions_are_judged(model, validation):
    for site in SITES:
        foreign = model.look(validation[validation.sites == site].images[:40]).foreign
        assert foreign.mean() <= 0.05


def test_the_shipped_statistics_are_those_of_the_features(model, validation):
    """The stored limit is a distance that lesions have: most are well inside, few beyond."""
    features, _ = network.look(model.net, validation.images[:100])
    distance = model.appearance.distance(features)
    assert 0.3 * model.appearance.limit < np.median(distance) < 0.7 * model.appearance.limit

"""The network, its weights and its training, on the shipped files and on drawn pictures."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")

import torch

from temperance_skin_lesion import drawings, ham10000, network, training
from temperance_skin_lesion import model as models
from temperance_skin_lesion.classes import CODES


def drawn(n):
    return np.stack([drawings.lesion(np.random.default_rng(i), 64) for i in range(n)])


def test_the_shipped_files_are_small_and_what_their_description_says(model):
    files = {p.name: p for p in models.SHIPPED.iterdir()}
    assert set(model.facts["files"]) <= set(files)
    assert all(path.stat().st_size < 1.4e6 for path in files.values())
    assert tuple(model.facts["classes"]) == CODES
    right = np.mean(model.source.logits.argmax(axis=1) == model.source.labels)
    assert right == pytest.approx(model.facts["validation"]["accuracy"], abs=1e-4)
    assert right > 0.75


def test_the_model_card_says_what_the_validation_rows_say(model):
    import temperance as tp
    from temperance_skin_lesion.classes import CLASSES

    card = (models.SHIPPED.parent / "MODEL_CARD.md").read_text("utf-8")
    z, y = model.source.logits, model.source.labels
    predicted, fitted = z.argmax(axis=1), tp.fit_temperature(z, y)
    for k, diagnosis in enumerate(CLASSES):
        found, right = (np.mean(predicted[rows] == y[rows]) for rows in (y == k, predicted == k))
        row = f"| {diagnosis.name} (`{diagnosis.code}`) | {np.sum(y == k)} | "
        assert f"{row}{100 * found:.1f} % | {100 * right:.1f} % |" in card
    for said in (
        f"{len(y):,} pictures of {len(np.unique(model.source.lesions)):,} lesions",
        f"{100 * np.mean(predicted == y):.1f} %",
        f"uncalibrated NLL {tp.metrics.nll(z, y):.3f}, ECE {tp.metrics.ece(z, y):.3f}",
        f"temperature {fitted.temperature:.2f}",
        f"NLL {tp.metrics.nll(fitted(z), y):.3f}, ECE {tp.metrics.ece(fitted(z), y):.3f}",
    ):
        assert said in card


def test_the_weights_are_non_commercial_and_outside_the_wheel():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert not [p for p in packed if models.SHIPPED.is_relative_to(root / p)]
    for note in (models.SHIPPED / "LICENSE.md", models.SHIPPED.parent / "MODEL_CARD.md"):
        said = " ".join(note.read_text("utf-8").split())
        assert "CC BY-NC 4.0" in said
        assert "on-commercial" in said


@pytest.fixture(scope="module")
def data(shared_data):
    return ham10000.load(shared_data / "ham10000_64")


def test_the_data_card_counts_right(data):
    card = (models.SHIPPED.parent / "DATA_CARD.md").read_text("utf-8")
    assert f"{len(data):,} of the 10,015" in card
    assert f"{len(np.unique(data.lesions)):,} lesions have {len(data):,} pictures" in card
    for site in ham10000.SITES:
        here = data.sites == site
        counts = np.bincount(data.labels[here], minlength=len(CODES))
        cells = " | ".join(f"{n:,}" for n in (here.sum(), *counts))
        assert any(line.startswith(f"| {site} ") and cells in line for line in card.splitlines())


def test_a_changed_or_missing_file_is_not_loaded(tmp_path):
    shutil.copytree(models.SHIPPED, tmp_path / "w")
    head = tmp_path / "w" / "head.safetensors"
    head.write_bytes(head.read_bytes()[:-1] + b"\x00")
    with pytest.raises(models.ModelError, match=r"head\.safetensors must have sha256"):
        models.load(tmp_path / "w")
    head.unlink()
    with pytest.raises(models.ModelError, match="Got none"):
        models.load(tmp_path / "w")
    with pytest.raises(models.ModelError, match="non-commercial"):
        models.load(tmp_path / "nothing")
    facts = json.loads((models.SHIPPED / "model.json").read_text())
    files = {models.APPEARANCE: facts["files"][models.APPEARANCE]}
    facts |= {"classes": list(CODES[::-1]), "files": files}
    (tmp_path / "w" / "model.json").write_text(json.dumps(facts))
    with pytest.raises(models.ModelError, match="must list the classes"):
        models.load(tmp_path / "w")
    (tmp_path / "w" / "model.json").write_text(json.dumps(facts | {"files": {}}))
    with pytest.raises(models.ModelError, match="must know how a lesion looks"):
        models.load(tmp_path / "w")


def test_what_is_shipped_can_be_loaded_and_knows_its_lesions(tmp_path, model):
    images = drawn(60)
    rows = np.arange(60)
    data = ham10000.Lesions(images, rows % 7, rows, np.full(60, "here"), rows.astype(str), rows)
    models.ship(model.net, data[rows < 40], data[rows >= 40], tmp_path)
    again = models.load(tmp_path)
    assert np.array_equal(again.source.logits, model.logits(images[40:]))
    assert again.look(images[:40])[1].mean() == pytest.approx(1 / 40)  # beyond 99.5 % of forty
    # Maps belong to logits: another idea of what a lesion looks like is no other model.
    models.ship(model.net, data[rows < 30], data[rows >= 40], tmp_path)
    assert models.load(tmp_path).id == again.id
    assert models.load(tmp_path).appearance.limit != again.appearance.limit


def test_logits_do_not_depend_on_the_company(model):
    pictures = drawn(5)
    together = model.logits(pictures)
    alone = np.concatenate([model.logits(picture[None]) for picture in pictures])
    assert together == pytest.approx(alone, abs=1e-4)
    assert model.logits(pictures[:0]).shape == (0, len(CODES))


def test_the_trunk_is_imagenets(model):
    fresh = network.LesionNet().trunk.state_dict()
    assert all(
        torch.equal(tensor, fresh[name]) for name, tensor in model.net.trunk.state_dict().items()
    )


def test_stored_weights_come_back_to_half_precision(tmp_path, model):
    network.save_tail(model.net, tmp_path)
    again = network.load_tail(network.LesionNet(), tmp_path)
    pictures = drawn(4)
    assert np.array_equal(network.logits(again, pictures), model.logits(pictures))


def test_training_learns_what_can_be_learned(monkeypatch):
    """Two kinds of pictures, told apart after a few steps; the seed decides everything."""
    pictures = drawn(48)
    labels = np.arange(48) % 2
    pictures[labels == 1] = 255 - pictures[labels == 1]
    views = training.features(network.LesionNet(), pictures)
    assert views.shape == (training.VIEWS, 48, 192, 3, 3)
    assert not np.array_equal(views[0], views[1])
    import dataclasses

    recipe = dataclasses.replace(training.RECIPE, epochs=3, batch_size=16)
    monkeypatch.setattr(training, "RECIPE", recipe)
    net = training.fine_tune(views, labels)
    logits = training.predict(net, views[0])
    assert np.mean(logits.argmax(axis=1) == labels) > 0.95
    assert logits == pytest.approx(network.logits(net, pictures), abs=0.05)
    again = training.predict(training.fine_tune(views, labels), views[0])
    assert np.array_equal(logits, again)


def test_a_split_keeps_lesions_whole_and_classes_in_proportion():
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


def test_the_shipped_validation_lesions_are_those_of_the_split(data, model):
    _, validation = ham10000.split(data, 0.2)
    assert np.array_equal(model.source.labels, validation.labels)
    assert np.array_equal(model.source.lesions, validation.lesions)
    rows = slice(0, 40)
    assert model.logits(validation.images[rows]) == pytest.approx(
        model.source.logits[rows], abs=0.02
    )


@pytest.mark.slow
def test_the_supplements_configuration_takes_a_step():
    import dataclasses

    from temperance_lab import networks
    from temperance_skin_lesion import supplement

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


def test_imagenet_weights_are_taken_by_order_and_shape(tmp_path):
    from temperance import InputError
    from temperance_skin_lesion import supplement

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

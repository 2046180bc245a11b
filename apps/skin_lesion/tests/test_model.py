"""The network, its weights and its training, on the shipped files and on drawn pictures."""

from __future__ import annotations

import ast
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")

import torch

from temperance_skin_lesion import drawings, network
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


def test_the_wheel_carries_the_weights_with_their_licence(tmp_path):
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    (wheel,) = builder.WheelBuilder(str(models.SHIPPED.parent)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            Path(name).name: archive.read(name)
            for name in archive.namelist()
            if name.startswith("temperance_skin_lesion/weights/")
        }
    assert {p.name for p in models.SHIPPED.iterdir()} <= set(packed)
    for name in ("LICENSE.md", "MODEL_CARD.md"):
        said = " ".join(packed[name].decode().split())
        assert "CC BY-NC 4.0" in said
        assert "on-commercial" in said


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


def test_logits_do_not_depend_on_the_company(model):
    pictures = drawn(4)
    together = model.look(pictures).views
    alone = np.concatenate([model.look(picture[None]).views for picture in pictures])
    assert together == pytest.approx(alone, abs=1e-4)


def test_a_picture_is_seen_in_the_eight_orientations_of_the_square(model):
    (picture,) = drawn(1)
    turned = models.orientations(picture[None])[0]
    assert len({view.tobytes() for view in turned}) == 8
    assert {v.tobytes() for v in models.orientations(turned[5][None])[0]} == {
        v.tobytes() for v in turned
    }
    seen = model.look(picture[None])
    assert seen.views[0] == pytest.approx(network.logits(model.net, turned), abs=1e-4)
    p = np.exp(seen.views[0].astype(float))
    p /= p.sum(axis=1, keepdims=True)
    assert np.exp(seen.logits[0]) == pytest.approx(p.mean(axis=0), abs=1e-6)


def test_turning_helps_on_the_validation_lesions(model):
    import temperance as tp

    source = model.source
    upright = source.views[:, 0].astype(float)
    scores = []
    for logits in (upright, source.logits.astype(float)):
        fitted = tp.fit_temperature(logits, source.labels)
        scores.append(tp.metrics.nll(fitted(logits), source.labels))
    assert scores[1] < scores[0] - 0.02
    assert model.facts["temperature"][0] == pytest.approx(fitted.temperature, abs=1e-3)
    agree = (source.views.argmax(axis=2) == source.logits.argmax(axis=1)[:, None]).sum(axis=1)
    right = source.logits.argmax(axis=1) == source.labels
    assert right[agree == 8].mean() > 0.85
    assert right[agree < 7].mean() < 0.5  # disagreement is a reason to refer


def test_the_trunk_is_imagenets(model):
    fresh = network.LesionNet().trunk.state_dict()
    assert all(
        torch.equal(tensor, fresh[name]) for name, tensor in model.net.trunk.state_dict().items()
    )


def test_stored_weights_come_back_to_half_precision(tmp_path, model):
    network.save_tail(model.net, tmp_path)
    again = network.load_tail(network.LesionNet(), tmp_path)
    pictures = drawn(4)
    assert np.array_equal(network.logits(again, pictures), network.logits(model.net, pictures))


def test_the_application_uses_public_names_of_the_library_only():
    """Every name of temperance that a module imports or reads stands in the reference."""
    import temperance_skin_lesion

    package = Path(temperance_skin_lesion.__file__).parent
    reference = package.parents[2] / "docs" / "api" / "index.md"
    if not reference.is_file():
        pytest.skip("the reference is in a checkout only")
    known = set(reference.read_text("utf-8").split()) | {
        "__version__",
        "InputError",
        "NotIdentified",
    }
    used = set()
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"tp", "tp.metrics"}:
                used.add(ast.unparse(node).removeprefix("tp."))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("temperance."):
                place = node.module.removeprefix("temperance.")
                used |= {f"{place}.{alias.name}" for alias in node.names}
    used = {"report.plot.style" if name == "report.plot" else name for name in used} - {"metrics"}
    assert len(used) > 15
    assert used <= known, used - known

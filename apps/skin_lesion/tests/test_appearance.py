"""What does not look like a lesion gets no diagnosis; what does is not kept back."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")

from PIL import Image
from scipy.stats import chi2
from sklearn.datasets import load_sample_images

from temperance_skin_lesion import appearance, cli, intake, monitor


def as_png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).convert("RGB").resize((128, 128)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def photographs():
    """Files with a temple and a flower."""
    return [as_png(image) for image in load_sample_images().images]


def test_the_distance_is_mahalanobis_and_the_limit_its_quantile():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 5))
    rows = (rng.normal(size=(50_000, 5)) @ mixing + 3).astype(np.float32)
    known = appearance.fit(rows)
    offsets = rows - rows.mean(axis=0)
    inverse = np.linalg.inv(np.cov(rows, rowvar=False))
    expected = np.sqrt(np.einsum("ni,ij,nj->n", offsets, inverse, offsets))
    assert known.distance(rows) == pytest.approx(expected, rel=1e-2)
    # The squared distance of normal rows is chi-squared.
    assert known.limit**2 == pytest.approx(chi2.ppf(appearance.FAMILIAR, 5), rel=0.03)
    assert known.is_foreign(rows).mean() == pytest.approx(1 - appearance.FAMILIAR, abs=1e-4)


def test_what_was_learned_comes_back_from_its_file(tmp_path):
    known = appearance.fit(np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32))
    known.save(tmp_path / "a.npz")
    again = appearance.load(tmp_path / "a.npz")
    assert again.limit == known.limit
    assert np.array_equal(again.mean, known.mean)
    assert np.array_equal(again.whitener, known.whitener)


def test_photographs_of_other_things_are_referred(client, photographs, as_files):
    cases = client.post("/api/v1/predict", files=as_files(photographs)).json()["cases"]
    assert {(case["decision"], case["rule"]) for case in cases} == {("refer", "foreign")}


def test_no_page_shows_a_diagnosis_of_a_foreign_picture(client, photographs, as_files):
    client.headers["Accept"] = "text/html"
    card = client.post("/", files=as_files(photographs[:1])).text
    assert "Not recognised as a dermatoscopic picture" in card
    assert "does not look like the dermatoscopic pictures" in card
    assert 'class="probabilities"' not in card
    assert "not a dermatoscopic picture</span>" in client.get("/worklist").text


def test_the_command_says_no_diagnosis_of_a_foreign_picture(tmp_path, photographs, capsys):
    (tmp_path / "a.png").write_bytes(photographs[0])
    assert cli.main(["predict", str(tmp_path / "a.png"), "--data", str(tmp_path / "record")]) == 0
    assert capsys.readouterr().out.startswith("a.png\tretake\trefer\t-\t-\tThis does not look like")


def test_foreign_pictures_count_in_no_map_and_no_drift(client, assistant, photographs, as_files):
    client.post("/api/v1/predict", files=as_files(photographs))
    with assistant.store.reading() as session:
        assert monitor.recent(session, assistant.model.id).ids == []
    assert client.get("/api/v1/drift").json() == []
    survey = client.post("/api/v1/surveys").json()["survey"]
    sent = client.post(f"/api/v1/surveys/{survey}/images", files=as_files(photographs)).json()
    assert sent["pictures"] == 0
    assert "lesion0.jpg: this does not look like" in sent["problems"][0]["detail"]


def test_drawn_lesions_pass_for_lesions(model, lesions):
    pixels = np.stack([intake.read(content, "a").pixels for content in lesions(30)])
    assert model.look(pixels).foreign.sum() == 0


def test_cats_and_digits_are_not(model, shared_data):
    with np.load(shared_data / "cifar10_small.npz") as cifar:
        cats = cifar["x_test"][cifar["y_test"] == list(cifar["classes"]).index("cat")][:24]
    with np.load(shared_data / "mnist.npz") as digits:
        others = [*cats, *digits["x_test"][:12]]
    pixels = np.stack([intake.read(as_png(image), "a").pixels for image in others])
    assert model.look(pixels).foreign.all()

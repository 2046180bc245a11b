"""Neighbours among validated lesions: counted right, and telling."""

from __future__ import annotations

import numpy as np
import pytest

from temperance_skin_lesion.classes import MALIGNANT
from temperance_skin_lesion.similar import NEIGHBOURS, similar


def test_neighbours_are_the_nearest_lesions_each_once(model):
    source = model.source
    row = 17
    p = np.exp(source.logits.astype(float))
    p /= p.sum(axis=1, keepdims=True)
    distance = np.sqrt(((np.sqrt(p) - np.sqrt(p[row])) ** 2).sum(axis=1))
    nearest = []
    for i in np.argsort(distance, kind="stable"):
        if source.lesions[i] not in source.lesions[nearest]:
            nearest.append(i)
        if len(nearest) == NEIGHBOURS:
            break
    found = similar(source, source.logits[row])
    assert found.lesions == NEIGHBOURS == sum(n for _, n in found.diagnoses)
    assert found.malignant == np.isin(source.labels[nearest], MALIGNANT).sum()
    assert [n for _, n in found.diagnoses] == sorted([n for _, n in found.diagnoses], reverse=True)


def test_the_share_of_malignant_neighbours_predicts_malignancy(model):
    """Left out itself, a lesion is malignant about as often as its neighbours are."""
    source = model.source
    rows = np.random.default_rng(0).choice(len(source.labels), 500, replace=False)
    share = np.array(
        [similar(source, source.logits[i], int(source.lesions[i])).share[0] for i in rows]
    )
    malignant = np.isin(source.labels[rows], MALIGNANT)
    for low, high in ((0, 0.1), (0.1, 0.4), (0.4, 1.01)):
        inside = (share >= low) & (share < high)
        chance = 2 * np.sqrt(
            malignant[inside].mean() * (1 - malignant[inside].mean()) / inside.sum()
        )
        assert malignant[inside].mean() == pytest.approx(share[inside].mean(), abs=chance + 0.02)


def test_the_page_of_a_case_tells(client, lesions, as_files):
    client.post("/api/v1/predict", files=as_files(lesions(1)))
    page = client.get("/cases/1", headers={"Accept": "text/html"}).text
    assert "Validated lesions scored most alike" in page
    assert f"of {NEIGHBOURS}</strong> were malignant" in page

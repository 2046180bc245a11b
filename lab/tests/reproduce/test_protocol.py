from __future__ import annotations

import numpy as np
import pytest

from temperance import NotIdentified, Temperature, fit_matrix, fit_vector
from temperance.metrics import nll
from temperance_lab.reproduce.experiment_data import Logits, Shift
from temperance_lab.reproduce.methods import METHODS, FitInput, fit
from temperance_lab.reproduce.protocol import draw_fifth, draw_shifted, over_draws


@pytest.fixture(scope="module")
def logits():
    """Labels drawn from the logits at T = 2: the best temperature is known."""
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(3000, 5))
    p = np.exp(z / 2) / np.exp(z / 2).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    return Logits(z, y, np.full(5, 0.2), "sha")


def test_rows_that_judge_are_others(logits):
    given, (z, y) = draw_fifth(logits)(np.random.default_rng(0))
    assert len(given.target) == 600
    assert len(y) == 2400
    rows = {row.tobytes() for row in given.target}
    assert not rows & {row.tobytes() for row in z}


def test_a_fifth_has_every_class_in_its_share():
    rng = np.random.default_rng(0)
    y = rng.choice(4, 1003, p=[0.5, 0.3, 0.19, 0.01])
    logits = Logits(rng.normal(size=(1003, 4)), y, np.full(4, 0.25), "sha")
    given, _ = draw_fifth(logits)(rng)
    assert len(given.labels) == 200
    share = np.bincount(given.labels, minlength=4) - np.bincount(y) * 200 / 1003
    assert np.abs(share).max() < 1


def test_noise_replaces_the_share_asked_for_and_grows(logits):
    clean, _ = draw_fifth(logits)(np.random.default_rng(3))
    some, _ = draw_fifth(logits, noise=0.2)(np.random.default_rng(3))
    more, _ = draw_fifth(logits, noise=0.5)(np.random.default_rng(3))
    wrong, wronger = some.labels != clean.labels, more.labels != clean.labels
    assert wrong.mean() == pytest.approx(0.2, abs=0.05)
    assert wronger.mean() == pytest.approx(0.5, abs=0.06)
    assert not (wrong & ~wronger).any()
    np.testing.assert_array_equal(some.target, clean.target)


def test_a_draw_does_not_depend_on_the_methods(logits):
    together = over_draws(draw_fifth(logits), ["TS", "vector"], 3)
    alone = over_draws(draw_fifth(logits), ["vector"], 3)
    assert together.values["vector"]["nll"] == alone.values["vector"]["nll"]
    assert (
        over_draws(draw_fifth(logits), ["TS"], 3, seed=1).values
        != over_draws(draw_fifth(logits), ["TS"], 3).values
    )


def test_ts_finds_the_temperature_and_labels_are_all_it_needs(logits):
    draws = over_draws(draw_fifth(logits), ["uncalibrated", "TS", "TS-Target"], 5)
    assert np.mean(draws.values["TS"]["temperature"]) == pytest.approx(2, rel=0.1)
    assert draws.values["TS"] == draws.values["TS-Target"]
    assert max(draws.values["TS"]["nll"]) < min(draws.values["uncalibrated"]["nll"])
    records = draws.records(
        ("nll",), experiment="i", group="g", dataset="d", model="m", evidence="exact"
    )
    assert [r.method for r in records] == ["uncalibrated", "TS", "TS-Target"]
    assert records[1].reproduced == pytest.approx(np.mean(draws.values["TS"]["nll"]))
    assert records[1].sd == pytest.approx(np.std(draws.values["TS"]["nll"], ddof=1))


def test_under_shift_ts_reads_the_source(logits):
    shifted = Logits(3 * logits.z, logits.y, logits.prior, "sha")
    draws = over_draws(draw_shifted(logits, shifted), ["TS", "TS-Target"], 3)
    assert np.mean(draws.values["TS"]["temperature"]) == pytest.approx(2, rel=0.1)
    assert np.mean(draws.values["TS-Target"]["temperature"]) == pytest.approx(6, rel=0.1)


def test_without_an_answer_the_network_stays_and_the_record_says_so():
    z = np.tile([0.0, 3.0, 1.0], (200, 1))
    given = FitInput(z, np.arange(200) % 3, np.full(3, 1 / 3))
    fitted, note = fit("UTS", given)
    assert note.startswith("the network as it is")
    assert isinstance(fitted, Temperature)
    assert fitted.temperature == 1
    one_class = Logits(z, given.labels, given.prior, "sha")
    draws = over_draws(draw_fifth(one_class), ["UTS"], 2)
    facts = {"experiment": "i", "group": "g", "dataset": "d", "model": "m", "evidence": "nearest"}
    assert "for want of an answer, in 2 of 2 draws" in draws.records(("nll",), **facts)[0].note


def test_labels_that_contradict_the_network_say_that_it_knows_nothing():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 4))
    given = FitInput(z, z.argmin(axis=1), np.full(4, 0.25))
    fitted, note = fit("TS-Target", given)
    assert note.startswith("every class as likely")
    assert nll(np.asarray(fitted(z)), given.labels) == pytest.approx(np.log(4), abs=1e-3)


@pytest.mark.parametrize(("method", "fitter"), [("vector", fit_vector), ("matrix", fit_matrix)])
def test_affine_maps_have_an_answer_where_rows_are_separable(method, fitter):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 9  # one class has no row
    z = 2 * np.eye(10)[y] + rng.normal(size=(30, 10))
    with pytest.raises(NotIdentified):
        fitter(z, y)
    fitted, note = fit(method, FitInput(z, y, np.full(10, 0.1)))
    assert note == "a penalty of 0.0001 for want of a maximum"
    near = fitter(z, y, penalty=1e-4)
    np.testing.assert_array_equal(np.asarray(fitted(z)), np.asarray(near(z)))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers(logits, method):
    rows = slice(0, 800)
    given = FitInput(logits.z[rows], logits.y[rows], logits.prior)
    assert np.isfinite(np.asarray(fit(method, given)[0](logits.z[:5]))).all()


def test_a_shift_of_degree_zero_is_none():
    images = np.arange(28 * 28, dtype=np.uint8).reshape(1, 28, 28, 1)
    assert Shift("rotation", 0).apply(images) is images
    np.testing.assert_array_equal(Shift("rolling", 28).apply(images), images)
    assert (Shift("contrast", 5).apply(images) != images).any()


def test_a_rival_that_gives_no_class_a_chance_means_equal_probabilities():
    pytest.importorskip("netcal")
    sure = np.full((3, 3), 0.001) + 0.997 * np.eye(3)
    p = np.concatenate([sure, [[0.65, 0.30, 0.05], [0.1, 0.7, 0.2], [0.7, 0.29, 0.01]]])
    y = np.array([0, 1, 2, 1, 1, 0])
    # No label is of a class whose probability is as low as it is here: isotonic regression says 0.
    between = np.log([[0.62, 0.28, 0.10]])
    answer = METHODS["isotonic"](FitInput(np.log(p), y, np.full(3, 1 / 3)))(between)
    np.testing.assert_allclose(np.exp(answer), 1 / 3)

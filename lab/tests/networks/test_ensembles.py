from __future__ import annotations

import numpy as np
import pytest
import torch

from temperance import InputError, metrics
from temperance_lab import networks
from temperance_lab.networks import ensembles

RECIPE = networks.Recipe(epochs=2, batch_size=16, learning_rate=0.05)


@pytest.fixture(scope="module")
def digits():
    rng = np.random.default_rng(0)
    return rng.integers(256, size=(48, 28, 28), dtype=np.uint8), rng.integers(2, size=48)


def train(directory, digits, n_members, **options):
    return networks.train_ensemble(
        "lenet5", *digits, RECIPE, directory, n_classes=2, n_members=n_members, **options
    )


def weights(network):
    return torch.cat([t.flatten() for t in network.state_dict().values()])


def test_parallel_members_are_the_sequential_ones(digits, tmp_path):
    one_by_one = train(tmp_path / "a", digits, 2, n_jobs=1)
    together = train(tmp_path / "b", digits, 2, n_jobs=2)
    for a, b in zip(one_by_one, together, strict=True):
        assert torch.equal(weights(a), weights(b))
    assert not torch.equal(weights(together[0]), weights(together[1]))
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == [
        "member_00.safetensors",
        "member_01.safetensors",
    ]


def test_members_on_disk_are_not_trained_again(digits, tmp_path, monkeypatch):
    first = train(tmp_path, digits, 3, n_jobs=1)
    lost = tmp_path / "member_01.safetensors"
    lost.unlink()
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    trained = []
    original = ensembles.train

    def counted(network, *args, **options):
        if not options["checkpoint"].exists():
            trained.append(options["checkpoint"].name)
        return original(network, *args, **options)

    monkeypatch.setattr(ensembles, "train", counted)
    again = train(tmp_path, digits, 4, n_jobs=1)
    assert trained == ["member_01.safetensors", "member_03.safetensors"]
    assert all((tmp_path / name).stat().st_mtime_ns == time for name, time in before.items())
    for a, b in zip(first, again[:3], strict=True):  # the lost one is made again, the same
        assert torch.equal(weights(a), weights(b))


def test_members_of_other_data_are_refused(digits, tmp_path):
    train(tmp_path, digits, 1, n_jobs=1)
    with pytest.raises(InputError, match=r"member_00\.safetensors has another data"):
        train(tmp_path, (digits[0], 1 - digits[1]), 1, n_jobs=1)


def test_prediction_is_the_mean_of_the_members_probabilities(digits):
    members = [networks.build("lenet5", 3, 1, seed=seed) for seed in range(4)]
    images = digits[0][:10]
    logits = np.stack([networks.predict_logits(m, images) for m in members]).astype(np.float64)
    p = np.exp(logits - np.log(np.exp(logits).sum(2, keepdims=True)))
    log_p = networks.predict_ensemble(members, images)
    np.testing.assert_allclose(np.exp(log_p), p.mean(0), atol=1e-7)
    y = np.arange(10) % 3
    # Jensen: the NLL of the mean is at most the mean NLL.
    assert metrics.nll(log_p, y) <= np.mean([metrics.nll(z, y) for z in logits]) + 1e-12


def test_empty_ensemble_is_refused(digits):
    with pytest.raises(InputError, match="at least one network"):
        networks.predict_ensemble([], digits[0])

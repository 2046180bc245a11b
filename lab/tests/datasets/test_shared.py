"""The real data, where it is: counts and facts that their papers state."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from temperance_lab import datasets


def need(shared_data, name):
    if not (shared_data / name).exists():
        pytest.skip(f"{name} is not in the directory that TEMPERANCE_DATA names")
    return shared_data


def test_mnist_is_mnist(shared_data):
    data = datasets.load("mnist", need(shared_data, "mnist.npz"))
    # LeCun et al.: 60,000 and 10,000 digits; the mean and deviation that everybody normalises with.
    assert data.x_train.shape == (60_000, 28, 28, 1)
    assert data.x_test.shape == (10_000, 28, 28, 1)
    assert data.x_train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert data.x_train.std() / 255 == pytest.approx(0.3081, abs=5e-5)
    assert {row.tobytes() for row in datasets.load("mnist-5k").x_test} <= {
        row.tobytes() for row in data.x_train
    }


def test_small_cifar10_is_cifar10(shared_data):
    data = datasets.load("cifar10", need(shared_data, "cifar10_small.npz"))
    assert data.x_train.shape == (12_000, 32, 32, 3)
    np.testing.assert_array_equal(np.bincount(data.y_train), 1_200)
    assert data.classes[3] == "cat"
    # The channel means of all of CIFAR-10 are .4914, .4822, .4465; a fifth of it is close to them.
    mean = data.x_train.mean(axis=(0, 1, 2)) / 255
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=0.005)


def test_ham10000_is_split_by_lesion(shared_data):
    need(shared_data, "ham10000_64")
    data = datasets.load("ham10000", shared_data)
    assert data.x_train.shape[1:] == (64, 64, 3)
    assert len(data.y_train) + len(data.y_test) == 8_424
    lesions, sites = data.groups["lesion_id"], data.groups["site"]
    assert not {*lesions.train} & {*lesions.test}
    assert {*sites.test} == {"rosendahl", "vidir_modern", "vidir_molemax"}
    train, test = (np.bincount(y, minlength=7) / len(y) for y in (data.y_train, data.y_test))
    np.testing.assert_allclose(train, test, atol=0.02)  # stratified
    assert len(data.y_train) / 8_424 == pytest.approx(0.6, abs=0.01)


def test_loading_images_needs_no_torch():
    script = (
        "import sys; from temperance_lab import datasets;"
        "datasets.load('mnist-5k'); print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open

from temperance import InputError
from temperance_lab import networks

RECIPE = networks.Recipe(
    epochs=4, batch_size=16, learning_rate=0.05, weight_decay=1e-3, cosine=True, flip="h", crop=2
)


@pytest.fixture(scope="module")
def digits():
    """Two classes told apart by which half of the image is bright."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=96)
    images = rng.integers(120, size=(96, 28, 28), dtype=np.uint8)
    images[labels == 0, :14] += 100
    images[labels == 1, 14:] += 100
    return images, labels


def network_with_dropout():
    network = networks.build("small_cifar", 2, 1)
    network.head = torch.nn.Sequential(torch.nn.Dropout(0.5), network.head)
    return network


def weights(network):
    return {name: t.clone() for name, t in network.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Interrupted(Exception):
    pass


def interrupt_after(steps: int):
    """A penalty of zero that stops the run like a pulled plug, in the middle of an epoch."""
    left = iter(range(steps))

    def penalty(network):
        if next(left, None) is None:
            raise Interrupted
        return 0.0 * next(network.parameters()).sum()

    return penalty


def test_it_learns(digits):
    network = networks.build("lenet5", 2, 1)
    history = networks.train(network, *digits, replace(RECIPE, flip="", crop=0))
    assert history[0].loss > history[-1].loss
    assert history[-1].accuracy > 0.95
    assert not network.training


def test_seed_decides_everything(digits):
    runs = []
    for seed in (0, 0, 1):
        network = network_with_dropout()
        torch.rand(3)  # torch's own state is not what decides
        networks.train(network, *digits, replace(RECIPE, epochs=1), seed=seed)
        runs.append(weights(network))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("optimizer", ["sgd", "nesterov", "adam"])
def test_interrupted_run_ends_with_the_same_weights(digits, tmp_path, optimizer):
    recipe = replace(RECIPE, optimizer=optimizer, learning_rate=0.01)
    whole = network_with_dropout()
    history = networks.train(whole, *digits, recipe)

    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        networks.train(
            network_with_dropout(), *digits, recipe, checkpoint=path, penalty=interrupt_after(15)
        )
    resumed = network_with_dropout()
    assert networks.train(resumed, *digits, recipe, checkpoint=path) == history
    assert same(weights(whole), weights(resumed))

    loaded = networks.load_weights(network_with_dropout(), path)
    assert same(weights(whole), weights(loaded))


def test_resuming_goes_on_rather_than_starting_over(digits, tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        networks.train(
            network_with_dropout(), *digits, RECIPE, checkpoint=path, penalty=interrupt_after(20)
        )
    # 6 steps an epoch: three epochs are on disk, one is left to do.
    networks.train(
        network_with_dropout(), *digits, RECIPE, checkpoint=path, penalty=interrupt_after(6)
    )


def test_finished_run_is_loaded_not_trained(digits, tmp_path):
    path = tmp_path / "run.safetensors"
    first = network_with_dropout()
    history = networks.train(first, *digits, RECIPE, checkpoint=path)
    second = network_with_dropout()
    again = networks.train(second, *digits, RECIPE, checkpoint=path, penalty=interrupt_after(0))
    assert again == history
    assert same(weights(first), weights(second))
    with safe_open(path, framework="pt") as file:
        assert all(name.startswith("network.") for name in file.keys())  # noqa: SIM118
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_killed_process_resumes_exactly(digits, tmp_path):
    np.savez(tmp_path / "data.npz", images=digits[0], labels=digits[1])
    script = textwrap.dedent(
        """
        import sys
        import numpy as np
        from temperance_lab import networks

        folder = sys.argv[1]
        data = np.load(f"{folder}/data.npz")
        recipe = networks.Recipe(epochs=10, batch_size=16, learning_rate=0.05, crop=2)
        network = networks.build("lenet5", 2, 1)
        steps = iter(range(60))

        def penalty(network):
            if next(steps) == 40:  # in the seventh epoch
                print("kill me", flush=True)
                sys.stdin.read()
            return 0.0 * next(network.parameters()).sum()

        networks.train(network, data["images"], data["labels"], recipe,
                  checkpoint=f"{folder}/run.safetensors", penalty=penalty)
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "kill me\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL

    recipe = networks.Recipe(epochs=10, batch_size=16, learning_rate=0.05, crop=2)
    whole, resumed = networks.build("lenet5", 2, 1), networks.build("lenet5", 2, 1)
    history = networks.train(whole, *digits, recipe)
    path = tmp_path / "run.safetensors"
    assert len(networks.checkpoints.read(path).facts["history"]) == 6
    assert networks.train(resumed, *digits, recipe, checkpoint=path) == history
    assert same(weights(whole), weights(resumed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 1}, "another seed: 0, not 1"),
        ({"recipe": replace(RECIPE, epochs=5)}, "another recipe"),
        ({"labels": np.zeros(96, dtype=int)}, "another data"),
    ],
)
def test_checkpoint_of_another_run_is_refused(digits, tmp_path, changed, message):
    path = tmp_path / "run.safetensors"
    images, labels = digits
    options = {"recipe": RECIPE, "labels": labels, "seed": 0}
    networks.train(networks.build("lenet5", 2, 1), images, **options, checkpoint=path)
    with pytest.raises(InputError, match=message):
        networks.train(
            networks.build("lenet5", 2, 1), images, **{**options, **changed}, checkpoint=path
        )


def test_file_that_is_no_checkpoint_is_refused(digits, tmp_path):
    path = tmp_path / "run.safetensors"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="checkpoint must be a safetensors file"):
        networks.train(networks.build("lenet5", 2, 1), *digits, RECIPE, checkpoint=path)
    with pytest.raises(InputError, match=r"absent\.safetensors"):
        networks.load_weights(networks.build("lenet5", 2, 1), tmp_path / "absent.safetensors")


def test_divergence_is_an_error_not_a_network(digits):
    with pytest.raises(InputError, match=r"recipe must converge\. The loss of epoch 0 is nan"):
        networks.train(networks.build("lenet5", 2, 1), *digits, replace(RECIPE, learning_rate=1e30))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((3, 28, 28)), [0, 1, 0], "images must be a non-empty uint8 array"),
        (np.zeros((3, 784), dtype=np.uint8), [0, 1, 0], "Got dtype uint8, shape"),
        (np.zeros((0, 28, 28), dtype=np.uint8), [], "non-empty"),
        (np.zeros((3, 28, 28), dtype=np.uint8), [0, 1], r"3 integers.*shape \(2,\)"),
        (
            np.zeros((3, 28, 28), dtype=np.uint8),
            [0, 1, 2],
            "from 0 to 1.*values from 0 to 2",
        ),
        (
            np.zeros((3, 28, 28), dtype=np.uint8),
            [0.0, 1.0, 0.5],
            "3 integers.*float64",
        ),
    ],
)
def test_wrong_data_are_named(images, labels, message):
    with pytest.raises(InputError, match=message):
        networks.train(networks.build("lenet5", 2, 1), images, np.asarray(labels), RECIPE)


def test_unknown_recipe_is_named(digits):
    with pytest.raises(InputError, match="Did you mean 'lenet5-mnist'"):
        networks.train(networks.build("lenet5", 2, 1), *digits, "lenet-mnist")


def test_training_set_moments_are_stored(digits):
    network = networks.build("lenet5", 2, 1)
    networks.train(network, *digits, replace(RECIPE, epochs=1))
    pixels = digits[0].astype(np.float64) / 255
    assert network.mean.item() == pytest.approx(pixels.mean(), rel=1e-6)
    assert network.std.item() == pytest.approx(pixels.std(), rel=1e-6)


def test_recipe_sets_the_dropout_of_the_body_not_of_the_head():
    network = networks.build("wideresnet40_4", 2)
    network.head = torch.nn.Sequential(torch.nn.Dropout(0.5), network.head)
    images = np.zeros((2, 32, 32, 3), dtype=np.uint8)
    recipe = networks.Recipe(epochs=1, batch_size=2, learning_rate=0.01, dropout=0.3)
    networks.train(network, images, np.array([0, 1]), recipe)
    rates = {m.p for m in network.body.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.3}
    assert network.head[0].p == 0.5


def test_memory_map_is_trained_on_as_it_is(digits, tmp_path):
    images, labels = digits
    np.save(tmp_path / "images.npy", images)
    trained = []
    for source in (images, np.load(tmp_path / "images.npy", mmap_mode="r")):
        trained.append(networks.build("lenet5", 2, 1))
        networks.train(trained[-1], source, labels, replace(RECIPE, epochs=1))
    assert same(*map(weights, trained))


def test_weights_do_not_depend_on_the_number_of_threads(digits):
    before = torch.get_num_threads()
    trained = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            trained.append(networks.build("lenet5", 2, 1))
            networks.train(trained[-1], *digits, replace(RECIPE, epochs=1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert same(*map(weights, trained))


def test_prediction_does_not_depend_on_the_batch_and_keeps_the_mode(digits):
    network = network_with_dropout().train()
    one = networks.predict_logits(network, digits[0], batch_size=7)
    other = networks.predict_logits(network, digits[0], batch_size=96)
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert network.training
    assert one.dtype == np.float32

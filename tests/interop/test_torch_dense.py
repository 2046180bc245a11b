"""dense_logits: pixels as rows, equal to flattening by hand, without holding everything."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from torch import nn

import temperance as tp
from temperance.data import stream
from temperance.interop.torch import dense_logits, stream_logits
from temperance.methods.uts import fit_uts

B, C, H, W = 3, 4, 20, 30


@pytest.fixture
def scene():
    """Logits (B, C, H, W) and labels drawn from softmax(z / 2), a tenth of them to be ignored."""
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(B, C, H, W))
    noise = rng.gumbel(size=z.shape)
    y = (z / 2 + noise).argmax(axis=1)
    y[rng.random(y.shape) < 0.1] = 255
    return z, y


def flat(z, y, ignore_index=255):
    rows = z.transpose(0, 2, 3, 1).reshape(-1, z.shape[1])
    return rows[y.ravel() != ignore_index], y[y != ignore_index].ravel()


def rows_of(rows):
    blocks = list(rows.blocks())
    logits = np.concatenate([np.asarray(block.logits) for block in blocks])
    return logits, np.concatenate([block.labels for block in blocks])


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        torch.from_numpy,
        lambda a: torch.from_numpy(a).to(memory_format=torch.channels_last),
    ],
)
def test_rows_are_the_flattened_pixels(scene, kind):
    z, y = scene
    rows = dense_logits(kind(z), torch.from_numpy(y))
    want, labels = flat(z, y)
    got, got_labels = rows_of(rows)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_labels, labels)
    assert (rows.n, rows.n_classes, rows.labelled) == (len(want), C, True)


@pytest.mark.parametrize("fit", [tp.fit_temperature, tp.fit_vector, tp.fit_biased_temperature])
def test_fits_equal_those_on_flat_rows(scene, fit):
    z, y = scene
    dense_map, flat_map = fit(dense_logits(z, y)), fit(*flat(z, y))
    for name, value in flat_map.parameters().items():
        np.testing.assert_allclose(dense_map.parameters()[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_floats_are_summed_in_float64(scene, dtype):
    z, y = scene
    narrow = torch.from_numpy(z).to(dtype)
    expected = tp.fit_temperature(*flat(narrow.double().numpy(), y)).temperature
    got = tp.fit_temperature(dense_logits(narrow, y)).temperature
    assert got == pytest.approx(expected, rel=1e-9)


def test_read_only_memory_maps(scene, tmp_path):
    z, y = scene
    np.save(tmp_path / "z.npy", z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    expected = tp.fit_temperature(*flat(z, y)).temperature
    assert tp.fit_temperature(dense_logits(mapped, y)).temperature == pytest.approx(expected)


def test_without_labels_every_pixel_is_a_row(scene):
    z, _ = scene
    rows = dense_logits(z)
    assert (rows.n, rows.labelled) == (B * H * W, False)
    assert fit_uts(rows, np.full(C, 1 / C)).temperature > 0
    with pytest.raises(tp.InputError, match="labels"):
        tp.fit_temperature(rows)


@pytest.mark.parametrize("ignore", [-100, -1, 17])
def test_any_ignore_index(scene, ignore):
    z, y = scene
    y = np.where(y == 255, ignore, y)
    got, labels = rows_of(dense_logits(z, y, ignore_index=ignore))
    want, want_labels = flat(z, y, ignore)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(labels, want_labels)


def test_a_class_can_be_ignored_and_nothing_can(scene):
    z, y = scene
    background = dense_logits(z, np.where(y == 255, 0, y), ignore_index=0)
    assert background.n == ((y != 255) & (y != 0)).sum()
    assert dense_logits(z, y % 5 % C, ignore_index=None).n == y.size


@pytest.mark.parametrize("masks", [lambda y: y[:, None], lambda y: y.astype(np.float32)])
def test_masks_as_loaders_give_them(scene, masks):
    z, y = scene
    np.testing.assert_array_equal(rows_of(dense_logits(z, masks(y)))[1], flat(z, y)[1])


def test_one_channel_is_a_binary_head(scene):
    z, _ = scene
    s = z[:, :1]
    y = (np.random.default_rng(1).random(s.shape) < 1 / (1 + np.exp(-s / 2))).astype(np.float32)
    rows = dense_logits(s, y)
    expected = tp.fit_temperature(tp.binary_logits(s.ravel()), y.ravel().astype(int))
    assert rows.n_classes == 2
    assert tp.fit_temperature(rows).temperature == pytest.approx(expected.temperature, rel=1e-9)


def test_tokens_have_their_classes_last(scene):
    z, y = scene
    tokens, labels = z[:, :, 0].transpose(0, 2, 1), y[:, 0]
    got, got_labels = rows_of(dense_logits(tokens, labels, axis=-1))
    np.testing.assert_array_equal(got, tokens[labels != 255])
    np.testing.assert_array_equal(got_labels, labels[labels != 255])


def test_volumes(scene):
    z, y = scene
    volume, labels = z.reshape(B, C, 5, 4, W), y.reshape(B, 5, 4, W)
    np.testing.assert_array_equal(rows_of(dense_logits(volume, labels))[0], flat(z, y)[0])


# ------------------------------------------------------------------------- a model and a loader


class Segmenter(nn.Module):
    """Passes logits through, and counts how many of its outputs are alive at once."""

    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.alive = self.peak = self.runs = 0

    def forward(self, x):
        memory = self.dropout(x).numpy().copy()  # lives as long as any view of the output does
        self.runs += 1
        self.alive += 1
        self.peak = max(self.peak, self.alive)
        weakref.finalize(memory, self._gone)
        return {"out": torch.from_numpy(memory), "aux": x}

    def _gone(self):
        self.alive -= 1


@pytest.fixture
def loader(scene):
    z, y = scene
    big = torch.from_numpy(np.tile(z, (4, 1, 12, 12)).astype(np.float32))
    labels = torch.from_numpy(np.tile(y % 255, (4, 12, 12)))  # all kept: blocks are views
    return list(zip(big.split(1), labels.split(1), strict=True))


def test_a_stream_is_fitted_in_the_memory_of_two_batches(loader):
    model = Segmenter()
    rows = dense_logits(stream_logits(model, loader))
    got = tp.fit_temperature(rows).temperature
    z = torch.cat([z for z, _ in loader]).numpy()
    y = torch.cat([y for _, y in loader]).numpy()
    assert got == pytest.approx(tp.fit_temperature(*flat(z, y)).temperature, rel=1e-9)
    assert model.training
    assert model.peak <= 2
    assert model.runs == int(rows.passes) * len(loader)  # the batch that counts classes is one
    assert rows.passes <= 5


def test_the_sample_is_spread_over_the_whole(loader, monkeypatch):
    monkeypatch.setattr(stream, "KEPT_ELEMENTS", 1 << 12)
    numbered = []
    start = 0
    for _, y in loader:
        index = torch.arange(start, start + y.numel(), dtype=torch.float64).reshape(y.shape)
        numbered.append((torch.stack([index, -index, index * 0, index + 1], dim=1), None))
        start += y.numel()
    rows = dense_logits(numbered)
    head = rows.thin(100)
    index = head.logits[:, 0]
    gaps = np.unique(np.diff(index))
    assert 100 <= head.n < 200
    assert len(gaps) == 1
    assert index[0] == 0
    assert start - index[-1] <= gaps[0]


def test_images_of_any_size(scene):
    z, y = scene
    batches = [(z[:1], y[:1]), (z[1:, :, :7], y[1:, :7])]
    want = [np.concatenate(part) for part in zip(*(flat(*b) for b in batches), strict=True)]
    np.testing.assert_array_equal(rows_of(dense_logits(batches))[0], want[0])


def test_modes_are_back_while_an_error_is_held(loader):
    model = Segmenter()
    wrong = [(x, torch.zeros_like(y)) for x, y in loader] + [(loader[0][0], loader[0][1] + 90)]
    with pytest.raises(tp.InputError) as held:
        tp.fit_temperature(dense_logits(stream_logits(model, wrong)))
    assert model.training
    assert held.value.__traceback__ is not None


# ----------------------------------------------------------------------------------- refusals


def batch(z, y):
    return lambda: dense_logits(z, y).n


REFUSED = {
    "labels of another size": (batch(np.ones((1, 2, 4, 4)), np.ones((1, 8, 8), int)), "resize"),
    "a label beyond the classes": (
        batch(np.ones((1, 2, 1, 3)), np.array([[[0, 1, 254]]])),
        r"0\.\.1 or be ignore_index=255\. Pixel 2 of image 0 holds 254",
    ),
    "a label of one half": (batch(np.ones((1, 2, 1, 1)), np.array([[[0.5]]])), "holds 0.5"),
    "names": (batch(np.ones((1, 2, 1, 1)), {"y": 1}), "labels must have shape"),
    "plain rows": (lambda: dense_logits(np.ones((5, 2))), "need no flattening"),
    "a model": (lambda: dense_logits(Segmenter(), [1]), "stream_logits"),
    "a generator": (lambda: dense_logits(b for b in [(np.ones((1, 2, 3, 3)), None)]), "again"),
    "labels beside batches": (lambda: dense_logits([(np.ones((1, 2, 3, 3)), None)], 1), "again"),
    "probabilities": (
        lambda: tp.fit_temperature(
            dense_logits(np.full((1, 2, 3, 3), 0.5), np.zeros((1, 3, 3), int))
        ),
        "from_probabilities",
    ),
    "labels now and then": (
        lambda: (
            dense_logits(
                [(np.ones((1, 2, 3, 3)), None), (np.ones((1, 2, 3, 3)), np.ones((1, 3, 3)))]
            ).n
        ),
        "without labels, as the first is. Got one of 2 classes, with labels",
    ),
    "all ignored": (
        lambda: tp.fit_temperature(dense_logits(np.ones((1, 2, 3, 3)), np.full((1, 3, 3), 255))),
        "at least one row",
    ),
    "NaN": (lambda: tp.fit_temperature(nan_at_row_7()), "Row 7, class 1 is NaN"),
}


def nan_at_row_7():
    z = np.random.default_rng(0).normal(size=(1, 2, 4, 4))
    z[0, 1, 2, 1] = np.nan  # pixel 9; two before it are ignored
    y = np.zeros((1, 4, 4), int)
    y[0, 0, :2] = 255
    return dense_logits(z, y)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_sentence(case):
    call, sentence = REFUSED[case]
    with pytest.raises(tp.InputError, match=sentence):
        call()

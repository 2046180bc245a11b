"""Exports run where they are deployed: torch.export programs, and ONNX files in onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim

import temperance as tp
from temperance.interop.torch import CalibratedModule, collect_logits, export

pytestmark = pytest.mark.slow

K = 4
RNG = np.random.default_rng(0)
MAPS = [
    tp.Temperature(1.7),
    tp.BiasedTemperature(0.6, RNG.normal(size=K)),
    tp.VectorMap(RNG.normal(size=K), RNG.normal(size=K)),
    tp.MatrixMap(RNG.normal(size=(K, K)), RNG.normal(size=K)),
]
kinds = pytest.mark.parametrize("map_", MAPS, ids=lambda m: m.kind)


def network():
    """A small convolutional network with what differs between training and evaluation."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(),
            nn.Linear(144, K),
        )  # fmt: skip


def images(n, seed=1):
    return torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def expected(module, *inputs):
    modes = [m.training for m in module.modules()]
    with torch.no_grad():
        out = module.eval()(*inputs)
    for m, mode in zip(module.modules(), modes, strict=True):
        m.training = mode
    return out


def in_onnxruntime(path, **inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {k: v.numpy() for k, v in inputs.items()})[0])


# ------------------------------------------------------------------------------- torch.export


@kinds
def test_a_saved_program_answers_like_the_module(map_, tmp_path):
    module = CalibratedModule(network(), map_)
    module.export_program(tmp_path / "model.pt2", images(3))
    program = torch.export.load(tmp_path / "model.pt2").module()
    for n in (1, 2, 7):
        torch.testing.assert_close(
            program(images(n, seed=n)), expected(module, images(n, seed=n)), atol=1e-5, rtol=1e-5
        )
    assert module.training
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def test_a_program_without_a_file_and_its_logits():
    module = CalibratedModule(network(), MAPS[1])
    program = module.export_program(None, images(1))  # one row, yet any number of rows
    x = images(5)
    logits, _ = collect_logits(program.module(), [x[:2], x[2:]])
    torch.testing.assert_close(logits, expected(module, x), atol=1e-5, rtol=1e-5)


@kinds
def test_torch_export_itself_takes_the_module(map_):
    module = CalibratedModule(network(), map_).eval()
    program = torch.export.export(
        module, (images(3),), dynamic_shapes=({0: Dim("batch")},), strict=False
    )
    x = images(6, seed=2)
    torch.testing.assert_close(program.module()(x), module(x), atol=1e-5, rtol=1e-5)


# --------------------------------------------------------------------------------------- ONNX


@kinds
def test_an_onnx_file_answers_like_the_module(map_, tmp_path, capfd):
    module = CalibratedModule(network(), map_)
    module.export_onnx(str(tmp_path / "model.onnx"), images(3))
    for n in (1, 2, 7):
        x = images(n, seed=n)
        torch.testing.assert_close(
            in_onnxruntime(tmp_path / "model.onnx", input=x), expected(module, x),
            atol=1e-5, rtol=1e-5,
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]  # weights are inside
    assert module.training
    assert capfd.readouterr() == ("", "")


class Forms(nn.Module):
    """Two named inputs, an output with more than logits, and a one-logit head if asked for."""

    def __init__(self, classes):
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.head = nn.Linear(6, classes)

    def forward(self, input_ids, attention_mask=None):
        mask = attention_mask[:, :, None].float()
        mean = (self.table(input_ids) * mask).sum(1) / mask.sum(1)
        return {"logits": self.head(mean), "hidden": mean}


def tokens(n):
    generator = torch.Generator().manual_seed(n)
    ids = torch.randint(10, (n, 5), generator=generator)
    mask = (ids > 3).long()
    mask[:, 0] = 1
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("as_example", [lambda t: t, lambda t: tuple(t.values())])
def test_named_inputs_and_dict_outputs(as_example, tmp_path):
    module = CalibratedModule(Forms(K), MAPS[3])
    module.export_onnx(tmp_path / "text.onnx", as_example(tokens(2)))
    out = in_onnxruntime(tmp_path / "text.onnx", **tokens(5))
    torch.testing.assert_close(
        out, expected(module, *tokens(5).values())["logits"], atol=1e-5, rtol=1e-5
    )
    program = module.export_program(None, tokens(2)).module()
    torch.testing.assert_close(program(**tokens(5)), out, atol=1e-5, rtol=1e-5)


def test_one_logit_head(tmp_path):
    module = CalibratedModule(Forms(1), tp.BiasedTemperature(2.0, [0.5, -0.5]))
    module.export_onnx(tmp_path / "binary.onnx", tokens(2))
    out = in_onnxruntime(tmp_path / "binary.onnx", **tokens(5))
    score = expected(module.model, *tokens(5).values())["logits"]
    torch.testing.assert_close(out, score / 2 - 1, atol=1e-5, rtol=1e-5)


def test_dense_logits(tmp_path):
    module = CalibratedModule(nn.Conv2d(1, K, 3, padding=1), MAPS[3])
    module.export_onnx(tmp_path / "dense.onnx", images(2))
    out = in_onnxruntime(tmp_path / "dense.onnx", input=images(3))
    torch.testing.assert_close(out, expected(module, images(3)), atol=1e-5, rtol=1e-5)


# ----------------------------------------------------------------------------------- the page


def test_the_page_in_the_manual_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text("utf-8")
    example = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        exec(compile(example, "docs/torch.md", "exec"), {})  # noqa: S102 - our own page
    true, dense = (float(t) for t in re.findall(r"T = (\d+\.\d+)", capsys.readouterr().out))
    assert true == pytest.approx(3, rel=0.1)
    assert dense == pytest.approx(2, rel=0.1)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["calibrated.onnx", "calibrated.pt", "calibrated.pt2"]


# ----------------------------------------------------------------------------------- refusals


class Noisy(nn.Module):
    """Dropout that stays on: no export can agree with it."""

    def forward(self, x):
        return nn.functional.dropout(x.flatten(1)[:, :K], 0.5, training=True)


class Counting(nn.Module):
    """A number from outside the graph, which an exporter takes for a constant."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append(1)
        return x.flatten(1)[:, :K] + len(self.calls)


class Branching(nn.Module):
    def forward(self, x):
        z = x.flatten(1)[:, :K]
        return z if z.sum() > 0 else -z


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(3, -1)[:, :K]


class Formula(nn.Module):
    def __init__(self, formula):
        super().__init__()
        self.formula = formula

    def forward(self, x):
        return self.formula(x.flatten(1)[:, :K])


REFUSED = {
    "noise": (Noisy, "a batch of 3 they differ by"),
    "an outside number": (Counting, "must agree with the module to 1e-05"),
    "a branch on values": (Branching, "that torch.export can express. Got GuardOnDataDependent"),
    "a fixed batch": (Fixed, "that torch.export can express"),
    "one row is treated apart": (
        lambda: Formula(lambda z: z if z.shape[0] > 1 else 2 * z),
        "For a batch of 1 they differ",
    ),
    "not a number": (lambda: Formula(lambda z: z * torch.nan), "differ by nan"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_program_leaves_no_file(case, tmp_path):
    build, sentence = REFUSED[case]
    module = CalibratedModule(build(), MAPS[0]).train()
    with pytest.raises(tp.InputError, match=sentence):
        module.export_program(tmp_path / "model.pt2", images(3))
    assert list(tmp_path.iterdir()) == []
    assert module.training


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (Counting, "must agree with the module to 1e-05"),
        (Branching, "that ONNX can express. Got GuardOnDataDependent"),
    ],
)
def test_a_refused_onnx_file_leaves_the_one_before(build, sentence, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("the export of last week")
    with pytest.raises(tp.InputError, match=sentence):
        CalibratedModule(build(), MAPS[0]).export_onnx(path, images(3))
    assert path.read_text() == "the export of last week"
    assert list(tmp_path.iterdir()) == [path]


def test_a_wrong_file_is_found_out(tmp_path, monkeypatch):
    # What is verified is the file itself: a saved program of another temperature is refused.
    module = CalibratedModule(network(), tp.Temperature(2.0))
    other = CalibratedModule(network(), tp.Temperature(2.001)).export_program(None, images(2))
    save = torch.export.save
    monkeypatch.setattr(export.torch.export, "save", lambda _, path: save(other, path))
    with pytest.raises(tp.InputError, match="must agree with the module to 1e-05"):
        module.export_program(tmp_path / "model.pt2", images(2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "example", "sentence"),
    [
        ("nowhere/model.pt2", images(2), "directory that exists"),
        ("model.onnx", images(2), "must end in .pt2"),
        ("model.pt2", None, "example must be a tensor"),
        ("model.pt2", images(0), r"with \[0\] rows"),
        ("model.pt2", (images(2), images(3)), r"with \[2, 3\] rows"),
        ("model.pt2", torch.tensor(1.0), r"with \[\] rows"),
    ],
)
def test_refused_before_anything_is_exported(path, example, sentence, tmp_path):
    module = CalibratedModule(network(), MAPS[0])
    with pytest.raises(tp.InputError, match=sentence):
        module.export_program(tmp_path / path, example)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        export.importlib.util, "find_spec", lambda name: None if "run" in name else 1
    )
    with pytest.raises(ModuleNotFoundError, match="needs onnxruntime: pip install"):
        CalibratedModule(network(), MAPS[0]).export_onnx(tmp_path / "model.onnx", images(2))

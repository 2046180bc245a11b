"""The rows of the paper's tables, and which logits stand for each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temperance_lab.reproduce.experiment_data import NO_SHIFT
from temperance_lab.reproduce.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temperance_lab.reproduce.experiment_data import ExperimentData
    from temperance_lab.reproduce.protocol import Logits

__all__ = ["BESIDE", "ROWS", "Row", "reported", "rows", "title"]

COLUMNS = {
    "uncalibrated": "uncalibrated",
    "TS": "temperature",
    "UTS": "unsupervised",
    "UTS, mix of the draw": "unsupervised",
    "vector": "vector",
    "matrix": "matrix",
    "matrix, penalty 0.005": "matrix",
}


GPU, CORE = 5e12, 5e10  # operations a second of a modest GPU, and of one core


def _time(operations: float) -> str:
    """Return how long a number of operations takes."""
    hours, days = operations / GPU / 3600, operations / CORE / 86_400
    return (
        f"{operations:.1e} operations, {hours:.1f} hours of a GPU that does {GPU:.0e} a second or "
        f"{days:.1f} days of a core that does {CORE:.0e}"
    )


def _training(group: str, operations: float) -> str:
    command = f"`temperance-lab train {group} --data DIR`, which writes it"
    return f"{_time(operations)}, for {command}; or somebody's published logits"


@dataclass(frozen=True, slots=True)
class Row:
    """A data set and a network of the paper, and the logits here: a file, or a trained network.

    ``here`` names the network where it is another than the paper's, ``hardware`` what makes a file
    that is missing.
    """

    dataset: str
    model: str
    file: str
    evidence: str = "missing"
    prefix: str = ""
    balanced: bool = True
    caveat: str = ""
    here: str = ""
    rows: int = 10_000
    classes: int = 10
    hardware: str = ""

    @property
    def group(self) -> str:
        """Name of the row."""
        return f"{self.dataset}-{self.model}"

    @property
    def title(self) -> str:
        """What is run, and for which network of the paper where that is another."""
        if self.here:
            return f"{self.dataset} {self.here} for {self.model}"
        return f"{self.dataset} {self.model}"

    def available(self, data: ExperimentData) -> bool:
        """Return whether the row can be run."""
        return not self.file or data.has(self.file)

    def runs(self, data: ExperimentData) -> list[Logits]:
        """Return the logits that stand for the row: of a file, or of each training run."""
        if self.file:
            return [data.file(self.file, self.prefix, balanced=self.balanced)]
        if self.group == "MNIST-demo":
            return [data.shipped()]
        task = data.task("mnist")
        return [data.shifted(task, kind, NO_SHIFT) for kind in data.runs]

    def fields(self, logits: Logits) -> dict[str, Any]:
        """Return what all records of the row say."""
        return {
            "group": self.group,
            "dataset": self.dataset,
            "model": self.model,
            # The file of a row that was missing has come: somebody's weights, not the authors'.
            "evidence": "other weights" if self.evidence == "missing" else self.evidence,
            "data": logits.data,
            "weights": logits.weights,
            "caveat": self.caveat,
        }

    def missing(
        self, experiment: str, methods: Sequence[str], metrics: Sequence[str], **shared: Any
    ) -> list[Record]:
        """Return records of empty cells, each with what would fill it."""
        return [
            Record(
                experiment=experiment,
                group=self.group,
                dataset=self.dataset,
                model=self.model,
                method=method,
                metric=metric,
                reported=reported(self, method, metric) if experiment == "table-1" else None,
                needs=self.needs(experiment),
                **shared,
            )
            for method in methods
            for metric in metrics
        ]

    def needs(self, experiment: str) -> dict[str, str]:
        """Return what would fill the row."""
        return {
            "file": f"logits/{self.file} in the data directory: an array `{self.prefix}logits` of "
            f"shape ({self.rows}, {self.classes}), those of {self.model} on the {self.dataset} "
            f"test set, and an array `{self.prefix}labels` of shape ({self.rows},)",
            "hardware": self.hardware,
            "command": f"temperance-lab reproduce {experiment} --cells {self.group} --data DIR",
        }


ROWS = (
    Row(
        "Birds",
        "ResNet50",
        "birds_efficientnet_lite0.npz",
        "nearest",
        balanced=False,
        caveat="linear head on EfficientNet-Lite0 features in place of ResNet50",
        here="EfficientNet",
    ),
    Row("MNIST", "Lenet-5", "", "other weights", caveat="LeNet-5, five training runs here"),
    Row(
        "SVHN",
        "ResNet110",
        "svhn_to_mnist.npz",
        "nearest",
        prefix="source_",
        balanced=False,
        caveat="a public LeNet, trained with dropout, in place of ResNet110",
        here="LeNet",
    ),
    Row(
        "SVHN",
        "DenseNet100",
        "svhn_densenet100.npz",
        balanced=False,
        rows=26_032,
        hardware="train_32x32.mat, test_32x32.mat and " + _training("SVHN-DenseNet100", 3.1e16),
    ),
    Row(
        "CIFAR10",
        "DenseNet40",
        "cifar10_densenet40.npz",
        "other weights",
        prefix="test_",
        caveat="DenseNet-40 of Kull et al. (2019)",
    ),
    Row(
        "CIFAR10",
        "DenseNet100",
        "cifar10_densenet100_bc.npz",
        "nearest",
        caveat="DenseNet-BC-100, public weights, on 8,000 of the 10,000 test images",
        here="DenseNet-BC-100",
        rows=8_000,
    ),
    Row(
        "CIFAR10",
        "ResNet110",
        "cifar10_resnet56.npz",
        "nearest",
        caveat="a public ResNet-56 in place of ResNet110",
        here="ResNet56",
    ),
    Row(
        "CIFAR10",
        "VGG16",
        "cifar10_vgg16_bn.npz",
        "other weights",
        caveat="a public VGG-16 with batch normalisation",
    ),
    Row("CIFAR100", "DenseNet40", "cifar100_densenet40.npz", "exact"),
    Row(
        "CIFAR100",
        "DenseNet100",
        "cifar100_densenet100_bc.npz",
        "nearest",
        caveat="DenseNet-BC-100, public softmax outputs",
        here="DenseNet-BC-100",
        classes=100,
    ),
    Row(
        "CIFAR100",
        "ResNet110",
        "cifar100_resnet56.npz",
        "nearest",
        caveat="a public ResNet-56 in place of ResNet110",
        here="ResNet56",
    ),
    Row(
        "CIFAR100",
        "WideResNet40-4",
        "cifar100_wideresnet40_4.npz",
        classes=100,
        hardware="cifar-100-python.tar.gz and " + _training("CIFAR100-WideResNet40-4", 7.8e16),
    ),
    # No rows of the paper's tables (`BESIDE`); the first two are of the supplement.
    Row(
        "ImageNet",
        "ResNet152",
        "imagenet_resnet152.npz",
        rows=50_000,
        classes=1_000,
        hardware="public weights for networks.build('resnet152', 1000), the validation photographs "
        f"for datasets.load('imagenet', DIR), and {_time(1.2e15)}",
    ),
    Row(
        "ISIC",
        "ResNet200",
        "isic_resnet200.npz",
        prefix="target_",
        balanced=False,
        rows=3_205,
        classes=7,
        hardware="all photographs of HAM10000, ImageNet weights, and for `python "
        "lab/experiments/skin_lesion/supplement.py OUT --weights FILE`, which writes it, "
        f"{_time(5.4e16)}",
    ),
    Row(
        "CIFAR100",
        "WideResNet16-4",
        "cifar100_wideresnet16_4.npz",
        "nearest",
        caveat="not in the paper; WideResNet-16-4 beside WideResNet40-4, public softmax outputs",
        classes=100,
    ),
    Row("CIFAR100", "VGG16", "cifar100_vgg16_bn.npz", "nearest", caveat="not in the paper"),
)

QUICK = (
    Row("MNIST", "Lenet-5", "", "nearest", caveat="LeNet-5 trained on 2,400 digits"),
    Row("MNIST", "demo", "", "nearest", caveat="logits that come with the package"),
)


def rows(data: ExperimentData) -> tuple[Row, ...]:
    """Return the rows to run."""
    return QUICK if data.quick else ROWS


def title(group: str) -> str:
    """Return the name of a group for people: what it is of, or which row."""
    named = {row.group: row.title for row in ROWS}
    return named.get(group, group.replace("-", " ").replace("_", " "))


@cache
def _tables() -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    text = (Path(__file__).parent / "reported.json").read_text(encoding="utf-8")
    return {
        (metric, row["dataset"], row["model"]): row
        for metric, table in json.loads(text)["tables"].items()
        for row in table
    }


def reported(row: Row, method: str, metric: str) -> dict[str, float] | None:
    """Return mean and standard deviation that the paper prints, or None where it prints none."""
    column = COLUMNS.get(method)
    if metric == "accuracy" and method.startswith(("uncalibrated", "UTS")):
        column = "temperature"  # one column for the three, which share it
    table = _tables().get((metric, row.dataset, row.model), {})
    return table.get(column) if column else None


# Networks that stand beside the rows of the paper; claims of the paper are not counted on them.
BESIDE = tuple(row.group for row in ROWS if reported(row, "TS", "nll") is None)

"""Networks trained on unshifted images, and their logits on shifted ones: one .npz a family.

Each file holds ``s_logits, s_labels`` (validation rows that training never saw: the source),
``labels`` of the test images, and ``t_<shift>``, the logits of those images after each shift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Images = NDArray[np.uint8]

DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
SEVERITIES = (1, 3, 5)
ON_DIGITS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "speckle_noise",
    "gaussian_blur",
    "defocus_blur",
    "motion_blur",
    "zoom_blur",
    "glass_blur",
    "contrast",
    "brightness",
    "fog",
    "pixelate",
    "elastic_transform",
)


@dataclass(frozen=True, slots=True)
class Family:
    """A network, the data it learns, and how."""

    network: str
    data: str
    recipe: str
    validation: int
    test: int
    changes: dict[str, Any]
    dropout: bool = False

    @property
    def grey(self) -> bool:
        """Return whether the images are 28 x 28 and grey."""
        return self.data != "cifar10"


FAMILIES = {
    "mnist_lenet5": Family("lenet5", "mnist", "lenet5-mnist", 5000, 10_000, {}),
    "cifar_small": Family("small_cifar", "cifar10", "small_cifar-cifar10", 2000, 4000, {}),
    "mnist_lenet5_dropout": Family(
        "lenet5",
        "mnist",
        "lenet5-mnist",
        5000,
        10_000,
        {"weight_decay": 1e-3, "epochs": 12},
        dropout=True,
    ),
    "fashion_lenet5": Family(
        "lenet5", "fashion-mnist", "lenet5-mnist", 5000, 10_000, {"flip": "h"}
    ),
    "cifar_resnet20": Family(
        "resnet20", "cifar10", "small_cifar-cifar10", 2000, 4000, {"epochs": 12}
    ),
}


def digit_shifts(x: Images) -> Iterator[tuple[str, Images]]:
    """Yield the shifts of 28 x 28 images, named."""
    from scipy.ndimage import gaussian_filter

    from temperance_lab import shifts

    yield "clean", x
    for degrees in range(15, 181, 15):
        yield f"rotate{degrees}", shifts.rotate(x, degrees)
    for pixels in range(2, 15, 2):
        yield f"roll{pixels}", shifts.roll(x, pixels)
    for name in ON_DIGITS:
        for severity in SEVERITIES:
            yield f"{name}{severity}", shifts.corrupt(x, name, severity)
    rng = np.random.default_rng(0)
    for deviation in (30, 60, 100, 150):
        noisy = x + rng.normal(0, deviation, x.shape)
        yield f"strongnoise{deviation}", np.clip(noisy, 0, 255).astype(np.uint8)
    for width in (1.5, 2.5, 3.5):
        blurred = gaussian_filter(x.astype(np.float32), (0, width, width, 0))
        yield f"strongblur{width}", blurred.astype(np.uint8)
    for contrast in (0.3, 0.15, 0.08):
        yield f"lowcontrast{contrast}", (x * contrast).astype(np.uint8)
    yield "invert", 255 - x


def photograph_shifts(x: Images) -> Iterator[tuple[str, Images]]:
    """Yield the shifts of 32 x 32 colour images, named."""
    from temperance_lab import shifts

    yield "clean", x
    for name in shifts.CORRUPTIONS:
        for severity in SEVERITIES:
            yield f"{name}{severity}", shifts.corrupt(x, name, severity)
    for pixels in (4, 8, 12, 16):
        yield f"roll{pixels}", shifts.roll(x, pixels)
    for degrees in (15, 30, 60, 90, 180):
        yield f"rotate{degrees}", shifts.rotate(x, degrees)


def read_data(name: str, data_dir: Path) -> Any:
    """Return a data set: Fashion-MNIST of Debian where that is installed, else the shared data."""
    from temperance_lab import datasets

    fashion = name == "fashion-mnist" and DEBIAN_FASHION.is_dir()
    return datasets.load(name, DEBIAN_FASHION if fashion else data_dir)


def build(name: str, path: Path, data_dir: Path, nets: Path | None) -> None:
    """Train the network of a family, or load it from ``nets``, and write its logits to ``path``."""
    import torch
    from safetensors.torch import load_file

    from temperance_lab import networks

    family = FAMILIES[name]
    data = read_data(family.data, data_dir)
    torch.manual_seed(0)
    net = networks.build(family.network, 10, 1 if family.grey else 3)
    if family.dropout:
        net = networks.add_last_layer_dropout(net)
    order = np.random.default_rng(0).permutation(len(data.x_train))
    held, learned = np.sort(order[: family.validation]), np.sort(order[family.validation :])
    if nets is None:
        recipe = replace(networks.RECIPES[family.recipe], **family.changes)
        weights = path.with_suffix(".training.safetensors")
        networks.train(
            net, data.x_train[learned], data.y_train[learned], recipe, seed=0, checkpoint=weights
        )
    else:
        net.load_state_dict(load_file(nets / f"{name}.safetensors"))
        net.eval()
    x, y = data.x_test[: family.test], data.y_test[: family.test]
    out = {
        "s_logits": networks.predict_logits(net, data.x_train[held]),
        "s_labels": data.y_train[held],
        "labels": y,
    }
    for shift, images in (digit_shifts if family.grey else photograph_shifts)(x):
        out[f"t_{shift}"] = networks.predict_logits(net, images)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **out)
    partial.replace(path)

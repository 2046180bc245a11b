"""Training configurations by name: the published recipes, and short ones for two cores."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["RECIPES", "Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    r"""Everything that decides a training run besides the network, the data and the seed.

    The learning rate is a closed form of the progress :math:`u \in [0, 1)` of the run, so that a
    resumed run needs no scheduler state: stepwise,
    :math:`\eta(u) = \eta_0\,f^{\,|\{m\,:\,m \le u\}|}` for milestones m and a factor f, or
    with ``cosine`` :math:`\eta(u) = \tfrac12 \eta_0 (1 + \cos \pi u)`; either times
    :math:`\min(1, u/w)` for a warm-up of length w.

    Parameters
    ----------
    epochs, batch_size, learning_rate, optimizer, weight_decay
        As in the papers; momentum is 0.9.
    milestones, factor, cosine, warmup
        The schedule, in fractions of the run.
    flip
        Axes along which an image is mirrored with probability one half: ``""``, ``"h"``, ``"hv"``.
    crop
        Border of zeros from which a window of the old size is cut at random.
    rotate
        Largest angle in degrees of a random rotation, applied with probability one half.
    dropout
        Rate of the dropout layers inside the body, where a network has them.

    Examples
    --------
    >>> recipe = Recipe(epochs=4, batch_size=8, learning_rate=1.0, milestones=(0.5,), factor=0.1)
    >>> [recipe.rate(u) for u in (0.0, 0.4, 0.5)]
    [1.0, 1.0, 0.1]
    """

    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Literal["sgd", "nesterov", "adam"] = "sgd"
    weight_decay: float = 0.0
    milestones: tuple[float, ...] = ()
    factor: float = 0.1
    cosine: bool = False
    warmup: float = 0.0
    flip: Literal["", "h", "hv"] = ""
    crop: int = 0
    rotate: float = 0.0
    dropout: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return the recipe as a checkpoint holds it."""
        return {**asdict(self), "milestones": list(self.milestones)}

    def rate(self, progress: float) -> float:
        """Learning rate at a fraction ``progress`` of the run."""
        if self.cosine:
            rate = self.learning_rate * (1 + math.cos(math.pi * progress)) / 2
        else:
            rate = self.learning_rate * self.factor ** sum(m <= progress for m in self.milestones)
        return rate * min(1.0, progress / self.warmup) if self.warmup else rate


RECIPES: dict[str, Recipe] = {
    # For two cores; ours. LeNet-5 reaches the 99.2 % of the paper's table in two minutes.
    "lenet5-mnist": Recipe(epochs=15, batch_size=64, learning_rate=0.05, cosine=True, warmup=0.05),
    "small_cifar-cifar10": Recipe(
        epochs=25,
        batch_size=64,
        learning_rate=0.1,
        optimizer="nesterov",
        weight_decay=5e-4,
        cosine=True,
        warmup=0.15,
        flip="h",
        crop=4,
    ),
    # He et al. (CVPR 2016), section 4.2: 64k steps, rate divided at 32k and 48k; ResNet-110 warms
    # up over the first 400 steps (here linearly, there at a constant 0.01).
    "resnet-cifar": Recipe(
        epochs=164,
        batch_size=128,
        learning_rate=0.1,
        weight_decay=1e-4,
        milestones=(0.5, 0.75),
        warmup=400 / 64_000,
        flip="h",
        crop=4,
    ),
    # Huang et al. (CVPR 2017), section 4.2; without augmentation (SVHN) with dropout 0.2.
    "densenet-cifar": Recipe(
        epochs=300,
        batch_size=64,
        learning_rate=0.1,
        optimizer="nesterov",
        weight_decay=1e-4,
        milestones=(0.5, 0.75),
        flip="h",
        crop=4,
    ),
    "densenet-svhn": Recipe(
        epochs=40,
        batch_size=64,
        learning_rate=0.1,
        optimizer="nesterov",
        weight_decay=1e-4,
        milestones=(0.5, 0.75),
        dropout=0.2,
    ),
    # Huang et al. (ECCV 2016, stochastic depth), the first ResNets on SVHN: section 4.
    "resnet-svhn": Recipe(
        epochs=50,
        batch_size=128,
        learning_rate=0.1,
        optimizer="nesterov",
        weight_decay=1e-4,
        milestones=(0.6, 0.7),
        warmup=400 / 64_000,
    ),
    # Zagoruyko & Komodakis (BMVC 2016), section 3.
    "wideresnet-cifar": Recipe(
        epochs=200,
        batch_size=128,
        learning_rate=0.1,
        optimizer="nesterov",
        weight_decay=5e-4,
        milestones=(0.3, 0.6, 0.8),
        factor=0.2,
        flip="h",
        crop=4,
    ),
    # Simonyan & Zisserman (ICLR 2015), section 3.1: batch 256, 0.01 divided by ten three times.
    # Their 74 epochs are of ImageNet; the 200 epochs of CIFAR are ours.
    "vgg-cifar": Recipe(
        epochs=200,
        batch_size=256,
        learning_rate=0.01,
        weight_decay=5e-4,
        milestones=(0.4, 0.7, 0.9),
        flip="h",
        crop=4,
    ),
    # The paper's supplement, fine-tuning of a ResNet-200 on ISIC.
    "resnet200-isic": Recipe(
        epochs=100,
        batch_size=32,
        learning_rate=1e-4,
        optimizer="adam",
        milestones=tuple(tenth / 10 for tenth in range(1, 10)),
        factor=0.95,
        flip="hv",
        rotate=12.5,
    ),
}

"""The paper's networks, their training, and the probabilistic baselines.

Networks by name, seeded; images are uint8 ``(n, H, W, C)`` from end to end, and a network carries
its own normalisation. The baselines return predictive log-probabilities, which are logits.

Examples
--------
>>> from temperance_lab import networks
>>> network = networks.build("resnet20", n_classes=10)
>>> sum(p.numel() for p in network.parameters())
269722
"""

from __future__ import annotations

from temperance_lab.networks.attacks import attack
from temperance_lab.networks.checkpoints import load_weights
from temperance_lab.networks.ensembles import predict_ensemble
from temperance_lab.networks.last_layer import predict_last_layer, sample_last_layer
from temperance_lab.networks.ll_dropout import add_last_layer_dropout, predict_ll_dropout
from temperance_lab.networks.network import Network
from temperance_lab.networks.recipes import RECIPES, Recipe
from temperance_lab.networks.registry import NETWORKS, build
from temperance_lab.networks.run import Epoch
from temperance_lab.networks.svi import (
    FlipoutConv2d,
    FlipoutLinear,
    kl_divergence,
    predict_svi,
    to_flipout,
    train_svi,
)
from temperance_lab.networks.training import predict_logits, train

__all__ = [
    "NETWORKS",
    "RECIPES",
    "Epoch",
    "FlipoutConv2d",
    "FlipoutLinear",
    "Network",
    "Recipe",
    "add_last_layer_dropout",
    "attack",
    "build",
    "kl_divergence",
    "load_weights",
    "predict_ensemble",
    "predict_last_layer",
    "predict_ll_dropout",
    "predict_logits",
    "predict_svi",
    "sample_last_layer",
    "to_flipout",
    "train",
    "train_svi",
]

"""What the layer before the logits adds where no class mix is known.

    python experiments/labelfree/features.py --cache DIR

Networks of `suite` whose weights lie in --cache, and perceptrons on pixels, on every third shift:
`temperance.calibrate` with a source and no class mix, with features and without. Brier scores are
sums over classes times 1000; regret is against temperature scaling with all labels of the target.
The rows are built once (minutes) and kept in --cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import suite
from settings import brier, temperature

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Forward = Callable[[NDArray[np.uint8]], tuple[NDArray[Any], NDArray[Any]]]

ROWS, STRIDE = 1_500, 3
NETWORKS = {
    "mnist_lenet5": "mnist",
    "mnist_lenet5_dropout": "mnist",
    "cifar_small": "cifar10",
    "mnist_perceptron": "mnist",
    "fashion_perceptron": "fashion-mnist",
}
RECORD = Path(__file__).parent / "records" / "features.json"


def trained(name: str, weights: Path) -> Forward:
    """Return logits and features of a network of the suite."""
    import torch

    from temperance_lab import networks
    from temperance_lab.networks.checkpoints import load_weights
    from temperance_lab.networks.images import as_batch

    family = suite.FAMILIES[name]
    net = networks.build(family.network, 10, 1 if family.grey else 3)
    if family.dropout:
        net = networks.add_last_layer_dropout(net)
    net = load_weights(net, weights).eval()

    def forward(x: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
        with torch.no_grad():
            parts = [net.features(as_batch(x[i : i + 250])) for i in range(0, len(x), 250)]
            features = torch.cat(parts).flatten(1)
            return net.head(features).numpy(), features.numpy()

    return forward


def perceptron(x: NDArray[np.uint8], y: NDArray[Any]) -> Forward:
    """Train two hidden layers on pixels; return logits and the second layer."""
    import torch

    torch.manual_seed(0)
    sizes = [int(np.prod(x.shape[1:])), 128, 64]
    layers: list[Any] = []
    for before, after in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    body, head = torch.nn.Sequential(*layers), torch.nn.Linear(sizes[-1], 10)
    optimiser = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-3)

    def pixels(u: NDArray[np.uint8]) -> Any:
        return torch.from_numpy(u.reshape(len(u), -1).astype(np.float32) / 255)

    rows, labels = pixels(x), torch.from_numpy(y.astype(np.int64))
    for _ in range(8):
        for batch in torch.randperm(len(labels)).split(128):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(head(body(rows[batch])), labels[batch]).backward()
            optimiser.step()

    def forward(u: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
        with torch.no_grad():
            features = body(pixels(u))
            return head(features).numpy(), features.numpy()

    return forward


def build(name: str, path: Path, cache: Path, data_dir: Path) -> None:
    """Write logits and features of the source and of every third shift."""
    data = suite.read_data(NETWORKS[name], data_dir)
    family = suite.FAMILIES.get(name)
    order = np.random.default_rng(0).permutation(len(data.x_train))
    held = np.sort(order[: family.validation if family else 5_000])[:ROWS]
    if family is None:
        learned = order[5_000:25_000]
        forward = perceptron(data.x_train[learned], data.y_train[learned])
    else:
        forward = trained(name, cache / f"{name}.training.safetensors")
    z, f = forward(data.x_train[held])
    out = {"s_logits": z, "s_features": f, "s_labels": data.y_train[held]}
    out["labels"] = data.y_test[:ROWS]
    shifts = suite.photograph_shifts if data.x_test.shape[-1] == 3 else suite.digit_shifts
    for shift, images in itertools.islice(shifts(data.x_test[:ROWS]), 0, None, STRIDE):
        out[f"t_{shift}"], out[f"f_{shift}"] = forward(images)
    np.savez(path, **{k: v.astype(np.float32) if v.ndim == 2 else v for k, v in out.items()})


def judge(name: str, path: Path) -> list[dict[str, Any]]:
    """Return the regrets with features and without, and whether the accuracy is covered."""
    out = []
    with np.load(path) as data:
        source = data["s_logits"], data["s_labels"].astype(np.int64)
        y = data["labels"].astype(np.int64)
        home = tp.fit_temperature(*source)
        for key in data.files:
            if not key.startswith("t_"):
                continue
            z, shift = data[key], key.removeprefix("t_")
            best = brier(temperature(z, y).predict_proba(z), y)
            row: dict[str, Any] = {"network": name, "shift": shift}
            row["TS-source"] = brier(home.predict_proba(z), y) - best
            pair = data[f"f_{shift}"], data["s_features"]
            right = float((z.argmax(axis=1) == y).mean())
            for how, features in (("without", None), ("with", pair)):
                cal = tp.calibrate(z, source=source, features=features)
                row[how] = brier(cal.predict_proba(z), y) - best
                inside = cal.accuracy is not None and cal.accuracy.low <= right <= cal.accuracy.high
                row[f"{how}, covered"] = inside
            out.append(row)
    return out


def main() -> None:
    """Build what is missing, judge, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    cache = parser.parse_args().cache
    data = Path(os.environ["TEMPERANCE_DATA"])
    record: dict[str, Any] = {"version": tp.__version__, "rows": ROWS, "networks": {}}
    for name in NETWORKS:
        path = cache / "features" / f"{name}.npz"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            build(name, path, cache, data)
        rows = judge(name, path)
        keys = [key for key in rows[0] if key not in {"network", "shift"}]
        found = {key: round(float(np.mean([row[key] for row in rows])), 3) for key in keys}
        found["shifts"] = len(rows)
        for how in ("without", "with"):
            worse = [row[how] - row["TS-source"] > 5 for row in rows]
            found[f"{how}, harmed"] = round(float(np.mean(worse)), 3)
        record["networks"][name] = found
        print(name, found)
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()

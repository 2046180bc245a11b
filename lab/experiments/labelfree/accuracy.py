"""Mean absolute error of every estimate of the accuracy, by family of shifts.

    python experiments/labelfree/accuracy.py --cache DIR

Targets are the text and tables of ``TEMPERANCE_DATA/worlds``, the two natural image shifts, and the
families of networks whose logits lie in ``--cache``. All methods know the exact class mix of the
target and a labelled source. UTDC and the temperatures beside it are compared by Brier regret (sum
over classes, times 1000) against the temperature that the target's labels give.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scenarios

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

METHODS = ("matched", "cot", "cott", "atc", "atc-ne", "doc", "confidence")
NATURAL = ("skin_lesions", "svhn_to_mnist")
PUBLISHED = {  # Garg et al. (2022), Table 1, after temperature scaling: percentage points
    "CIFAR-10-C": {"atc": 4.25, "atc-ne": 3.87, "doc": 11.08, "confidence": 11.91},
}
UNIFORM = 1e4  # temperature of a model that is worse than chance: every class is equally likely
Set = tuple[Any, Any, tuple[Any, Any], Any]


def worlds(folder: Path) -> Iterator[tuple[str, list[Set]]]:
    """Yield each family of text and tables with its targets: logits, labels, source, class mix."""
    families: dict[str, list[Set]] = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            source = data["source_logits"], data["source_labels"]
            for key in data.files:
                if key.startswith("target_logits_"):
                    name = key.removeprefix("target_logits_")
                    target = data[key], data[f"target_labels_{name}"]
                    families.setdefault(path.stem.split("__")[0], []).append(
                        (*target, source, data[f"prior_{name}"])
                    )
    yield from families.items()


def images(cache: Path, data: Path) -> Iterator[tuple[str, list[Set]]]:
    """Yield the natural shifts of images, and the families whose logits are in the cache."""
    cached = [family for family in scenarios.FAMILIES if (cache / f"{family}.npz").exists()]
    for family in (*NATURAL, *cached):
        found, _ = scenarios.load(family, cache, data, None)
        yield family, [(s.target, s.labels, s.source, s.prior) for s in found]


def estimate_error(method: str, target: Set) -> float:
    """Return the absolute error of one estimate of the accuracy."""
    z, y, source, prior = target
    estimate = tp.estimate_accuracy(z, prior, source, method=method).value
    return abs(estimate - float((z.argmax(axis=1) == y).mean()))


def regret(fit: Callable[[], tp.maps.Map], target: Set) -> float:
    """Return the Brier score of a fit less that of the labelled temperature, times 1000."""
    z, y, _, _ = target

    def brier(fit: Callable[[], tp.maps.Map], otherwise: float) -> float:
        try:
            fitted = fit()
        except tp.NotIdentified:
            fitted = tp.Temperature(otherwise)
        return float(tp.metrics.brier(fitted(z), y, per_class=False))

    return 1000 * (brier(fit, 1.0) - brier(lambda: tp.fit_temperature(z, y), UNIFORM))


def measure(targets: list[Set]) -> dict[str, Any]:
    """Return the mean errors and regrets over the targets of a family."""
    errors = {m: float(np.mean([estimate_error(m, t) for t in targets])) for m in METHODS}
    fits = {
        "TS-source": lambda t: tp.fit_temperature(*t[2]),
        "UTDC": lambda t: tp.fit_utdc(t[0], t[2], prior=t[3]),
        "UTDC, no prior": lambda t: tp.fit_utdc(t[0], t[2]),
        "prior-matched, T only": lambda t: tp.fit_prior_matched(t[0], t[3], t[2], bias=False),
    }
    regrets = {
        name: float(np.mean([regret(lambda t=t, fit=fit: fit(t), t) for t in targets]))
        for name, fit in fits.items()
    }
    classes = int(targets[0][0].shape[1])
    return {"sets": len(targets), "classes": classes, "error": errors, "regret": regrets}


def main() -> None:
    """Print the table and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    cache = parser.parse_args().cache
    data = Path(os.environ["TEMPERANCE_DATA"])
    found = {}
    print("family              ", *(f"{m:>10}" for m in METHODS))
    for family, targets in (*worlds(data / "worlds"), *images(cache, data)):
        found[family] = measure(targets)
        print(f"{family:20}", *(f"{found[family]['error'][m]:10.3f}" for m in METHODS), flush=True)
    mean = {m: float(np.mean([f["error"][m] for f in found.values()])) for m in METHODS}
    print(f"{'mean of families':20}", *(f"{mean[m]:10.3f}" for m in METHODS))
    facts = {"version": tp.__version__, "families": found, "mean": mean, "published": PUBLISHED}
    record = Path(__file__).parent / "records" / "accuracy.json"
    record.write_text(json.dumps(facts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What `temperance.calibrate` is worth by what users know, and what a few labels add.

    python experiments/labelfree/settings.py --cache DIR [--also DIR] [--newest DIR] [--more DIR]
        [--only "no source"]

Targets are the text and tables of ``TEMPERANCE_DATA/worlds``, the two natural image shifts, and the
image families whose logits lie in ``--cache`` (`suite` builds networks, `pixel_models` the others);
of image families every ``--stride``-th shift is taken. ``--also`` is the directory that
`public_worlds` wrote, ``--newest`` that of `newest_worlds`, ``--more`` that of `more_worlds`: each
is a group of its own.

Settings: the exact class mix; a mix counted on 100 drawn rows; the source's mix, believed although
the target's differs; no mix; no source. Few labels: 10, 30 and 100 random target rows, with the
exact mix and without a mix, beside temperature scaling on the same labels.

Brier scores are sums over classes times 1000; regret is against temperature scaling with all labels
of the target. Harmed: more than 5 worse than the source's temperature (the model's own confidence
where there is no source). Missed: the bare prior-matched map would have been more than 5 better.
The record is one compact file; every mean is one over families. ``--only`` judges one setting,
after a change that no other can notice, and keeps the rest of the record; a group of other sets is
left as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scenarios

import temperance as tp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SETTINGS = ("exact mix", "mix of 100 rows", "source's mix", "no mix", "no source")
LABELS = (10, 30, 100)
HARM = 5.0
PUBLIC, NEWEST, MORE = "public: ", "newest: ", "more: "
MOST_ROWS = 2_500
SAME = 1.0  # of mean regrets: package descriptions and typefaces change from day to day
RECORD = Path(__file__).parent / "records" / "settings.json"


@dataclass(frozen=True)
class Target:
    """One shifted set with everything that is known of it."""

    family: str
    shift: str
    logits: NDArray[Any]
    labels: NDArray[Any]
    source: tuple[NDArray[Any], NDArray[Any]]

    @property
    def n_classes(self) -> int:
        """Return the number of classes."""
        return self.logits.shape[1]

    @property
    def control(self) -> bool:
        """Return whether the set is not shifted."""
        return self.shift in {"control", "clean"}

    def mix(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Return the class shares of labels."""
        return np.bincount(labels, minlength=self.n_classes) / len(labels)


def worlds(directory: Path, group: str = "") -> Iterator[Target]:
    """Yield the targets of text and tables in a directory."""
    for path in sorted(directory.glob("*.npz")):
        with np.load(path) as stored:
            source = stored["source_logits"], stored["source_labels"].astype(np.int64)
            for key in stored.files:
                if key.startswith("target_logits_"):
                    name = key.removeprefix("target_logits_")
                    z, y = stored[key], stored[f"target_labels_{name}"].astype(np.int64)
                    family = group + path.stem.split("__")[0]
                    yield Target(family, name, z[:MOST_ROWS], y[:MOST_ROWS], source)


def targets(cache: Path, data: Path, stride: int) -> Iterator[Target]:
    """Yield all targets."""
    yield from worlds(data / "worlds")
    for family in ("skin_lesions", "svhn_to_mnist"):
        yield from (_image(s) for s in scenarios.load(family, cache, data, None)[0])
    for path in sorted(cache.glob("*.npz")):
        shifts = list(scenarios.read(path.stem.removeprefix("unseen_"), path))
        yield from (_image(s) for i, s in enumerate(shifts) if i == 0 or i % stride == 2)


def _image(s: scenarios.Scenario) -> Target:
    rows = slice(None, MOST_ROWS)
    source = s.source[0][rows], s.source[1][rows]
    return Target(f"image: {s.family}", s.shift, s.target[rows], s.labels[rows], source)


def brier(p: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the Brier score, sum over classes, times 1000."""
    return 1000 * float(np.sum((np.asarray(p) - np.eye(p.shape[1])[y]) ** 2, axis=1).mean())


def judge(target: Target, only: str | None = None) -> dict[str, Any]:
    """Return what each setting, or only one, gives on one target."""
    z, y, source = target.logits, target.labels, target.source
    seed = np.random.default_rng(zlib.crc32(f"{target.family} {target.shift}".encode()))
    exact, counted = target.mix(y), seed.multinomial(100, target.mix(y)) / 100
    known = {
        "exact mix": {"prior": exact, "source": source},
        "mix of 100 rows": {"prior": tp.about(counted, rows=100), "source": source},
        "source's mix": {"prior": target.mix(source[1]), "source": source},
        "no mix": {"source": source},
        "no source": {"prior": exact},
    }
    own = tp.Temperature(1.0).predict_proba(z)
    bound, home = temperature(z, y), temperature(*source)
    best, at_home = (brier(m.predict_proba(z), y) for m in (bound, home))
    bare = brier(tp.fit_prior_matched(z, exact, source).predict_proba(z), y)
    out: dict[str, Any] = {"family": target.family, "shift": target.shift, "k": target.n_classes}
    out["home"], out["own"], out["control"] = at_home - best, brier(own, y) - best, target.control
    nll = tp.metrics.nll(bound(z), y)
    for name in SETTINGS if only is None else (only,):
        cal = tp.calibrate(z, **known[name])
        p = cal.predict_proba(z)
        score, right = brier(p, y), float((p.argmax(axis=1) == y).mean())
        error = tp.metrics.ece(cal.map(z), y)
        out[name] = {
            "regret": score - best,
            "nll": tp.metrics.nll(cal.map(z), y) - nll,
            "against": score - (brier(own, y) if name == "no source" else at_home),
            "missed": name == "exact mix" and score - bare > HARM,
            "ece": error,
            "gain": 100 * (right - float((own.argmax(axis=1) == y).mean())),
            "improved": cal.verdict == "improved",
            "right": score < brier(own, y),
            "right_ece": error < tp.metrics.ece(z, y),
            "covers": inside(cal.accuracy, right),
            "covers_ece": inside(cal.ece_after, error),
        }
    few = seed.permutation(len(y))
    for n in LABELS if only is None else ():
        rows = few[:n]
        pair = z[rows], y[rows]
        for name in ("exact mix", "no mix"):
            cal = tp.calibrate(z, **known[name], labelled=pair)
            right = float((cal.predict_proba(z).argmax(axis=1) == y).mean())
            out[f"{name}, {n} labels"] = {
                "regret": brier(cal.predict_proba(z), y) - best,
                "covers": inside(cal.accuracy, right),
            }
        alone = brier(temperature(*pair, otherwise=home).predict_proba(z), y) - best
        out[f"TS, {n} labels"] = {"regret": alone}
    return out


def inside(interval: tp.Interval | None, value: float) -> bool:
    """Return whether an interval holds a value."""
    return interval is not None and interval.low <= value <= interval.high


def temperature(z: Any, y: Any, otherwise: tp.Temperature | None = None) -> tp.Temperature:
    """Return the fitted temperature, or what to use where none is identified."""
    try:
        return tp.fit_temperature(z, y)
    except tp.NotIdentified:
        return otherwise or tp.Temperature(1e4 if (z.argmax(axis=1) == y).mean() < 0.5 else 1.0)


def summarise(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over families of the regrets, and shares over all sets."""
    families: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        families.setdefault(one["family"], []).append(one)

    def mean(of: Any) -> float:
        return round(float(np.mean([np.mean([of(s) for s in v]) for v in families.values()])), 3)

    def share(values: list[bool]) -> float | None:
        return round(float(np.mean(values)), 3) if values else None

    out: dict[str, Any] = {"sets": len(found), "families": len(families)}
    out["TS-source"], out["own"] = mean(lambda s: s["home"]), mean(lambda s: s["own"])
    judged = [name for name in SETTINGS if name in found[0]]
    for name in judged:
        said = [s[name] for s in found if s[name]["improved"]]
        out[name] = {
            key: mean(lambda s, key=key, name=name: s[name][key])
            for key in ("regret", "nll", "ece", "gain", "covers", "covers_ece", "missed")
        } | {
            "harmed": share([s[name]["against"] > HARM for s in found]),
            "worst": round(max(s[name]["against"] for s in found), 1),
            "improved": len(said),
            "right": share([s["right"] for s in said]),
            "right_ece": share([s["right_ece"] for s in said]),
        }
    out["labels"] = {
        key: mean(lambda s, key=key: s[key]["regret"]) for key in found[0] if key.endswith("labels")
    }
    out["labels_cover"] = {
        key: mean(lambda s, key=key: s[key]["covers"])
        for key in found[0]
        if key.endswith("labels") and not key.startswith("TS")
    }
    out["by_family"] = {
        family: {name: round(float(np.mean([s[name]["regret"] for s in v])), 1) for name in judged}
        | {"TS-source": round(float(np.mean([s["home"] for s in v])), 1), "sets": len(v)}
        for family, v in families.items()
    }
    return out


def renew(title: str, old: dict[str, Any], new: dict[str, Any], name: str) -> None:
    """Put one setting into the summary of a group, where it is of the same sets."""
    if any(abs(old[key] - new[key]) > SAME for key in ("sets", "TS-source", "own")):
        print(f"{title}: left as it was, since the record is of other sets")
        return
    old[name] = new[name]
    for family, values in new["by_family"].items():
        old["by_family"][family][name] = values[name]


def show(title: str, summary: dict[str, Any]) -> None:
    """Print one table."""
    print(f"\n{title}: {summary['sets']} sets, {summary['families']} families, TS-source "
          f"{summary['TS-source']:+.1f}, own {summary['own']:+.1f}")  # fmt: skip
    keys = ("regret", "nll", "ece", "gain", "harmed", "worst", "improved", "right", "right_ece",
            "missed", "covers", "covers_ece")  # fmt: skip
    print(f"{'':18s}" + "".join(f"{key:>11s}" for key in keys))
    for name in (name for name in SETTINGS if name in summary):
        print(f"{name:18s}" + "".join(f"{summary[name][key]!s:>11s}" for key in keys))
    if summary["labels"]:
        print({key: round(value, 1) for key, value in summary["labels"].items()})
        print("covered:", summary["labels_cover"])


def main() -> None:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--also", type=Path)
    parser.add_argument("--newest", type=Path)
    parser.add_argument("--more", type=Path)
    parser.add_argument("--only", choices=SETTINGS)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, default=RECORD)
    arguments = parser.parse_args()
    data = Path(os.environ["TEMPERANCE_DATA"])
    sets = list(targets(arguments.cache, data, arguments.stride))
    beside = {PUBLIC: arguments.also, NEWEST: arguments.newest, MORE: arguments.more}
    for group, directory in beside.items():
        if directory is not None:
            sets += worlds(directory, group)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(partial(judge, only=arguments.only), sets, chunksize=4))
    groups = {
        "text and tables": [
            s for s in found if not s["family"].startswith(("image", PUBLIC, NEWEST, MORE))
        ],
        "public text and tables": [s for s in found if s["family"].startswith(PUBLIC)],
        "newest text and tables": [s for s in found if s["family"].startswith(NEWEST)],
        "more text and tables": [s for s in found if s["family"].startswith(MORE)],
        "images": [s for s in found if s["family"].startswith("image")],
        "two classes": [s for s in found if s["k"] == 2],
        "unshifted": [s for s in found if s["control"]],
    }
    record: dict[str, Any] = {"version": tp.__version__, "stride": arguments.stride}
    if arguments.only is not None:
        record = json.loads(arguments.records.read_text("utf-8"))
    for title, some in groups.items():
        if some:
            summary = summarise(some)
            show(title, summary)
            if arguments.only is None:
                record[title] = summary
            else:
                renew(title, record[title], summary, arguments.only)
    arguments.records.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()

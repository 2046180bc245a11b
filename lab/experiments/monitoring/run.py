"""Windows without labels: the monitor beside NannyML's CBPE and plain confidence.

    python experiments/monitoring/run.py --nannyml PYTHON --cache DIR [--only PART]

Targets are the text and tables of ``TEMPERANCE_DATA/worlds`` and the image families in ``--cache``
(`experiments/labelfree/suite.py` builds them), cut into windows of 500 rows. ``--nannyml`` is the
Python of an environment with NannyML. Parts:

    windows   error of the estimated accuracy, F1 and AUC of each window, by kind of shift
    quiet     alarms on windows of 250 rows drawn like the source, where one in 50 is stated
    growing   windows whose share of shifted rows grows by a tenth each: when does it ring?
    rotation  the twelve weeks of the first-use review: digits rotated by 0, 4, … 44 degrees
    chart     false alarms of the change statistic alone, for many sizes of source and window
    expected  how often the intervals of `Calibration.expected` hold the truth, by kind of shift

The record names in ``earlier`` the parts that are of an earlier revision of the estimates.

Benign are the census subgroups and years, and all unshifted controls; subgroups are those of the
income and recidivism data; all other shifts change p(y | x): other texts, sensors, noise, blur.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

import temperance as tp
from temperance.data.given import LabelledSample
from temperance.monitor.change import Chart, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Pair = tuple[NDArray[Any], NDArray[Any]]

HERE = Path(__file__).parent
RECORD = HERE / "records" / "monitoring.json"
IMAGES = ("mnist_lenet5", "fashion_lenet5", "cifar_small")
UNSHIFTED = ("control", "clean")  # names of sets of text and tables, and of images
SIZE, PER_SET = 500, 2  # rows of a window, and windows of a shifted set
QUIET_SIZE, QUIET_PER = 250, 50
MOST_GROWING = 3  # shifts of a model
LIMIT = 0.1  # of accuracy, below that of unshifted rows
MOST_ROWS = 3_000  # of a set whose expected metrics are judged
MOST_CLASSES = 30  # for which areas under the curve are judged
LEAST = 10  # rows of a class whose metrics are judged
SURE = 0.9  # confidence above which wrong rows are counted
METRICS = ("accuracy", "f1", "roc_auc")


@dataclass(frozen=True)
class World:
    """One model: its labelled source and its shifted sets."""

    name: str
    source: Pair
    shifts: dict[str, Pair]

    @property
    def home(self) -> Pair | None:
        """Rows that are not shifted; the census has none."""
        return next((self.shifts[name] for name in UNSHIFTED if name in self.shifts), None)

    def kind(self, shift: str) -> str:
        """Return the kind of a shift."""
        if shift in UNSHIFTED or self.name.startswith("employment"):
            return "benign"
        return "subgroups" if self.name.startswith(("adult", "compas")) else "shifted"


def worlds(cache: Path) -> Iterator[World]:
    """Yield all models."""
    for path in sorted((Path(os.environ["TEMPERANCE_DATA"]) / "worlds").glob("*.npz")):
        with np.load(path) as data:
            names = [key[14:] for key in data.files if key.startswith("target_logits_")]
            shifts = {n: (data[f"target_logits_{n}"], data[f"target_labels_{n}"]) for n in names}
            yield World(path.stem, (data["source_logits"], data["source_labels"]), shifts)
    for family in IMAGES:
        if not (cache / f"{family}.npz").exists():
            print(f"{family} is not in the cache: left out", flush=True)
            continue
        with np.load(cache / f"{family}.npz") as data:
            keys = [key for key in data.files if key.startswith("t_")]
            y = data["labels"]
            shifts = {key[2:]: (data[key].astype(np.float64), y) for key in keys[::3]}
            source = data["s_logits"].astype(np.float64), data["s_labels"]
            yield World(family, source, shifts)


def softmax(z: NDArray[Any]) -> NDArray[Any]:
    """Return the model's own probabilities."""
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def truth(z: NDArray[Any], y: NDArray[Any]) -> dict[str, float | None]:
    """Return what the labels say."""
    p, k = softmax(z), z.shape[1]
    predicted = p.argmax(axis=1)
    found: dict[str, float | None] = {"accuracy": float((predicted == y).mean())}
    found["f1"] = float(f1_score(y, predicted, average="binary" if k == 2 else "macro"))
    found["roc_auc"] = None
    if len(np.unique(y)) == k:
        found["roc_auc"] = float(
            roc_auc_score(y, p[:, 1] if k == 2 else p, multi_class="ovr", average="macro")
        )
    return found


def estimated(window: Any, k: int) -> dict[str, Any]:
    """Return what the monitor says of a window."""
    f1 = [v.value for v in window.f1.values() if v is not None]
    if k == 2:
        f1 = f1[1:]
    many = k > 20
    known = window.accuracy is not None
    return {
        "accuracy": window.accuracy.value if known else None,
        "interval": list(window.accuracy[1:]) if known else None,
        "f1": float(np.mean(f1)) if f1 and not many else None,
        "roc_auc": window.auc.value if window.auc is not None else None,
    }


def cbpe(python: str, cache: Path, source: Pair, windows: list[NDArray[Any]]) -> list[Any]:
    """Return what NannyML says of windows of equal size; answers are kept in the cache."""
    named = {f"window_{i}": softmax(z) for i, z in enumerate(windows)}
    arrays = {"source_p": softmax(source[0]), "source_y": source[1], **named}
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values()))
    found = cache / f"cbpe-{digest.hexdigest()[:16]}.json"
    if not found.exists():
        with tempfile.TemporaryDirectory() as folder:
            given = Path(folder) / "in.npz"
            np.savez(given, **arrays)
            done = subprocess.run(  # noqa: S603
                [python, str(HERE / "cbpe.py"), str(given), str(found)],
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
            )
        if done.returncode:
            sys.stderr.write(done.stderr[-600:])
            return [dict.fromkeys((*METRICS, "alert")) for _ in windows]
    return json.loads(found.read_text("utf-8"))


def compare_windows(python: str, cache: Path) -> list[dict[str, Any]]:
    """Return the truth and all estimates of each window."""
    rows: list[dict[str, Any]] = []
    for world in worlds(cache):
        k = world.source[0].shape[1]
        cut = [
            (shift, z[i : i + SIZE], y[i : i + SIZE], np.bincount(y, minlength=k) / len(y))
            for shift, (z, y) in world.shifts.items()
            for i in range(0, min(len(y) - SIZE + 1, PER_SET * SIZE), SIZE)
        ]
        theirs = cbpe(python, cache, world.source, [z for _, z, _, _ in cut])
        for i, (shift, z, y, mix) in enumerate(cut):
            row: dict[str, Any] = {"world": world.name, "shift": shift, "kind": world.kind(shift)}
            row["truth"] = truth(z, y)
            at = f"2026-01-{1 + i % 28:02}"
            row["monitor"] = estimated(tp.Monitor(world.source).add(z, at=at), k)
            prior = tp.about(mix, rows=500)
            row["with mix"] = estimated(tp.Monitor(world.source, prior).add(z, at=at), k)
            row["cbpe"] = theirs[i]
            row["confidence"] = {"accuracy": float(softmax(z).max(axis=1).mean())}
            rows.append(row)
        print(world.name, len(cut), flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean absolute errors by kind and metric, each a mean over families."""
    out: dict[str, Any] = {}
    for kind in ("benign", "subgroups", "shifted"):
        out[kind] = {}
        some = [row for row in rows if row["kind"] == kind]
        for metric in METRICS:
            errors = {}
            for who in ("monitor", "with mix", "cbpe", "confidence"):
                by_family: dict[str, list[float]] = {}
                for row in some:
                    told = [row[w].get(metric) for w in ("monitor", "with mix", "cbpe")]
                    value, true = row[who].get(metric), row["truth"][metric]
                    if None in (*told, value, true):
                        continue
                    by_family.setdefault(row["world"].split("__")[0], []).append(abs(value - true))
                if by_family:
                    means = [float(np.mean(v)) for v in by_family.values()]
                    errors[who] = round(float(np.mean(means)), 4)
            out[kind][metric] = errors
        inside = [
            row["monitor"]["interval"][0]
            <= row["truth"]["accuracy"]
            <= row["monitor"]["interval"][1]
            for row in some
            if row["monitor"]["interval"]
        ]
        out[kind] |= {"windows": len(some), "covered": round(float(np.mean(inside)), 3)}
        out[kind]["families"] = _by_family(some)
    return out


def _by_family(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return mean absolute errors of the accuracy by family."""
    found: dict[str, dict[str, float]] = {}
    for family in sorted({row["world"].split("__")[0] for row in rows}):
        some = [row for row in rows if row["world"].split("__")[0] == family]
        found[family] = {
            who: round(
                float(
                    np.mean(
                        [
                            abs(row[who]["accuracy"] - row["truth"]["accuracy"])
                            for row in some
                            if row[who].get("accuracy") is not None
                        ]
                    )
                ),
                4,
            )
            for who in ("monitor", "with mix", "cbpe", "confidence")
        }
    return found


def unshifted(cache: Path, seed: int) -> Iterator[tuple[str, Pair, list[Pair]]]:
    """Yield for each model a source and windows, drawn at random from the same rows."""
    for world in worlds(cache):
        if world.home is None:
            continue
        z, y = (np.concatenate(p) for p in zip(world.source, world.home, strict=True))
        order = np.random.default_rng(seed).permutation(len(y))
        half = max(len(y) // 2, len(y) - 12 * QUIET_SIZE)
        rest = order[half:]
        parts = [rest[i : i + QUIET_SIZE] for i in range(0, len(rest) - QUIET_SIZE + 1, QUIET_SIZE)]
        yield world.name, (z[order[:half]], y[order[:half]]), [(z[p], y[p]) for p in parts]


def quiet(python: str, cache: Path) -> dict[str, Any]:
    """Return alarms on windows drawn like the source; the limit is two points below it.

    All of them once, and the change statistic alone forty times.
    """
    n = 0
    rang = {"change": 0, "limit": 0, "cbpe": 0}
    for _, source, windows in unshifted(cache, 0):
        right = float((source[0].argmax(axis=1) == source[1]).mean())
        limits = tp.Limits(accuracy=right - 0.02)
        mon = tp.Monitor(source, limits=limits, false_alarms_per=QUIET_PER)
        theirs = cbpe(python, cache, source, [z for z, _ in windows])
        for i, (z, _) in enumerate(windows):
            kinds = {alarm.kind for alarm in mon.add(z, at=f"2026-01-{i + 1:02}").alarms}
            rang["change"] += "change" in kinds
            rang["limit"] += "limit" in kinds
            rang["cbpe"] += bool(theirs[i]["alert"])
            n += 1
    alone = many = 0
    for seed in range(1, 41):
        for _, source, windows in unshifted(cache, seed):
            ranks = Ranks(LabelledSample(*source))
            sums = Chart(ranks.own, ranks.variance)
            for z, _ in windows:
                alone += bool(sums.step(ranks.tally(z), QUIET_PER, 30))
                many += 1
    return {
        "windows": n,
        "stated": round(n / QUIET_PER, 1),
        "rang": rang,
        "again": {"windows": many, "stated": round(many / QUIET_PER, 1), "rang": alone},
    }


def growing(python: str, cache: Path) -> list[dict[str, Any]]:
    """Return when a growing share of shifted rows rings, for shifts that cost five points."""
    rows: list[dict[str, Any]] = []
    for world in worlds(cache):
        if world.home is None:
            continue
        right = float((world.home[0].argmax(axis=1) == world.home[1]).mean())
        mixed = list(_mixed(world, world.home, right))
        if not mixed:
            continue
        # One call: a process of NannyML takes longer to start than to estimate.
        everything = cbpe(python, cache, world.source, [w for _, _, some in mixed for w, _ in some])
        alerts = iter(told["alert"] for told in everything)
        for _, lost, windows in mixed:
            mon = tp.Monitor(world.source, limits=tp.Limits(accuracy=right - LIMIT))
            found = [mon.add(w, at=f"2026-01-{i + 1:02}") for i, (w, _) in enumerate(windows)]
            accuracies = [accuracy for _, accuracy in windows]
            inside = [
                w.accuracy.low <= a <= w.accuracy.high
                for w, a in zip(found, accuracies, strict=True)
                if w.accuracy is not None
            ]
            kinds = [{alarm.kind for alarm in window.alarms} for window in found]
            rows.append(
                {
                    "lost": round(lost, 3),
                    "windows": len(inside),
                    "covered": sum(inside),
                    "change": _first("change" in some for some in kinds),
                    "limit": _first("limit" in some for some in kinds),
                    "cbpe": _first([next(alerts) for _ in windows]),
                }
            )
        print(world.name, len(mixed), flush=True)
    return rows


def by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return a table as one list for each column, which is shorter."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _mixed(
    world: World, home: Pair, right: float
) -> Iterator[tuple[str, float, list[tuple[NDArray[Any], float]]]]:
    """Yield shifts, what each costs, and eleven windows with their accuracies."""
    rng, taken = np.random.default_rng(0), 0
    for shift, (z, y) in world.shifts.items():
        lost = right - float((z.argmax(axis=1) == y).mean())
        if lost < 0.05 or len(y) < 3 * QUIET_SIZE or taken == MOST_GROWING:
            continue
        taken += 1
        windows = []
        for step in range(11):
            m = round(step / 10 * QUIET_SIZE)
            new = rng.choice(len(y), m, replace=False)
            old = rng.choice(len(home[1]), QUIET_SIZE - m, replace=False)
            window, labels = np.r_[home[0][old], z[new]], np.r_[home[1][old], y[new]]
            windows.append((window, float((window.argmax(axis=1) == labels).mean())))
        yield shift, lost, windows


def _first(rang: Iterable[bool]) -> int | None:
    """Return the number of the first window that rang."""
    return next((i for i, one in enumerate(rang) if one), None)


def rotation(python: str, cache: Path) -> list[dict[str, Any]]:
    """Return twelve weeks of digits that are rotated further and further."""
    from sklearn.linear_model import LogisticRegression

    import temperance_lab as lab

    data = lab.datasets.load("mnist-5k")
    x, y = np.concatenate([data.x_train, data.x_test]), np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(0).permutation(len(y))
    train, held, new = order[:2500], order[2500:3500], order[3500:]

    def flat(images: NDArray[Any]) -> NDArray[Any]:
        return images.reshape(len(images), -1) / 255

    model = LogisticRegression(max_iter=300).fit(flat(x[train]), y[train])
    source = model.decision_function(flat(x[held])), y[held]
    mix = tp.about(np.bincount(y, minlength=10) / len(y), rows=2000)
    mon = tp.Monitor(source, prior=mix, limits=tp.Limits(accuracy=0.8, ece=0.1))
    rng, windows, labels = np.random.default_rng(1), [], []
    for week in range(12):
        rows = rng.choice(new, 600, replace=False)
        turned = lab.shifts.rotate(x[rows], 4.0 * week) if week else x[rows]
        windows.append(model.decision_function(flat(turned)))
        labels.append(y[rows])
    theirs = cbpe(python, cache, source, windows)
    found = []
    for week, (z, true) in enumerate(zip(windows, labels, strict=True)):
        window = mon.add(z, at=f"2026-01-{week + 1:02}")
        found.append(
            {
                "degrees": 4 * week,
                "truth": round(float((z.argmax(axis=1) == true).mean()), 3),
                "monitor": [round(v, 3) for v in window.accuracy],
                "cbpe": round(theirs[week]["accuracy"], 3),
                "confidence": round(float(softmax(z).max(axis=1).mean()), 3),
                "alarms": sorted({alarm.kind for alarm in window.alarms}),
                "severity": window.alarms[0].severity if window.alarms else None,
                "cbpe_alert": theirs[week]["alert"],
            }
        )
    return found


def chart() -> list[dict[str, Any]]:
    """Return false alarms of the change statistic for sources and windows of many sizes."""

    def draw(rng: np.random.Generator, n: int, k: int) -> Pair:
        y = rng.choice(k, size=n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))
        z = rng.normal(size=(n, k))
        z[np.arange(n), y] += 2.0
        return 3 * z, y

    found = []
    for n_source, n, k in ((300, 300, 5), (1000, 250, 5), (500, 2000, 2), (5000, 100, 10)):
        rang = windows = 0
        for run in range(20):
            rng = np.random.default_rng(run)
            ranks = Ranks(LabelledSample(*draw(rng, n_source, k)))
            sums = Chart(ranks.own, ranks.variance)
            for _ in range(2 * 365):
                rang += bool(sums.step(ranks.tally(draw(rng, n, k)[0]), 365, 30))
                windows += 1
        stated = windows / 365
        sizes = {"source": n_source, "window": n, "classes": k}
        found.append(sizes | {"stated": stated, "rang": rang})
        print(found[-1], flush=True)
    return found


def expected(cache: Path) -> dict[str, Any]:
    """Return how often intervals hold the truth, by kind: means over families, and their number.

    The numbers of classes are means over classes with ten rows or more of the class, and as many
    predictions. A wrong row costs 1 + its true class, by number.
    """
    held: dict[str, dict[str, dict[str, list[float]]]] = {}
    for world in worlds(cache):
        k = world.source[0].shape[1]
        costs = (1 + np.arange(k))[:, None] * (1 - np.eye(k))
        for shift, (z, y) in world.shifts.items():
            z, y = z[:MOST_ROWS], y[:MOST_ROWS]  # noqa: PLW2901
            mix = tp.about(np.bincount(y, minlength=k) / len(y), rows=500)
            for known, prior in (("source", None), ("source and class mix", mix)):
                cal = tp.calibrate(z, prior, world.source)
                if cal.verdict == "refused":
                    continue
                place = held.setdefault(f"{world.kind(shift)}, {known}", {})
                for name, inside in _inside(cal, z, y, costs).items():
                    family = world.name.split("__")[0]
                    place.setdefault(name, {}).setdefault(family, []).append(inside)
        print(world.name, flush=True)
    return {
        kind: {
            name: round(float(np.mean([np.mean(v) for v in families.values()])), 3)
            for name, families in metrics.items()
        }
        | {"sets": sum(len(v) for v in metrics["accuracy"].values())}
        for kind, metrics in held.items()
    }


def _inside(cal: Any, z: NDArray[Any], y: NDArray[Any], costs: NDArray[Any]) -> dict[str, float]:
    """Return the share of the intervals of a calibration that hold the truth, by metric."""
    found, p = cal.expected(), cal.predict_proba(z)
    predicted, k = p.argmax(axis=1), p.shape[1]
    sure = p.max(axis=1) >= SURE
    true = {
        "accuracy": [(found.accuracy, np.mean(predicted == y))],
        "cost": [(found.cost(costs), float(costs[y, predicted].mean()))],
        "precision": [],
        "recall": [],
        "f1": [],
        "auc": [],
        "wrong above 0.9": [(found.above(SURE).wrong, np.mean(predicted[sure] != y[sure]))]
        if sure.any()
        else [],
    }
    for j in range(k):
        there, asked = y == j, predicted == j
        if min(there.sum(), asked.sum()) < LEAST:
            continue
        hits = float((there & asked).sum())
        true["precision"].append((found.precision[j], hits / asked.sum()))
        true["recall"].append((found.recall[j], hits / there.sum()))
        true["f1"].append((found.f1[j], 2 * hits / (asked.sum() + there.sum())))
        if not there.all() and k <= MOST_CLASSES:
            true["auc"].append((found.auc[j], roc_auc_score(there, p[:, j])))
    return {
        name: float(np.mean([i.low <= value <= i.high for i, value in pairs if i is not None]))
        for name, pairs in true.items()
        if any(i is not None for i, _ in pairs)
    }


def main() -> None:
    """Run the parts and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nannyml", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument(
        "--only", choices=["windows", "quiet", "growing", "rotation", "chart", "expected"]
    )
    given = parser.parse_args()
    parts = {
        "chart": chart,
        "rotation": lambda: rotation(given.nannyml, given.cache),
        "quiet": lambda: quiet(given.nannyml, given.cache),
        "growing": lambda: by_column(growing(given.nannyml, given.cache)),
        "expected": lambda: expected(given.cache),
        "windows": lambda: summary(compare_windows(given.nannyml, given.cache)),
    }
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    for name, part in parts.items():
        if given.only in {None, name}:
            record[name] = part()
            record["earlier"] = [other for other in record.get("earlier", []) if other != name]
            print(name, json.dumps(record[name])[:600], flush=True)
            RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()

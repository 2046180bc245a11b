"""What a few labels are worth: `temperance.calibrate` beside what else can be done with them.

    python experiments/few_labels/run.py --cache DIR [--stride 4] [--draws 2]

Targets are those of ``labelfree/settings.py``. Labels are random rows of the target, 0 to 1,000 and
never more than half of it, drawn ``--draws`` times. Settings: the exact class mix, a mix counted on
100 rows, no mix, no source, and labels alone; with the exact mix and without, also the rows of
`label_next` in the place of random ones ("miss" is the error of the accuracy).

Rivals fit the same labels: temperature scaling (TS), biased temperature scaling, vector scaling
with a penalty of 1, Platt scaling and isotonic regression of each class against the rest, and a fit
penalised around the source's temperature with fixed errors (.5 and .5). A method that is not
identified is replaced by the source's temperature.

Regret is the Brier score (sum over classes, times 1000) less that of temperature scaling with all
labels of the target; every mean is one over families, bands are over draws. The verdict "improved"
is right where the Brier score falls against the model's own. An answer is decided where it says
improved, or where the interval of the gain ends below 0.03. The record is one compact file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import temperance as tp

sys.path.insert(0, str(Path(__file__).parent.parent / "labelfree"))
import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

COUNTS = (0, 5, 10, 30, 100, 300, 1000)
KNOWN = ("exact mix", "mix of 100 rows", "no mix", "no source", "labels alone")
CHOSEN = ("exact mix", "no mix")  # also with the rows of `label_next` in the place of random ones
MOST_CHOSEN = 100  # labels of rows that `label_next` names
DECIDED = 0.03  # a gain below this is none that anybody has to know of
RECORD = Path(__file__).parent / "record.json"


def platt(z: NDArray[Any], y: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Fit a logistic curve for each class against the rest; probabilities are normalised."""
    from sklearn.linear_model import LogisticRegression

    return _one_against_rest(lambda: LogisticRegression(C=1e3, max_iter=500), z, y)


def isotonic(z: NDArray[Any], y: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Fit a rising step function for each class against the rest."""
    from sklearn.isotonic import IsotonicRegression

    return _one_against_rest(lambda: IsotonicRegression(out_of_bounds="clip"), z, y)


def _one_against_rest(
    make: Callable[[], Any], z: NDArray[Any], y: NDArray[Any]
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    k = z.shape[1]
    scores = tp.Temperature(1.0).predict_proba(z)
    fitted: list[Any] = []
    for c in range(k):
        hit = (y == c).astype(int)
        s = scores[:, [c]]
        fitted.append(make().fit(_score(s), hit) if 0 < hit.sum() < len(hit) else hit.mean())

    def predict(u: NDArray[Any]) -> NDArray[Any]:
        p = tp.Temperature(1.0).predict_proba(u)
        out = np.empty_like(p)
        for c, one in enumerate(fitted):
            if isinstance(one, float):
                out[:, c] = one
            elif hasattr(one, "predict_proba"):
                out[:, c] = one.predict_proba(_score(p[:, [c]]))[:, 1]
            else:
                out[:, c] = one.predict(_score(p[:, [c]]))
        out += 1e-6
        return out / out.sum(axis=1, keepdims=True)

    return predict


def _score(p: NDArray[Any]) -> NDArray[Any]:
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(clipped / (1 - clipped))


def rivals(
    z: NDArray[Any], y: NDArray[Any], home: tp.Temperature
) -> dict[str, Callable[[NDArray[Any]], NDArray[Any]]]:
    """Return what else can be fitted to the labels."""

    def attempt(fit: Callable[[], Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
        try:
            return fit().predict_proba
        except tp.NotIdentified:
            return home.predict_proba

    return {
        "TS": attempt(lambda: tp.fit_temperature(z, y)),
        "biased TS": attempt(lambda: tp.fit_biased_temperature(z, y)),
        "vector scaling": attempt(lambda: tp.fit_vector(z, y, penalty=1.0)),
        "Platt": platt(z, y),
        "isotonic": isotonic(z, y),
        "around the source": attempt(
            lambda: tp.fit_biased_temperature(z, y, around=home, bias_error=0.5)
        ),
    }


def judge(target: settings.Target, draws: int) -> list[dict[str, Any]]:
    """Return what every setting and rival gives on one target, a row for each number of labels."""
    z, y, source = target.logits, target.labels, target.source
    home = settings.temperature(*source)
    own = tp.Temperature(1.0).predict_proba(z)
    best = settings.brier(settings.temperature(z, y).predict_proba(z), y)
    scores = {"own": settings.brier(own, y), "home": settings.brier(home.predict_proba(z), y)}
    out = []
    for draw in range(draws):
        seed = np.random.default_rng(zlib.crc32(f"{target.family} {target.shift} {draw}".encode()))
        exact = target.mix(y)
        known: dict[str, dict[str, Any]] = {
            "exact mix": {"prior": exact, "source": source},
            "mix of 100 rows": {
                "prior": tp.about(seed.multinomial(100, exact) / 100, rows=100),
                "source": source,
            },
            "no mix": {"source": source},
            "no source": {"prior": exact},
            "labels alone": {},
        }
        order = seed.permutation(len(y))
        for n in COUNTS:
            if n > len(y) // 2 or (n == 0 and draw > 0):
                continue
            row: dict[str, Any] = {"family": target.family, "n": n, "draw": draw}
            row["TS-source"] = scores["home"] - best
            pair = z[order[:n]], y[order[:n]]
            few = {"labelled": pair} if n else {}
            for name, given in known.items():
                if given or few:
                    row[name] = _answer(tp.calibrate(z, **given, **few), z, y, own, best)
            if 0 < n <= MOST_CHOSEN:
                for name in CHOSEN:
                    start = tp.calibrate(z, **known[name], seed=draw)
                    rows = start.label_next(n)
                    cal = start.update(z[rows], y[rows])
                    row[f"{name}, label_next"] = _answer(cal, z, y, own, best)
            if n:
                for name, predict in rivals(*pair, home).items():
                    row[name] = settings.brier(predict(z), y) - best
            out.append(row)
    return out


def _answer(
    cal: tp.Calibration, z: NDArray[Any], y: NDArray[Any], own: NDArray[Any], best: float
) -> dict[str, Any]:
    p = cal.predict_proba(z)
    score = settings.brier(p, y)
    right = float((p.argmax(axis=1) == y).mean())
    error = tp.metrics.ece(cal.map(z), y)
    gain = cal.gain
    return {
        "regret": score - best,
        "improved": cal.verdict == "improved",
        "right": score < settings.brier(own, y),
        "decided": cal.verdict == "improved" or (gain is not None and gain.high < DECIDED),
        "covers": settings.inside(cal.accuracy, right),
        "miss": 1.0 if cal.accuracy is None else abs(cal.accuracy.value - right),
        "covers_ece": settings.inside(cal.ece_after, error),
    }


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over families of what every method gives, by number of labels."""
    answers_of = [*KNOWN, *(f"{name}, label_next" for name in CHOSEN)]
    names = [*answers_of, "TS-source", "TS", "biased TS", "vector scaling", "Platt", "isotonic",
             "around the source"]  # fmt: skip
    out: dict[str, Any] = {}
    for name in names:
        out[name] = {}
        for n in COUNTS:
            some = [r for r in rows if r["n"] == n and name in r]
            if not some:
                continue
            draws = sorted({r["draw"] for r in some})
            means = [_mean_over_families(some, name, draw) for draw in draws]
            found: dict[str, Any] = {
                "regret": round(float(np.mean(means)), 1),
                "low": round(min(means), 1),
                "high": round(max(means), 1),
            }
            if name in answers_of:
                answers = [r[name] for r in some]
                said = [a for a in answers if a["improved"]]
                found |= {
                    key: round(float(np.mean([a[key] for a in answers])), 3)
                    for key in ("covers", "covers_ece", "improved", "decided", "miss")
                }
                found["right"] = (
                    round(float(np.mean([a["right"] for a in said])), 3) if said else None
                )
                found["worse than TS"] = _worse(some, name) if n else None
            out[name][str(n)] = found
    return out


def _mean_over_families(rows: list[dict[str, Any]], name: str, draw: int) -> float:
    families: dict[str, list[float]] = {}
    for row in rows:
        if row["draw"] == draw:
            value = row[name]
            regret = value["regret"] if isinstance(value, dict) else value
            families.setdefault(row["family"], []).append(regret)
    return float(np.mean([np.mean(v) for v in families.values()]))


def _worse(rows: list[dict[str, Any]], name: str) -> float:
    """Return the share of sets on which temperature scaling with the same labels is better by 5."""
    return round(float(np.mean([r[name]["regret"] - r["TS"] > 5 for r in rows])), 3)


def show(title: str, found: dict[str, Any]) -> None:
    """Print one table."""
    print(f"\n{title}\n{'':20s}" + "".join(f"{n:>9d}" for n in COUNTS))
    for name, by_count in found.items():
        cells = [by_count.get(str(n)) for n in COUNTS]
        print(f"{name:24s}" + "".join(f"{c['regret']:9.1f}" if c else " " * 9 for c in cells))
    for key in ("covers", "covers_ece", "improved", "right", "decided", "worse than TS", "miss"):
        for name in [*KNOWN, *(f"{name}, label_next" for name in CHOSEN)]:
            cells = [found[name].get(str(n), {}).get(key) for n in COUNTS]
            print(f"{key:14s}{name:24s}" + "".join(f"{c!s:>9s}" for c in cells))


def main() -> None:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="take every so many-th set")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    arguments = parser.parse_args()
    data = Path(os.environ["TEMPERANCE_DATA"])
    sets = list(settings.targets(arguments.cache, data, arguments.stride))[:: arguments.every]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = [r for rows in pool.map(partial(judge, draws=arguments.draws), sets, chunksize=2)
                 for r in rows]  # fmt: skip
    record: dict[str, Any] = {"version": tp.__version__, "draws": arguments.draws}
    for title, image in (("text and tables", False), ("images", True)):
        some = [r for r in found if r["family"].startswith("image") == image]
        record[title] = summarise(some)
        record[title]["sets"] = sum(s.family.startswith("image") == image for s in sets)
        show(title, {k: v for k, v in record[title].items() if k != "sets"})
    arguments.record.write_text(json.dumps(record, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()

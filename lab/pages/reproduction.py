"""The page "The paper, run again", from the records in lab/experiments/paper."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from temperance_lab.reproduce import EXPERIMENTS, Record, stored
from temperance_lab.reproduce.claims import Verdict, check
from temperance_lab.reproduce.core import uses_core
from temperance_lab.reproduce.figures import FIGURES
from temperance_lab.reproduce.networks import TASKS
from temperance_lab.reproduce.paper_rows import title
from temperance_lab.reproduce.record import EVIDENCE

RECORDS = Path(__file__).parents[1] / "experiments" / "paper"
METRICS = {
    "nll": "NLL (lower is better)",
    "accuracy": "Accuracy, per cent (higher is better)",
    "ece": "ECE, 15 bins (lower is better)",
    "brier": "Brier score, mean over classes (lower is better)",
}
PAPER = ("uncalibrated", "TS", "UTS", "UTS, mix of the draw", "vector", "matrix")
OURS = ("prior-matched, T only", "prior-matched", "penalised matrix", "matrix, penalty 0.005")
RIVALS = ("histogram binning", "isotonic", "BBQ")
CAPTIONS = {
    "cost": "Processor time and memory of a UTS fit over those of a TS fit, on a fifth of the test "
    "rows of each network.",
    "table-1": "NLL of each row over that of its uncalibrated network, on one scale. Filled: "
    "measured here, with the spread over draws; circles: what the paper prints, over its own "
    "uncalibrated network. Beyond the scale stands the number.",
    "label-noise": "NLL against the share of wrong labels among the calibration rows, over that of "
    "the uncalibrated network. Methods without labels are flat by construction. Bands: one "
    "standard deviation over 20 draws.",
    "sample-size-shift": "Brier score against the number of calibration rows, for every degree of "
    "the three shifts. Bands: one standard deviation over 20 draws.",
    "sample-size": "T against the number of calibration rows, over the T that all labels of the "
    "domain give. The first three panels are shifted, the others are not. Under shift "
    "prior-matched scaling moves the classes too, and its T has less to do. Bands: one standard "
    "deviation over 20 draws.",
    "figure-shift": "Accuracy and Brier score against the degree of a shift. Temperatures leave "
    "the accuracy as it is; prior-matched scaling with its class bias does not. Dotted: equal "
    "probabilities. TS-Target is shown only where a temperature fits the labels. Bands: 95 % "
    "intervals over training runs.",
    "figure-corruptions": "Brier score against severity, one scale for all panels. Bands: 95 % "
    "intervals over training runs.",
    "probabilistic": "Brier score against accuracy in the paper's eight settings, one scale for "
    "each data set. Lower right is better. What only changes T lies on one vertical.",
    "probabilistic-matched": "Brier score of a probabilistic method minus that of one calibrated "
    "network, against the difference of their accuracies, a point for every setting. Above 0 the "
    "one network is better; in the grey band both are about as accurate.",
    "foreign": "Mean confidence over all rows, of which foreign ones are never right. Right is a "
    "confidence on the thick line, the accuracy. Bands: 95 % intervals over training runs.",
    "combination": "Brier score of an ensemble and of ll-Dropout, alone and with a method on top, "
    "one scale for each data set.",
}


def records() -> dict[str, list[Record]]:
    """Return the records of every experiment, in the order of its groups."""
    return {name: stored(name, RECORDS) for name in EXPERIMENTS}


def number(value: float, metric: str) -> str:
    """Return a mean as the paper prints it."""
    return f"{value:.2f}" if metric == "accuracy" else f"{value:.4f}"


def spread(sd: float, metric: str) -> str:
    """Return a standard deviation in the two digits that 20 draws know, or fewer."""
    return min(number(sd, metric), f"{sd:#.2g}", key=len)


def cell(record: Record | None) -> str:
    """Return mean, spread and, in brackets, what the paper prints."""
    if record is None:
        return ""
    printed = ""
    if record.reported is not None:
        mark = {True: " ✓", False: " ✗", None: ""}[record.agrees]
        printed = f" ({number(record.reported['mean'], record.metric)}{mark})"
    if record.reproduced is None or record.sd is None:
        return f"–{printed}"
    mean = number(record.reproduced, record.metric)
    return f"{mean} ± {spread(record.sd, record.metric)}{printed}"


def table(rows: list[Record], metric: str, methods: tuple[str, ...]) -> str:
    """Return one table of the paper."""
    found = {(r.group, r.method): r for r in rows if r.metric == metric}
    groups = list(dict.fromkeys(r.group for r in rows))
    lines = ["| row | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for group in groups:
        cells = [cell(found.get((group, m))) for m in methods]
        lines.append(f"| {title(group)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims(verdicts: list[Verdict], *, ours: bool) -> str:
    """Return the table of claims."""
    lines = ["| claim | rule | verdict |", "|---|---|---|"]
    lines += [
        f"| {v.claim.says} | {v.claim.rule} | **{v.word}** |"
        for v in verdicts
        if v.claim.ours == ours
    ]
    return "\n".join(lines)


def origins(rows: list[Record]) -> str:
    """Return which logits stand for each row."""
    lines = ["| row | evidence | logits | sha256 |", "|---|---|---|---|"]
    for group in dict.fromkeys(r.group for r in rows):
        first = min((r for r in rows if r.group == group), key=lambda r: r.needs is not None)
        where = first.caveat.split(";")[0] or "published by the authors"
        where = "none, see below" if first.needs else where
        name = title(group)
        digest = f"`{first.data[:12]}`" if first.data else ""
        lines.append(f"| {name} | {EVIDENCE[first.evidence]} | {where} | {digest} |")
    return "\n".join(lines)


def absent(some: list[Record]) -> str:
    """Return which panels are empty or lack a method, and what fills each."""
    run = {r.group for r in some if not r.needs}
    lacking: dict[str, dict[str, Record]] = {}
    for r in some:
        if r.needs:
            lacking.setdefault(r.group, {})[r.method] = r
    lines = []
    for group, records in lacking.items():
        need = next(iter(records.values())).needs or {}
        what = f"lacks {', '.join(records)}" if group in run else "is empty"
        lines.append(
            f"- {title(group)} {what}: it needs {need['file']}; {need['hardware']}. Then "
            f"`{need['command']}`."
        )
    return "\n".join(lines)


def figure(name: str) -> str:
    """Return a figure with its caption and its command."""
    experiment = name if name in EXPERIMENTS else name.rpartition("-")[0]
    return (
        f"![{CAPTIONS[name]}]({name}.png)\n\n{CAPTIONS[name]}\n"
        f"`temperance-lab reproduce {experiment} --data DIR` runs it; the records are in\n"
        f"`lab/experiments/paper/{experiment}.json`."
    )


INTRODUCTION = """\
Every number here comes from a record: {filled:,} cells were measured with version {version},
{missing:,} say what they need instead. A cell is the mean over 20 draws ± their standard deviation,
and in brackets what the paper prints. A network that is trained here, the LeNet-5 of MNIST or the
small CIFAR-10 network of the figures, is trained five times with other seeds ({five:,} cells so
far; the others are of one run), and the 20 draws go through the five. A seed gives the same weights
to the bit on one kind of processor, whatever the number of threads. The paper trains on all
training images; here {mnist:,} of MNIST and {cifar:,} of 12,000 of CIFAR-10 are kept apart, as
labelled source of the methods that need one.

Only the CIFAR-100 DenseNet-40 row has the authors' own logits, so only there a difference from the
print tells something: ✓ marks means that are at most two standard errors of their difference apart,
beyond the last printed digit, ✗ the others. Elsewhere the level is that of another network, and the
claims are what can be compared.
{cores}
[What we found](what-we-found.md) says it in words, and [line by line](paper-elements.md) where each
element of the paper is, and what is not complete.

```
temperance-lab reproduce all --data DIR
temperance-lab reproduce all --quick
temperance-lab compare temperance-reproduce/records lab/experiments/paper
```

The first takes two to three hours of one core: two minutes to train a LeNet-5, four a small
CIFAR-10 network, six SVI on it, one or two for a panel of a figure. What is there already is not
run again. The second needs no files: five thousand digits take the place of every data set, and
five draws of twenty. It takes some minutes. The third says which numbers of a run are those of the
records here: two means are the same if they differ by less than a fiftieth of their spread over
draws, or by one in ten thousand."""
PROTOCOL = """\
A fifth of the test rows, drawn by class as the authors' code draws, to calibrate on, the others
to judge. UTS is the form
that the authors' code computes, on all rows of the draw at once, with the class mix of the training
set as prior (of SVHN and Birds, whose training labels are not here, that of all test rows); "mix of
the draw" counts its prior from the labels of the drawn rows, as their code does. Prior-matched
scaling sees what UTS sees: no labels, no source. Vector and matrix scaling are fitted to the end.
Where the rows of a draw can be separated, or a class has none, the likelihood has no maximum, and a
penalty of 1e-4 (or the first of 1e-3 and 1e-2 that has a fit) stands for none; the records say in
how many draws. "Penalised matrix" has a penalty
of 1, the same for all rows; that of 0.005 was chosen to meet the printed NLL of CIFAR-100
DenseNet-40, in the place of an optimiser that stops early. Histogram binning (15 bins), isotonic
regression and BBQ are those of the package netcal, each class against the rest; BBQ only up to ten
classes, because one fit of a hundred takes half a minute, and cells not run yet are empty."""


CORES = """\
Prior-matched scaling and `calibrate` are methods of the label-free core, which still changes, and
their records name its code by a sha256; the methods of the paper do not depend on it. Of their
{n:,} cells {by}. `temperance-lab reproduce all --refresh` measures again what another core has
measured."""


def cores(every: list[Record]) -> str:
    """Return how many cells each label-free core has measured."""
    found = Counter(r.core for r in every if uses_core(r.method) and r.reproduced is not None)
    older = found.pop(None, 0)
    told = [f"{n:,} are of the core `{core}`" for core, n in found.most_common()]
    told += [f"{older:,} of cores from before records named it"] if older else []
    return CORES.format(n=found.total() + older, by=" and ".join(told)) + "\n"


def reproduction(all_records: dict[str, list[Record]]) -> str:
    """Return the page."""
    rows = all_records["table-1"]
    verdicts = check(all_records)
    every = [r for some in all_records.values() for r in some]
    filled = sum(r.reproduced is not None for r in every)
    parts = [
        "# The paper, run again",
        INTRODUCTION.format(
            filled=filled,
            missing=len(every) - filled,
            five=sum(r.networks == 5 for r in every),
            mnist=TASKS["mnist"].validation,
            cifar=TASKS["cifar10"].validation,
            version=" and ".join(sorted({r.version for r in every})),
            cores=cores(every),
        ),
        "## Claims",
        claims(verdicts, ours=False),
        "What the paper does not say, and we do:",
        claims(verdicts, ours=True),
        "## Tables: the same domain",
        PROTOCOL,
        figure("table-1"),
    ]
    for metric, heading in METRICS.items():
        parts += [f"### {heading}", table(rows, metric, PAPER), table(rows, metric, ("TS", *OURS))]
        parts += [table(rows, metric, ("TS", *RIVALS))]
    parts += ["### Where the logits come from", origins(rows), absent(rows)]
    for name, experiment in EXPERIMENTS.items():
        if name != "table-1":
            parts += [f"## {experiment.title}", figure(name), absent(all_records[name])]
        parts += [figure(more) for more in FIGURES if more.rpartition("-")[0] == name]
    return "\n\n".join(filter(None, parts)) + "\n"

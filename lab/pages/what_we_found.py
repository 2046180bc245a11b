"""The page "What we found": prose around numbers that the records give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from reproduction import number, spread
from skin_lesion_tables import slips

from temperance_lab.reproduce.claims import SMALL, check
from temperance_lab.reproduce.figures import EQUAL
from temperance_lab.reproduce.paper_rows import BESIDE, title
from temperance_lab.reproduce.probabilistic import EQUAL_ACCURACY, PAPER
from temperance_lab.reproduce.record_table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from temperance_lab.reproduce import Record

    Word = Callable[[str, str], str]

EXACT = "CIFAR100-DenseNet40"
PAGE = """\
# What we found when we ran the paper again

For readers of Mozafari, Gomes and Gagné, "A novel unsupervised post-processing calibration method
for DNNs with robustness to domain shift" (2020). Its question, whether unlabelled rows and a known
class mix are enough to calibrate, was the right one, and its weighted likelihood has a sound core
([UTS, derived](../concepts/uts.md), Proposition A). This page says how far its numbers carried when
we ran them again, in which form, and what does better today: with the class mix alone little is
sure, and what works well under shift needs a labelled source besides. Every number comes from a
record, every record from a run: [the tables and figures](reproduction.md) have them all, and
[line by line](paper-elements.md) lists the elements of the paper.

## Without shift, UTS mostly calibrates without labels

That UTS lowers the NLL of every network: **{uts_improves}** that we could run; its ECE:
**{uts_ece}**; its Brier score: **{uts_brier}**. Of the networks that temperature scaling improves,
the median one gets {gap} of that improvement without labels. Worse than uncalibrated in NLL:
{harmed}. UTS below TS in ECE, in two rows of the paper: **{uts_beats}** here.

Prior-matched scaling with what UTS sees, the class mix and no source, lowers the NLL of every
network: **{ours_improves}**, but by little; it is below UTS: **{ours_below}**. Without shift and
without a source, UTS is the better guess for networks as overconfident as these. It is a guess:
what UTS fills up is the sampling noise of 2,000 rows (below).

TS best of the paper's five columns: **{ts_best}**. The paper warns of many parameters and few
rows; NLL of one temperature below that of vector scaling: **{vector}**; below that of matrix
scaling: **{matrix}**. Vector or matrix scaling raises the accuracy, in two rows of the paper:
**{raises}** here. Of binned and isotonic calibration, which the paper names but does not run, the
tables have histogram binning, isotonic regression and BBQ; each needs labels and has many
parameters.

A fit takes the time of a fit of the NLL, up to a factor of ten: **{time}**, and its memory:
**{memory}**. The factor is {factor} in the median.

`temperance-lab reproduce table-1 --data DIR`

![NLL of every row](table-1.png)

### The row that can be compared number by number

The authors published their logits of one row, CIFAR-100 under DenseNet-40. Measured here on rows
drawn by class, as their code draws, and in brackets what they print; ✓ marks means that are at most
two standard errors of their difference apart, beyond the last printed digit.

{exact}

- **Uncalibrated and TS**: {ts_agrees} of 8 cells agree by standard errors. Draws of a fifth of one
  test set are not independent, so a standard error is somewhat too small, for ✗ as for ✓.
- **UTS**: the text takes the class mix as known; the code counts it from the labels of the drawn
  rows, and draws every class alike, so on these rows the two are the same numbers. NLL {trained}
  here, {uts_p} printed. (On 2,000 rows drawn at random, a uniform mix reads the noise of the draw
  as shortfall, T is higher and the NLL {at_random}: the draw makes this difference, no prior.)
- **Matrix scaling**: its likelihood has no maximum in {no_maximum} of 20 draws here, so a number
  for it is where an optimiser stopped, and the paper does not say where. A small penalty stops too:
  the one that was chosen, on rows drawn at random, to meet the printed NLL meets {met} of 4 numbers
  on these rows (last line).
- **Vector scaling**: its likelihood is concave, so a fit that has converged has one answer. Ours is
  NLL {vector_nll}; the printed {vector_p} is worse than no calibration ({unc}). The code for it was
  not published, and we do not know how it was fitted.

Slips of the print, which change no more than the counts that they are about: the table of ECE has
MNIST UTS in bold at {ece_uts} beside {ece_ts} of TS and {ece_unc} without calibration, so UTS beats
TS in {ece_rows} of its rows, not in two; the table of accuracies has VGG16 matrix scaling in bold
at {acc_matrix} beside {acc_unc} without, and vector or matrix scaling is above the network without
calibration in {acc_rows} of its rows. {isic}

## The printed equations do not do it; the published code does

Equation 8 as printed, one square around both sums, is least at w = 0 for every network of more than
two classes and every class mix. With a square for each class, a network that predicts each class
about as often as it occurs has nothing to fill, and the best weight again runs to zero, and T with
it: `fit_uts(form="main-text")` says `NotIdentified`. What the authors' code minimises is another
thing, a *relative* shortfall of predictions, and it has a minimum. [UTS,
derived](../concepts/uts.md) has the proofs, and where the paper's own proof slips: E[W] is twice
the class mix, and a power does not move through a sum.

![What is minimised, as printed and as run](../figures/uts_objective.png)

## T depends on how many rows there are

The shortfall of a good network is sampling noise, and noise shrinks with rows. So does T:

{sizes}

The paper stops at 2,000 rows, where on the CIFAR networks T is at most {off} from that of the
labels; with ten thousand it is up to {further} off there. `fit_uts` therefore averages over bags of
2,000 rows; the last column is that. "At 500 rows UTS has reached its optimum" (C.4):
**{settled}**. Under shift its Brier score is stable from 2,000 rows to 200: **{stable}**; and
TS-Target is the most stable at 30 and 50 rows: **{most_stable}**.

The supplement's attended temperature scaling is said to be more stable than TS for few rows. At up
to 200 rows, its T spreads less over draws, as a share of its mean: **{steady_t}**; its NLL spreads
less: **{steady_nll}**. At 30 rows a fit often has no answer, and the network as it is stands for it
in up to {stand_ins} of 20 draws; such draws are in these spreads.

`temperance-lab reproduce sample-size --data DIR`

![T against the number of rows](sample-size.png)

![Brier score against the number of rows under shift](sample-size-shift.png)

## Wrong labels

{noise}

`temperance-lab reproduce label-noise --data DIR`

![NLL against wrong labels](label-noise.png)

## Under shift

{shift}

`temperance-lab reproduce figure-shift --data DIR`

![Accuracy and Brier score under shift](figure-shift.png)

{corruptions}
{probabilistic}
{foreign}
## What we could not run

{missing}
"""


def what_we_found(records: dict[str, list[Record]]) -> str:
    """Return the page."""
    t = {item: RecordTable(some) for item, some in records.items()}
    words = {(v.claim.experiment, v.claim.says): v.word for v in check(records)}

    def word(item: str, start: str) -> str:
        return next(w for (i, says), w in words.items() if i == item and says.startswith(start))

    table = t["table-1"]
    facts = {
        "uts_improves": word("table-1", "UTS improves"),
        "ours_improves": word("table-1", "Prior-matched scaling without labels"),
        "ours_below": word("table-1", "Without shift and source"),
        "uts_ece": word("table-1", "UTS improves ECE"),
        "uts_brier": word("table-1", "UTS improves the Brier"),
        "uts_beats": word("table-1", "UTS is better than TS in ECE"),
        "raises": word("table-1", "Vector or matrix"),
        "time": word("cost", "UTS takes the order of time"),
        "memory": word("cost", "UTS takes the order of memory"),
        "factor": _factor(t["cost"]),
        "ts_agrees": _agreeing(table, "uncalibrated", "TS"),
        "stable": word("sample-size", "UTS is stable"),
        "most_stable": word("sample-size", "TS-Target is the most"),
        "stand_ins": _stand_ins(records["sample-size"]),
        "gap": f"{np.median(_gaps(table)):.0%}".replace("%", " %"),
        "harmed": _harmed(table),
        "ts_best": word("table-1", "TS calibrates"),
        "matrix": word("table-1", "Matrix"),
        "vector": word("table-1", "Vector"),
        "exact": _exact(table),
        "unc": _nll(table, "uncalibrated"),
        "trained": _nll(table, "UTS"),
        "uts_p": _printed(table, "UTS"),
        "at_random": f"{t['sample-size'].value(EXACT, 'UTS', 'nll', 2_000):.4f}",
        "no_maximum": _without_maximum(table, "matrix"),
        "met": _agreeing(table, "matrix, penalty 0.005"),
        "vector_nll": _nll(table, "vector"),
        "vector_p": _printed(table, "vector"),
        "sizes": _sizes(t["sample-size"]),
        "off": _off(t["sample-size"], 2_000),
        "further": _off(t["sample-size"], 10_000),
        "settled": word("sample-size", "At 500 rows"),
        "steady_t": word("sample-size", "The same"),
        "steady_nll": word("sample-size", "ATS is more stable"),
        "noise": _noise(t["label-noise"], word),
        "shift": _shift(t["figure-shift"], word),
        "corruptions": _corruptions(t["figure-corruptions"], t["sample-size"], word),
        "probabilistic": _probabilistic(t["probabilistic"], word),
        "foreign": _foreign(t["foreign"]),
        "missing": _missing(records),
        **_slips(records["table-1"]),
    }
    return PAGE.format(**facts)


def _slips(records: Iterable[Record]) -> dict[str, object]:
    """What the print has in bold, and the rows in which its own numbers bear it out."""
    found = {
        (r.group, r.method, r.metric): r.reported["mean"] for r in records if r.reported is not None
    }
    groups = list(dict.fromkeys(group for group, *_ in found))
    lower = [found[g, "UTS", "ece"] < found[g, "TS", "ece"] for g in groups]
    higher = [
        max(found[g, m, "accuracy"] for m in ("vector", "matrix"))
        > found[g, "uncalibrated", "accuracy"]
        for g in groups
    ]
    mnist, vgg = "MNIST-Lenet-5", "CIFAR10-VGG16"
    return {
        "ece_uts": f"{found[mnist, 'UTS', 'ece']:.4f}",
        "ece_ts": f"{found[mnist, 'TS', 'ece']:.4f}",
        "ece_unc": f"{found[mnist, 'uncalibrated', 'ece']:.4f}",
        "ece_rows": sum(lower),
        "acc_matrix": f"{found[vgg, 'matrix', 'accuracy']:.2f}",
        "acc_unc": f"{found[vgg, 'uncalibrated', 'accuracy']:.2f}",
        "acc_rows": sum(higher),
        "isic": slips(),
    }


def _factor(t: RecordTable) -> str:
    """Time and memory of UTS over those of TS, medians over networks."""
    medians = [
        np.median([t.value(g, "UTS", m) / t.value(g, "TS", m) for g in t.groups()])
        for m in ("seconds", "megabytes")
    ]
    return "{:.1f} in time and {:.1f} in memory".format(*medians)


def _agreeing(t: RecordTable, *methods: str) -> int:
    """Cells of the authors' logits that agree with the print."""
    return sum(bool(r.agrees) for r in t.records.values() if r.method in methods)


def _stand_ins(records: Iterable[Record]) -> int:
    """Most draws of 30 rows in which the network as it is stands for a fit of ATS."""
    return max(
        (r.draws - r.answered for r in records if r.x == 30 and r.method == "ATS"), default=0
    )


def _gaps(t: RecordTable) -> list[float]:
    """Share of the improvement by labels that UTS reaches, by network."""
    out = []
    for group in t.groups():
        before, uts, ts = (t.value(group, m, "nll") for m in ("uncalibrated", "UTS", "TS"))
        if not np.isnan([before, uts, ts]).any() and before > ts:
            out.append((before - uts) / (before - ts))
    return out


def _harmed(t: RecordTable) -> str:
    """Networks without shift that UTS leaves worse than it found them."""
    worse = [
        f"{title(g)} ({'no row of the paper, ' if g in BESIDE else ''}"
        f"{t.value(g, 'uncalibrated', 'nll'):.4f} to {t.value(g, 'UTS', 'nll'):.4f})"
        for g in t.groups()
        if t.value(g, "UTS", "nll") > t.value(g, "uncalibrated", "nll")
    ]
    return ", ".join(worse) or "none"


COLUMNS = {
    "uncalibrated": "uncalibrated",
    "TS": "TS",
    "UTS": "UTS, prior of the text",
    "UTS, mix of the draw": "UTS, prior of the code",
    "vector": "vector",
    "matrix": "matrix",
    "matrix, penalty 0.005": "matrix, penalty 0.005",
}


def _exact(t: RecordTable) -> str:
    """Every cell of the authors' own logits beside its print."""
    metrics = ("nll", "ece", "brier", "accuracy")
    lines = ["| | NLL | ECE | Brier | accuracy, % |", "|---" * (len(metrics) + 1) + "|"]
    for method, name in COLUMNS.items():
        cells = [_beside(t.get(EXACT, method, m)) for m in metrics]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(r: Record | None) -> str:
    if r is None or r.reported is None or r.reproduced is None or r.sd is None:
        return "–"
    here, there = (number(mean, r.metric) for mean in (r.reproduced, r.reported["mean"]))
    return f"{here} ± {spread(r.sd, r.metric)} ({there} {'✓' if r.agrees else '✗'})"


def _without_maximum(t: RecordTable, method: str) -> int:
    """Draws of the authors' logits in which the likelihood has no maximum, as the record says."""
    record = t.get(EXACT, method, "nll")
    found = re.search(r"for want of a maximum, in (\d+) of", record.note if record else "")
    return int(found[1]) if found else 0


def _nll(t: RecordTable, method: str) -> str:
    return f"{t.value(EXACT, method, 'nll'):.4f}"


def _printed(t: RecordTable, method: str) -> str:
    record = t.get(EXACT, method, "nll")
    return f"{record.reported['mean']:.4f}" if record and record.reported else "nothing"


def _off(t: RecordTable, n: int) -> str:
    """Largest distance of T of UTS at ``n`` rows from that of the labels, on CIFAR networks."""
    pairs = [
        [t.value(g, m, "temperature", x) for m, x in (("UTS", n), ("TS", 10_000))]
        for g in t.groups()
        if g.startswith("CIFAR") and "TS-Target" not in t.methods(g)
    ]
    return f"{100 * max(abs(a / b - 1) for a, b in pairs if not np.isnan([a, b]).any()):.0f} %"


def _sizes(t: RecordTable) -> str:
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
        if np.isnan([*values, labelled, bags]).any() or t.get(
            group, "TS-Target", "temperature", 2_000
        ):
            continue
        name = title(group)
        cells = " | ".join(f"{v:.2f}" for v in (labelled, *values, bags))
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


NOISE = """\
Temperature scaling reads wrong labels as doubt. With a tenth of the labels wrong it is worse than
UTS, which needs none, in {uts_10} of {n} networks ({beside} of them beside the paper's rows), and
worse than no calibration at all in {none_10}; with half of them wrong, in {none_50}. The claim that
TS is "extremely sensitive": **{sensitive}**.

The supplement's attended temperature scaling is said to be much more robust. Half of the labels
wrong change its NLL by less than that of TS: **{robust}**. But its loss is no measure
of calibration ([Proposition D](../concepts/uts.md)): a threshold decides its temperature, and with
that of its authors the temperature lies far above that of the likelihood, noise or no noise. Its
NLL is below that of TS: **{ats}**."""


def _noise(t: RecordTable, word: Word) -> str:
    """At which share of wrong labels TS is no better than UTS, and than nothing."""
    worse: dict[tuple[str, float], int] = {}
    groups = [g for g in t.groups() if t.get(g, "TS", "nll", 0.5)]
    for rival, share in (("UTS", 0.1), ("uncalibrated", 0.1), ("uncalibrated", 0.5)):
        worse[rival, share] = sum(
            t.value(g, "TS", "nll", share) > t.value(g, rival, "nll", 0.0) for g in groups
        )
    return NOISE.format(
        n=len(groups),
        beside=sum(g in BESIDE for g in groups),
        uts_10=worse["UTS", 0.1],
        none_10=worse["uncalibrated", 0.1],
        none_50=worse["uncalibrated", 0.5],
        sensitive=word("label-noise", "TS is extremely"),
        robust=word("label-noise", "ATS is much"),
        ats=word("label-noise", "ATS calibrates"),
    )


METHODS = ("uncalibrated", "TS", "UTS", "prior-matched, T only", "prior-matched")


def _regrets(tables: Iterable[tuple[str, RecordTable]]) -> str:
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
**{unc}**; against TS on the source: **{ts}**; within {small} of TS-Target, which needs labels of
the target: **{gap}**.

{regrets}

To be better than the uncalibrated network is not to be good. To give every class the same
probability has a Brier score of {equal}, the dotted line of the figures. UTS is above it in
{uts_guess} of {n} degrees, TS in {ts_guess}, prior-matched scaling in {ours_guess}. Where a network
knows next to nothing, none of these methods finds that out reliably without labels.

TS-Target, prior-matched scaling without its class bias, UTS, TS and the uncalibrated network come
in this order: **{order}**.

Prior-matched scaling uses what UTS uses, and a labelled source. The class mix of the target is
known exactly here, as in the paper; one that is only estimated or out of date is worth much less.
The class bias of prior-matched scaling moves predictions,
so it can fall below a temperature that saw the target's labels; but moved predictions can be wrong:
it lowers the accuracy in {lower} of {n} degrees, by up to {most:.1f} points.
[Label-free calibration](../concepts/label-free.md) says where it falls short.

{target} {runs}"""


def _shift(t: RecordTable, word: Word) -> str:
    return SHIFT.format(
        unc=word("figure-shift", "UTS is better than the unc"),
        ts=word("figure-shift", "UTS is better than TS"),
        gap=word("figure-shift", "The gap"),
        small=f"{SMALL:g}",
        equal=f"{EQUAL:g}",
        regrets=_regrets([("MNIST and CIFAR-10, figure 2", t)]),
        order=word("figure-shift", "TS-Target, prior-matched"),
        **_guessed(t),
        target=_without_target(t),
        runs=_runs(t),
    )


def _guessed(t: RecordTable) -> dict[str, float]:
    """Degrees at which a method is worse than equal probabilities, or lowers the accuracy."""
    cells = [(g, x) for g in t.groups() for x in t.degrees(g) if x > 0]

    def above(method: str) -> int:
        return sum(t.value(g, method, "brier", x) > EQUAL for g, x in cells)

    change = [
        t.value(g, "prior-matched", "accuracy", x) - t.value(g, "uncalibrated", "accuracy", x)
        for g, x in cells
    ]
    return {
        "n": len(cells),
        "uts_guess": above("UTS"),
        "ts_guess": above("TS"),
        "ours_guess": above("prior-matched"),
        "lower": sum(c < 0 for c in change),
        "most": -min(change),
    }


def _runs(t: RecordTable) -> str:
    """How much of the spread of a cell is between training runs."""
    shares = [
        r.sd_networks / r.sd
        for r in t.records.values()
        if r.metric == "brier" and r.sd_networks is not None and r.sd
    ]
    if not shares:
        return ""
    return (
        "The spread of a cell is mostly between training runs: in the median cell the "
        f"means of the runs spread {np.median(shares):.2f} times as much as the 20 draws do; if "
        "runs did not differ, means of four draws would spread half as much."
    )


def _without_target(t: RecordTable) -> str:
    """Degrees at which TS-Target has no temperature, because labels contradict the network."""
    found = [
        f"{title(g)} {x:g}"
        for g in t.groups()
        for x in t.degrees(g)
        if (r := t.get(g, "TS-Target", "brier", x)) and not r.answered
    ]
    if not found:
        return "TS-Target has a temperature at every degree."
    return (
        f"At {', '.join(found)} fewer rows are right than by chance, and no temperature fits the "
        "labels: TS-Target does not exist there, equal probabilities stand for it in the table, "
        "and the figure leaves it out."
    )


CORRUPTIONS = """\
On the corruptions of appendix C.2, UTS better than uncalibrated: **{unc}**; than TS: **{ts}**.
Prior-matched scaling better than UTS: **{ours}**; than TS-Target: **{beats}**.

{regrets}

The small network of these figures is hardly overconfident by itself: without a corruption its
labels ask for T = {labelled}, where those of the public CIFAR-10 networks ask for {least} to
{most}. UTS gives {uts} there and makes the network too sure. Where corruptions make the network
overconfident, so that labels of the target ask for T of at least {limit:g} (a limit set after
seeing the numbers), UTS does what the paper says: it is better than uncalibrated in {over}
severities and better than TS in {over_ts}; in the others in {under} and {under_ts}.

`temperance-lab reproduce figure-corruptions --data DIR`

![Brier score under corruptions](figure-corruptions.png)"""


OVERCONFIDENT = 1.5  # T of labels from which a network counts as overconfident


def _corruptions(t: RecordTable, public: RecordTable, word: Word) -> str:
    cells = [(g, x) for g in t.groups() for x in t.degrees(g) if x > 0]
    asked = {c: t.value(c[0], "TS-Target", "temperature", c[1]) for c in cells}

    def better(than: str, *, over: bool) -> str:
        some = [c for c in cells if (asked[c] >= OVERCONFIDENT) == over]
        below = [t.value(g, "UTS", "brier", x) < t.value(g, than, "brier", x) for g, x in some]
        return f"{sum(below)} of {len(some)}"

    first = t.groups()[0]
    of_labels = [
        public.value(g, "TS", "temperature", 2_000)
        for g in public.groups()
        if g.startswith("CIFAR10-") and "TS-Target" not in public.methods(g)
    ]
    return CORRUPTIONS.format(
        labelled=f"{t.value(first, 'TS-Target', 'temperature', 0):.2f}",
        least=f"{min(of_labels):.1f}",
        most=f"{max(of_labels):.1f}",
        uts=f"{t.value(first, 'UTS', 'temperature', 0):.2f}",
        limit=OVERCONFIDENT,
        over=better("uncalibrated", over=True),
        over_ts=better("TS", over=True),
        under=better("uncalibrated", over=False),
        under_ts=better("TS", over=False),
        unc=word("figure-corruptions", "UTS is better than the unc"),
        ts=word("figure-corruptions", "UTS is better than TS"),
        ours=word("figure-corruptions", "Prior-matched scaling is better"),
        beats=word("figure-corruptions", "Prior-matched scaling beats"),
        regrets=_regrets([("CIFAR-10, appendix C.2", t)]),
    )


PROBABILISTIC = """
## Ensembles, dropout, variational weights

In the paper's eight settings, with ensembles of ten networks, UTS is below every probabilistic
method in Brier score: **{uts}**. TS-Target is the best of the paper's methods: **{target}**. In
these settings and in more degrees of their shifts, prior-matched scaling is below all that see no
labels of the target: **{ours}**. In the paper's {mnist} settings of MNIST all that see no labels of
the target are above {guess}, equal probabilities{below}.

The paper chose settings in which all methods have about the same accuracy, so that a Brier score
speaks of calibration alone. The settings of the figure are its own, but the networks are not. So we
compare, of {settings} settings, those in which two methods have accuracies within {equal:g} points.
There, one network with UTS is below the probabilistic method: **{uts_equal}**; one network with
prior-matched scaling that leaves the predictions as they are: **{ours_equal}**. {few}

The Laplace approximation and MCMC are neighbours that the paper names and does not run. Over the
last layer of the first network, in the paper's settings, UTS is below the Laplace approximation:
**{uts_laplace}**; below Hamiltonian Monte Carlo: **{uts_mcmc}**{accepted}.

SVI is a network with random weights, and how it was trained decides what its comparison says.

{svi}

`temperance-lab reproduce probabilistic --data DIR`

![Brier score against accuracy](probabilistic.png)

![Brier score at equal accuracy](probabilistic-matched.png)

An ensemble is a classifier like any other, and the paper's future work, to calibrate it, is one
call more. The Brier score of the ensemble falls with UTS on top: **{uts_ensemble}**; with
prior-matched scaling: **{ours_ensemble}**. That of ll-Dropout falls with UTS: **{uts_dropout}**;
with prior-matched scaling: **{ours_dropout}**.

`temperance-lab reproduce combination --data DIR`

![Ensembles and ll-Dropout, calibrated](combination.png)
"""


FEW = (
    "With labels of 50 rows of the target, `calibrate` is below every method without labels of the "
    "target in {few} of {n} settings."
)


def _probabilistic(t: RecordTable, word: Word) -> str:
    paper = [(g, t.degrees(g)[0]) for g in t.groups() if g in PAPER]
    mnist = [(g, x) for g, x in paper if g.startswith("MNIST")]
    labelled = {"TS-Target", "calibrate, 50 labels"}
    blind = [m for m in t.methods() if m not in labelled]
    below = [
        f"{m} at {title(g)}" for g, x in mnist for m in blind if t.value(g, m, "brier", x) <= EQUAL
    ]
    everywhere = [(g, x) for g in t.groups() for x in t.degrees(g)]
    few = [
        t.value(g, "calibrate, 50 labels", "brier", x)
        <= np.nanmin([t.value(g, m, "brier", x) for m in blind])
        for g, x in everywhere
        if t.get(g, "calibrate, 50 labels", "brier", x)
    ]
    return PROBABILISTIC.format(
        mnist=len(mnist),
        guess=f"{EQUAL:g}",
        below=f", but for {', '.join(below)}" * bool(below),
        settings=len(everywhere),
        equal=EQUAL_ACCURACY,
        uts_equal=word("probabilistic", "The same, at equal"),
        ours_equal=word("probabilistic", "Prior-matched scaling, T only"),
        few=FEW.format(few=sum(few), n=len(few)) if few else "",
        svi=_svi(t),
        uts=word("probabilistic", "UTS beats every"),
        target=word("probabilistic", "TS-Target is"),
        uts_laplace=word("probabilistic", "UTS beats Laplace"),
        uts_mcmc=word("probabilistic", "UTS beats MCMC"),
        accepted=_accepted(t),
        ours=word("probabilistic", "Prior-matched scaling beats"),
        uts_ensemble=word("combination", "UTS improves an ensemble"),
        ours_ensemble=word("combination", "Prior-matched scaling improves an ensemble"),
        uts_dropout=word("combination", "UTS improves ll-Dropout"),
        ours_dropout=word("combination", "Prior-matched scaling improves ll-Dropout"),
    )


def _accepted(t: RecordTable) -> str:
    """How the chains of each data set moved, as their records say."""
    found = {
        _set(r.group): told[0]
        for r in t.records.values()
        if r.method == "ll-MCMC" and (told := re.findall(r"\d+ % of traj.*", r.caveat))
    }
    told = "; ".join(f"{name}: {how}" for name, how in found.items())
    return f" ({told})" * bool(told)


def _svi(t: RecordTable) -> str:
    """How SVI was trained, and its accuracy beside that of one network, by data set."""
    lines = []
    for name in ("MNIST", "CIFAR10"):
        mild = max(
            ((g, x) for g in t.groups() if g.startswith(name) for x in t.degrees(g)),
            key=lambda cell: t.value(cell[0], "uncalibrated", "accuracy", cell[1]),
        )
        svi = t.get(mild[0], "SVI", "accuracy", mild[1])
        one = t.value(mild[0], "uncalibrated", "accuracy", mild[1])
        if svi:
            lines.append(
                f"- {name}: {svi.caveat}. Accuracy {svi.reproduced:.1f} % at {title(mild[0])}, "
                f"where one network has {one:.1f} %."
            )
    return "\n".join(lines)


FOREIGN = """
## Foreign and attacked pictures

The paper leaves inputs of no class and attacked inputs to later work. Neither keeps what a known
class mix is worth: a foreign row has no class, and an attack moves each row where it fools most.

{table}

`temperance-lab reproduce foreign --data DIR`

![Mean confidence and accuracy with foreign rows and under attack](foreign.png)

UTS reads of foreign rows only which classes are predicted, and its confidence can lie above the
uncalibrated one. Prior-matched scaling estimates the accuracy of all rows with the help of the
labelled source; its mean confidence is nearer to the accuracy, and off by up to {followed}. One
temperature cannot tell a foreign row from its neighbour, so the rows that have a class pay for it:
with half of the rows foreign, their Brier score goes from {paid}. The verdict "improved" speaks of
all rows, and a class mix that foreign rows break is beyond what it checks. Who expects foreign rows
needs a detector of such rows first (the [assistant](../assistant.md) has one).
An attack is made to leave no trace in the confidence: {attack}
"""


def _foreign(t: RecordTable) -> str:
    """Confidence minus accuracy at the largest share and at the strongest attack, in points."""
    methods = t.methods()
    lines = [
        f"| confidence minus accuracy, points | accuracy, % | {' | '.join(methods)} | verdict |",
        "|---" * (len(methods) + 3) + "|",
    ]
    gaps = {}
    for g in t.groups():
        for x in t.degrees(g)[1:]:
            gap = {
                m: t.value(g, m, "confidence", x) - t.value(g, m, "accuracy", x) for m in methods
            }
            gaps[g, x] = gap
            what = f"{100 * x:.0f} % foreign" if "foreign" in g else f"{x:.0f} grey levels"
            accuracy = t.value(g, "uncalibrated", "accuracy", x)
            improved, refused = (t.value(g, "calibrate", v, x) for v in ("improved", "refused"))
            lines.append(
                f"| {title(g)}, {what} | {accuracy:.1f} | "
                + " | ".join(f"{gap[m]:+.1f}" for m in methods)
                + f" | {_verdicts(improved, refused)} |"
            )
    attacks = [gap for (g, _), gap in gaps.items() if "attacked" in g]
    worst = {m: max(gap[m] for gap in attacks) for m in methods}
    attack = "at worst the confidence exceeds the accuracy by " + ", ".join(
        f"{gap:.0f} points with {m}" if m != "uncalibrated" else f"{gap:.0f} points uncalibrated"
        for m, gap in worst.items()
    )
    foreign = [g for g in t.groups() if "foreign" in g]
    followed = {
        g: max(abs(gap["prior-matched"]) for (of, _), gap in gaps.items() if of == g)
        for g in foreign
    }
    paid = {
        g: tuple(t.value(g, m, "brier", 0.5) for m in ("uncalibrated", "prior-matched"))
        for g in foreign
    }
    return FOREIGN.format(
        table="\n".join(lines),
        attack=f"{attack}.",
        followed=" and ".join(f"{v:.1f} points on {_set(g)}" for g, v in followed.items()),
        paid=" and from ".join(f"{a:.4f} to {b:.4f} on {_set(g)}" for g, (a, b) in paid.items()),
    )


def _set(group: str) -> str:
    """Return the name of the data set of a group."""
    return group.partition("-")[0]


def _verdicts(improved: float, refused: float) -> str:
    """Return how often each verdict was given, in per cent."""
    shares = {"improved": improved, "no-evidence": 100 - improved - refused, "refused": refused}
    return ", ".join(f"{name} {share:.0f} %" for name, share in shares.items() if share)


MISSING = """\
{groups}: we found no public logits of these networks and no weights that we could read (the project
jax_privacy names a file `WRN_40_4_CIFAR100.dill`), and training them takes a GPU. Of the
supplement, {supplement}: their photographs are not here, and the second needs a GPU. [The
tables](reproduction.md) name the file and the command for each. For DenseNet-100 of CIFAR-10 and
CIFAR-100 the public BC variant stands, for ResNet-110 a public ResNet-56. The figures of the paper
carry no numbers, so there the claims are compared, not the points. The CIFAR-10 network of the
figures is a small one, trained on 10,000 images in minutes, with an accuracy of {small:.0f} % where
the paper's have {least:.0f} to {most:.0f} %."""


def _missing(records: dict[str, list[Record]]) -> str:
    table = records["table-1"]
    run = {r.group for r in table if not r.needs}
    empty = dict.fromkeys(r.group for r in table if r.group not in run)
    small = RecordTable(records["figure-shift"]).value(
        "CIFAR10-gaussian_noise", "uncalibrated", "accuracy", 0
    )
    printed = [
        r.reported["mean"]
        for r in table
        if r.reported and (r.dataset, r.method, r.metric) == ("CIFAR10", "uncalibrated", "accuracy")
    ]
    return MISSING.format(
        groups=", ".join(title(g) for g in empty if g not in BESIDE),
        supplement=", ".join(title(g) for g in empty if g in BESIDE),
        small=small,
        least=min(printed),
        most=max(printed),
    )

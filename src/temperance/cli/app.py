"""The commands: what each takes, what it calls, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App, Parameter
from numpy.typing import NDArray

import temperance as tp
from temperance import report as page
from temperance.cli import demo as story
from temperance.cli import inputs, monitor, options, output
from temperance.cli.options import EXAMPLES, Classes, Json, Labels, Out, Probabilities
from temperance.data import Rows, as_rows
from temperance.data.given import fingerprint
from temperance.io import artefact as artefacts
from temperance.io import formats
from temperance.io.table import Table
from temperance.maps import Map

FITS: dict[str, Callable[..., Map]] = {
    "temperature": tp.fit_temperature,
    "vector": tp.fit_vector,
    "matrix": tp.fit_matrix,
    "biased": tp.fit_biased_temperature,
    "attended": tp.fit_attended,
}
METRICS = {
    "accuracy": tp.metrics.accuracy,
    "nll": tp.metrics.nll,
    "brier": tp.metrics.brier,
    "ece": tp.metrics.ece,
}
REFUSED_NOTE = "{} holds a refused calibration: {}"


app = App(
    name="temperance",
    help="Trustworthy confidence for a trained classifier on shifted data, without labels.",
    help_epilogue=EXAMPLES["temperance"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # main() says what it left behind
    version=tp.__version__,
)
app.register_install_completion_command(help="Install completion for bash, zsh or fish.")
app.command(monitor.app)


@app.command(sort_key=1, help_epilogue=EXAMPLES["calibrate"])
def calibrate(
    target: Path,
    /,
    *,
    prior: str | None = None,
    source: Path | None = None,
    labelled: Path | None = None,
    features: Annotated[tuple[Path, Path] | None, Parameter(negative="")] = None,
    out: Path | None = None,
    report: Path | None = None,
    title: options.Title = None,
    model: options.Model = None,
    min_accuracy: options.MinAccuracy = None,
    max_ece: options.MaxEce = None,
    max_error: options.MaxError = None,
    probabilities: Probabilities = False,
    classes: Classes = None,
    bias: bool = True,
    seed: int = 0,
    json: Json = False,
) -> int:
    """Calibrate a model on rows without labels, and say how far to trust the result.

    Parameters
    ----------
    target
        Logits of the shifted rows, without labels.
    prior
        Class mix of the target: a JSON file, numbers with commas, 'uniform' or 'source'.
    source
        Labelled rows from before the shift.
    labelled
        A few labelled rows of the target: random ones, or those that the report asks for.
    features
        The layer before the logits of target and source, two .npy files with a row for each row.
    out
        Where to save the calibration (JSON).
    report
        Where to write the report (HTML).
    bias
        Whether predictions may move towards the class mix.
    seed
        Of the rows that are drawn from a large file.
    """
    inputs.check_share(min_accuracy, "--min-accuracy")
    inputs.check_share(max_ece, "--max-ece")
    inputs.check_share(max_error, "--max-error", open_low=True)
    if report is None and (title is not None or model is not None):
        raise tp.InputError("--title and --model are words of the report. Add --report FILE.")
    written = [
        ("--out", out, inputs.ARTEFACT),
        ("--report", report, inputs.PAGE),
    ]
    inputs.check_outputs(written, target, source, labelled, prior, classes, *(features or ()))
    with output.working("reading"):
        content = "probabilities" if probabilities else "logits"
        rows = inputs.read_table(target, classes, keep="logits", content=content)
        before, some = (
            path
            and inputs.read_labelled(path, classes, None, rows.classes, probabilities=probabilities)
            for path in (source, labelled)
        )
    for path, table in ((source, before), (labelled, some)):
        inputs.check_same_names(table and table.classes, rows.classes, str(path))
    names = next((t.classes for t in (rows, before, some) if t and t.classes), None)
    with output.working("calibrating"):
        calibration = tp.calibrate(
            rows.logits,
            inputs.read_prior(prior, rows, before),
            inputs.pair_of(before),
            labelled=inputs.pair_of(some),
            features=features and inputs.read_features(features),
            classes=names,
            bias=bias,
            seed=seed,
        )
        threshold = None
        if max_error is not None and calibration.verdict != "refused":
            threshold = calibration.threshold(max_error)
    if out is not None:
        calibration.save(out)
    if report is not None:
        page.to_html(calibration, report, title=title, model=model, max_error=max_error)
    estimates = {"accuracy": calibration.accuracy, "ece": calibration.ece_after}
    gates = output.gates(estimates, max_ece, min_accuracy)
    missed = [gate.says() for gate in gates if gate.missed]
    if json:
        facts = calibration.to_dict()
        if max_error is not None:
            facts["threshold"] = threshold and threshold.to_dict()
        output.show_json(facts | {"failed": missed} if gates else facts)
    else:
        output.show_calibration(calibration)
        if threshold is not None and max_error is not None:
            output.show_threshold(threshold, max_error)
        output.show_missed(missed)
        output.show_files({"calibration": out, "report": report})
    output.note_doubts(gates)
    return int(calibration.verdict == "refused" or bool(missed))


@app.command(sort_key=2, help_epilogue=EXAMPLES["fit"])
def fit(
    val: Path,
    /,
    *,
    out: Out,
    method: options.Method = "temperature",
    penalty: float = 0.0,
    labels: Labels = None,
    probabilities: Probabilities = False,
    classes: Classes = None,
    json: Json = False,
) -> int:
    """Fit a map, which corrects logits, on labelled rows.

    Parameters
    ----------
    val
        Logits and labels of rows that the model was not trained on.
    out
        Where to save the map (JSON, or .safetensors for a matrix over many classes).
    method
        temperature keeps the ranking of the classes; the others may move predictions.
    penalty
        Of vector and matrix: pull towards one temperature, for rows that can be separated.
    """
    inputs.check_outputs([("--out", out, inputs.ARTEFACT)], val, labels, classes)
    penalised = {"penalty": penalty} if method in {"vector", "matrix"} else {}
    if penalty and not penalised:
        msg = f"--penalty goes with the methods vector and matrix. Got it with {method!r}."
        raise tp.InputError(msg)
    rows = inputs.read_labelled(val, classes, labels, probabilities=probabilities)
    with output.working(f"fitting {method}"):
        fitted = FITS[method](rows.logits, rows.labels, **penalised)
        before = tp.metrics.evaluate(rows.logits, rows.labels)
        after = tp.metrics.evaluate(_after(fitted, rows))
    hashed = fingerprint(rows.logits, rows.labels)
    artefacts.save(fitted, out, classes=rows.classes, prior=rows.prior, fitted_on=hashed)
    if json:
        facts = {"method": method, "rows": rows.n, "map": artefacts.describe_map(fitted)}
        scores = {"before": output.scores(before), "after": output.scores(after)}
        output.show_json(facts | {"on_the_rows_of_the_fit": scores})
    else:
        output.show_fit(method, fitted, rows.n, before, after)
        output.show_files({"map": out})
    return 0


@app.command(sort_key=3, help_epilogue=EXAMPLES["apply"])
def apply(
    new: Path,
    /,
    *,
    map: Annotated[Path, Parameter(name="--map")],  # noqa: A002
    out: Out,
    probabilities: Annotated[bool, options.FLAG] = False,
    classes: Classes = None,
) -> int:
    """Apply a map to new rows, in blocks: a file may be larger than the memory.

    Parameters
    ----------
    new
        Logits of the new rows.
    map
        What calibrate or fit has saved.
    out
        Where to write; the ending decides the format.
    probabilities
        Write probabilities in place of logits; a .csv or .parquet file also gets the columns
        prediction and confidence. Only with this option may the new rows be probabilities.
    """
    formats.check_format(out)
    written = ("--out", out, tuple(formats.FORMATS))
    inputs.check_outputs([written], new, map, classes)
    held = inputs.read_map(map)
    keep = "columns" if formats.is_table(new) and formats.is_table(out) else "labels"
    content = "either" if probabilities else "logits"
    rows = inputs.read_table(new, classes, otherwise=held.classes, keep=keep, content=content)
    inputs.check_classes_of_map(held, rows, map.name)
    wide = np.result_type(rows.logits.dtype, np.float32)  # in half precision no row sums to 1

    def function(logits: NDArray[Any]) -> NDArray[Any]:
        return held.map.predict_proba(logits.astype(wide)) if probabilities else held.map(logits)

    name = "probabilities" if probabilities else "logits"
    formats.write(out, rows, function, name)
    output.show_files({f"{rows.n:,} rows of {name}": out})
    if out.suffix.lower() == ".csv":  # a CSV file has no place for class names
        output.note_columns("prob" if probabilities else "logit", rows.classes)
    if held.refused:
        output.note(REFUSED_NOTE.format(map, held.refused))
    return int(bool(held.refused))


@app.command(sort_key=4, help_epilogue=EXAMPLES["evaluate"])
def evaluate(
    test: Path,
    /,
    *,
    map: Annotated[Path | None, Parameter(name="--map")] = None,  # noqa: A002
    labels: Labels = None,
    probabilities: Probabilities = False,
    classes: Classes = None,
    min_accuracy: options.MinAccuracy = None,
    max_ece: options.MaxEce = None,
    json: Json = False,
) -> int:
    """Measure accuracy and calibration on labelled rows, with 95% intervals.

    A gate is decided by the value; an interval that spans the gate is noted on stderr.

    Parameters
    ----------
    test
        Logits and labels; with groups (patients, sites) the intervals are by group.
    map
        Measure after this map too.
    """
    inputs.check_share(max_ece, "--max-ece")
    inputs.check_share(min_accuracy, "--min-accuracy")
    held = None if map is None else inputs.read_map(map)
    names = held and held.classes
    rows = inputs.read_labelled(test, classes, labels, names, probabilities=probabilities)
    if held is not None and map is not None:
        inputs.check_classes_of_map(held, rows, map.name)
    with output.working("measuring"):
        before = _measure(rows)
        after = None if held is None else _measure(rows, held.map)
    groups = None if rows.groups is None else len(set(rows.groups.tolist()))
    gates = output.gates(after or before, max_ece, min_accuracy)
    failed = [gate.says() for gate in gates if gate.missed]
    if json:
        facts = {"rows": rows.n, "groups": groups, "before": before, "after": after}
        output.show_json(facts | {"failed": failed})
    else:
        output.show_measured(rows.n, groups, before, after)
        output.show_missed(failed)
    output.note_doubts(gates)
    refused = held.refused if held is not None else ""
    if refused:
        output.note(REFUSED_NOTE.format(map, refused))
    return int(bool(refused or failed))


@app.command(sort_key=5, help_epilogue=EXAMPLES["report"])
def report(
    calibration: Path,
    /,
    *,
    out: Out,
    labelled: Path | None = None,
    title: options.Title = None,
    model: options.Model = None,
    labels: Labels = None,
    probabilities: Probabilities = False,
    classes: Classes = None,
) -> int:
    """Write the report of a calibration as one HTML file.

    Parameters
    ----------
    calibration
        What calibrate has saved.
    out
        Where to write the page.
    labelled
        Rows of the target that have labels now: to set what they measure beside the estimates.
    """
    written = ("--out", out, inputs.PAGE)
    inputs.check_outputs([written], calibration, labelled, labels, classes)
    held = artefacts.load(calibration)
    if not isinstance(held, tp.Calibration):
        raise tp.InputError(
            f"{calibration.name} must hold a calibration, as 'temperance calibrate' writes it. It "
            f"holds a map alone, as 'temperance fit' writes it."
        )
    audit = None
    if labelled is not None:
        names = inputs.class_names(calibration)
        rows = inputs.read_labelled(labelled, classes, labels, names, probabilities=probabilities)
        inputs.check_same_names(names, rows.classes, calibration.name)
        audit = held.audit(*inputs.pair_of(rows), groups=rows.groups)
    page.to_html(held, out, audit=audit, title=title, model=model)
    output.show_files({"report": out})
    return 0


@app.command(sort_key=6, help_epilogue=EXAMPLES["inspect"])
def inspect(artefact: Path, /, *, json: Json = False) -> int:
    """Show what a saved map or calibration holds, after checking it.

    Parameters
    ----------
    artefact
        What calibrate or fit has saved.
    """
    held = artefacts.load(artefact)
    facts = artefacts.read(artefact)
    if json:
        output.show_json(facts)
    else:
        output.show_artefact(held, facts)
    return 0


@app.command(sort_key=7, help_epilogue=EXAMPLES["demo"])
def demo(*, out: Out = Path("temperance-demo")) -> int:
    """Calibrate a digit reader on rotated digits, and compare with the truth. Needs no files.

    Parameters
    ----------
    out
        Directory for the report, and for the files to try the other commands on.
    """
    with output.working("calibrating 8,000 rotated digits"):
        comparisons = [story.compare(degrees) for degrees in story.DEGREES]
        labelled = story.add_labels(comparisons[-1])
        written = story.write_files(out, labelled)
    story.show(comparisons, labelled, written)
    return 0


def _after(fitted: Map, rows: Table) -> Rows:
    """Return labelled rows after a map, block by block, in single precision at least."""
    dtype = np.result_type(rows.logits.dtype, np.float32)
    return as_rows(rows.logits, rows.labels).mapped(lambda z: fitted(z.astype(dtype)))


def _measure(rows: Table, fitted: Map | None = None) -> dict[str, list[float]]:
    """Return metrics of rows, after a map if there is one, with bootstrap intervals (by group)."""
    labelled = as_rows(rows.logits, rows.labels) if fitted is None else _after(fitted, rows)
    return {
        name: list(tp.metrics.bootstrap(metric, labelled, groups=rows.groups))
        for name, metric in METRICS.items()
    }

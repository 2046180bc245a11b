from __future__ import annotations

from dataclasses import replace

import pytest

from temperance_lab.reproduce import EXPERIMENTS
from temperance_lab.reproduce.claims import CLAIMS, check
from temperance_lab.reproduce.record import Record
from temperance_lab.reproduce.record_table import RecordTable

METRICS = ("accuracy", "nll", "ece", "brier", "temperature", "seconds", "megabytes")


def record(group, method, value, metric="nll", x=None, experiment="table-1", sd=0.1):
    return Record(
        experiment=experiment,
        group=group,
        dataset="d",
        model="m",
        method=method,
        metric=metric,
        x=x,
        reproduced=value,
        sd=sd,
        draws=20,
        evidence="nearest",
    )


def verdict(records, says):
    experiment = records[0].experiment
    return next(v for v in check({experiment: records}) if v.claim.says.startswith(says))


TABLE = [
    record(group, method, value)
    for group in ("a", "b", "c")
    for method, value in (("uncalibrated", 3.0), ("TS", 1.0), ("UTS", 2.0), ("vector", 1.5))
]


def test_a_claim_holds_in_every_case_or_says_in_how_many():
    assert verdict(TABLE, "UTS improves").word == "holds in all 3"
    one = [replace(r, reproduced=4.0) if (r.group, r.method) == ("a", "UTS") else r for r in TABLE]
    assert verdict(one, "UTS improves").word == "partly: in 2 of 3"
    two = [replace(r, reproduced=4.0) if r.group < "c" and r.method == "UTS" else r for r in TABLE]
    assert verdict(two, "UTS improves").word == "does not hold: in 1 of 3"


def test_a_claim_about_some_cases_holds_in_as_many():
    rows = [record(g, m, v, "ece") for g in "abc" for m, v in (("TS", 2.0), ("UTS", 3.0))]
    some = [replace(r, reproduced=1.0) if r.method == "UTS" and r.group < "c" else r for r in rows]
    assert verdict(some, "UTS is better than TS in ECE").word == "holds: in 2 of 3"
    assert verdict(rows, "UTS is better than TS in ECE").word == "does not hold: in 0 of 3"


def test_what_was_not_measured_counts_for_nothing():
    assert verdict(TABLE, "Matrix scaling overfits").word == "not run"
    assert verdict(TABLE, "TS calibrates better").n == 3


def test_agreement_with_print_is_counted_by_cell():
    exact = [replace(r, evidence="exact") for r in TABLE[:2]]
    printed = [{"mean": 3.0, "std": 0.1}, {"mean": 2.0, "std": 0.1}]
    agreeing = [replace(r, reported=p) for r, p in zip(exact, printed, strict=True)]
    assert verdict(agreeing, "Its own numbers").word == "partly: in 1 of 2"


def test_a_temperature_that_falls_with_rows_is_found():
    facts = {"experiment": "sample-size", "metric": "temperature"}
    fall = {500: 2.2, 2_000: 1.8, 10_000: 1.3}
    falling = [record("a", "UTS", t, x=n, **facts) for n, t in fall.items()]
    steady = [record("a", "UTS in bags", 1.8, x=n, **facts) for n in fall]
    assert verdict(falling, "More rows do not change").word == "does not hold: in 0 of 1"
    assert verdict(steady, "Bags of 2,000").word == "holds in all 1"


def test_noise_that_makes_ts_worse_than_nothing():
    base = record("a", "uncalibrated", 1.0, x=0.0, experiment="label-noise")
    noisy = [
        record("a", "TS", v, x=s, experiment="label-noise") for s, v in ((0.1, 0.9), (0.5, 1.4))
    ]
    assert verdict([base, *noisy], "Even a small").word == "does not hold: in 0 of 1"
    assert verdict([base, *noisy], "TS is extremely").word == "holds in all 1"


def test_without_shift_there_is_no_case_of_shift():
    facts = {"experiment": "figure-shift", "metric": "brier"}
    rows = [
        record("a", method, value, x=x, **facts)
        for x in (0, 15)
        for method, value in (("UTS", 0.3 if x == 0 else 0.1), ("TS", 0.2))
    ]
    assert verdict(rows, "UTS is better than TS under shift (5.2)").n == 1


def test_only_methods_of_the_same_accuracy_are_compared():
    numbers = {"UTS": (60.0, 0.05), "ensemble": (61.5, 0.06), "SVI": (57.0, 0.04)}
    rows = [
        record("a", method, value, metric, 5, "probabilistic")
        for method, values in numbers.items()
        for metric, value in zip(("accuracy", "brier"), values, strict=True)
    ]
    assert verdict(rows, "The same, at equal accuracies").word == "holds in all 1"


def test_claims_about_figure_3_are_counted_on_its_own_settings():
    rows = [
        record(group, method, value, "brier", 8, "probabilistic")
        for group in ("MNIST-rolling-8", "MNIST-rolling-4")
        for method, value in (("UTS", 0.05), ("ensemble", 0.06), ("uncalibrated", 0.04))
    ]
    assert verdict(rows, "UTS beats every probabilistic").word == "holds in all 1"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.says[:40])
def test_every_claim_is_about_an_experiment_and_its_methods(claim):
    experiment = EXPERIMENTS[claim.experiment]
    degrees = (
        (None,)
        if claim.experiment in {"table-1", "cost"}
        else (0.0, 0.1, 0.5, 50, 200, 500, 2_000, 10_000)
    )
    records = [
        replace(
            record("a", m, 1.0 + 0.1 * i, metric, x, claim.experiment),
            evidence="exact",
            reported={"mean": 1.0, "std": 0.1},
        )
        for i, m in enumerate(experiment.methods)
        for metric in METRICS
        for x in degrees
    ]
    assert len(list(claim.cases(RecordTable(records)))) > 0

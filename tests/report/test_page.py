"""The page says what the facts say, stays small, and runs nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from report_cases import HOSTILE, KINDS, calibration, simulated
from scipy.stats import binomtest

import temperance as tp
from temperance import report
from temperance.report import context, texts
from temperance.report.context import (
    ENTRIES_KEPT,
    MAX_FACTS_LENGTH,
    _class_mix,
    _facts_json,
    page_facts,
)

SECTIONS = (
    "how-sure",
    "confidence",
    "rests-on",
    "findings",
    "estimates",
    "class-mix",
    "assumptions",
    "what-next",
    "model-card",
)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: elements in order, text by element, nesting."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.stack, self.words, self.facts = [], [], [], ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack[-1:] == ["script"]:
            self.facts += data
        elif self.stack[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def ids(self):
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    cal = calibration(request.param)
    return request.param, cal, cal.to_html()


def test_every_section_is_there_and_named_once(case):
    _, _, text = case
    page = Page(text)
    assert [one for one in page.ids() if one in SECTIONS] == list(SECTIONS)
    assert len(page.ids()) == len(set(page.ids()))
    targets = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    assert set(targets) <= set(page.ids())


def test_the_verdict_and_its_meaning_come_first(case):
    _, cal, text = case
    page = Page(text)
    top = page.text.partition("Mean confidence")[0]
    assert f"{cal.details['n_target']:,} rows without labels" in top
    assert f"Verdict: {cal.verdict}" in top
    assert texts.meaning(cal)[:60] in top


def test_it_is_one_small_file_that_asks_for_nothing(case):
    _, _, text = case
    assert len(text.encode()) < 1_000_000
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "form"} & {tag for tag, _ in page.tags}
    assert not re.search(r"url\(|@import|https?://", text.split('id="facts"')[0])
    assert "default-src 'none'" in text


def test_the_facts_inside_are_the_facts(case):
    kind, cal, text = case
    facts = json.loads(Page(text).facts)
    if kind == "many classes":
        assert facts["details"]["n_target"] == 1500
    else:
        assert facts == json.loads(json.dumps(cal.to_dict()))


def test_every_finding_stands_with_its_advice(case):
    _, cal, text = case
    page = Page(text)
    for finding in cal.findings:
        assert finding.code in page.text
        assert " ".join(texts.on_the_page(finding.advice)[:200].split()) in page.text


def test_nothing_estimated_is_called_measured(case):
    _, cal, text = case
    assert "every number about it here is an estimate" in Page(text).text
    if cal.verdict == "refused":
        assert "not known" in Page(text).text


def test_a_hostile_name_is_inert():
    text = calibration("hostile").to_html()
    page = Page(text)
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "facts"}]
    assert not [a for _, attrs in page.tags for a in attrs if a.startswith("on")]
    assert "49" not in page.text.split("{{ 7 * 7 }}")[0][-5:]
    assert "{{ 7 * 7 }}" in page.text
    assert json.loads(page.facts)["details"]["classes"] == HOSTILE
    assert "\u202e" not in page.text  # it would turn the sentence around
    assert len(text) < 200_000
    assert "x" * 100 not in page.text  # cut, but whole in the facts


def test_of_many_classes_the_most_different_are_shown():
    page = Page(calibration("many classes").to_html())
    assert "980 other classes" in page.text


def test_tables_and_figures_have_names(case):
    _, _, text = case
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == tags.count("table")
    for tag, attrs in page.tags:
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or attrs.get("aria-label")
    headings = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert headings[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    assert dict(page.tags)["html"]["lang"] == "en"


def test_measured_stands_beside_estimated():
    cal = calibration("improved")
    z, y = simulated(2000, seed=1)
    audit = cal.audit(z, y)
    text = report.to_html(cal, audit=audit)
    page = Page(text)
    assert "measured" in page.ids()
    assert texts.between(audit.accuracy) in page.text
    assert texts.between(cal.accuracy) in page.text
    assert json.loads(page.facts)["audit"]["n"] == 2000
    assert "every number about it here is an estimate" not in page.text
    assert "The interval of the estimate allows that" in page.text.partition("Mean confidence")[0]


def test_disagreement_with_labels_is_said_aloud():
    cal = calibration("improved")
    z, y = simulated(500, seed=1)
    text = report.to_html(cal, audit=cal.audit(z, (y + 1) % 5))
    top = Page(text).text.partition("Mean confidence")[0]
    assert texts.CONTRADICTED in top
    assert "does not agree with the estimate: trust the measurement" in top
    assert texts.HEADLINES["improved"] not in top
    assert 'class="verdict refused"' in text


def labels_say(**values):
    """Return the top of a page with labels, and the page, were the audit to have other values."""
    cal = calibration("improved")
    audit = replace(cal.audit(*simulated(500, seed=1)), **values)
    text = report.to_html(cal, audit=audit)
    return Page(text).text.partition("Mean confidence")[0], text


def test_labels_agree_when_nothing_got_worse():
    top, text = labels_say()
    assert "The interval of the estimate allows that." in top
    assert texts.HEADLINES["improved"] in top
    assert 'class="verdict improved"' in text


def test_an_error_that_labels_still_find_is_said_first():
    gap = tp.Interval(0.2, 0.1, 0.3)
    top, text = labels_say(ece_before=tp.Interval(0.5, 0.4, 0.6), ece_after=gap)
    assert texts.NOT_RIGHT_YET in top
    assert 'class="verdict no-evidence"' in text
    assert "50% → 20%" in Page(text).text.partition("How sure")[0]
    assert texts.NOT_RIGHT_YET not in labels_say(ece_after=gap, n=texts.ROWS_TO_AUDIT - 1)[0]


def test_what_labels_have_answered_is_no_longer_in_doubt():
    cal = replace(
        calibration("improved"), findings=(tp.Finding("TP401", "They disagree.", {}, "", "warn"),)
    )
    audit = cal.audit(*simulated(500, seed=1)).to_dict()
    assert cal.doubt
    assert cal.doubt in texts.meaning(cal)
    assert cal.doubt in texts.meaning(cal, audit | {"n": texts.ROWS_TO_AUDIT - 1})
    assert cal.doubt not in texts.meaning(cal, audit | {"n": texts.ROWS_TO_AUDIT})


@pytest.mark.parametrize(
    ("key", "what"), [("ece", "makes the gap worse"), ("nll", "makes the NLL worse")]
)
def test_labels_never_agree_with_what_got_worse(key, what):
    after = {f"{key}_before": tp.Interval(0.19, 0.1, 0.3), f"{key}_after": tp.Interval(0.26, 0, 1)}
    top, text = labels_say(**after)
    assert what in top
    assert "agrees" not in top
    assert texts.UNCONFIRMED in top
    assert 'class="verdict no-evidence"' in text


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("worse", [True, False])
def test_a_few_labels_cannot_tell(agrees, worse):
    gap = tp.Interval(0.26 if worse else 0.1, 0.0, 0.6)
    before = {"ece_before": tp.Interval(0.19, 0.1, 0.3), "ece_after": gap}
    top, text = labels_say(n=texts.ROWS_TO_AUDIT - 1, agrees=agrees, **before)
    assert "ewer than 30 rows are too few to tell" in top
    assert "agrees" not in top
    assert ("does not agree with the estimate" in top) == (not agrees)
    assert ('class="verdict improved"' in text) == (agrees and not worse)
    assert 'class="verdict refused"' not in text  # nor are they enough to contradict


def test_one_row_is_one_row():
    assert "The labels of 1 row put" in labels_say(n=1)[0]


def test_without_evidence_the_words_agree_with_the_map_that_is_applied():
    cal = calibration("no evidence")
    said = texts.meaning(cal)
    assert texts.percent(cal.details["confidence_after"]) in said
    for share, words in ((0.6, "60%, which is not certain"), (0.95, "95%, but the gain is")):
        details = cal.details | {"probability_of_gain": share}
        assert words in texts.meaning(replace(cal, details=details))
    doubtful = replace(cal, ece_before=tp.Interval(0.02, 0.0, 0.2))
    assert texts.headline(doubtful, None) == texts.HEADLINES["no-evidence"]


@pytest.mark.parametrize(
    ("share", "gain", "after", "why"),
    [
        (0.6, 0.01, 0.02, "not certain enough"),
        (0.92, 0.01, 0.02, "expected to be small"),
        (0.92, 0.05, 0.02, "not certain enough"),  # without a class mix 95 % are asked for
        (0.97, 0.05, 0.09, "the calibration error is not expected to fall"),
    ],
)
def test_the_reason_why_no_gain_is_promised_is_the_one_that_counts(share, gain, after, why):
    cal = calibration("no evidence")
    other = replace(
        cal,
        gain=tp.Interval(gain, 0.0, 0.1),
        ece_before=tp.Interval(0.08, 0.0, 0.1),
        ece_after=tp.Interval(after, 0.0, 0.1),
        details=cal.details | {"probability_of_gain": share},
    )
    assert why in texts.gain_sentence(other)


def test_a_gain_that_is_not_expected_is_not_called_open():
    cal = calibration("no evidence")
    wide = {"ece_before": tp.Interval(0.1, 0.0, 0.3), "verdict": "no-evidence"}
    assert texts.to_do(replace(cal, **wide, gain=tp.Interval(-0.01, -0.1, 0.1))) == texts.NO_GAIN
    assert texts.to_do(replace(cal, **wide, gain=tp.Interval(0.01, -0.1, 0.1))) != texts.NO_GAIN


def test_confidence_that_needs_no_correction_is_called_about_right():
    small, large = tp.Interval(0.01, 0.0, 0.03), tp.Interval(0.01, 0.0, 0.3)
    cal = replace(calibration("no evidence"), ece_before=small, ece_after=small)
    top = Page(cal.to_html()).text.partition("Mean confidence")[0]
    assert texts.ABOUT_RIGHT in top
    assert "by 3.0% at most" in top
    for other in (replace(cal, ece_after=large), replace(cal, verdict="improved")):
        assert texts.ABOUT_RIGHT not in Page(other.to_html()).text


def test_a_refusal_assumes_nothing_and_asks_for_what_is_missing():
    page = Page(tp.calibrate(simulated(500)[0]).to_html()).text
    assert "Nothing: no calibration was fitted." in page
    assert "Give at least one of the three." in page
    assert "The class mix of the target, even a rough one." in page


def test_the_page_has_a_title_a_date_and_the_name_of_the_model():
    cal = calibration("improved")
    text = cal.to_html(title="Ward <7>", model="net & co", date="2026-01-31")
    top = Page(text).text.partition("Verdict")[0]
    assert "<title>Ward &lt;7&gt;: improved</title>" in text
    assert "Ward <7> Model: net & co . Date: 2026-01-31." in top
    assert re.search(r"Date: \d{4}-\d\d-\d\d\.", Page(cal.to_html()).text)
    assert "Model:" not in Page(cal.to_html()).text


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"title": 7}, "title"),
        ({"model": ["a"]}, "model"),
        ({"date": np.zeros(0)}, "date"),
        ({"max_error": -0.1}, "max_error"),
        ({"max_error": "5%"}, "max_error"),
    ],
)
def test_what_no_page_can_be_called_is_refused(words, name):
    with pytest.raises(tp.InputError, match=name):
        report.to_html(calibration("improved"), **words)


def test_no_error_at_all_is_not_five_per_cent():
    assert (
        "at most 0% wrong answers"
        in Page(report.to_html(calibration("improved"), max_error=0)).text
    )


def test_no_private_words(case):
    kind, cal, _ = case
    words = Page(report.template("report.html.jinja").render(page_facts(cal, None))).text.lower()
    for word in ("typicality", "mended", "held against", "belief", "stretch"):
        assert word not in words
    assert not re.search(r"\bmaps?\b", texts.headline(cal, None) + texts.meaning(cal)), kind


def test_how_many_rows_were_read_is_said():
    cal = calibration("improved")
    n = cal.details["n_solved"]
    assert texts.sampling(cal) in Page(cal.to_html()).text
    large = replace(cal, details=cal.details | {"n_target": 9_000_000})
    assert f"{cal.details['n_read']:,} of the 9,000,000 target rows" in texts.sampling(large)
    fewer = replace(cal, details=cal.details | {"n_solved": n - 1})
    assert texts.sampling(fewer).endswith(f"the fit used {n - 1:,} of them.")


def test_labels_that_were_used_stand_beside_the_estimates():
    z, y = simulated(2000, seed=1)
    rows = calibration("improved").label_next(40)
    cal = calibration("improved").update(z[rows], y[rows])
    page = Page(cal.to_html())
    right = int((z[rows].argmax(axis=1) == y[rows]).sum())
    assert "Labels of 40 target rows were used." in page.text
    assert "every number about it here is an estimate" not in page.text
    measured = page.text.partition("Measured on 40 labelled rows")[2]
    assert measured.split()[0] == texts.percent(right / 40)
    low, high = binomtest(right, 40).proportion_ci(0.9, "wilson")
    assert cal.details["labelled"]["accuracy"][1:] == pytest.approx([low, high], abs=1e-4)
    before = texts.between(calibration("improved").details["accuracy_before"])
    assert f"Estimated before there were labels {before}" in page.text
    assert "label_next" not in page.text  # a word of Python
    assert "Label the rows listed below" in page.text


def test_a_class_mix_that_was_not_given_is_not_drawn():
    given, unknown = (Page(calibration(k).to_html()).text for k in ("improved", "estimated prior"))
    assert "it was said to occur" in given
    assert "it was said to occur" not in unknown
    assert "How often each class occurs was not given" in unknown


def test_a_refusal_shows_the_temperature_that_is_applied():
    home, labels = simulated(1000, drift=0.0)
    cal = tp.calibrate(simulated(12, seed=1)[0], [0.2] * 5, (home, labels))
    assert cal.verdict == "refused"
    assert cal.details["method"] == "source temperature"
    page = Page(cal.to_html())
    assert f"the labelled source, {cal.temperature.value:.3g}, is applied" in page.text
    assert "with the source's temperature" in page.words
    assert f"temperature 1 {cal.temperature.value:.2f} Confidence" in page.text  # no interval
    assert "All 12 target rows were read." in page.text
    assert texts.percent(cal.details["confidence_after"]) in page.text


def test_where_the_accuracy_is_hardly_known_labels_come_first():
    cal = calibration("improved")
    wide = replace(cal, accuracy=tp.Interval(0.6, 0.1, 0.9))
    assert texts.UNSURE in wide.to_html()
    assert 'class="verdict no-evidence"' in wide.to_html()
    assert texts.HEADLINES["improved"] in cal.to_html()


def test_on_the_demo_the_band_of_wrong_answers_holds_the_truth():
    from temperance.cli import demo

    table, cal = demo.load("rotated_60"), demo.compare(60).calibration
    p = cal.predict_proba(table.logits)
    order = np.argsort(-p.max(axis=1), kind="stable")
    wrong = np.cumsum(p.argmax(axis=1)[order] != table.labels[order])
    curves = cal.details["risk_coverage"]
    for share in (5, 10, 20, 30, 50, 100):
        n = table.n * share // 100
        assert curves["coverage"][share - 1] == pytest.approx(share / 100)
        truth = wrong[n - 1] / n
        assert curves["risk_after_low"][share - 1] <= truth <= curves["risk_after_high"][share - 1]


def test_the_file_is_the_page(tmp_path):
    cal = calibration("improved")
    text = cal.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == text
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]


def test_the_size_does_not_follow_the_rows():
    small, large = (
        len(tp.calibrate(simulated(n, seed=1)[0], [0.2] * 5).to_html()) for n in (500, 20_000)
    )
    assert abs(large - small) < 5_000


def test_the_summary_of_a_notebook(case):
    _, cal, _ = case
    summary = cal._repr_html_()
    page = Page(summary)
    assert f"Verdict: {cal.verdict}" in page.text
    assert ("calibrated" in page.words) == (cal.verdict != "refused")
    assert len(summary) < 20_000
    assert "<script" not in summary


@pytest.mark.parametrize(
    ("t", "note"),
    [(0.3, "below 1: surer"), (1.0, "left as it is"), (4.0, "above 1: less sure")],
)
def test_the_temperature_is_explained_on_its_own_side_of_one(t, note):
    cal = replace(calibration("improved"), temperature=tp.Interval(t, t, t))
    assert note in Page(cal.to_html()).text.partition("How sure")[0]


def test_plain_words():
    assert texts.percent(0.5) == "50%"
    assert texts.percent(0.004) == "0.4%"
    assert texts.percent(0) == "0%"
    assert texts.between(None) == "not known"
    assert "…" in texts.evidence_text({"classes": ["c"] * 20})


def test_histograms_are_drawn_from_the_counts():
    cal = calibration("improved")
    counts = cal.details["histograms"]
    page = cal.to_html()
    for look, key in zip(
        ("source", "before", "after"), ("source", "target_before", "target_after"), strict=True
    ):
        bars = re.findall(
            rf'<rect class="f-{look}" x="[\d.]+" width="([\d.]+)" y="[\d.]+" height="([\d.]+)"',
            page,
        )
        heights = [n for n in counts[key] if n]
        assert [float(height) for _, height in bars] == pytest.approx(
            [100 * n / max(heights) for n in heights], abs=0.01
        )
        assert all(float(width) == pytest.approx(100 / 15 - 0.6, abs=0.01) for width, _ in bars)
        tallest = texts.percent(max(heights) / sum(heights))
        assert f"The tallest bar holds {tallest} of the rows." in page
    drawn = context.histograms(cal)
    assert [one.look for one in drawn] == ["source", "before", "after"]
    assert drawn[1].confidence == cal.details["confidence_before"]
    assert list(drawn[2].accuracy) == list(cal.accuracy)
    looks = {kind: [one.look for one in context.histograms(calibration(kind))] for kind in KINDS}
    assert looks["without source"] == ["before", "after"]
    assert looks["refused"] == ["before"]


def test_lines_of_risk_rise_from_the_bottom_of_their_axis():
    curves = calibration("improved").details["risk_coverage"]
    chart = context.risk_chart({"risk_coverage": curves}, 0.05)
    ticks = re.findall(r'y="([\d.]+)%" text-anchor="end"[^>]*>([\d.]+)%', chart.plot)
    top = max(float(text) for _, text in ticks) / 100
    assert top >= max(curves["risk_before"] + curves["risk_after_high"])
    for place, text in ticks:
        assert 100 - float(place) == pytest.approx(float(text) / top)
    band, *lines = (
        [tuple(map(float, pair.split(","))) for pair in points.split()]
        for points in re.findall(r'points="([^"]+)"', chart.plot)
    )
    edges = curves["risk_after_high"] + curves["risk_after_low"][::-1]
    assert [1 - y / 100 for _, y in band] == pytest.approx([r / top for r in edges], abs=1e-4)
    for look, line in zip(("before", "after"), lines, strict=True):
        assert [x for x, _ in line] == pytest.approx([100 * c for c in curves["coverage"]])
        risk = curves[f"risk_{look}"]
        assert [1 - y / 100 for _, y in line] == pytest.approx([r / top for r in risk], abs=1e-4)


def test_the_decision_is_the_largest_share_whose_band_stays_below_the_error():
    curves = calibration("improved").details["risk_coverage"]
    high = curves["risk_after_high"]
    assert "answer all rows" in context.risk_chart({"risk_coverage": curves}, 1.0).decision
    for asked in (high[0], high[40]):
        last = max(i for i, end in enumerate(high) if end <= asked)
        said = context.risk_chart({"risk_coverage": curves}, asked).decision
        assert f"the surest {texts.percent(curves['coverage'][last])} of the rows" in said
    nothing = context.risk_chart({"risk_coverage": curves}, min(high) / 2).decision
    assert "answer no row" in nothing
    text = report.to_html(calibration("improved"), max_error=0.123)
    assert "at most 12.3% wrong answers" in text


def test_classes_that_are_not_shown_are_summed():
    few = _class_mix(calibration("improved").details)
    assert few["others"] is None
    assert len(few["rows"]) == 5
    facts = calibration("many classes").details
    many = _class_mix(facts)
    assert many["others"]["n"] + len(many["rows"]) == 1000
    shown = sum(row["predicted"] for row in many["rows"])
    assert many["others"]["predicted"] + shown == pytest.approx(sum(facts["predicted_mix"]))


def test_facts_of_very_many_classes_are_cut_and_marked():
    """Lists to their beginning and names to a line; what is short stays as it is."""
    cal = calibration("improved")
    n = 40_000
    long = replace(cal, details=cal.details | {"prior": [1 / n] * n, "classes": ["é" * 99] * n})
    assert len(json.dumps(long.to_dict(), ensure_ascii=False)) > MAX_FACTS_LENGTH
    text = str(_facts_json(long, None))
    inside = json.loads(text)
    assert len(text) < MAX_FACTS_LENGTH
    assert inside["details"]["prior"] == {"length": n, "first": [1 / n] * ENTRIES_KEPT}
    assert "éé" in text  # a letter is a letter, in the page too
    assert len(inside["details"]["classes"]["first"][0]) < 99
    assert inside["temperature"] == list(cal.temperature)
    assert inside["details"]["mix_after"] == cal.details["mix_after"]
    assert inside["details"]["n_target"] == cal.details["n_target"]

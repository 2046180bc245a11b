"""How pages are rendered: templates, what they share, and how numbers are written for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi.templating import Jinja2Templates
from markupsafe import Markup

from temperance_skin_lesion import quality, thresholds
from temperance_skin_lesion.classes import CLASSES, CODES, OTHER, SOURCES
from temperance_skin_lesion.decision import (
    DARK,
    FOREIGN,
    ORIENTATIONS,
    RULES,
    URGENCIES,
    urgency_reasons,
)
from temperance_skin_lesion.intake import MAX_BYTES, MAX_FILES
from temperance_skin_lesion.people import LOCAL
from temperance_skin_lesion.web import charts
from temperance_skin_lesion.web.plain import plain_alarm, plain_finding, plain_gain

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

    from temperance_skin_lesion.decision import Policy
    from temperance_skin_lesion.web.schemas import CaseOut

__all__ = ["DEMO_PICTURES", "POLICY_FIELDS", "error_page", "page", "wants_page"]

DEMO_PICTURES = 110

RULE_NAMES = {
    "melanoma-suspected": "melanoma suspected",
    "melanoma-not-excluded": "melanoma not excluded",
    "orientations-disagree": "depends on how the picture is turned",
    "threshold": "not probable enough",
    "cost": "an error would weigh too much",
    DARK: "skin tone not validated",
    "quality": "picture not fit",
    FOREIGN: "not a dermatoscopic picture",
    "melanoma-threshold": "melanoma suspected",
}

POLICY_FIELDS = {
    "threshold": ("An answer needs", "least probability of any answer"),
    "melanoma_threshold": ("The answer melanoma needs", "never below the first one"),
    "melanoma_ceiling": (
        "Melanoma is excluded up to",
        "no other answer while melanoma is more probable",
    ),
    "agreement": ("Orientations that agree", "of eight; fewer is a reason to refer"),
    "urgent_melanoma": ("Urgent from melanoma", "probability of melanoma"),
    "urgent_malignant": ("Urgent from malignant", "probability of any malignant lesion"),
    "soon_malignant": ("Soon from malignant", "probability of any malignant lesion"),
}
"""What people call the numbers of a policy, and what each is."""

templates = Jinja2Templates(directory=Path(__file__).parent / "templates")
templates.env.globals |= {
    "BROWN": quality.BROWN,
    "CLASSES": CLASSES,
    "DEMO_PICTURES": DEMO_PICTURES,
    "CODES": CODES,
    "FOREIGN": FOREIGN,
    "LIMITS": quality.LIMITS,
    "MALIGNANT": {c.code for c in CLASSES if c.malignant},
    "MAX_FILES": MAX_FILES,
    "MAX_MB": MAX_BYTES // 2**20,
    "NAMES": {c.code: c.name for c in CLASSES} | {OTHER: "Other"},
    "ORIENTATIONS": ORIENTATIONS,
    "POLICY_FIELDS": POLICY_FIELDS,
    "DARK": DARK,
    "RULES": RULES,
    "RULE_NAMES": RULE_NAMES,
    "SOURCES": SOURCES,
    "URGENCIES": URGENCIES,
}


def show(value: Any) -> str:
    """Evidence of a finding as text: numbers short, lists in a row."""
    if isinstance(value, list):
        return ", ".join(map(show, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    """A probability for people: whole percents, and one decimal where that would be none."""
    shown = 100 * value
    if 0 < shown < 0.1:
        return "<0.1 %"
    if 99.9 < shown < 100:
        return ">99.9 %"
    return f"{shown:.1f} %" if shown < 10 or shown > 90 else f"{shown:.0f} %"


def number(value: float) -> str:
    """A number of cases in a thousand for people: whole, and one decimal where that says more."""
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def ends(effect: dict[str, Any], key: str) -> tuple[float, float]:
    """Ends of the 90 % interval of a number of cases in a thousand."""
    n = effect.get("lesions") or effect["rows"]  # older comparisons know the rows alone
    _, low, high = thresholds.share_interval(min(effect[key], 1000), 1000, n)
    return 1000 * low, 1000 * high


def because(case: CaseOut, policy: Policy) -> str:
    """Say why a case has its urgency; empty for a picture that is to be taken again."""
    if not case.probabilities or case.urgency in {None, "retake"}:
        return ""
    p = np.array([case.probabilities[code] for code in CODES])
    dark = any(rule.rule == DARK for rule in case.rules or [])
    said = urgency_reasons(p, policy, str(case.urgency), dark=dark)
    return f"{str(case.urgency).capitalize()}: {'; '.join(said)}."


def when(at: str | None) -> Markup | str:
    """A time of the record for people: in UTC, and by the script in the time of the browser."""
    if not at:
        return "–"
    shown = at[:16].replace("T", " ")
    return Markup('<time datetime="{}">{} UTC</time>').format(at, shown)


templates.env.filters |= {
    "ends": ends,
    "because": because,
    "by_week": charts.by_week,
    "evidence": show,
    "gain": plain_gain,
    "number": number,
    "percent": percent,
    "plain": plain_finding,
    "rings": plain_alarm,
    "when": when,
}


def wants_page(request: Request) -> bool:
    """Whether a person is waiting, rather than a program."""
    return (
        "text/html" in request.headers.get("accept", "")
        and "x-fragment" not in request.headers
        and not request.url.path.startswith("/api/")
    )


def page(request: Request, name: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Render a page."""
    user = request.scope.get("user")  # None before the way in
    facts |= {
        "settings": request.app.state.settings,
        "model": request.app.state.assistant.model,
        "user": user,
        "accounts": user is not LOCAL,
    }
    return templates.TemplateResponse(request, name, facts, status_code=status)


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """Say what went wrong, with a way back."""
    if status == 404 and detail == "Not Found":
        detail = "There is no such page."
    came_from = re.match(r"/(rules|calibrations|cases)/\d+(?=/)", request.url.path)
    back = came_from.group() if came_from else None
    return page(request, "error.html", status, detail=detail, here="", failed=status, back=back)

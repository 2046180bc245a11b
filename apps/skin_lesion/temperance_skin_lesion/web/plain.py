"""Findings of the library in the words of a clinic; the library's own stand in the details."""

from __future__ import annotations

from typing import Any

__all__ = ["plain_finding"]

CHECK_MIX = "Check the stated mix; if it is only roughly known, say so."

FINDINGS = {
    "TP101": ("Every picture gets the same diagnosis.", "Check how the pictures were exported."),
    "TP102": (
        "Some diagnoses are expected here but are never the most probable one.",
        "Such lesions hide among the others; the rules must refer what is not sure.",
    ),
    "TP103": ("Diagnoses that the mix excludes are often the most probable ones.", CHECK_MIX),
    "TP104": ("The network finds another mix of diagnoses than the stated one.", CHECK_MIX),
    "TP105": (
        "The mix of diagnoses was estimated, as if nothing else were different here.",
        "State the mix you expect; an estimate is not knowledge.",
    ),
    "TP106": ("The stated mix contradicts the pictures.", CHECK_MIX),
    "TP107": ("With the stated mix, diagnoses would be right less often than before.", CHECK_MIX),
    "TP108": (
        "The mix of diagnoses cannot be estimated: the pictures themselves are different here.",
        "State the mix you expect; roughly is enough.",
    ),
    "TP201": (
        "The pictures look different from those of the training sites.",
        "Another camera, other light or other patients: expect more errors.",
    ),
    "TP202": (
        "The scores are of another size than at the training sites.",
        "The confidence of the network alone would mislead here.",
    ),
    "TP203": (
        "The calibration of the training sites does not suit these pictures.",
        "Label some pictures before relying on any confidence here.",
    ),
    "TP204": (
        "Only the mix of diagnoses differs from the training sites.",
        "That is the kind of difference which can be corrected.",
    ),
    "TP205": (
        "Some pictures are unlike any of the training sites.",
        "Look at them: they may show diseases that the network does not know.",
    ),
    "TP301": ("There are too few pictures.", "Collect more; a hundred or better a thousand."),
    "TP302": ("There are few pictures: the intervals are wide.", "Add pictures to narrow them."),
    "TP303": (
        "Some diagnoses are so rare here that the pictures say little about them.",
        "Add pictures, or rely on the rules for them.",
    ),
    "TP304": ("The labelled pictures are few.", "Every estimate is uncertain for that reason."),
    "TP401": (
        "The estimates of how often the network is right disagree.",
        "The intervals are wide for that reason; a few diagnoses would narrow them.",
    ),
    "TP402": (
        "The estimates of how often the network is right contradict each other.",
        "Enter the diagnoses of some of these lesions before relying on any confidence here.",
    ),
    "TP403": ("No calibration fits these pictures.", "Send pictures that differ more."),
    "TP404": (
        "It is possible that the network's own confidence was nearer to the truth.",
        "The probabilities are expected to gain even so; a few diagnoses would tell.",
    ),
    "TP501": (
        "Some of these pictures are among the labelled ones of the training sites.",
        "Send pictures of this clinic only.",
    ),
}


def plain_finding(finding: dict[str, Any]) -> tuple[str, str]:
    """Return what a finding says and what would help; the library's words where there are none."""
    return FINDINGS.get(finding["code"], (finding["title"], finding["advice"]))

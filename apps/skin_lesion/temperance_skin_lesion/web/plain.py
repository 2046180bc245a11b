"""Findings and alarms in the words of a clinic; the library's own stand in the details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from temperance_skin_lesion.store import MapRow
    from temperance_skin_lesion.weeks import Ring

__all__ = ["plain_alarm", "plain_finding", "plain_gain"]

SURE = 0.9
"""Probability from which a calibration is said to be closer to the truth."""

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
        "No mix of diagnoses was stated.",
        "Without it mainly the confidence is fitted; a rough mix of diagnoses says much more.",
    ),
    "TP106": ("The stated mix contradicts the pictures.", CHECK_MIX),
    "TP201": (
        "The pictures look different from those of the training sites.",
        "Another camera, other light or other patients: expect more errors.",
    ),
    "TP202": (
        "The scores are of another size than at the training sites.",
        "The confidence of the network alone would mislead here.",
    ),
    "TP205": (
        "Some pictures are unlike any of the training sites.",
        "Look at them: they may show diseases that the network does not know.",
    ),
    "TP206": (
        "No labelled pictures of the training sites were used.",
        "The weights that come with the package hold them.",
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
    "TP403": ("No calibration fits these pictures.", "Send pictures that differ more."),
    "TP404": (
        "It is possible that the network's own confidence was nearer to the truth.",
        "The probabilities are expected to gain even so; a few diagnoses would tell.",
    ),
    "TP406": (
        "Nothing is known but the scores of the network.",
        "State the mix of diagnoses, or enter some diagnoses.",
    ),
    "TP407": (
        "The diagnoses contradict what was estimated without them.",
        "The estimate follows them; were only suspicious lesions diagnosed, choose some at random.",
    ),
    "TP408": ("Diagnoses of this clinic were used.", "More of them narrow the intervals."),
    "TP501": (
        "Some of these pictures are among the labelled ones of the training sites.",
        "Send pictures of this clinic only.",
    ),
}


CHANGED = {
    "confidence": "the confidence of the network",
    "similarity": "the likeness of the pictures to those the network gets right",
    "class mix": "the mix of the most probable diagnoses",
}


def plain_alarm(ring: Ring) -> str:
    """Return what an alarm says and what would help, in the words of a clinic."""
    place = ring.segment.partition("=") if ring.segment else None
    where = f"{place[0].capitalize()} {place[2]}: " if place else ""
    if ring.kind == "change":
        what = " and ".join(CHANGED.get(one, one) for one in ring.what.split(", "))
        most = f", most of all for {', '.join(ring.classes)}" if ring.classes else ""
        lost = (
            f" Estimated loss: {100 * ring.loss:.0f} right diagnoses fewer in 100."
            if ring.loss is not None and ring.loss >= 0.005
            else ""
        )
        said = f"{what} changed{most}.{lost} Find out what is different: camera, light, patients?"
    elif ring.kind == "limit":
        said = "the gap between confidence and share right is larger than agreed. Consider a new "
        said += "calibration."
    else:
        said = "nothing can be estimated of these pictures. Look at some of them."
    return where + (said if where else said[0].upper() + said[1:])


def plain_gain(row: MapRow) -> tuple[str, str]:
    """Return whether a calibration is closer to the truth than the one in use was, and a sentence.

    The first is ``"sure"``, ``"unsure"`` or ``"doubtful"``. Older versions compared with the
    network alone.
    """
    closer, other = row.summary.get("closer"), f"calibration {row.summary.get('compared_with')}"
    if closer is None:
        sure, other = row.verdict in {"improved", "labelled"}, "the network's own confidence"
        said = "Expected to be" if sure else "No evidence that it is"
        return "sure" if sure else "unsure", f"{said} closer to the truth than {other}."
    share = f"{100 * closer:.0f} %"
    if closer >= SURE:
        said = f"Closer to the truth than {other}, with a probability of {share}"
        return "sure", f"{said} as far as these pictures tell."
    if closer >= 0.5:
        said = f"No evidence that it is closer to the truth than {other}: the probability is"
        return "unsure", f"{said} {share}, as far as these pictures tell."
    said = f"More probably farther from the truth than {other}: closer with a probability of only"
    return "doubtful", f"{said} {share}, as far as these pictures tell."


def plain_finding(finding: dict[str, Any]) -> tuple[str, str]:
    """Return what a finding says and what would help; the library's words where there are none."""
    return FINDINGS.get(finding["code"], (finding["title"], finding["advice"]))

"""What a form of the pages says, as the rest of the program takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException

from temperance_skin_lesion.assistant import Origin
from temperance_skin_lesion.classes import CODES
from temperance_skin_lesion.decision import Costs, Policy
from temperance_skin_lesion.web.messages import sentences
from temperance_skin_lesion.web.render import POLICY_FIELDS
from temperance_skin_lesion.web.schemas import PSEUDONYM, Mix

if TYPE_CHECKING:
    from starlette.datastructures import FormData, UploadFile

__all__ = ["files_in", "mix_in", "origin_in", "policy_in", "texts_in"]


def files_in(form: FormData) -> list[UploadFile]:
    """Return the uploaded files; an empty field of a browser sends a nameless one."""
    return [f for f in form.getlist("files") if not isinstance(f, str) and f.filename]


def texts_in(form: FormData) -> dict[str, str]:
    """Return the fields of a form that are no files."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


def origin_in(values: dict[str, str]) -> Origin:
    """Return where pictures come from, as far as a form says."""
    found = {name: values.get(name, "").strip() for name in ("lesion", "site", "camera")}
    for name, value in found.items():
        if not re.fullmatch(PSEUDONYM, value):
            raise HTTPException(
                422, f"{name} must have at most 40 letters, digits or . _ -; it is no name."
            )
    return Origin(**found)


def mix_in(values: dict[str, str]) -> Mix:
    """Return the class mix of a form, whose numbers are percent."""
    if "mix" not in values:
        raise HTTPException(422, "The mix of diagnoses: say first whether it is known here.")
    if values["mix"] == "unknown":
        return Mix.model_validate({"prior": None})
    try:
        shares = {code: float(values.get(f"mix-{code}", "")) / 100 for code in CODES}
    except ValueError:
        raise HTTPException(422, "The mix of diagnoses needs a number for each of them.") from None
    try:
        return Mix.model_validate({"prior": shares, "known": values["mix"]})
    except ValidationError as error:
        said = sentences(error.errors())
        raise HTTPException(422, f"The mix of diagnoses: {said}") from None


def policy_in(values: dict[str, str]) -> Policy:
    """Return the policy of a form, whose numbers are text."""

    def numbers(fields: Any) -> dict[str, Any]:
        return {
            name: _number(values[name], int if field.annotation is int else float)
            for name, field in fields.items()
            if name in values
        }

    try:
        return Policy.model_validate(
            {**numbers(Policy.model_fields), "costs": numbers(Costs.model_fields)}
        )
    except ValidationError as error:
        said = sentences(error.errors())
        for name, (words, _) in sorted(POLICY_FIELDS.items(), key=lambda x: -len(x[0])):
            said = re.sub(rf"\b{name}\b", f"“{words}”", said)
        raise HTTPException(422, said) from None


def _number(text: str, kind: type) -> Any:
    """Return the number that a field holds; other text is left for the check to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text

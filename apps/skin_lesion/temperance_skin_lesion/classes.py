"""The seven diagnoses, in the order of the ISIC 2018 challenge and of the paper's table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLASSES", "CODES", "MALIGNANT", "MELANOMA", "NAMES", "OTHER", "SOURCES", "Diagnosis"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A class of the model: its HAM10000 code and what a person calls it."""

    code: str
    name: str
    malignant: bool


CLASSES = (
    Diagnosis("mel", "Melanoma", malignant=True),
    Diagnosis("nv", "Melanocytic nevus", malignant=False),
    Diagnosis("bcc", "Basal cell carcinoma", malignant=True),
    # Actinic keratosis is a precursor and Bowen's disease a carcinoma in situ: both are treated.
    Diagnosis("akiec", "Bowen's disease / actinic keratosis", malignant=True),
    Diagnosis("bkl", "Benign keratosis", malignant=False),
    Diagnosis("df", "Dermatofibroma", malignant=False),
    Diagnosis("vasc", "Vascular lesion", malignant=False),
)
CODES = tuple(diagnosis.code for diagnosis in CLASSES)
NAMES = tuple(diagnosis.name for diagnosis in CLASSES)
MELANOMA = CODES.index("mel")
MALIGNANT = [k for k, diagnosis in enumerate(CLASSES) if diagnosis.malignant]
"""Places of the malignant and premalignant classes."""

OTHER = "other"
"""A later diagnosis that the model does not know."""

SOURCES = ("histology", "follow-up", "expert", "confocal", "unknown")
"""How a later diagnosis was made, the surest first."""

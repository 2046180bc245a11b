"""Print the quantiles of picture quality on the validation pictures: the limits of the application.

python lab/experiments/skin_lesion/quality.py
"""

from __future__ import annotations

import os
from pathlib import Path

import ham10000
import numpy as np

from temperance_skin_lesion.quality import Quality, measure

SHARES = (0, 0.001, 0.005, 0.5, 0.995, 0.999, 1)


def main() -> None:
    """Print one line for each measure."""
    data = ham10000.load(Path(os.environ["TEMPERANCE_DATA"]) / "ham10000_64")
    _, validation = ham10000.split(data, 0.2)
    found = np.array([measure(image) for image in validation.images])
    print(f"{'':10}", *(f"{100 * share:g} %".rjust(8) for share in SHARES))
    for name, values in zip(Quality._fields, found.T, strict=True):
        print(f"{name:10}", *(f"{q:8.4f}" for q in np.quantile(values, SHARES)))


if __name__ == "__main__":
    main()

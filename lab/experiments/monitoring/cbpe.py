"""NannyML's CBPE on windows of others: run by `run.py` in an environment of its own.

    python cbpe.py IN.npz OUT.json

IN has ``source_p``, ``source_y`` and ``window_0, window_1, …``, probabilities of windows of equal
size. OUT has the estimated accuracy, F1 and AUC of each window, and whether the accuracy is an
alert by NannyML's own thresholds.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

warnings.simplefilter("ignore")

import nannyml  # noqa: E402
import pandas as pd  # noqa: E402

METRICS = ("accuracy", "f1", "roc_auc")


def table(p: Any, y: Any = None) -> Any:
    """Return probabilities in the columns that NannyML reads."""
    frame = pd.DataFrame({f"p{k}": p[:, k] for k in range(p.shape[1])})
    frame["predicted"] = p.argmax(axis=1)
    if y is not None:
        frame["y"] = y
    return frame


def main() -> None:
    """Estimate all windows of one source."""
    with np.load(sys.argv[1]) as data:
        source_p, source_y = data["source_p"], data["source_y"]
        windows = [data[f"window_{i}"] for i in range(len(data.files) - 2)]
    k, size = source_p.shape[1], len(windows[0])
    scores = "p1" if k == 2 else {i: f"p{i}" for i in range(k)}
    estimator = nannyml.CBPE(
        y_pred_proba=scores,
        y_pred="predicted",
        y_true="y",
        metrics=list(METRICS),
        chunk_size=size,
        problem_type="classification_binary" if k == 2 else "classification_multiclass",
    )
    estimator.fit(table(source_p, source_y))
    rows = pd.concat([table(p) for p in windows], ignore_index=True)
    found = estimator.estimate(rows).filter(period="analysis").to_df()
    out = [
        {name: float(found[(name, "value")][i]) for name in METRICS}
        | {"alert": bool(found[("accuracy", "alert")][i])}
        for i in range(len(windows))
    ]
    Path(sys.argv[2]).write_text(json.dumps(out), "utf-8")


if __name__ == "__main__":
    main()

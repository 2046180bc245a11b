"""PyTorch: logits out of a model and a loader, and a calibrated module back into PyTorch.

Fits need none of this: they take tensors as they are. What is here is what happens before a fit
(run a model over a loader, flatten dense predictions) and after it (put the map behind the model,
export both).
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    msg = "temperance.torch needs the package torch: pip install temperance[torch]."
    raise ModuleNotFoundError(msg, name="torch") from None

from temperance.interop.torch.collect import collect_logits, stream_logits
from temperance.interop.torch.dense import dense_logits
from temperance.interop.torch.module import CalibratedModule

__all__ = ["CalibratedModule", "collect_logits", "dense_logits", "stream_logits"]

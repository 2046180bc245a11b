"""Over time: windows of a model in use, their estimates, and alarms at a stated rate.

The modules in the order in which they work: `window` estimates one window, `change` compares it
with the reference, `alarms` decides what rings, `monitor` keeps the list, `state` the file, and
`export` hands numbers to others. What a monitor holds is a set of records, each written once; all
that is shown is computed from the records in the order of their dates, so that late windows, late
labels and the records of another machine need no rule of their own.
"""

from __future__ import annotations

from temperance.monitor.alarms import Alarm, Limits
from temperance.monitor.monitor import Monitor, Proposal
from temperance.monitor.window import Estimates, Window

__all__ = ["Alarm", "Estimates", "Limits", "Monitor", "Proposal", "Window"]

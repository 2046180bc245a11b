"""Arrays, checks, kernels and solvers that every other part stands on."""

from __future__ import annotations

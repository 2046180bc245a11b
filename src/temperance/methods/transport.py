"""Optimal transport of predicted probabilities to labels with a given class mix.

Between the probabilities p of a row and a one-hot label e_y, ½ ‖p - e_y‖₁ = 1 - p_y. The cheapest
way to give labels with class mix q to rows of weight w_i therefore costs 1 - V,

    V = max_m Σ_ik m_ik p_ik      with Σ_k m_ik = w_i, Σ_i m_ik = q_k                (primal)
      = min_v F(v),               F(v) = Σ_i w_i max_k (p_ik + v_k) - Σ_k q_k v_k    (dual)

The dual has K variables, however many rows. Its maximum is smoothed to ε log Σ_k exp(· / ε), whose
derivatives are those of a softmax s_i = softmax((p_i + v) / ε),

    gradient  Σ_i w_i s_i - q,        curvature  (diag(Σ_i w_i s_i) - Σ_i w_i s_i s_iᵀ) / ε,

and minimised by SciPy's trust-region Newton method while ε falls, until the cost of the plan
m_i = w_i s_i exceeds that of the dual by no more than VALUE_TOLERANCE.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from temperance._core.arrays import Floats

VALUE_TOLERANCE = 3e-5  # of V
EPSILON, COOLING, LEAST_EPSILON = 0.1, 0.3, 1e-6  # first ε, ratio of two, smallest
MISPLACED = 3e-4  # norm of (class shares - q) / √q that ends the search for one ε
NEWTON_STEPS = 20  # of Newton's method for one ε


class Transport(NamedTuple):
    """The solution: potentials v, the value V = F(v), and the share of each row in each class."""

    potentials: Floats
    value: float
    shares: NDArray[Any]


def solve_transport(p: NDArray[Any], q: Floats, weight: Floats | None = None) -> Transport:
    """Return the transport of rows of probabilities, with weights, to labels with class mix q."""
    used = q > 0
    cost, quota = p[:, used].astype(np.float32), q[used]
    w = np.full(len(p), 1 / len(p)) if weight is None else weight
    mass, root = w.astype(np.float32), np.sqrt(quota)
    plan = _Plan(cost, mass)

    def smoothed_dual(x: Floats) -> tuple[float, Floats]:
        plan.move(x / root)
        return plan.value - float(quota @ (x / root)), (plan.class_shares - quota) / root

    def curvature_times(x: Floats, direction: Floats) -> Floats:
        plan.move(x / root)
        return plan.curvature_times(direction / root) / root

    # In units of √q every class has about the same curvature; v is measured in units of ε.
    v, eps = np.zeros(len(quota)), EPSILON
    options = {"gtol": MISPLACED, "maxiter": NEWTON_STEPS, "max_trust_radius": 1e3}
    settings: dict[str, Any] = {"jac": True, "method": "trust-ncg", "options": options}
    while True:
        plan.smooth(eps)
        found: Any = minimize(smoothed_dual, v / eps * root, hessp=curvature_times, **settings)
        v = found.x / root * eps
        plan.move(v / eps)
        v = v - quota @ v
        best = (cost + v.astype(np.float32)).max(axis=1)
        value = float(w @ best)  # q · v = 0
        planned = float(w @ np.einsum("ij,ij->i", plan.shares, cost)) + float(plan.class_shares @ v)
        if value - planned < VALUE_TOLERANCE or eps < LEAST_EPSILON:
            break
        eps *= COOLING
    potentials = np.full(len(q), -np.inf)
    potentials[used] = v
    shares = np.zeros(p.shape, dtype=np.float32)
    shares[:, used] = plan.shares
    return Transport(potentials, value, shares)


class _Plan:
    """The shares s_i = softmax((p_i + v) / ε) at the last point asked for, in units of ε."""

    def __init__(self, cost: NDArray[np.float32], mass: NDArray[np.float32]) -> None:
        self._cost, self._mass = cost, mass

    def smooth(self, eps: float) -> None:
        self._scaled, self._at = self._cost * np.float32(1 / eps), None

    def move(self, u: Floats) -> None:
        """Compute the shares, their weighted mean and the smoothed maximum at v = ε u."""
        if self._at is not None and np.array_equal(u, self._at):
            return
        s = self._scaled + u.astype(np.float32)
        top = s.max(axis=1)
        s -= top[:, None]
        np.exp(s, out=s)
        total = s.sum(axis=1)
        s /= total[:, None]
        self.shares, self._at = s, u.copy()
        self.class_shares = (self._mass @ s).astype(np.float64)
        self.value = float((self._mass * (top + np.log(total))).sum(dtype=np.float64))

    def curvature_times(self, direction: Floats) -> Floats:
        d = direction.astype(np.float32)
        return self.class_shares * direction - (self._mass * (self.shares @ d)) @ self.shares

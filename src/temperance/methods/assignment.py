"""The transportation problem of n rows and K classes, solved exactly on the graph of the classes.

    max Σ_ik m_ik p_ik      with  Σ_k m_ik = 1,  Σ_i m_ik = quota_k,  m ≥ 0

The Hungarian method (Kuhn, 1955; Jonker and Volgenant, 1987) with rows gathered by class. Every row
starts at ``argmax_k p_ik + v_k``, which is optimal for the counts it happens to give. Then, until
the quotas are met, rows move along shortest paths from classes with too many to classes with too
few, where the edge a → b costs the least loss of a row,

    W_ab = min_{i in a} (p_ia + v_a) - (p_ib + v_b) ≥ 0,

and v is raised by the distances, which keeps all costs non-negative and makes the paths free. The
work is in K × K, whatever n; integer quotas leave no row divided.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Index = NDArray[np.int64]

DUST = 1e-9  # mass that rounding leaves behind


class Assignment:
    """Rows by class, with potentials v under which no row would rather be elsewhere.

    Parameters
    ----------
    p : array of shape (n, K)
        What each row gains in each class.
    potentials : array of shape (K,)
        A first guess; the better it is, the fewer rows have to move.
    tie : float
        Rows whose losses differ by less move together; the mean gain is at most about this much
        below the best.
    """

    def __init__(self, p: NDArray[Any], potentials: Vector, tie: float) -> None:
        self.p, self.v, self.tie = p, potentials.copy(), tie
        labels = _argmax(p, potentials)
        k = p.shape[1]
        self.count = np.bincount(labels, minlength=k).astype(np.float64)
        ends = np.cumsum(np.bincount(labels, minlength=k))[:-1]
        self.rows: list[Index] = np.split(np.argsort(labels, kind="stable"), ends)
        self.mass: list[Vector] = [np.ones(len(rows)) for rows in self.rows]
        self.cost = np.full((k, k), np.inf)
        self.cheapest = np.full((k, k), -1, dtype=np.int64)
        for a in range(k):
            self._refresh(a, np.arange(k, dtype=np.int64))

    def meet(self, quota: Vector, worth: float = 0.0) -> None:
        """Move rows until every class holds its quota.

        With ``worth``, stop as soon as a round lowers the dual by less; v is then near its optimum,
        while the last rows, which go one by one, are still out of place.
        """
        while True:
            excess = self.count - quota
            if excess.max() <= DUST * len(self.p):
                return
            distance, before = self._distances(excess > DUST)
            if -float(excess @ distance) < worth * len(self.p):
                return
            self.v += distance
            self.cost = np.maximum(self.cost + distance[:, None] - distance, 0.0)
            short = np.flatnonzero(excess < -DUST)
            for b in short[np.argsort(distance[short])]:
                self._send(int(b), before, quota)

    def settle(self, quota: Vector) -> None:
        """Send the rows that are left over straight to the classes that lack rows.

        Each move is the cheapest of its moment, not part of the best plan. For whole rows.
        """
        for b in np.flatnonzero(self.count < quota):
            over = np.flatnonzero(self.count > quota)
            rows = np.concatenate([self.rows[a] for a in over])
            home = np.repeat(over, [len(self.rows[a]) for a in over])
            loss = self.p[rows, home] + self.v[home] - self.p[rows, b]
            for i in np.argsort(loss, kind="stable"):
                a = home[i]
                if self.count[a] > quota[a]:
                    stays = self.rows[a] != rows[i]
                    self.rows[a], self.mass[a] = self.rows[a][stays], self.mass[a][stays]
                    self.rows[b] = np.append(self.rows[b], rows[i])
                    self.mass[b] = np.append(self.mass[b], 1.0)
                    self.count[a] -= 1
                    self.count[b] += 1
                    if self.count[b] >= quota[b]:
                        break

    def labels(self) -> Index:
        """Return the class of each row; the heaviest part decides for a row that is divided."""
        heaviest, out = np.zeros(len(self.p)), np.zeros(len(self.p), dtype=np.int64)
        for k, (rows, mass) in enumerate(zip(self.rows, self.mass, strict=True)):
            wins = mass > heaviest[rows]
            out[rows[wins]] = k
            heaviest[rows[wins]] = mass[wins]
        return out

    def _losses(self, rows: Index, a: int, columns: Any) -> Vector:
        """What rows of class a lose by going to the classes ``columns``."""
        own = self.p[rows, a].astype(np.float64) + self.v[a]
        return own[:, None] - self.p[rows[:, None], columns] - self.v[columns]

    def _refresh(self, a: int, columns: Index) -> None:
        """Look for the cheapest row of class a for each of some destinations."""
        if len(self.rows[a]) == 0:
            self.cost[a, columns] = np.inf
            return
        losses = self._losses(self.rows[a], a, columns)
        best = losses.argmin(axis=0)
        self.cost[a, columns] = np.maximum(losses[best, np.arange(len(columns))], 0.0)
        self.cheapest[a, columns] = self.rows[a][best]

    def _distances(self, over: NDArray[np.bool_]) -> tuple[Vector, Index]:
        """Shortest distance of each class from the overfull ones, and the class before it."""
        k = len(over)
        distance = np.where(over, 0.0, np.inf)
        before = np.full(k, -1, dtype=np.int64)
        fresh = np.flatnonzero(over)
        while len(fresh):
            through = distance[fresh, None] + self.cost[fresh]
            best = through.argmin(axis=0)
            length = through[best, np.arange(k)]
            shorter = length < distance - 1e-14
            distance[shorter] = length[shorter]
            before[shorter] = fresh[best[shorter]]
            fresh = np.flatnonzero(shorter)
        return distance, before

    def _send(self, end: int, before: Index, quota: Vector) -> None:
        """Move as much mass as goes along the free path that ends in class ``end``."""
        path = [end]
        while before[path[-1]] >= 0:
            path.append(int(before[path[-1]]))
            if self.cost[path[-1], path[-2]] > self.tie:
                return  # an earlier path of this round has used the rows
        start = path[-1]
        if self.count[start] - quota[start] <= DUST:
            return
        amount = min(self.count[start] - quota[start], quota[end] - self.count[end])
        steps: list[tuple[int, int, Index]] = []
        for b, a in itertools.pairwise(path):
            losses = self._losses(self.rows[a], a, [b])[:, 0]
            free = np.flatnonzero(losses <= self.tie)
            free = free[np.argsort(losses[free])]
            amount = min(amount, self.mass[a][free].sum())
            steps.append((a, b, free))
        if amount <= DUST:  # an earlier path of this round has used the rows or the excess
            return
        for a, b, free in steps:
            self._move(a, b, free, float(amount))
        self.count[start] -= amount
        self.count[end] += amount

    def _move(self, a: int, b: int, free: Index, amount: float) -> None:
        """Move ``amount`` of the mass of some rows of class a to class b."""
        ahead = np.cumsum(self.mass[a][free]) - self.mass[a][free]
        take = np.minimum(self.mass[a][free], amount - ahead)
        free, take = free[take > DUST], take[take > DUST]
        moved = self.rows[a][free]
        self.mass[a][free] -= take
        stays = self.mass[a] > DUST
        gone = self.rows[a][~stays]
        self.rows[a], self.mass[a] = self.rows[a][stays], self.mass[a][stays]
        self._refresh(a, np.flatnonzero(np.isin(self.cheapest[a], gone)))
        self.rows[b] = np.append(self.rows[b], moved)
        self.mass[b] = np.append(self.mass[b], take)
        losses = self._losses(moved, b, np.arange(len(self.v)))
        best = losses.argmin(axis=0)
        cost = np.maximum(losses[best, np.arange(len(self.v))], 0.0)
        better = cost < self.cost[b]
        self.cost[b, better] = cost[better]
        self.cheapest[b, better] = moved[best[better]]


def _argmax(p: NDArray[Any], v: Vector) -> Index:
    size = max(1, (1 << 16) // p.shape[1])
    parts = [(p[s : s + size] + v).argmax(axis=1) for s in range(0, len(p), size)]
    return np.concatenate(parts)

"""A source and a shifted target whose best map is known in closed form.

A row of class y is x = a e_y + c + noise, noise standard normal in each of K coordinates, and the
model reports z = s x. By Bayes' rule p(y = k | x) ∝ q_k exp(a (x_k - c_k)), so the calibrated map
is z/T + b with T = s/a and b = log q - a c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import temperance as tp

UNSEEN = 20_000


@dataclass(frozen=True)
class Scene:
    source: tuple[np.ndarray, np.ndarray]
    target: np.ndarray
    labels: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray]
    prior: np.ndarray
    temperature: float
    bias: np.ndarray


def draw(rng, n, q, *, signal, scale, offset):
    """Logits and labels of n rows."""
    y = rng.choice(len(q), size=n, p=q)
    x = signal * np.eye(len(q))[y] + offset + rng.normal(size=(n, len(q)))
    return scale * x, y


def shifted(
    *, k=10, n=4000, home=3.0, signal=2.0, scale=2.0, stretch=1.0, offset=None, prior=None, seed=0
):
    """A source of signal ``home``, and a target of another signal, scale, offset and class mix."""
    rng = np.random.default_rng(seed)
    flat = np.full(k, 1 / k)
    q = flat if prior is None else np.asarray(prior)
    c = np.zeros(k) if offset is None else np.asarray(offset)
    source = draw(rng, n, flat, signal=home, scale=scale, offset=np.zeros(k))
    z, y = draw(rng, n, q, signal=signal, scale=scale * stretch, offset=c)
    held_out = draw(rng, 10_000, q, signal=signal, scale=scale * stretch, offset=c)
    bias = np.log(q) - signal * c
    return Scene(source, z, y, held_out, q, scale * stretch / signal, bias - bias.mean())


def any_shift(seed, *, overconfident):
    """A shift drawn at random: classes, rows, loss of signal, scale, offset and class mix vary.

    ``overconfident=False``: a model of any sharpness, down to too little, 2 to 20 classes, large
    offsets. Otherwise a model too sure of itself at home (T = 1.5 to 4.5), 3 to 20 classes, smaller
    offsets. Constants were chosen with seeds below `UNSEEN` in view; verdicts are judged above.
    """
    rng = np.random.default_rng(seed)
    k = int(rng.choice([3, 5, 10, 20] if overconfident else [2, 3, 5, 10, 20]))
    home = rng.uniform(2.0, 4.0)
    return shifted(
        k=k,
        n=int(rng.choice([500, 1000, 3000] if overconfident else [300, 1000, 3000])),
        home=home,
        signal=home * rng.uniform(0.5 if overconfident else 0.4, 1.0),
        scale=home * np.exp(rng.uniform(0.4 if overconfident else -0.5, 1.5)),
        stretch=np.exp(rng.normal(0, 0.2 if overconfident else 0.3)),
        offset=rng.normal(0, rng.uniform(0, 0.5 if overconfident else 1.0), size=k),
        prior=rng.dirichlet(np.full(k, 10.0 if overconfident else 5.0)),
        seed=seed,
    )


LABELLED = 40  # first rows of the target, which the settings with labels use


def what_users_know(s):
    """Yield what users know of a scene, in every combination that answers, each with its name."""
    few = s.target[:LABELLED], s.labels[:LABELLED]
    yield "mix and source", {"prior": s.prior, "source": s.source}
    yield "rough mix", {"prior": tp.about(s.prior, rows=100), "source": s.source}
    yield "range", {"prior": np.column_stack([s.prior / 2, np.minimum(1, 2 * s.prior)])}
    yield "no mix", {"source": s.source}
    yield "no source", {"prior": s.prior}
    yield "labels", {"labelled": few}
    yield "source and labels", {"source": s.source, "labelled": few}
    yield "all", {"prior": s.prior, "source": s.source, "labelled": few}

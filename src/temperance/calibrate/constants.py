"""Every constant that decides something in `temperance.calibrate`, in one place.

Fitted constants were chosen on families of models and shifts, each judged with its own family left
out (`lab/experiments/labelfree`); they are rounded, since the suite cannot tell 0.38 from 0.40.
Policy constants are choices. Numerical constants change no answer that anybody could notice.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fitted:
    """Constants chosen by leave-one-family-out over images, text and tables."""

    # Weights of the accuracy estimates: how often each one was the nearest to the truth.
    calibrated: float = 0.35
    rescaled: float = 0.3
    shifted: float = 0.35
    # Change of the log-odds of the weight of `shifted`, at most, where meeting the class mix makes
    # rows less or more similar to those of the source.
    offset: float = 1.5
    # Weight of the second of two estimates, times the squared accuracy at home, where it is the
    # lower one; of the rest of 1 where it is the higher one.
    lower: float = 0.9
    # Log-odds by which `calibrated` may miss the accuracy of the source itself; more is made good.
    missed_at_home: float = 0.5
    # Weight of nearness in the layer before the logits, where that layer is given and no mix is.
    near: float = 0.5
    # A shift costs a model more than its rescaled probabilities admit: that often as much.
    stretch: float = 1.5
    # Exponent of the share of rows whose class the mix leaves alone, per unit of log(1 / error).
    histogram: float = 0.7
    # Weight of the model's own probabilities, against a transport, where there is no source.
    own: float = 0.8
    # Variance of an estimate around the truth, in log-odds: it grows with the square of the
    # distance from the accuracy at home.
    variance: float = 0.03
    growth: float = 0.07
    growth_without_mix: float = 0.2
    variance_without_source: float = 0.3
    # Errors below an estimate, over errors above: a shift may cost what logits do not show.
    skew: float = 1.25
    # Log-odds that a stated mix is right: mix_odds, less mix_slope times the fall of the mean
    # confidence by meeting the mix, per unit of its distance from the model's own class means; more
    # by mix_shift times the fall of the log-odds of `similar` since the source; less by
    # mix_distance times the cube of the distance, where rows are such as the model knows.
    mix_odds: float = 2.5
    mix_slope: float = 5.0
    mix_shift: float = 1.0
    mix_distance: float = 40.0
    # Less for a mix that only repeats that of the source: mostly a default, seldom a count.
    repeated_mix: float = 6.0
    # Probability, before labels are seen, that a class mix holds which logits alone speak against:
    # the stated one or, where none is stated, that of the source.
    allowed_mix: float = 0.1
    # Error of a map whose accuracy and class mix are right: of log T, and of a class bias.
    temperature_error: float = 0.2
    bias_error: float = 0.4
    # Exponent of the loss of labels: from 0, the log score, to 1, the Brier score.
    robustness: float = 0.15
    # Error of log T where nothing but labels is known.
    temperature_error_alone: float = 1.5
    # Log evidence that errors of the bias twice or half as wide have to bring.
    width_evidence: float = 1.0
    # Share of the labels' information that intervals trust: no map of this form is quite right.
    label_information: float = 0.75


@dataclass(frozen=True)
class Policy:
    """Choices about what is said, and when."""

    improved_probability: float = 0.9  # probability of a gain from which "improved" is said
    improved_without_mix: float = 0.95  # the same where a class mix is not known, nor labels
    improved_gain: float = 0.02  # expected fall of the Brier score from which it is said
    error_probability: float = 0.6  # that the calibration error falls, from which it is said
    doubted_mix: float = 0.5  # probability below which a stated mix is called doubtful
    least_rows: int = 30  # below this nothing is fitted
    few_rows: int = 200  # below this a warning is given
    rows_per_class: int = 5  # expected rows below which a class mix says little of a class
    excluded: float = 1e-9  # share of a class that as good as never occurs
    to_label: int = 200  # rows listed for labelling
    level: float = 0.9  # coverage of all intervals


@dataclass(frozen=True)
class Numerical:
    """Budgets and tolerances."""

    max_rows: int = 3_000  # of the sample on which maps are solved
    min_rows: int = 512  # of the same sample, however many classes there are
    max_elements: int = 100_000  # rows times classes of the same sample
    chance: float = 1.05  # accuracies are at least this many times 1/K
    sharpest: float = 0.7  # least factor of the source's temperature, at equal scale
    sharpest_without_source: float = 0.1  # least temperature where there is no source
    widest: float = 40.0  # largest factor of the source's temperature
    merged: float = 0.2  # width of the bins of log-odds in which accuracies are solved as one
    newton_classes: int = 128  # most classes for which K x K equations are solved
    draws: int = 32  # plausible maps where labels are given
    bias_doublings: int = 2  # widths of its errors up to 4 times as large are tried with labels
    bias_classes: int = 1_000  # beyond which labels move the temperature alone
    label_shrinkage: float = 1.5  # noise of a class mix that is taken off, in its own units
    mask: float = 1e4  # a logit that far below the largest of its row is a mask


FITTED, POLICY, NUMERICAL = Fitted(), Policy(), Numerical()

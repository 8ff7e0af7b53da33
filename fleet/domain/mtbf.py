"""The mean time between failures as an estimate: what so many failures in so much time say, and how surely.

Owns the interval of confidence of a Poisson process. Must not know whose failures they are.

With k failures in a time T the estimate is T/k, and T/Q(k+1, 97.5 %) to T/Q(k, 2.5 %) holds the true mean with 95 %
confidence, where Q is the quantile of the gamma distribution of that shape and scale 1 (half the quantile of chi-square with
twice as many degrees of freedom: the usual interval of a test that ends at a set time). Without a failure there is a bound
only, by the rule of three.
"""

import math
from typing import Final

from msgspec import Struct

from fleet.domain.availability import RULE_OF_THREE

CONFIDENCE: Final = 0.95
_NEGLIGIBLE = 1e-17


class Mtbf(Struct, frozen=True):
    """`observed_s`: up time in which so many failures were counted; both of what was counted, not of a group made of it.

    `mean_s`: None without a failure. `least_s` to `most_s`: 95 % sure; `most_s` is None without a failure, `least_s` without up
    time.
    """

    failures: int
    observed_s: float
    mean_s: float | None = None
    least_s: float | None = None
    most_s: float | None = None

    @property
    def planning_s(self) -> float | None:
        """What to plan with: the estimate, else the bound, which errs towards saving too often. None: nothing is known."""
        return self.least_s if self.mean_s is None else self.mean_s

    def of_group(self, members: int) -> "Mtbf":
        """Of a group that fails whenever one of its equal, independent members does: rates add. `members` is at least 1."""
        mean_s, least_s, most_s = (None if s is None else s / members for s in (self.mean_s, self.least_s, self.most_s))
        return Mtbf(self.failures, self.observed_s, mean_s, least_s, most_s)


def estimate(failures: int, observed_s: float) -> Mtbf:
    """Of `failures` in `observed_s`; both are 0 or more."""
    if observed_s <= 0:
        return Mtbf(failures, observed_s)
    if not failures:
        return Mtbf(0, observed_s, least_s=observed_s / RULE_OF_THREE)
    tail = (1 - CONFIDENCE) / 2
    least_s = observed_s / gamma_quantile(failures + 1, 1 - tail)
    return Mtbf(failures, observed_s, observed_s / failures, least_s, observed_s / gamma_quantile(failures, tail))


def gamma_quantile(shape: int, share: float) -> float:
    """The x that a gamma variable of a whole shape and scale 1 stays under with probability `share` (above 0, below 1)."""
    low, high = 0.0, float(shape)
    while gamma_cdf(shape, high) < share:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gamma_cdf(shape, middle) < share else (low, middle)
    return high


def gamma_cdf(shape: int, x: float) -> float:
    """P(X ≤ x), which is the chance of at least `shape` events where x are expected: 1 − e^(−x) Σ x^i / i!, i < shape.

    Of the two tails the one whose terms fall from the first on is summed, so only about √shape terms count.
    """
    if x <= 0:
        return 0.0
    if x < shape:
        return _tail(x, shape, 1)
    return 1 - _tail(x, shape - 1, -1)


def _tail(x: float, first: int, step: int) -> float:
    """The sum of Poisson's probabilities from `first` on, upwards or downwards."""
    term = math.exp(first * math.log(x) - x - math.lgamma(first + 1))
    total, i = 0.0, first
    while i >= 0 and term > _NEGLIGIBLE * total:
        total += term
        term *= x / (i + 1) if step > 0 else i / x
        i += step
    return total

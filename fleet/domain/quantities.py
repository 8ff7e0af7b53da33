"""Kubernetes quantities ("8", "500m", "3.5Gi", "1e3") as exact numbers.

Owns the text format alone; which quantity means what is the business of its reader.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_FORMAT = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?\d{1,3}|[KMGTPE]i|[numkMGTPE])?", re.ASCII)

_FACTORS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


@lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """The exact value (resource.Quantity of apimachinery). Raises ValueError."""
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text[:40]!r}")
    number, suffix = match.groups(default="")
    if suffix in _FACTORS:
        return Fraction(number) * _FACTORS[suffix]
    return Fraction(number + suffix)


def is_quantity(text: str) -> bool:
    return _FORMAT.fullmatch(text) is not None


def whole(text: str) -> int:
    """The value as a whole number, rounded up as `Quantity.Value()` does; extended resources are whole. Raises ValueError."""
    return ceil(quantity(text))

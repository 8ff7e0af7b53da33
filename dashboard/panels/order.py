"""The order of names in every list: as a person counts. Must not know what the names stand for."""

import functools
import re

Key = tuple[list[tuple[int, str]], str]


@functools.lru_cache(maxsize=100_000)
def natural(name: str) -> Key:
    """Sort key: runs of digits by their number, the rest by its characters. The browser sorts alike."""
    parts = re.split(r"([0-9]+)", name)
    return [(len(p.lstrip("0")), p.lstrip("0")) if i % 2 else (0, p) for i, p in enumerate(parts)], name

"""Pages in Prometheus' text format, one sample after the other.

Owns the syntax and its bounds. Must not know what a metric means. A line that cannot be read is left out, and the rest counts:
the parser of prometheus-client gives a page up at its first odd value, such as "[N/A]", and needs 0.1 ms for a sample, which is
three cores for the exporters of a thousand nodes.
"""

import re
from collections.abc import Container, Iterator
from typing import Final

LONGEST_LINE: Final = 16_384
MOST_SAMPLES: Final = 100_000  # of one page; eight GPUs cut into seven instances have about 5,000

_LABEL: Final = re.compile(r'[ \t]*([A-Za-z_]\w{0,127})[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(,|$)', re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n"}

Sample = tuple[str, str, str]


def samples(page: str, wanted: Container[str]) -> Iterator[Sample]:
    """Name, labels and value of every sample of a wanted metric, the last two as they are written: most samples of a page have
    labels in common, so a caller reads them once."""
    count = 0
    for line in page.split("\n"):
        if not line or line[0] == "#" or len(line) > LONGEST_LINE:
            continue
        found = _split(line)
        if found is None or found[0] not in wanted:
            continue
        yield found
        count += 1
        if count == MOST_SAMPLES:
            return


def labels(text: str) -> dict[str, str] | None:
    """What stands between the braces; None when it cannot be read."""
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _LABEL.match(text, place)
        if match is None:
            return None if text[place:].strip() else found
        found[match[1]] = _ESCAPE.sub(_unescaped, match[2]) if "\\" in match[2] else match[2]
        place = match.end()
    return found


def _split(line: str) -> Sample | None:
    """A value holds no brace, so the last one ends the labels, whatever is in them."""
    begin, end = line.find("{"), line.rfind("}")
    if begin < 0:
        name, _, rest = line.strip().partition(" ")
        inner = ""
    elif end < begin:
        return None
    else:
        name, inner, rest = line[:begin].strip(), line[begin + 1 : end], line[end + 1 :]
    words = rest.split(None, 1)
    return (name, inner, words[0]) if words else None


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])

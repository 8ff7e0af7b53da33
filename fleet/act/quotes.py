"""What others wrote, as the ledger keeps it: people's reasons, messages of servers, annotations of anybody.

Owns what is left out of it. Must not know what any of it means. PostgreSQL stores no NUL and UTF-8 no half a surrogate, control
characters would act on terminals, and nobody reads a megabyte.
"""

import re
from collections.abc import Mapping
from typing import Any

LONGEST = 1_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def quoted(value: Any, longest: int = LONGEST) -> Any:
    """The same value, every text in it short and printable. Takes what JSON can hold; tuples become lists."""
    if isinstance(value, str):
        text = _CONTROL.sub("", value[: 2 * longest]).encode(errors="replace").decode()
        return text if len(text) <= longest else text[: longest - 1] + "…"
    if isinstance(value, Mapping):
        return {quoted(str(key)): quoted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [quoted(item) for item in value]
    return value

"""The end of a container's log as people may see it: its last lines, without what looks like a secret.

Owns how much is shown and what is hidden. Hiding is a precaution and no proof: whoever is shown a log has to be somebody who may
read it.
"""

import re
from typing import Final

MOST_LINES: Final = 20
MOST_BYTES: Final = 4_096
HIDDEN: Final = "•••"

_NAMED = re.compile(
    r"(?P<name>[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|credential|api[-_]?key|private[-_]?key|access[-_]?key)[\w.-]*"
    r"[\"']?\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)
_AUTHORISED = re.compile(r"\b(?P<how>Bearer|Basic|Token)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?P<scheme>\w+://)[^\s/@:]*:[^\s/@]+@")
_KNOWN = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\b(?:hf|gh[opsu]|glpat|sk|xox[abp]|nvapi)[-_][\w-]{16,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
)
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_END_OF_KEY = re.compile(r"\A(?:[\w+/=]+\r?\n)+-----END [A-Z ]*PRIVATE KEY-----")
# Colours, moves of the cursor, and other characters that are no text.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def ending(body: bytes) -> tuple[str, ...]:
    """The last lines of what a container wrote, at most 20 and 4 KiB of them. The first of them may have lost its beginning."""
    text = hidden(_CONTROL.sub("", body.decode(errors="replace")))
    lines = text.rstrip().splitlines()[-MOST_LINES:]
    while lines and sum(len(line.encode()) + 1 for line in lines) > MOST_BYTES:
        lines = lines[1:] if len(lines) > 1 else [lines[0].encode()[1 - MOST_BYTES :].decode(errors="ignore")]
    return tuple(lines)


def hidden(text: str) -> str:
    """Without values of what is named like a secret, credentials in headers and addresses, and keys known by their form."""
    text = _KEY.sub(HIDDEN, _END_OF_KEY.sub(HIDDEN, text))
    text = _AUTHORISED.sub(rf"\g<how> {HIDDEN}", text)
    text = _IN_ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _NAMED.sub(rf"\g<name>{HIDDEN}", text)
    return _KNOWN.sub(HIDDEN, text)

"""The Help page about checkpoints: what a workload declares, what Vigie reads and who allows it, how late is too late.

Owns this section alone.
"""

from collections.abc import Iterable

from dashboard.panels.checkpoints import GLYPHS
from dashboard.panels.help import Entry
from dashboard.panels.words import say
from fleet.domain.training import FORMAT, HOOK, INTERVAL, URI

DECLARED = {"uri": URI, "interval": INTERVAL, "format": FORMAT, "hook": HOOK}
READ = {"read": "", "store": "[[store]]", "report": "POST /api/v1/checkpoints"}
JUDGED = {"complete": "ok", "copied": "", "stale": "warn", "critical": "bad", "lost": ""}


def entries() -> list[Entry]:
    told = {**DECLARED, **READ}
    said = [
        Entry(say(f"help.ckpt.{name}"), say(f"help.means.ckpt.{name}"), labels=(label,) if label else ())
        for name, label in told.items()
    ]
    signs = [
        Entry(
            say(f"help.ckpt.{name}"), say(f"help.means.ckpt.{name}"), level=level, glyph=GLYPHS[level] if level else ""
        )
        for name, level in JUDGED.items()
    ]
    return said + signs


def sections() -> Iterable[tuple[str, list[Entry]]]:
    return (("checkpoints", entries()),)

"""The open findings of one GPU, or of one node, while a reading is taken in.

Owns how a finding opens, is seen again, has to last before it counts, and closes: what closed and how is news. A finding keeps
its own age, whatever else is seen. Must not know any rule.
"""

from collections.abc import Callable, Iterable
from typing import Final

from fleet.domain.picture import FindingRow
from fleet.domain.rules import Hit
from fleet.domain.verdicts import ordered, severity

Pending = tuple[tuple[str, float], ...]

MOST: Final = 64  # of one GPU; no real one comes near it, and a source must not fill our memory


class Docket:
    """Starts with the findings of before; `opened` and `closed` collect what is news."""

    def __init__(self, findings: Iterable[FindingRow], pending: Pending, at: float) -> None:
        self.open = {(finding.rule, finding.instance): finding for finding in findings}
        self.opened: list[FindingRow] = []
        self.closed: list[tuple[FindingRow, str]] = []
        self.pending: Pending = ()  # of this reading: a condition that was not seen again starts anew
        self.at = at
        self._before = pending

    def saw(self, rule: str, source: str, hit: Hit, lasting_s: float = 0.0) -> None:
        """A condition holds at this moment."""
        if lasting_s and (rule, "") not in self.open:
            since_at = next((since for token, since in self._before if token == rule), self.at)
            if self.at - since_at < lasting_s:
                self.pending = (*self.pending, (rule, since_at))
                return
        self.put(_row(rule, source, hit, self.at))

    def put(self, finding: FindingRow) -> None:
        """Open a finding, or see it again. A different verdict under the same rule takes the place of the one before."""
        key = finding.rule, finding.instance
        before = self.open.get(key)
        same = before is not None and (before.state, before.action) == (finding.state, finding.action)
        if before is not None and same:
            # Positional, because this is done for each finding with each reading.
            finding = FindingRow(
                finding.rule,
                finding.source,
                finding.state,
                finding.action,
                before.since_at,
                max(before.seen_at, finding.seen_at),
                finding.evidence,
                finding.facts,
                finding.instance,
                finding.soft,
            )
        else:
            if before is None and len(self.open) >= MOST and not self._makes_room(finding):
                return
            self.opened.append(finding)
        self.open[key] = finding

    def _makes_room(self, finding: FindingRow) -> bool:
        """By the mildest one, if that is milder."""
        mildest = ordered(self.open.values())[-1]
        if severity(mildest.state, mildest.soft) >= severity(finding.state, finding.soft):
            return False
        del self.open[mildest.rule, mildest.instance]
        return True

    def clear(self, rule: str, how: str = "cleared") -> None:
        finding = self.open.pop((rule, ""), None)
        if finding is not None:
            self.closed.append((finding, how))

    def close(self, how: str, which: Callable[[FindingRow], bool]) -> None:
        for finding in [finding for finding in self.open.values() if which(finding)]:
            del self.open[finding.rule, finding.instance]
            self.closed.append((finding, how))

    def findings(self) -> tuple[FindingRow, ...]:
        return ordered(self.open.values()) if self.open else ()


def _row(rule: str, source: str, hit: Hit, at: float) -> FindingRow:
    return FindingRow(rule, source, hit.state, hit.action, at, at, hit.evidence, hit.facts, "", hit.soft)

"""Tables: rows of words under columns, in an order, each known by a stable key.

Owns what a table is. Must not know what its rows are about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dashboard.panels.charts import BLANK, Trend
from dashboard.panels.words import Text, Value


@dataclass(frozen=True, slots=True)
class Row:
    """A stable key, a level, the words of each column, second lines where there are any, and nodes that cells lead to."""

    key: str
    level: str
    cells: Mapping[str, Value]
    small: Mapping[str, Text]
    links: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)  # column → glyph before its words
    nil: tuple[str, ...] = ()  # columns with nothing to report: a narrow screen leaves them out
    gpu: tuple[str, str] = ("", "")  # a GPU's cell: state and fifths
    trend: Trend = BLANK


@dataclass(frozen=True, slots=True)
class Column:
    """A column's id names its heading, `column.<id>`. `classes`: how its cells look and fold on narrow screens."""

    id: str
    classes: str = ""
    small: bool = False
    link: bool = False  # its words lead to a node …
    to_gpu: bool = False  # … or to a GPU …
    to_rollout: bool = False  # … or to a rollout, by the key of its workload …
    to_training: bool = False  # … or to the checkpoints of one, likewise …
    to_readiness: bool = False  # … or to what a restart of one would lose
    mark: bool = False  # its words have a glyph
    gpu: bool = False  # begins with the cell of a GPU
    trend: bool = False  # a line over time instead of words
    kept: bool = False  # the server's alone: script leaves its cells as they are
    quiet: bool = False  # ticks with every reading, so a change is not highlighted

    @property
    def title(self) -> str:
        return f"column.{self.id}"

    @property
    def number(self) -> bool:
        return "num" in self.classes


@dataclass(frozen=True, slots=True)
class Table:
    """`kind`: how the table folds, a class of the visual language."""

    id: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    kind: str = ""

    @property
    def title(self) -> str:
        return f"table.{self.id}"

    @property
    def blank(self) -> Row:
        """What script makes new rows from."""
        return Row("", "", {column.id: "" for column in self.columns}, {})

"""One training: its steps, the saves that it writes part by part, and where it goes on after an interruption.

Owns the counting, and the rule that what was not saved whole is done again. Must not know pods or time: both are given to it.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from fleet.simulation.checkpoint_layouts import Part, State, at_once
from fleet.simulation.checkpoint_places import Folder
from fleet.simulation.programs import Line
from fleet.simulation.training_habits import Habit

KEPT = 3  # whole checkpoints
LINES_KEPT = 300
UNFINISHED = (".orbax-checkpoint-tmp", ".tmp")


@dataclass(frozen=True)
class Run:
    """From one start to the next interruption. `ranks`: who takes part, each start of a container being another one."""

    ranks: frozenset[str]
    began_at: float
    base: int
    step_s: float

    def step(self, at: float) -> int:
        return self.base + max(0, int((at - self.began_at) / self.step_s + 1e-6))

    def at(self, step: int) -> float:
        """When a step was done."""
        return self.began_at + (step - self.base) * self.step_s


@dataclass
class Save:
    """Part i is written at its share of the time; `done` of them are."""

    step: int
    began_at: float
    takes_s: float
    parts: list[Part]
    done: int = 0

    @property
    def next_at(self) -> float:
        return self.began_at + self.takes_s * (self.done + 1) / len(self.parts)

    @property
    def ends_at(self) -> float:
        return self.began_at + self.takes_s


@dataclass
class Training:
    """`newest`: the step of its newest whole checkpoint, 0 without one. `lost`: steps that its latest start does again."""

    name: str
    run: Run | None = None
    save: Save | None = None
    newest: int = 0
    newest_at: float = 0.0
    reached: int = 0
    lost: int = 0
    silent: bool = False
    slowness: float = 1.0  # how many times as long as usual a save takes
    habit: Habit | None = None
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    _folder: Folder | None = None
    _wanted: bool = False
    _next: int = 0
    _begun: bool = False

    # What it says of itself

    def step(self, at: float) -> int:
        """As far as it got, while it stands still."""
        return self.run.step(at) if self.run else self.reached

    def loss(self, step: int) -> float:
        noise = hashlib.sha256(f"{self.name}/{step}".encode()).digest()[0] / 255 - 0.5
        return float(1.6 + 9.0 * (step + 20) ** -0.35 + 0.04 * noise)

    def path(self, step: int) -> str:
        """Of a checkpoint, as the trainer names it."""
        assert self.habit is not None  # noqa: S101 -- it has begun
        return f"{self.habit.target}/{self.habit.layout.name(step)}"

    @property
    def saves(self) -> bool:
        """Whether it has somewhere to save to."""
        return self._folder is not None

    # What happens to it

    def begin(self, habit: Habit, folder: Folder | None, ranks: frozenset[str], started_at: float, now: float) -> None:
        """Go on from the newest whole checkpoint. One that is met while it has long been running has its past made up."""
        self.habit, self._folder = habit, folder
        whole = habit.layout.whole(folder.paths()) if folder else []
        self.newest = whole[-1] if whole else 0
        self.lost = max(0, self.reached - self.newest)
        self.run = Run(ranks, now if self._begun or whole else started_at, self.newest, habit.step_s)
        self._next = self._after(self.newest)
        since = f"resuming from {self.path(self.newest)}" if self.newest else "starting from scratch"
        again = f", {self.lost} steps are lost" if self.lost else ""
        self.lines.append((self.run.began_at, f"{self.name}: {since}{again}"))
        if not self._begun:
            self._make_up(now)
        self._begun = True

    def end(self, now: float) -> None:
        """A rank is gone: everything since the newest whole checkpoint is lost, a half-written one stays as it is."""
        self.reached = self.step(now)
        if self.save:
            self.lines.append((now, f"interrupted while saving {self.path(self.save.step)}"))
        self.run = self.save = None
        self._wanted = False

    def ask(self, now: float) -> int | None:
        """Begin to save at once, after a save that is under way: the step, None when it cannot."""
        if self.run is None or self._folder is None:
            return None
        self._wanted = True
        return max(self.run.step(now), self.newest + 1)

    def advance(self, now: float) -> float | None:
        """Do what is due; seconds until there is more to do, None when nothing will be. A save that fails is given up."""
        if self.run is None or self._folder is None or self.habit is None:
            return None
        while True:
            if self.save:
                if not self._write(self._folder, self.save, now):
                    return self.save.next_at - now if self.save else 0.0
            elif self.silent:
                return None
            elif (begins_at := self._begins_at(self.run, now)) > now:
                return begins_at - now
            else:
                self._begin_save(self.run, begins_at)

    def _begins_at(self, run: Run, now: float) -> float:
        """When the next save does: one that is due as soon as the one before has ended."""
        if self._wanted:
            return max(now, run.at(self.newest + 1))
        self._next = max(self._next, self._after(run.step(now)) - self._every)
        return max(run.at(self._next), self.newest_at)

    def _begin_save(self, run: Run, at: float) -> None:
        step = run.step(at) if self._wanted else self._next
        self.save = self._made(step, at)
        self._next, self._wanted = self._after(step), False

    def _made(self, step: int, at: float) -> Save:
        """Nobody sees the files of a folder that is only remembered: it is told of the end alone."""
        assert self.habit is not None and self.run is not None and self._folder is not None  # noqa: S101, PT018 -- it runs
        takes_s, layout = self.habit.save_s * self.slowness, self.habit.layout
        state = State(step, len(self.run.ranks), self.loss(step), at, at + takes_s)
        parts = layout.parts(state) if self._folder.visible else layout.trace(step)
        return Save(step, at, takes_s, parts if self._folder.grows else at_once(parts))

    def _write(self, folder: Folder, save: Save, now: float) -> bool:
        """Whether the save is over, one way or the other."""
        try:
            while save.done < len(save.parts) and save.next_at <= now:
                _do(folder, save.parts[save.done], save.next_at)
                save.done += 1
            if save.done < len(save.parts):
                return False
            self._prune(folder)
        except OSError as error:
            self.lines.append((now, f"could not save {self.path(save.step)}: {error.strerror}"))
        else:
            self.newest, self.newest_at = save.step, save.ends_at
            self.lines.append((save.ends_at, f"saved checkpoint {self.path(save.step)} in {save.takes_s:.1f} s"))
        self.save = None
        return True

    def _prune(self, folder: Folder) -> None:
        """Keep the newest whole ones, and nothing that is older than these."""
        assert self.habit is not None  # noqa: S101 -- it runs
        layout, paths = self.habit.layout, folder.paths()
        kept = layout.whole(paths)[-KEPT:]
        for entry in {path.partition("/")[0] for path in paths}:
            bare = entry
            for end in UNFINISHED:
                bare = bare.removesuffix(end)
            step = layout.step_of(bare)
            if step is not None and kept and step < kept[0]:
                folder.remove(entry)

    def _make_up(self, now: float) -> None:
        """What a training that has run for long has left behind."""
        if self.run is None or self._folder is None or self.habit is None:
            return
        last = self.run.step(now - self.habit.save_s) // self._every * self._every
        for step in range(last - (KEPT - 1) * self._every, last + 1, self._every):
            if step > self.run.base:
                self.save = self._made(step, self.run.at(step))
                self._write(self._folder, self.save, now)
        self._next = max(self._next, self._after(last))

    @property
    def _every(self) -> int:
        return self.habit.save_steps if self.habit else 1

    def _after(self, step: int) -> int:
        return step // self._every * self._every + self._every


def _do(folder: Folder, part: Part, at: float) -> None:
    if part.to:
        folder.rename(part.path, part.to)
    else:
        folder.write(part.path, part.content, at, more=part.more)

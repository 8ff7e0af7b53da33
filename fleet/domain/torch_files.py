"""One file that torch wrote, zip or legacy, whole or not, as a part of any checkpoint.

Owns what such a file proves, and how that is put into notes. Must not know whose file it is.
"""

from collections.abc import Iterable

from msgspec import structs

from fleet.domain import safetensors_files, torch_archives, torch_keys
from fleet.domain.checkpoint_files import File, Finding, Look, Unreadable, contradicts, ends_early, noted, whole
from fleet.domain.checkpoints import Components, Content, Format, Note, Presence, Sign


def look_at(file: File, look: Look) -> Content:
    """Components, step and framework of one saved dictionary; the notes say what is wrong with the file."""
    try:
        return _content(file, look)
    except (Finding, Unreadable) as error:
        return Content(notes=(noted(file.path, error),))


def check(file: File, look: Look) -> tuple[Note, ...]:
    """What is wrong with a file of which nothing else matters."""
    if file.name.endswith(".safetensors"):
        return safetensors_files.check(file, look)
    try:
        return _content(file, look, keys=False).notes
    except (Finding, Unreadable) as error:
        return (noted(file.path, error),)


def check_all(files: Iterable[File], look: Look) -> tuple[Note, ...]:
    return tuple(note for file in files for note in check(file, look))


def value(file: File, look: Look) -> torch_archives.Archive:
    """Raises Finding, Unreadable."""
    return torch_archives.read(whole(file), look)


def holding(presence: dict[str, bool]) -> Components:
    """Components by name, PRESENT or ABSENT."""
    return Components(**{name: Presence.PRESENT if there else Presence.ABSENT for name, there in presence.items()})


def _content(file: File, look: Look, *, keys: bool = True) -> Content:
    if file.size_bytes == 0:
        raise ends_early("the file is empty")
    head = look.read(file, 0, min(len(torch_archives.LEGACY), file.size_bytes))
    if head == torch_archives.LEGACY:
        return _legacy(file, look)
    if not torch_archives.ZIP.startswith(head[:4]):
        raise contradicts("neither an archive nor a legacy file of torch")
    archive = torch_archives.read(whole(file), look)
    content = torch_keys.of(archive.value) if keys else Content()
    notes = (*archive.notes(file.path), *torch_keys.foreign(archive.pickle.globals, file.path))
    return structs.replace(content, notes=notes)


def _legacy(file: File, look: Look) -> Content:
    """Its end cannot be proven; its beginning may still say what it is."""
    unprovable = Note(Sign.UNPROVABLE, file.path, "legacy format")
    try:
        content = torch_keys.of(torch_archives.legacy(whole(file), look))
    except Finding as error:
        more = () if error.sign is Sign.ENDS_EARLY else (noted(file.path, error),)  # only the beginning was read
        return Content(notes=(unprovable, *more), format=Format.TORCH_LEGACY)
    return structs.replace(content, notes=(unprovable,), format=Format.TORCH_LEGACY)

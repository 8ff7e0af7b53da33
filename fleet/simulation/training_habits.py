"""How one pod trains and where it saves, as its command line, environment, volumes and `sim/…` annotations say.

Owns reading them, as the trainer itself would. Annotations that others read about checkpoints mean nothing to a trainer. Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fleet.simulation.behaviour import image_name
from fleet.simulation.checkpoint_layouts import LAYOUTS, Layout
from fleet.simulation.checkpoint_places import Kind, Place

Object = dict[str, Any]

IMAGES = ("trainer", "rl-trainer")
# Annotations of the pod, and what holds without them.
STEP_SECONDS, SAVE_SECONDS = "sim/step-seconds", "sim/save-seconds"
FORMAT = "sim/checkpoint-format"
SILENT = "sim/no-saves"  # its saving has come to a halt, whatever it is asked
STEP_S, SAVE_S, SAVE_STEPS = 4.2, 18.0, 250
OPTIONS = ("output_dir", "save", "checkpoint-dir", "default_root_dir")
VARIABLES = ("CKPT_DIR", "CHECKPOINT_DIR")
EVERY = ("save_steps", "save-interval", "checkpoint-every")
EVERY_VARIABLE = "SAVE_STEPS"


@dataclass(frozen=True)
class Habit:
    """`target` as the trainer names it; `place` what is behind it, None: it saves nothing."""

    step_s: float
    save_steps: int
    save_s: float
    layout: Layout
    target: str = ""
    place: Place | None = None


def trainer_of(pod: Object) -> Object | None:
    """The container that trains."""
    containers = pod["spec"]["containers"]
    found: Object | None = next((c for c in containers if image_name(c["image"]) in IMAGES), None)
    return found


def habit_of(pod: Object, container: Object) -> Habit:
    """ValueError for annotations or options that are no numbers, and for a format that nobody writes."""
    notes = pod["metadata"].get("annotations") or {}
    told = dict(_options(container))
    variables = {v["name"]: v.get("value", "") for v in container.get("env") or ()}
    target = _first(told, OPTIONS) or _first(variables, VARIABLES)
    every = _first(told, EVERY) or variables.get(EVERY_VARIABLE, "")
    kind = notes.get(FORMAT, "torch")
    if kind not in LAYOUTS:
        raise ValueError(f"no trainer here saves as {kind!r}")
    return Habit(
        step_s=float(notes.get(STEP_SECONDS, STEP_S)),
        save_steps=int(every or SAVE_STEPS),
        save_s=float(notes.get(SAVE_SECONDS, SAVE_S)),
        layout=LAYOUTS[kind],
        target=target,
        place=_place(pod, container, target) if target else None,
    )


def is_silent(pod: Object) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(SILENT) == "true"


def _first(told: dict[str, str], names: tuple[str, ...]) -> str:
    return next((told[name] for name in names if told.get(name)), "")


def _options(container: Object) -> Iterator[tuple[str, str]]:
    """--name=value and --name value."""
    words = [*(container.get("command") or ()), *(container.get("args") or ()), ""]
    for word, following in pairwise(words):
        match = re.fullmatch(r"--([\w-]+)(?:=(.*))?", word)
        if match:
            yield match[1], following if match[2] is None else match[2]


def _place(pod: Object, container: Object, target: str) -> Place | None:
    """None for a path that leads upwards: nothing is written there."""
    scheme, _, rest = target.partition("://")
    parts = target.split("/")
    if ".." in parts or "." in parts or "\0" in target:
        return None
    if rest:
        bucket, _, prefix = rest.strip("/").partition("/")
        return Place(Kind.BUCKET, f"{scheme}://{bucket}", prefix)
    mounts = [
        m for m in container.get("volumeMounts") or () if f"{target}/".startswith(m["mountPath"].rstrip("/") + "/")
    ]
    uid = pod["metadata"]["uid"]
    if not mounts:
        return Place(Kind.POD, uid, target.strip("/"))
    mount = max(mounts, key=lambda m: len(m["mountPath"]))
    inner = target[len(mount["mountPath"].rstrip("/")) :].strip("/")
    path = "/".join(part for part in (mount.get("subPath", "").strip("/"), inner) if part)
    return _place_of_volume(pod, mount["name"], path) if ".." not in path.split("/") else None


def _place_of_volume(pod: Object, name: str, path: str) -> Place:
    volume: Object = next((v for v in pod["spec"].get("volumes") or () if v["name"] == name), {})
    if claimed := volume.get("persistentVolumeClaim"):
        return Place(Kind.CLAIM, f"{pod['metadata']['namespace']}/{claimed['claimName']}", path)
    if host := volume.get("hostPath"):
        return Place(Kind.NODE, f"{pod['spec'].get('nodeName', '')}:{host['path']}", path)
    return Place(Kind.POD, f"{pod['metadata']['uid']}/{name}", path)

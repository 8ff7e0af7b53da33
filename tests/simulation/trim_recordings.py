"""Copies recordings, trimmed to what a replay sends, needs as start state or compares.

`python -m tests.simulation.trim_recordings SOURCE_FOLDER NAME…` writes tests/data/recordings/NAME.json.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
# Labels that a GPU operator puts on nodes by the dozen: those that nothing here reads or selects by are left out.
CHATTY = re.compile(r"nvidia\.com/(cuda|gpu\.(deploy|compute)|gfd|mps|vgpu|gpu-driver)|beta\.kubernetes")
QUOTED_OBJECT = re.compile(r'Invalid value: \\?"\{.*\}\\?": ', re.DOTALL)
UNREAD = frozenset({
    "volumeMounts", "terminationMessagePath", "terminationMessagePolicy", "imageID", "containerID", "daemonEndpoints",
    "machineID", "systemUUID", "projected",
})  # fmt: skip


def managed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Only who cordoned: what nobody compares is left out."""
    cordoned: dict[str, Any] = {"f:spec": {"f:unschedulable": {}}}
    return [
        {**entry, "fieldsV1": cordoned}
        for entry in entries
        if "f:unschedulable" in (entry.get("fieldsV1") or {}).get("f:spec", {})
    ]


def trimmed(value: Any) -> Any:
    if isinstance(value, list):
        return [trimmed(v) for v in value]
    if isinstance(value, str):
        return QUOTED_OBJECT.sub('Invalid value: "<object>": ', value)
    if not isinstance(value, dict):
        return value
    shown: dict[str, Any] = {}
    for key, child in value.items():
        if key in UNREAD:
            continue
        if key == "managedFields":
            entries = managed(child)
            if entries:
                shown[key] = entries
        elif key == "labels" and isinstance(child, dict):
            shown[key] = {k: v for k, v in child.items() if not CHATTY.match(k)}
        elif key == "columnDefinitions" and child:
            shown[key] = [{**c, "description": ""} for c in child]
        else:
            shown[key] = trimmed(child)
    return shown


def main(source: str, *names: str) -> None:
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for name in names:
        exchanges = json.loads((Path(source) / f"{name}.json").read_text())
        text = json.dumps(trimmed(exchanges), separators=(",", ":"), ensure_ascii=False)
        (RECORDINGS / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The site's own controller: reboots nodes on which somebody has asked for it, and the machines' way down and up.

A request is an annotation on a cordoned node; it is honoured after a while and taken away when the machine is up again. Must
not cordon or drain: whoever asks has to. A node that is not cordoned is left alone, however long the request stands.
"""

import uuid
from typing import Any

from fleet.simulation import gpu_troubles
from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.history import Change
from fleet.simulation.kubelet import SILENT

Object = dict[str, Any]

REQUESTED = "vigie.dev/reboot-requested"
REBOOTED_AT = "vigie.dev/rebooted-at"
DUE_AT = "sim/reboot-at"  # when the request will be honoured
UP_AT = "sim/up-at"  # when the machine will have booted
BOOT_SECONDS = "sim/boot-seconds"  # how long this machine takes
REBOOTS = "sim/reboots"  # "never": nobody honours requests for this machine
NEVER = "never"


class Reboots(Controller):
    """Keys are nodes."""

    name = "site-controller"
    manager = "site-controller"
    primary = "nodes"
    latency_s = (0.05, 0.2)
    AFTER_S = 15.0
    BOOT_S = 150.0

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed}

    @staticmethod
    def _node_changed(change: Change) -> list[str]:
        notes = _notes(change.object)
        return [] if change.type == "DELETED" or not {REQUESTED, DUE_AT, UP_AT} & set(notes) else [_name(change.object)]

    def sync(self, key: str) -> float | None:
        node = self.informers["nodes"].get(key)
        if node is None:
            return None
        notes, now = _notes(node), self.clock.now()
        if UP_AT in notes:
            wait_s = parse_stamp(notes[UP_AT]) - now
            if wait_s <= 0:
                self._boot(node)
            return wait_s if wait_s > 0 else None
        if REQUESTED not in notes or not node["spec"].get("unschedulable") or notes.get(REBOOTS) == NEVER:
            if DUE_AT in notes:
                self._note(node, {DUE_AT: None})
            return None
        if DUE_AT not in notes:
            self._note(node, {DUE_AT: stamp(now + self.AFTER_S)})
            return self.AFTER_S
        wait_s = parse_stamp(notes[DUE_AT]) - now
        return wait_s if wait_s > 0 else self._go_down(node)

    def _go_down(self, node: Object) -> float:
        boot_s = float(_notes(node).get(BOOT_SECONDS, self.BOOT_S))
        self._note(node, {DUE_AT: None, SILENT: "true", UP_AT: stamp(self.clock.now() + boot_s)})
        return boot_s

    def _boot(self, node: Object) -> None:
        """What a reboot mends is mended, then a new boot id, then the kubelet speaks again and sees its containers gone."""
        self._note(node, gpu_troubles.after_reboot(_notes(node)))
        boot = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        name = _name(node)

        def booted(draft: Object) -> None:
            draft["status"].setdefault("nodeInfo", {})["bootID"] = boot

        self.store.mutate("nodes", None, name, booted, manager="kubelet", subresource="status")
        self._note(node, {SILENT: None, UP_AT: None, REQUESTED: None, REBOOTED_AT: stamp(self.clock.now())})
        message = f"Node {name} has been rebooted, boot id: {boot}"
        self.recorder.core(node, "Rebooted", message, component="kubelet", manager="kubelet", host=name, kind="Warning")

    def _note(self, node: Object, notes: dict[str, str | None]) -> None:
        def change(draft: Object) -> None:
            known = {**_notes(draft), **notes}
            draft["metadata"]["annotations"] = {k: v for k, v in known.items() if v is not None}

        self.store.mutate("nodes", None, _name(node), change, manager=self.manager)


def _notes(node: Object) -> dict[str, Any]:
    return node["metadata"].get("annotations") or {}


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])

"""NVIDIA's MIG manager and GPU feature discovery: cut the GPUs of a machine into instances as a label of its node asks.

Follows the label nvidia.com/mig.config: state pending, the GPU's clients paused, the new layout, state success; failed when
pods hold GPUs there or the layout is not known. It knows two layouts: whole GPUs, and seven of the smallest instances each.
"""

from typing import Any

from fleet.simulation.clock import parse_stamp, stamp
from fleet.simulation.controller import Controller, Keys
from fleet.simulation.gpu_boards import MIG, SLICES, Product, product_of
from fleet.simulation.hardware import COMPONENTS, GPU, MODELS
from fleet.simulation.history import Change
from fleet.simulation.kubelet import is_silent
from fleet.simulation.placement import FINISHED, effective_request

Object = dict[str, Any]

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
WHOLE = "all-disabled"
BEGUN_AT = "sim/mig-since"
DEPLOY = "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"
CLIENTS = ("dcgm", "dcgm-exporter", "device-plugin", "gpu-feature-discovery")
TAKES_S = 20.0


class MigManager(Controller):
    """Keys are nodes."""

    name = "mig-manager"
    manager = "mig-manager"
    primary = "nodes"
    latency_s = (0.2, 0.6)

    def watches(self) -> dict[str, Keys]:
        return {"nodes": self._node_changed}

    @staticmethod
    def _node_changed(change: Change) -> list[str]:
        if change.type == "DELETED" or product_of(change.object) is None:
            return []
        same = change.previous is not None and _asked(change.previous) == _asked(change.object)
        return [] if same else [change.object["metadata"]["name"]]

    def sync(self, key: str) -> float | None:
        node = self.informers["nodes"].get(key)
        product = product_of(node) if node else None
        if node is None or product is None or is_silent(node):
            return None
        config, state = _asked(node)
        layouts = {WHOLE: ""} | ({f"all-{product.slice}": product.slice} if product.slice else {})
        notes = node["metadata"].get("annotations") or {}
        if state != "pending":
            return self._begin(node) if config and layouts.get(config, config) != notes.get(MIG, "") else None
        if BEGUN_AT not in notes:
            return None
        wait_s = parse_stamp(notes[BEGUN_AT]) + TAKES_S - self.clock.now()
        if wait_s > 0:
            return wait_s
        if config not in layouts or self._in_use(key):
            self._write(node, _deployed("true") | {STATE: "failed"}, {BEGUN_AT: None})
        else:
            labels = _deployed("true") | {STATE: "success"} | _discovered(node, product, layouts[config])
            self._write(node, labels, {BEGUN_AT: None, MIG: layouts[config] or None})
        return None

    def _begin(self, node: Object) -> float | None:
        if _asked(node)[1] == "failed":  # it tries again when somebody asks for something else
            return None
        self._write(node, _deployed(PAUSED) | {STATE: "pending"}, {BEGUN_AT: stamp(self.clock.now())})
        return TAKES_S

    def _in_use(self, node: str) -> bool:
        pods = self.informers["pods"].indexed("node", node)
        return any(effective_request(p["spec"]).get(GPU, 0) for p in pods if p["status"].get("phase") not in FINISHED)

    def _write(self, node: Object, labels: dict[str, str], notes: dict[str, str | None]) -> None:
        def change(draft: Object) -> None:
            known = {**(draft["metadata"].get("annotations") or {}), **notes}
            draft["metadata"]["annotations"] = {k: v for k, v in known.items() if v is not None}
            draft["metadata"]["labels"] = {**draft["metadata"]["labels"], **labels}

        self.store.mutate("nodes", None, node["metadata"]["name"], change, manager=self.manager)


def _asked(node: Object) -> tuple[str, str]:
    labels = node["metadata"].get("labels") or {}
    return labels.get(CONFIG, ""), labels.get(STATE, "")


def _deployed(value: str) -> dict[str, str]:
    return {f"{DEPLOY}{client}": value for client in CLIENTS if client in COMPONENTS}


def _discovered(node: Object, product: Product, profile: str) -> dict[str, str]:
    """What GPU feature discovery says of the new layout."""
    kind = node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
    model = next(m for m in MODELS.values() if m.instance_type == kind)
    if not profile:
        return _counted(model.product, model.gpus, model.gpu_mib)
    return _counted(f"{model.product}-MIG-{profile}", model.gpus * SLICES, product.slice_mib)


def _counted(product: str, count: int, mib: int) -> dict[str, str]:
    return {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(count), "nvidia.com/gpu.memory": str(mib)}

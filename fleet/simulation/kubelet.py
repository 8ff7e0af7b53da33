"""The kubelets of all nodes: they start, warm up, finish and stop the pods bound to their nodes, and tell of it.

Owns a pod's life from its binding to its end. A stage is read from the pod itself, so a restarted kubelet goes on where
it was; only the fractions of seconds that timestamps lose are kept in memory. Nodes' heartbeats are in heartbeats.py.
"""

from collections.abc import Iterable
from typing import Any

from fleet.simulation import podstatus
from fleet.simulation.behaviour import Behaviour, behaviour
from fleet.simulation.clock import parse_stamp
from fleet.simulation.controller import Controller, Keys, Process
from fleet.simulation.history import Change
from fleet.simulation.informer import key_of, split_key

Object = dict[str, Any]

FIRST_BACK_OFF_S = 10
LAST_BACK_OFF_S = 300
SILENT = "sim/down"  # annotation of a node whose kubelet does nothing


class Kubelet(Controller):
    """Keys are bound pods."""

    name = "kubelet"
    manager = "kubelet"
    primary = "pods"
    latency_s = (0.005, 0.02)

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._began: dict[tuple[str, str], float] = {}  # (uid, stage) → when, exactly
        self._images: dict[str, set[str]] = {}  # node → images that it has
        self._next_ip: dict[str, int] = {}

    def watches(self) -> dict[str, Keys]:
        return {"pods": self._pod_changed, "nodes": self._node_changed}

    def start_keys(self) -> Iterable[str]:
        pods = [p for p in self.informers["pods"].all() if p["spec"].get("nodeName")]
        for pod in pods:
            if pod["status"].get("podIP"):
                self._remember_images(pod)
        return [key_of(p) for p in pods]

    def _pod_changed(self, change: Change) -> Iterable[str]:
        pod = change.object
        if change.type == "DELETED":
            uid = pod["metadata"]["uid"]
            for stage in ("pull", "run", "stop", "back-off"):
                self._began.pop((uid, stage), None)
            return ()
        return (key_of(pod),) if pod["spec"].get("nodeName") else ()

    def _node_changed(self, change: Change) -> Iterable[str]:
        """A node whose kubelet comes back looks at its pods again."""
        if change.previous is None or _silent(change.object) or not _silent(change.previous):
            return ()
        return [key_of(p) for p in self.informers["pods"].indexed("node", change.object["metadata"]["name"])]

    def sync(self, key: str) -> float | None:
        pod = self.informers["pods"].get(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        node = self.informers["nodes"].get(pod["spec"]["nodeName"])
        if node is None or _silent(node):
            return None
        does = behaviour(pod)
        if podstatus.is_terminating(pod):
            return self._stop(pod, does)
        return None if podstatus.is_finished(pod) else self._carry_on(pod, node, does)

    def _carry_on(self, pod: Object, node: Object, does: Behaviour) -> float | None:
        containers = pod["status"].get("containerStatuses")
        if not containers:
            return self._create(pod, node, does)
        state = containers[0]["state"]
        if "running" in state:
            return self._advance(pod, does)
        if state.get("waiting", {}).get("reason") == "CrashLoopBackOff":
            return self._start_again(pod)
        return self._start(pod, node, does)

    # Starting

    def _create(self, pod: Object, node: Object, does: Behaviour) -> float:
        now = self.clock.now()
        self._began[pod["metadata"]["uid"], "pull"] = now
        for container in pod["spec"]["containers"]:
            if not self._has_image(pod, container["image"]):
                self._tell(pod, "Pulling", f'Pulling image "{container["image"]}"', container["name"])
        self._write(pod, lambda p: podstatus.creating(p, _address(node), now))
        return self._pull_s(pod, does)

    def _start(self, pod: Object, node: Object, does: Behaviour) -> float:
        begun = self._since(pod, "pull", pod["status"].get("startTime"))
        wait_s = begun + self._pull_s(pod, does) - self.clock.now()
        if wait_s > 0:
            return wait_s
        now = self.clock.now()
        self._began[pod["metadata"]["uid"], "run"] = now
        for container in pod["spec"]["containers"]:
            self._tell_started(pod, container, does)
        ip = _address(node) if pod["spec"].get("hostNetwork") else self._pod_ip(pod, node)
        ready = does.ready and does.warmup_s <= 0
        self._write(pod, lambda p: podstatus.running(p, ip, now, ready=ready))
        self._remember_images(pod)
        return max(does.warmup_s, 0.0)

    def _tell_started(self, pod: Object, container: Object, does: Behaviour) -> None:
        image = container["image"]
        if self._has_image(pod, image):
            pulled = f'Container image "{image}" already present on machine and can be accessed by the pod'
        else:
            took = f"{does.pull_s:g}s ({does.pull_s:g}s including waiting)"
            pulled = f'Successfully pulled image "{image}" in {took}. Image size: {does.image_bytes} bytes.'
        self._tell(pod, "Pulled", pulled, container["name"])
        self._tell(pod, "Created", "Container created", container["name"])
        self._tell(pod, "Started", "Container started", container["name"])

    def _pull_s(self, pod: Object, does: Behaviour) -> float:
        """An image that the node has only needs its container made."""
        images = (c["image"] for c in pod["spec"]["containers"])
        return min(does.pull_s, 0.5) if all(self._has_image(pod, i) for i in images) else does.pull_s

    def _has_image(self, pod: Object, image: str) -> bool:
        return image in self._images.get(pod["spec"]["nodeName"], ())

    def _remember_images(self, pod: Object) -> None:
        known = self._images.setdefault(pod["spec"]["nodeName"], set())
        known.update(c["image"] for c in pod["spec"]["containers"])

    def _pod_ip(self, pod: Object, node: Object) -> str:
        """The next address of the node's range that no pod there has."""
        prefix = node["spec"].get("podCIDR", "10.244.0.0/24").rpartition(".")[0]
        name = node["metadata"]["name"]
        taken = {p["status"].get("podIP") for p in self.informers["pods"].indexed("node", name)}
        for _ in range(253):
            self._next_ip[name] = self._next_ip.get(name, 1) % 253 + 2
            ip = f"{prefix}.{self._next_ip[name]}"
            if ip not in taken:
                return ip
        raise ValueError(f"{name} has no free pod address for {key_of(pod)}")

    # Running

    def _advance(self, pod: Object, does: Behaviour) -> float | None:
        """Make it ready, or end it, when its time has come."""
        started_at = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        up_s = self.clock.now() - self._since(pod, "run", started_at)
        if does.run_s is not None and up_s >= does.run_s:
            return self._end(pod, does)
        waits = [does.run_s - up_s] if does.run_s is not None else []
        if does.ready and not podstatus.is_ready(pod):
            if up_s >= does.warmup_s:
                now, ip = self.clock.now(), pod["status"]["podIP"]
                self._write(pod, lambda p: podstatus.running(p, ip, now, ready=True))
            else:
                waits.append(does.warmup_s - up_s)
        return max(min(waits), 0.001) if waits else None

    def _end(self, pod: Object, does: Behaviour) -> float | None:
        now = self.clock.now()
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and does.exit_code == 0):
            self._write(pod, lambda p: podstatus.finished(p, now, does.exit_code))
            return None
        delay_s = self._back_off_s(pod)
        self._began[pod["metadata"]["uid"], "back-off"] = now
        for container in pod["spec"]["containers"]:
            message = f"Back-off restarting failed container {container['name']} in pod {_full_name(pod)}"
            self._tell(pod, "BackOff", message, container["name"], kind="Warning")
        self._write(pod, lambda p: podstatus.backing_off(p, now, does.exit_code, delay_s))
        return float(delay_s)

    def _start_again(self, pod: Object) -> float:
        container = pod["status"]["containerStatuses"][0]
        ended_at = container["lastState"].get("terminated", {}).get("finishedAt")
        wait_s = self._since(pod, "back-off", ended_at) + self._back_off_s(pod) - self.clock.now()
        if wait_s > 0:
            return wait_s
        now = self.clock.now()
        self._began[pod["metadata"]["uid"], "run"] = now
        self._write(pod, lambda p: podstatus.restarted(p, now))
        return behaviour(pod).warmup_s

    @staticmethod
    def _back_off_s(pod: Object) -> int:
        restarts: int = pod["status"]["containerStatuses"][0]["restartCount"]
        return min(LAST_BACK_OFF_S, FIRST_BACK_OFF_S << min(restarts, 5))

    # Stopping

    def _stop(self, pod: Object, does: Behaviour) -> float | None:
        """Ask its containers to stop, wait for them or for the end of the grace period, report, and let go."""
        containers = pod["status"].get("containerStatuses") or []
        if podstatus.is_finished(pod) or not any("running" in c["state"] for c in containers):
            self._let_go(pod)
            return None
        metadata = pod["metadata"]
        grace_s = float(metadata.get("deletionGracePeriodSeconds", 0))
        if (metadata["uid"], "stop") not in self._began:
            asked_at = parse_stamp(metadata["deletionTimestamp"]) - grace_s
            told = pod["status"].get("observedGeneration") == metadata.get("generation")
            self._began[metadata["uid"], "stop"] = asked_at if told else self.clock.now()
            if not told:
                self._ask_to_stop(pod)
        wait_s = self._began[metadata["uid"], "stop"] + min(does.stop_s, grace_s) - self.clock.now()
        if wait_s > 0:
            return wait_s
        now = self.clock.now()
        code = 137 if does.stop_s > grace_s else does.stop_exit_code
        self._write(pod, lambda p: podstatus.finished(p, now, code))
        return self.rng.uniform(*self.latency_s)

    def _ask_to_stop(self, pod: Object) -> None:
        now = self.clock.now()
        for container in pod["spec"]["containers"]:
            self._tell(pod, "Killing", f"Stopping container {container['name']}", container["name"])
        self._write(pod, lambda p: podstatus.stopping(p, now))

    def _let_go(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and metadata.get("finalizers"):
            return  # whoever holds the finalizer ends it
        self.store.delete("pods", metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_s=0)

    # Writing

    def _since(self, pod: Object, stage: str, stamped: str | None) -> float:
        exact = self._began.get((pod["metadata"]["uid"], stage))
        if exact is not None:
            return exact
        return parse_stamp(stamped) if stamped else self.clock.now()

    def _write(self, pod: Object, status: Any) -> None:
        namespace, name = split_key(key_of(pod))
        uid = pod["metadata"]["uid"]

        def change(draft: Object) -> Object:
            if draft["metadata"]["uid"] != uid:  # another pod has taken the name: nothing of ours to say about it
                return draft
            return {**draft, "status": status(draft)}

        self.store.mutate("pods", namespace, name, change, manager=self.manager, subresource="status")

    def _tell(self, pod: Object, reason: str, message: str, container: str, kind: str = "Normal") -> None:
        host = pod["spec"]["nodeName"]
        self.recorder.core(
            pod,
            reason,
            message,
            component="kubelet",
            manager="kubelet",
            host=host,
            container=container,
            kind=kind,
        )


def _silent(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(SILENT) == "true"


def _full_name(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def _address(node: Object) -> str:
    addresses = node["status"].get("addresses") or []
    return str(next((a["address"] for a in addresses if a["type"] == "InternalIP"), ""))

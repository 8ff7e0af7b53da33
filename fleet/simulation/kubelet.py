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
from fleet.simulation.probes import Outlook, outlook

Object = dict[str, Any]

FIRST_BACK_OFF_S = 10
LAST_BACK_OFF_S = 300
NOTE = "sim/"  # annotations of a node that say what its machine does
SILENT = "sim/down"  # its kubelet does nothing
ERROR_SHOWN_S = 12.0  # how long ErrImagePull stands before it turns into ImagePullBackOff
LOST = 255  # exit code of containers that a reboot took away
STAGES = ("pull", "run", "stop", "back-off", "pull-failed", "unready")


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
        self._pull_failures: dict[str, int] = {}  # uid → how often its image could not be had
        self._rebooted: set[str] = set()  # uids of pods whose containers a reboot took away

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
            for stage in STAGES:
                self._began.pop((uid, stage), None)
            self._pull_failures.pop(uid, None)
            self._rebooted.discard(uid)
            return ()
        return (key_of(pod),) if pod["spec"].get("nodeName") else ()

    def _node_changed(self, change: Change) -> Iterable[str]:
        """A node whose kubelet comes back, or that was booted anew, looks at its pods again."""
        node, before = change.object, change.previous
        if before is None or change.type == "DELETED":
            return ()
        booted = boot_id(before) != boot_id(node)
        if not booted and (is_silent(node) or not is_silent(before)):
            return ()
        pods = self.informers["pods"].indexed("node", node["metadata"]["name"])
        if booted:
            self._rebooted.update(p["metadata"]["uid"] for p in pods)
        return [key_of(p) for p in pods]

    def sync(self, key: str) -> float | None:
        pod = self.informers["pods"].get(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        node = self.informers["nodes"].get(pod["spec"]["nodeName"])
        if node is None or is_silent(node):
            return None
        does = behaviour(pod)
        if pod["metadata"]["uid"] in self._rebooted:
            self._rebooted.discard(pod["metadata"]["uid"])
            if self._lose_containers(pod):
                return self.rng.uniform(*self.latency_s)
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
        match state.get("waiting", {}).get("reason"):
            case "CrashLoopBackOff":
                return self._start_again(pod)
            case "ErrImagePull" | "ImagePullBackOff" as reason:
                return self._pull_again(pod, node, does, reason)
            case _:
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

    def _start(self, pod: Object, node: Object, does: Behaviour) -> float | None:
        begun = self._since(pod, "pull", pod["status"].get("startTime"))
        wait_s = begun + self._pull_s(pod, does) - self.clock.now()
        if wait_s > 0:
            return wait_s
        if does.image_error:
            return self._fail_pull(pod)
        now = self.clock.now()
        self._began[pod["metadata"]["uid"], "run"] = now
        for container in pod["spec"]["containers"]:
            self._tell_started(pod, container, does)
        ip = _address(node) if pod["spec"].get("hostNetwork") else self._pod_ip(pod, node)
        views = _views(pod, does)
        ready = all(v.ready_s is not None and v.ready_s <= 0 for v in views)
        self._write(pod, lambda p: podstatus.running(p, ip, now, ready=ready))
        self._remember_images(pod)
        return _next_s(views, does, 0.0)

    def _fail_pull(self, pod: Object) -> float:
        """The registry has no such image."""
        uid = pod["metadata"]["uid"]
        self._pull_failures[uid] = self._pull_failures.get(uid, 0) + 1
        self._began[uid, "pull-failed"] = self.clock.now()
        for container in pod["spec"]["containers"]:
            image, name = container["image"], container["name"]
            why = _not_found(image)
            self._tell(pod, "Failed", f'Failed to pull image "{image}": {why}', name, kind="Warning")
            self._tell(pod, "Failed", "Error: ErrImagePull", name, kind="Warning")
        why = _not_found(pod["spec"]["containers"][0]["image"])
        self._write(pod, lambda p: podstatus.not_pulled(p, "ErrImagePull", why))
        return ERROR_SHOWN_S

    def _pull_again(self, pod: Object, node: Object, does: Behaviour, reason: str) -> float:
        """Try once more after a while that doubles each time; say meanwhile that it waits."""
        uid, image = pod["metadata"]["uid"], pod["spec"]["containers"][0]["image"]
        failures = self._pull_failures.get(uid, 1)
        failed_at = self._began.setdefault((uid, "pull-failed"), self.clock.now())
        pause_s = max(ERROR_SHOWN_S * 2, min(LAST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0**failures))
        if (left_s := failed_at + ERROR_SHOWN_S - self.clock.now()) > 0:
            return left_s
        if reason == "ErrImagePull":
            told = f'Back-off pulling image "{image}"'
            for container in pod["spec"]["containers"]:
                self._tell(pod, "BackOff", told, container["name"])
                self._tell(pod, "Failed", "Error: ImagePullBackOff", container["name"], kind="Warning")
            self._write(pod, lambda p: podstatus.not_pulled(p, "ImagePullBackOff", f"{told}: {_not_found(image)}"))
        if (left_s := failed_at + pause_s - self.clock.now()) > 0:
            return left_s
        self._began[uid, "pull"] = self.clock.now() - does.pull_s
        return self._start(pod, node, does) or 0.0

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
        """Make it ready or unready, end it, or kill it, when its time has come."""
        started_at = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        up_s = self.clock.now() - self._since(pod, "run", started_at)
        views = _views(pod, does)
        killed = [v for v in views if v.killed_s is not None and v.killed_s <= up_s]
        if does.run_s is not None and up_s >= does.run_s:
            return self._end(pod, does)
        if killed:
            return self._kill(pod, killed[0].why)
        up = all(v.ready_s is not None and v.ready_s <= up_s for v in views)
        hung = any(v.unready_s is not None and v.unready_s <= up_s for v in views)
        was = podstatus.is_ready(pod)
        if (was and hung) or self._begins_to_fail(pod, views, up_s):
            self._tell_unhealthy(pod, "Readiness")
        if (was and hung) or (up and not hung and not was):
            now, ip = self.clock.now(), pod["status"]["podIP"]
            self._write(pod, lambda p: podstatus.running(p, ip, now, ready=not hung))
        wait_s = _next_s(views, does, up_s)
        return max(wait_s, 0.001) if wait_s else None

    def _begins_to_fail(self, pod: Object, views: list[Outlook], up_s: float) -> bool:
        """Whether a first readiness probe has failed of one that never passes."""
        first, failed = (pod["metadata"]["uid"], "unready"), [v.failing_s for v in views if v.failing_s is not None]
        begins = first not in self._began and bool(failed) and min(failed) <= up_s
        if begins:
            self._began[first] = self.clock.now()
        return begins

    def _tell_unhealthy(self, pod: Object, probe: str) -> None:
        for container in pod["spec"]["containers"]:
            message = f"{probe} probe failed: HTTP probe failed with statuscode: 503"
            self._tell(pod, "Unhealthy", message, container["name"], kind="Warning")

    def _kill(self, pod: Object, probe: str) -> float:
        """A probe has failed too often: its containers are stopped and started again."""
        self._tell_unhealthy(pod, probe)
        for container in pod["spec"]["containers"]:
            message = f"Container {container['name']} failed {probe.lower()} probe, will be restarted"
            self._tell(pod, "Killing", message, container["name"])
        now = self.clock.now()
        self._began[pod["metadata"]["uid"], "run"] = now
        self._write(pod, lambda p: podstatus.restarted(p, now))
        return self.rng.uniform(*self.latency_s)

    def _lose_containers(self, pod: Object) -> bool:
        """After a reboot nothing runs any more; True when something had been running."""
        containers = pod["status"].get("containerStatuses") or []
        if podstatus.is_finished(pod) or not any("running" in c["state"] for c in containers):
            return False
        now = self.clock.now()
        if pod["spec"].get("restartPolicy", "Always") == "Never" or podstatus.is_terminating(pod):
            self._write(pod, lambda p: podstatus.finished(p, now, LOST))
            return True
        self._began[pod["metadata"]["uid"], "run"] = now
        self._write(pod, lambda p: podstatus.restarted(p, now, LOST, "Unknown"))
        return True

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
        return self.rng.uniform(*self.latency_s)

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
        stop_s = _pre_stop_s(pod) + does.stop_s
        wait_s = self._began[metadata["uid"], "stop"] + min(stop_s, grace_s) - self.clock.now()
        if wait_s > 0:
            return wait_s
        now = self.clock.now()
        code = 137 if stop_s > grace_s else does.stop_exit_code
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
            pod, reason, message, component="kubelet", manager="kubelet", host=host, container=container, kind=kind
        )


def notes_of(node: Object) -> dict[str, str]:
    """What is said of a node's machine: its annotations that begin with "sim/"."""
    return {k: v for k, v in (node["metadata"].get("annotations") or {}).items() if k.startswith(NOTE)}


def is_silent(node: Object) -> bool:
    return notes_of(node).get(SILENT) == "true"


def boot_id(node: Object) -> str:
    return str(node["status"].get("nodeInfo", {}).get("bootID", ""))


def _views(pod: Object, does: Behaviour) -> list[Outlook]:
    return [outlook(c, does) for c in pod["spec"]["containers"]]


def _next_s(views: list[Outlook], does: Behaviour, up_s: float) -> float | None:
    """How long until something comes of a pod whose containers have run for `up_s`."""
    moments = [m for v in views for m in (v.ready_s, v.unready_s, v.failing_s, v.killed_s)]
    later = [m - up_s for m in [*moments, does.run_s] if m is not None and m > up_s]
    return min(later) if later else None


def _pre_stop_s(pod: Object) -> float:
    """How long the slowest preStop hook sleeps before a container is asked to stop."""
    hooks = [(c.get("lifecycle") or {}).get("preStop") or {} for c in pod["spec"]["containers"]]
    return max((float((h.get("sleep") or {}).get("seconds", 0)) for h in hooks), default=0.0)


def _not_found(image: str) -> str:
    return f'failed to pull and unpack image "{image}": not found'


def _full_name(pod: Object) -> str:
    return "{name}_{namespace}({uid})".format_map(pod["metadata"])


def _address(node: Object) -> str:
    addresses = node["status"].get("addresses") or []
    return str(next((a["address"] for a in addresses if a["type"] == "InternalIP"), ""))

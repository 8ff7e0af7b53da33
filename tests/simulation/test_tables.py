"""What `kubectl get` shows: statuses, ages and cells of each kind."""

from typing import Any

import pytest

from fleet.simulation.columns import PLAIN, PRINTERS, printer_of
from fleet.simulation.resources import RESOURCES, SERVED
from fleet.simulation.tables import human_duration, pod_status, table

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
CREATED = "2026-09-21T14:08:20Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"), (600, "10m"), (659, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 240, "3h4m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"),
        (50 * 3600, "2d2h"), (8 * 86_400, "8d"), (729 * 86_400, "729d"), (800 * 86_400, "2y70d"), (3000 * 86_400, "8y"),
    ],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def pod(state: dict[str, Any] | None = None, phase: str = "Running", **more: Any) -> dict[str, Any]:
    status = {"name": "a", "ready": False, "restartCount": 0, "state": state or {}}
    return {
        "metadata": {"name": "p", "creationTimestamp": CREATED, **more.get("metadata", {})},
        "spec": {"containers": [{"name": "a"}], **more.get("spec", {})},
        "status": {"phase": phase, "containerStatuses": [status], **more.get("status", {})},
    }


RUNNING = {"running": {"startedAt": CREATED}}
DELETED = {"deletionTimestamp": CREATED}


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (pod(RUNNING), "Running"),
        (pod(phase="Pending", status={"containerStatuses": []}), "Pending"),
        (pod({"waiting": {"reason": "ContainerCreating"}}, "Pending"), "ContainerCreating"),
        (pod({"waiting": {"reason": "CrashLoopBackOff"}}), "CrashLoopBackOff"),
        (pod({"terminated": {"exitCode": 0, "reason": "Completed"}}, "Succeeded"), "Completed"),
        (pod({"terminated": {"exitCode": 3}}, "Failed"), "ExitCode:3"),
        (pod({"terminated": {"exitCode": 137, "signal": 9}}, "Failed"), "Signal:9"),
        (pod(RUNNING, metadata=DELETED), "Terminating"),
        (pod({"terminated": {"exitCode": 0, "reason": "Completed"}}, "Succeeded", metadata=DELETED), "Completed"),
        (pod(phase="Failed", status={"reason": "Evicted", "containerStatuses": []}), "Evicted"),
        (pod(RUNNING, metadata=DELETED, status={"reason": "NodeLost"}), "Unknown"),
        (
            pod(
                phase="Pending",
                spec={"initContainers": [{"name": "i"}, {"name": "j"}]},
                status={
                    "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j"}]
                },
            ),
            "Init:1/2",
        ),
        (
            pod(
                phase="Pending",
                spec={"initContainers": [{"name": "i"}]},
                status={"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
            ),
            "Init:ErrImagePull",
        ),
    ],
)
def test_pod_status(obj: dict[str, Any], words: str) -> None:
    assert pod_status(obj) == words


def cells(plural: str, obj: dict[str, Any]) -> dict[str, Any]:
    """Column → cell of one object."""
    printer = printer_of(RESOURCES[plural])
    row = printer.row(obj, NOW)
    assert len(row) == len(printer.columns)
    return dict(zip((c.name for c in printer.columns), row, strict=True))


def test_pods_count_restarts_and_sidecars() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always"}
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-09-21T14:12:20Z"}}
    statuses = [{"name": "a", "ready": True, "restartCount": 2, "state": RUNNING, "lastState": ended}]
    init = [{"name": "s", "ready": True, "started": True, "state": RUNNING}]
    shown = cells(
        "pods",
        pod(spec={"initContainers": [sidecar]}, status={"containerStatuses": statuses, "initContainerStatuses": init}),
    )
    assert (shown["Ready"], shown["Restarts"], shown["Age"]) == ("2/2", "2 (60s ago)", "5m")
    assert (shown["IP"], shown["Node"]) == ("<none>", "<none>")


def meta(**more: Any) -> dict[str, Any]:
    return {"name": "x", "creationTimestamp": CREATED, **more}


OWNER = {"kind": "StatefulSet", "name": "s", "apiVersion": "apps/v1", "controller": True}
SELECTOR = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}]}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}]}}


@pytest.mark.parametrize(
    ("plural", "obj", "expected"),
    [
        (
            "nodes",
            {"metadata": meta(labels={"node-role.kubernetes.io/gpu": ""}), "spec": {"unschedulable": True},
             "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            {"Status": "NotReady,SchedulingDisabled", "Roles": "gpu", "Kernel-Version": "<unknown>"},
        ),
        (
            "deployments",
            {"metadata": meta(), "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
             "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}},
            {"Ready": "1/3", "Up-to-date": 2, "Available": 1, "Containers": "a,b", "Images": "i:1,i:2",
             "Selector": "app=x,t in (a,b)"},
        ),
        (
            "replicasets",
            {"kind": "ReplicaSet", "metadata": meta(), "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
             "status": {"replicas": 2, "readyReplicas": 1}},
            {"Desired": 3, "Current": 2, "Ready": 1},
        ),
        ("statefulsets", {"metadata": meta(), "spec": {"replicas": 2}, "status": {}}, {"Ready": "0/2"}),
        (
            "daemonsets",
            {"metadata": meta(), "spec": {"template": {"spec": {"nodeSelector": {"gpu": "yes"}}}},
             "status": {"desiredNumberScheduled": 4, "numberReady": 3}},
            {"Desired": 4, "Current": 0, "Ready": 3, "Node Selector": "gpu=yes"},
        ),
        (
            "jobs",
            {"metadata": meta(), "spec": {"completions": 2},
             "status": {"succeeded": 2, "startTime": CREATED, "completionTime": "2026-09-21T14:09:20Z",
                        "conditions": [{"type": "Complete", "status": "True"}]}},
            {"Status": "Complete", "Completions": "2/2", "Duration": "60s"},
        ),
        ("jobs", {"metadata": meta(), "spec": {"parallelism": 3}, "status": {}}, {"Status": "Running", "Duration": ""}),
        ("jobs", {"metadata": meta(), "spec": {"parallelism": 3}, "status": {}}, {"Completions": "0/1 of 3"}),
        (
            "services",
            {"metadata": meta(), "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "selector": {"app": "x"},
                                          "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}},
            {"Type": "LoadBalancer", "Cluster-IP": "10.0.0.1", "External-IP": "<pending>", "Port(s)": "80:30080/TCP"},
        ),
        (
            "endpointslices",
            {"metadata": meta(), "addressType": "IPv4", "ports": [{"port": 80}],
             "endpoints": [{"addresses": [f"10.0.0.{i}"]} for i in range(5)]},
            {"Ports": "80", "Endpoints": "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more..."},
        ),
        ("endpointslices", {"metadata": meta(), "ports": None, "endpoints": None}, {"Ports": "<unset>", "Endpoints": "<unset>"}),
        (
            "poddisruptionbudgets",
            {"metadata": meta(), "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
            {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 1},
        ),
        (
            "events",
            {"metadata": meta(), "type": "Warning", "reason": "Failed", "message": "no\n", "count": 3,
             "lastTimestamp": "2026-09-21T14:13:10Z", "firstTimestamp": CREATED, "source": {"component": "kubelet", "host": "n1"},
             "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}},
            {"Last Seen": "10s", "Object": "pod/p", "Source": "kubelet, n1", "Message": "no", "Count": 3, "First Seen": "5m"},
        ),
        (
            "events",
            {"metadata": meta(), "eventTime": "2026-09-21T14:13:00.123456Z", "firstTimestamp": None, "lastTimestamp": None,
             "reportingComponent": "default-scheduler", "involvedObject": {"kind": "Pod", "name": "p"}},
            {"Last Seen": "19s", "Source": "default-scheduler", "Count": 1},
        ),
        ("namespaces", {"metadata": meta(), "status": {"phase": "Active"}}, {"Status": "Active"}),
        ("leases", {"metadata": meta(), "spec": {"holderIdentity": "n1"}}, {"Holder": "n1"}),
        ("configmaps", {"metadata": meta(), "data": {"a": "b"}}, {"Data": 1}),
        ("secrets", {"metadata": meta(), "type": "Opaque"}, {"Type": "Opaque", "Data": 0}),
        ("serviceaccounts", {"metadata": meta()}, {"Age": "5m"}),
        (
            "persistentvolumeclaims",
            {"metadata": meta(), "spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
             "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
            {"Status": "Bound", "Capacity": "1Gi", "Access Modes": "RWO", "StorageClass": "fast"},
        ),
        (
            "resourcequotas",
            {"metadata": meta(), "status": {"hard": {"requests.nvidia.com/gpu": "8", "limits.cpu": "2"},
                                            "used": {"requests.nvidia.com/gpu": "3"}}},
            {"Request": "requests.nvidia.com/gpu: 3/8", "Limit": "limits.cpu: 0/2"},
        ),
        (
            "controllerrevisions",
            {"metadata": meta(ownerReferences=[OWNER]), "revision": 3},
            {"Controller": "statefulset.apps/s", "Revision": 3},
        ),
        ("priorityclasses", {"metadata": meta(), "value": 10}, {"Value": 10, "Global-Default": False}),
        ("cronjobs", {"metadata": meta(), "spec": {"schedule": "* * * * *"}}, {"Schedule": "* * * * *", "Suspend": "False"}),
        (
            "rolebindings",
            {"metadata": meta(), "roleRef": {"kind": "Role", "name": "r"},
             "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "n"}, {"kind": "User", "name": "u"}]},
            {"Role": "Role/r", "Users": "u", "ServiceAccounts": "n/a"},
        ),
        ("endpoints", {"metadata": meta(), "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
         {"Endpoints": "10.0.0.1:80"}),
        ("limitranges", {"metadata": meta()}, {"Name": "x", "Created At": CREATED}),
    ],
)  # fmt: skip
def test_cells(plural: str, obj: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = cells(plural, obj)
    assert {k: shown[k] for k in expected} == expected


def test_every_served_kind_has_a_printer() -> None:
    assert set(PRINTERS) <= {r.plural for r in SERVED}
    assert printer_of(RESOURCES["limitranges"]) is PLAIN


def test_columns_are_named_unless_known() -> None:
    made = table(RESOURCES["pods"], [], printer_of(RESOURCES["pods"]), NOW, "Metadata")
    assert [c["name"] for c in made["columnDefinitions"] if c["priority"] == 0] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert table(RESOURCES["pods"], [], PLAIN, NOW, "Metadata", head=False)["columnDefinitions"] is None

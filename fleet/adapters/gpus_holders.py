"""Who holds the GPUs of this machine: pods by the kubelet's word, processes by their control groups.

Owns the kubelet's PodResources API (v1, gRPC on a Unix socket) and the shapes of control-group paths and device ids. Must not
guess: a process belongs to the pod whose control group it is in, whatever the devices say.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from msgspec import Struct
from msgspec.structs import replace

from fleet.domain.gpus import Gpu, Holder, Instance, Process

DEADLINE_S: Final = 2.0
ASK_EVERY_S: Final = 10.0  # what the kubelet says changes with pods, and it is one kubelet for all that ask
MOST_BYTES: Final = 16 * 1024 * 1024

# The part of the API that is used. Field numbers: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str | None, bool], ...]]] = {
    # name: (field, number, message or None for a string, repeated)
    "ListPodResourcesRequest": (),
    "AllocatableResourcesRequest": (),
    "ContainerDevices": (("resource_name", 1, None, False), ("device_ids", 2, None, True)),
    "ContainerResources": (("name", 1, None, False), ("devices", 2, "ContainerDevices", True)),
    "PodResources": (
        ("name", 1, None, False),
        ("namespace", 2, None, False),
        ("containers", 3, "ContainerResources", True),
    ),
    "ListPodResourcesResponse": (("pod_resources", 1, "PodResources", True),),
    "AllocatableResourcesResponse": (("devices", 1, "ContainerDevices", True),),
}


def message_types() -> dict[str, Any]:
    """Classes of the API's messages by name, made of descriptors now: no generated file has to fit protobuf's version."""
    file = descriptor_pb2.FileDescriptorProto(name="vigie/podresources.proto", package="v1", syntax="proto3")
    for name, shape in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in shape:
            text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
            message.field.add(
                name=field,
                number=number,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE if kind else text,
                type_name=f".v1.{kind}" if kind else None,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
                if repeated
                else descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _MESSAGES}


class Assignment(Struct, frozen=True):
    """Devices of the kubelet: who has which, and which the device plugin offers; by device id."""

    held: dict[str, tuple[Holder, ...]]
    offered: frozenset[str] | None  # None: the kubelet does not say (before 1.23)


class PodResources:
    """The kubelet's socket. One thread at a time."""

    def __init__(self, socket: Path, deadline_s: float = DEADLINE_S) -> None:
        self._socket = socket
        self._deadline_s = deadline_s
        self._types = message_types()
        self._channel: grpc.Channel | None = None

    def ask(self) -> Assignment | None:
        """None when the kubelet does not answer in time or not at all; then nothing is known of pods."""
        if not self._socket.exists():  # gRPC would try for a long time
            self.close()
            return None
        try:
            listed = self._call("List", "ListPodResourcesRequest", "ListPodResourcesResponse")
        except (grpc.RpcError, DecodeError, ValueError):
            self.close()
            return None
        try:
            words = "AllocatableResourcesRequest", "AllocatableResourcesResponse"
            allocatable = self._call("GetAllocatableResources", *words)
            offered = frozenset(device for devices in allocatable.devices for device in devices.device_ids)
        except (grpc.RpcError, DecodeError, ValueError):
            return Assignment(held(listed), None)
        return Assignment(held(listed), offered)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def _call(self, method: str, request: str, response: str) -> Any:
        if self._channel is None:
            self._channel = grpc.insecure_channel(
                f"unix:{self._socket}",
                options=[("grpc.max_receive_message_length", MOST_BYTES), ("grpc.enable_http_proxy", 0)],
            )
        call = self._channel.unary_unary(
            f"/v1.PodResourcesLister/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._types[response].FromString,
        )
        return call(self._types[request](), timeout=self._deadline_s)


def held(listed: Any) -> dict[str, tuple[Holder, ...]]:
    """Containers by device id. A shared device has one id per share."""
    found: defaultdict[str, list[Holder]] = defaultdict(list)
    for pod in listed.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                for device in devices.device_ids:
                    found[device].append(Holder(pod.namespace, pod.name, container.name))
    return {device: tuple(holders) for device, holders in found.items()}


# Device ids: "GPU-…", "MIG-…", each with "::N" when shared; "MIG-GPU-…/gi/ci" of old drivers; GKE's "nvidia0", "nvidia0/gi7",
# "nvidia0/vgpu2", "nvidia0/gi1/vgpu0".
_OLD_MIG: Final = re.compile(r"MIG-(GPU-[0-9a-f-]{1,64})/(\d{1,4})/(\d{1,4})", re.ASCII)
_GKE: Final = re.compile(r"nvidia(\d{1,4})(?:/gi(\d{1,4}))?(?:/vgpu\d{1,4})?", re.ASCII)


class Device(Struct, frozen=True):
    """What a device id means: a GPU by UUID or minor number, or an instance of it."""

    uuid: str = ""  # of the GPU, or of the instance
    minor: int | None = None
    gi: int | None = None
    ci: int | None = None

    def is_gpu(self, gpu: Gpu) -> bool:
        if self.gi is not None:
            return False
        return gpu.uuid == self.uuid if self.uuid else gpu.minor is not None and gpu.minor == self.minor

    def is_instance(self, gpu: Gpu, instance: Instance) -> bool:
        if self.gi is None:
            return bool(self.uuid) and instance.uuid == self.uuid
        same_gpu = gpu.uuid == self.uuid if self.uuid else gpu.minor == self.minor
        return same_gpu and instance.gi == self.gi and self.ci in {None, instance.ci}


def device(device_id: str) -> Device | None:
    """None for what is no GPU, such as a network card."""
    plain = device_id.partition("::")[0]
    if match := _OLD_MIG.fullmatch(plain):
        return Device(match[1], gi=int(match[2]), ci=int(match[3]))
    if plain.startswith(("GPU-", "MIG-")):
        return Device(plain)
    if match := _GKE.fullmatch(plain):
        return Device(minor=int(match[1]), gi=int(match[2]) if match[2] else None)
    return None


# A pod's UID in the path of its control group: "/kubepods/burstable/pod<uid>/…" with the driver cgroupfs,
# "kubepods-burstable-pod<uid, _ for ->.slice/…" with systemd. A static pod has a hash in its place.
_POD: Final = re.compile(
    r"[/-]pod((?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})|[0-9a-f]{32})(?:[./:]|$)", re.ASCII
)
MOST_CHARACTERS: Final = 65_536


def pod_uid(cgroup: str) -> str:
    """Of the pod in the content of a /proc/<pid>/cgroup, v1 or v2; "" outside of pods."""
    for line in cgroup[:MOST_CHARACTERS].splitlines():
        _, _, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if "kubepods" in path and (match := _POD.search(path)):
            return match[1].replace("_", "-")
    return ""


class Holders:
    """Fills in who holds and who uses each GPU of a reading."""

    def __init__(self, proc: Path, pod_resources: PodResources, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._pod_resources = pod_resources
        self._clock = clock
        self._asked_at: float | None = None
        self._assignment: Assignment | None = None

    def named(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """The GPUs with their processes' pods, and with what the kubelet says, at most `ASK_EVERY_S` old."""
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY_S:
            self._assignment, self._asked_at = self._pod_resources.ask(), now
        sees_host = self._sees_host()
        return tuple(self._with_processes(self._with_pods(gpu), sees_host) for gpu in gpus)

    def close(self) -> None:
        self._pod_resources.close()

    def _with_pods(self, gpu: Gpu) -> Gpu:
        if self._assignment is None:
            return gpu
        return assigned(gpu, self._assignment)

    def _with_processes(self, gpu: Gpu, sees_host: bool) -> Gpu:
        if not gpu.processes or not sees_host:
            return gpu
        return replace(gpu, processes=tuple(self._with_holder(process) for process in gpu.processes))

    def _with_holder(self, process: Process) -> Process:
        try:
            uid = pod_uid((self._proc / str(process.pid) / "cgroup").read_text(errors="replace"))
        except OSError:  # it has ended since
            return process
        return replace(process, holder=Holder(pod_uid=uid)) if uid else process

    def _sees_host(self) -> bool:
        """Whether process ids mean here what they mean to the driver: thread 2 of a machine is the kernel's."""
        try:
            return (self._proc / "2" / "comm").read_text() == "kthreadd\n"
        except OSError:
            return False


def assigned(gpu: Gpu, assignment: Assignment) -> Gpu:
    """The GPU and its instances with their containers, and whether the plugin offers any of them."""
    devices = [(found, holders) for name, holders in assignment.held.items() if (found := device(name))]
    instances = tuple(
        replace(instance, assigned=_unique(h for d, hs in devices if d.is_instance(gpu, instance) for h in hs))
        for instance in gpu.instances
    )
    whole = _unique(h for d, hs in devices if d.is_gpu(gpu) for h in hs)
    offered = None if assignment.offered is None else _is_offered(gpu, assignment.offered)
    return replace(gpu, assigned=whole, instances=instances, advertised=offered)


def _is_offered(gpu: Gpu, offered: Iterable[str]) -> bool:
    devices = [found for name in offered if (found := device(name))]
    return any(d.is_gpu(gpu) or any(d.is_instance(gpu, instance) for instance in gpu.instances) for d in devices)


def _unique(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    return tuple(dict.fromkeys(holders))

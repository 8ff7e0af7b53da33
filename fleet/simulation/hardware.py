"""The machines of the rehearsal: what a node of each GPU product looks like to the API server when it has just joined.

Owns labels (as GPU feature discovery and the GPU operator write them), capacities and node info. Pure.
"""

import random
import uuid
from dataclasses import dataclass
from typing import Any

from fleet.simulation.clock import stamp

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
REGION = "par1"
GIB_KIB = 1024 * 1024


@dataclass(frozen=True)
class Model:
    """A kind of machine. Memory of a GPU in MiB as NVML counts it, of the machine in GiB."""

    product: str
    family: str
    compute: str
    gpu_mib: int
    machine: str
    instance_type: str
    cores: int
    memory_gib: int
    mig: bool
    gpus: int = 8


MODELS: dict[str, Model] = {
    "H100": Model(
        "NVIDIA-H100-80GB-HBM3", "hopper", "9.0", 81559, "DGXH100", "gpu-8x-h100", 224, 2015, mig=True
    ),
    "A100": Model(
        "NVIDIA-A100-SXM4-80GB", "ampere", "8.0", 81920, "DGXA100-920-23687-2530-000", "gpu-8x-a100", 256, 2015, mig=True
    ),
    "L4": Model("NVIDIA-L4", "ada-lovelace", "8.9", 23034, "PowerEdge-R760xa", "gpu-8x-l4", 96, 755, mig=False),
}  # fmt: skip

DRIVERS = ("570.124.06", "570.124.06", "570.124.06", "565.57.01")  # one machine in four is still to be updated
CUDA = {"570": "12.8", "565": "12.7"}

COMPONENTS = (
    "container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery", "mig-manager",
    "node-status-exporter", "operator-validator",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a machine stands. `number` counts from 1 over the whole fleet."""

    number: int
    name: str
    pool: str
    zone: str
    model: Model

    @property
    def rack(self) -> str:
        return f"{'AB'[self.zone.endswith('b')]}{(self.number - 1) // 6 % 40 + 1:02d}"

    @property
    def address(self) -> str:
        return f"10.1.{self.number // 250}.{self.number % 250 + 1}"

    @property
    def pod_prefix(self) -> str:
        """The first three parts of its pods' addresses."""
        return f"10.{100 + self.number // 256}.{self.number % 256}"


def labels(place: Place, driver: str, discovered_at: float) -> dict[str, str]:
    model = place.model
    major, minor, revision = driver.split(".")
    cuda = CUDA[major]
    cuda_major, cuda_minor = cuda.split(".")
    compute_major, compute_minor = model.compute.split(".")
    found = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": place.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": model.instance_type,
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.driver-version.major": major,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime-version.full": cuda,
        "nvidia.com/cuda.runtime-version.major": cuda_major,
        "nvidia.com/cuda.runtime-version.minor": cuda_minor,
        "nvidia.com/cuda.runtime.major": cuda_major,
        "nvidia.com/cuda.runtime.minor": cuda_minor,
        "nvidia.com/gfd.timestamp": str(int(discovered_at)),
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor,
        "nvidia.com/gpu.count": str(model.gpus),
        "nvidia.com/gpu.family": model.family,
        "nvidia.com/gpu.machine": model.machine,
        "nvidia.com/gpu.memory": str(model.gpu_mib),
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product,
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": str(model.mig).lower(),
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        "topology.kubernetes.io/rack": place.rack,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": place.zone,
        "vigie.dev/pool": place.pool,
    }
    found |= {f"nvidia.com/gpu.deploy.{component}": "true" for component in COMPONENTS}
    if model.mig:
        found |= {"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"}
    return dict(sorted(found.items()))


def _amounts(model: Model) -> tuple[Object, Object]:
    """Capacity and allocatable: the kubelet keeps a little of the processor and of memory."""
    kib = model.memory_gib * GIB_KIB
    shared = {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    capacity = {"cpu": str(model.cores), "ephemeral-storage": "3662474Mi", **shared, "memory": f"{kib}Ki"}
    allocatable = {"cpu": f"{model.cores * 1000 - 100}m", "ephemeral-storage": "3456344084478", **shared}
    allocatable["memory"] = f"{kib - 2_199_552}Ki"
    slots = {GPU: str(model.gpus), "pods": "110"}
    return {**capacity, **slots}, {**allocatable, **slots}


def _condition(kind: str, status: str, reason: str, message: str, since: float, beat: float) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": stamp(beat),
        "lastTransitionTime": stamp(since),
        "reason": reason,
        "message": message,
    }


def conditions(ready_since: float, beat: float) -> list[Object]:
    """A healthy node's conditions; `beat` is the last time that the kubelet reported them."""
    healthy = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [_condition(*told, ready_since, beat) for told in healthy]


def node(place: Place, rng: random.Random, ready_since: float, beat: float) -> Object:
    """The whole Node as it is to be created."""
    driver = DRIVERS[place.number % len(DRIVERS)]
    capacity, allocatable = _amounts(place.model)
    cidr = f"{place.pod_prefix}.0/24"
    return {
        "metadata": {
            "name": place.name,
            "labels": labels(place, driver, ready_since + 90),
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "nvidia.com/gpu-driver-upgrade-enabled": "true",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": cidr,
            "podCIDRs": [cidr],
            "providerID": f"rehearsal://{place.zone}/{place.name}",
        },
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": conditions(ready_since, beat),
            "addresses": [
                {"type": "InternalIP", "address": place.address},
                {"type": "Hostname", "address": place.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(rng, beat),
        },
    }


def _node_info(rng: random.Random, beat: float) -> Object:
    """The same machine in every rehearsal, but not the same boot: what a driver said in the last one is over."""

    def identity(mask: int = 0) -> str:
        return str(uuid.UUID(int=rng.getrandbits(128) ^ mask, version=4))

    return {
        "machineID": identity().replace("-", ""),
        "systemUUID": identity(),
        "bootID": identity(int(beat * 1000)),
        "kernelVersion": "6.8.0-57-generic",
        "osImage": "Ubuntu 24.04.2 LTS",
        "containerRuntimeVersion": "containerd://2.0.5",
        "kubeletVersion": "v1.36.2",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }

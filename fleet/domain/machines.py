"""What a node's labels say about the machine: pool, zone, GPU product, physical GPUs, driver.

Owns the tables of label names that clouds and GPU operators use, and the short names of products. Must not look at capacity
or pods. Labels can be missing: then text is "" and a number is `None`, never 0.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
# First label that is there wins: the site's own word, then the cloud's, then the role.
POOL = (
    "vigie.dev/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "node.kubernetes.io/pool",
    "node-pool",
    "pool",
)
ROLE_PREFIX = "node-role.kubernetes.io/"
PRODUCT = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)
TEAM = ("vigie.dev/team", "team", "app.kubernetes.io/part-of", "owner")
MACHINE = ("node.kubernetes.io/instance-type", "nvidia.com/gpu.machine")
# GKE labels the count of accelerators that a node has, whatever is shared.
PHYSICAL = ("nvidia.com/gpu.count", "cloud.google.com/gke-accelerator-count")
SHARES_GKE = "cloud.google.com/gke-max-shared-clients-per-gpu"
NO_SHARING = ("", "none")

_MIG = re.compile(r"-MIG-(?P<profile>.+)$")
_SHORT = (
    re.compile(r"\bRTX PRO \d+", re.IGNORECASE),
    re.compile(r"\b(?:RTX|GTX) (?:A?\d{3,4})(?: (?:Ti SUPER|Ti|SUPER|Ada))?", re.IGNORECASE),
    re.compile(r"\b(?:Max|Flex) \d{3,4}\b"),
    re.compile(r"\bMI\d{2,3}[A-Z]?\b", re.IGNORECASE),
    re.compile(r"\b(?:GH|GB|[ABHKLMPTV])\d{1,3}[A-Z]?\b", re.IGNORECASE),
)


class Machine(Struct, frozen=True, gc=False):
    """What the labels of one node say."""

    pool: str
    zone: str
    product: str  # short: "H100"
    product_name: str  # as labelled
    memory_mib: int | None  # per GPU (per instance with the single strategy)
    physical: int | None
    driver: str
    cuda: str
    type: str


def machine(labels: Mapping[str, str]) -> Machine:
    labelled = product_name(labels)
    return Machine(
        pool=first(labels, POOL) or _role(labels),
        zone=first(labels, ZONE),
        product=short_product(labelled),
        product_name=labelled,
        memory_mib=number(labels.get("nvidia.com/gpu.memory", "")),
        physical=physical(labels),
        driver=_version(
            labels, "nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver", ("major", "minor", "rev")
        ),
        cuda=_version(labels, "nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime", ("major", "minor")),
        type=first(labels, MACHINE),
    )


def product_name(labels: Mapping[str, str]) -> str:
    return first(labels, PRODUCT)


def mig_profile(product_name: str) -> str:
    """The profile that the single strategy writes into the product: there "nvidia.com/gpu" stands for instances of it."""
    match = _MIG.search(unshared(product_name))
    return match["profile"] if match else ""


def physical(labels: Mapping[str, str]) -> int | None:
    """GPUs in the machine, apart from the slots that shares and MIG make of them; None where labels do not tell.

    With MIG's single strategy `gpu.count` counts instances, so it says nothing about GPUs.
    """
    if mig_profile(product_name(labels)):
        return None
    return number(first(labels, PHYSICAL)) or None


def shares(labels: Mapping[str, str], resource: str) -> bool:
    """Whether several slots of `resource` stand for one device (time slicing or MPS)."""
    if resource.endswith(".shared"):
        return True
    replicas = number(labels.get(f"{resource}.replicas", "")) or number(labels.get(SHARES_GKE, "")) or 1
    if replicas > 1:
        return True
    return resource == "nvidia.com/gpu" and product_name(labels).endswith("-SHARED")


@lru_cache(maxsize=1024)
def short_product(name: str) -> str:
    """ "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED" → "H100"; a name of no known shape stays as it is."""
    plain = _MIG.sub("", unshared(name))
    words = re.sub(r"[-_]+", " ", plain)
    for shape in _SHORT:
        match = shape.search(words)
        if match:
            return _cased(match[0])
    return plain


def unshared(product_name: str) -> str:
    return product_name.removesuffix("-SHARED")


def first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The value of the first of `names` that is set, "" when none is."""
    return next((labels[name] for name in names if labels.get(name)), "")


def number(text: str) -> int | None:
    """A label's whole number; None when it is missing or something else."""
    return int(text) if text.isascii() and text.isdigit() else None


def _cased(short: str) -> str:
    """Clouds label in lower case; words keep their case, model numbers are capitals."""
    return " ".join(word if word in {"Ti", "Ada", "Max", "Flex"} else word.upper() for word in short.split())


def _role(labels: Mapping[str, str]) -> str:
    roles = sorted(name.removeprefix(ROLE_PREFIX) for name in labels if name.startswith(ROLE_PREFIX))
    return next((role for role in roles if role), "")


def _version(labels: Mapping[str, str], full: str, prefix: str, parts: Iterable[str]) -> str:
    """Newer GPU feature discovery labels the version whole, older ones in parts."""
    return labels.get(full) or ".".join(v for part in parts if (v := labels.get(f"{prefix}.{part}")))

"""Where a container says that it saves, and what is behind a path in it.

Owns how arguments and environment are read, and the way from a path through the volume mounts to a claim, a volume or nothing at
all, with how durable that is. Must not know what a checkpoint is, nor what Vigie may read.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fleet.domain.specs import Claim, FullContainer, FullPod, FullVolume, Mount, Storage

MOST_WORDS: Final = 2_000  # of a command line
LONGEST_PLACE: Final = 1_000
OBJECTS: Final = frozenset({"s3", "gs", "gcs", "az", "abfs", "abfss", "wasbs", "oss", "cos", "hf"})


class Durability(StrEnum):
    """What a checkpoint there outlives."""

    DURABLE = "durable"  # pod and node: a claim whose volume any node, or another one, can mount
    OBJECT = "object"  # the same, in an object store
    NODE = "node"  # the pod, and not the node: hostPath, a local disk behind a claim
    POD = "pod"  # nothing: emptyDir, an ephemeral volume, the container's own file system
    REPORTED = "reported"  # the trainer alone can tell
    UNKNOWN = "unknown"


class Site(Struct, frozen=True):
    """One place. `uri`: s3://bucket/prefix, pvc://namespace/claim/path, host:///path, pod://volume/path; "" where even that is
    not known. `volume`: its name in the pod, "" the container's own file system. `claim`: "namespace/name", "" none."""

    uri: str = ""
    durability: Durability = Durability.UNKNOWN
    volume: str = ""
    claim: str = ""
    shared: bool = False  # several nodes can mount it at once


class Volumes(Struct, frozen=True):
    """Claims by "namespace/name" and persistent volumes by name; None: we may not read them."""

    claims: Mapping[str, Claim] | None = None
    storage: Mapping[str, Storage] | None = None


def site(pod: FullPod, trainers: Iterable[FullContainer], place: str, volumes: Volumes) -> Site:
    """What is behind an address, or a path in those of the pod's containers of which one saves there: by its own mounts, since
    another container may have anything at the same path. Unknown where they lead to different places."""
    scheme, _, rest = place.partition("://")
    if len(place) > LONGEST_PLACE:
        return Site()
    if place.startswith("/") or (scheme == "file" and rest.startswith("/")):
        path = place if place.startswith("/") else rest
        found = {_site_of_path(pod, container, path, volumes) for container in trainers}
        return found.pop() if len(found) == 1 else Site()
    if scheme == "pvc":
        namespace, claim, path = (*rest.split("/", 2), "", "")[:3]
        return _site_of_claim(f"{namespace}/{claim}", path, "", volumes) if claim and plain(path) else Site()
    if scheme in OBJECTS and rest and plain(rest):
        return Site(f"{scheme}://{rest.strip('/')}", Durability.OBJECT)
    return Site()


def plain(path: str) -> bool:
    """Whether a path says where it leads: one with ".." in it may lead anywhere."""
    return not {".", ".."} & {*path.split("/")} and "\0" not in path


def _site_of_path(pod: FullPod, container: FullContainer, path: str, volumes: Volumes) -> Site:
    if not plain(path):
        return Site()
    path = "/" + "/".join(filter(None, path.split("/")))
    covering = [mount for mount in container.volume_mounts if _covers(mount, path)]
    mount = max(covering, key=lambda each: len(each.mount_path), default=None)
    if mount is None:
        return Site(f"pod://{path}", Durability.POD)
    volume = next((each for each in pod.spec.volumes if each.name == mount.name), None)
    inner = expanded(mount.sub_path_expr, container) if mount.sub_path_expr else mount.sub_path
    if volume is None or inner is None or not plain(inner):
        return Site(volume=mount.name)
    rest = path[len(mount.mount_path.rstrip("/")) :]
    return _site_of_volume(pod, volume, "/".join(filter(None, (inner.strip("/"), rest.strip("/")))), volumes)


def _covers(mount: Mount, path: str) -> bool:
    root = mount.mount_path.rstrip("/")
    return path == (root or "/") or path.startswith(f"{root}/")


def _site_of_volume(pod: FullPod, volume: FullVolume, path: str, volumes: Volumes) -> Site:
    if source := volume.persistent_volume_claim:
        return _site_of_claim(f"{pod.metadata.namespace}/{source.claim_name}", path, volume.name, volumes)
    if volume.host_path is not None:
        return Site(f"host://{volume.host_path.path.rstrip('/')}/{path}".rstrip("/"), Durability.NODE, volume.name)
    if volume.empty_dir is not None or volume.ephemeral is not None:
        return Site(f"pod://{volume.name}/{path}".rstrip("/"), Durability.POD, volume.name)
    return Site(volume=volume.name)


def _site_of_claim(claim: str, path: str, volume: str, volumes: Volumes) -> Site:
    uri = f"pvc://{claim}/{path}".rstrip("/")
    found = (volumes.claims or {}).get(claim)
    bound = (volumes.storage or {}).get(found.spec.volume_name) if found else None
    shared = found is not None and "ReadWriteMany" in found.spec.access_modes
    if bound is None:  # a disk of one node looks like any other until its volume can be read
        return Site(uri, Durability.UNKNOWN, volume, claim, shared)
    return Site(uri, Durability.NODE if _of_one_node(bound) else Durability.DURABLE, volume, claim, shared)


def _of_one_node(storage: Storage) -> bool:
    if storage.spec.local is not None or storage.spec.host_path is not None:
        return True
    required = storage.spec.node_affinity.required if storage.spec.node_affinity else None
    terms = required.node_selector_terms if required else ()
    return any(_names_nodes(each.key) for term in terms for each in term.match_expressions)


def _names_nodes(label: str) -> bool:
    """Whether each node has a value of its own: kubernetes.io/hostname, topology.topolvm.io/node, openebs.io/nodename …"""
    return label.rpartition("/")[2] in {"hostname", "node", "nodename", "node-name", "node-id"}


# What command lines and environments say

_SAVES: Final = re.compile(
    r"(?:^|[._-])(?:output[._-]?dir|save|save[._-]?(?:dir|path|folder)|default[._-]root[._-]dir"
    r"|(?:ckpts?|checkpoints?)(?:[._-]?\w+)*)$",
    re.IGNORECASE,
)
_READS: Final = re.compile(
    r"(?:^|[._-])(?:load|loads|resume|restore|from|pretrained|init|initial|base|teacher)(?:[._-]|$)", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")


def of_arguments(container: FullContainer) -> str:
    """The first argument that says where checkpoints go: --output_dir /x, --save=/x, checkpoint.folder=s3://…; "" none does.

    A command line for a shell is read word by word. What it loads from does not count.
    """
    words = list(_words(container))
    for word, following in zip(words, [*words[1:], ""], strict=False):  # there may be none at all
        name, equals, value = word.partition("=")
        told = value if equals else following
        if (equals or name.startswith("-")) and _is_save(name.lstrip("-+")) and (place := _place(told, container)):
            return place
    return ""


def of_environment(container: FullContainer) -> str:
    """The first variable that says where checkpoints go: CKPT_DIR, CHECKPOINT_PATH, OUTPUT_DIR; "" none does."""
    places = (_place(each.value, container) for each in container.env if _is_save(each.name))
    return next(filter(None, places), "")


def expanded(text: str, container: FullContainer) -> str | None:
    """With the container's own variables in place; None when one of them has no value here."""
    known = {each.name: each.value for each in container.env if each.value}
    names = [next(filter(None, found.groups())) for found in _VARIABLE.finditer(text)]
    if any(name not in known for name in names):
        return None
    return _VARIABLE.sub(lambda found: known[next(filter(None, found.groups()))], text)


def _is_save(name: str) -> bool:
    return len(name) <= 200 and bool(_SAVES.search(name)) and not _READS.search(name)


def _place(value: str, container: FullContainer) -> str:
    """A value that can only be a location: --save-interval 500 names none."""
    text = expanded(value.strip(), container)
    if (
        text is None
        or len(text) > LONGEST_PLACE
        or not (text.startswith("/") or re.match(r"[a-z][a-z0-9]*://\S", text))
    ):
        return ""
    return text


def _words(container: FullContainer) -> Iterator[str]:
    left = MOST_WORDS
    for argument in (*container.command, *container.args):
        for word in _split(argument) if any(map(str.isspace, argument)) else (argument,):
            left -= 1
            if left < 0:
                return
            yield word


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line[:100_000], comments=True)
    except ValueError:  # an open quote
        return line[:100_000].split()

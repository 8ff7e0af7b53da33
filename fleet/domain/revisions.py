"""Changes to a workload: restart, pause, resume, undo, set image, scale, each as the exact patch that makes it.

Owns the patches, their refusals, the history of a workload's templates and the difference between two. Must not send anything,
nor say whether a change is wise. Every patch names the version that it is meant for: of another one the API server refuses it
(409).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]

RESTARTED = "kubectl.kubernetes.io/restartedAt"
REVISION = "deployment.kubernetes.io/revision"
CAUSE = "kubernetes.io/change-cause"
HASH_LABEL = "pod-template-hash"
KINDS = ("Deployment", "StatefulSet", "DaemonSet")
PAUSABLE = frozenset({"Deployment"})
SCALABLE = frozenset({"Deployment", "StatefulSet"})

WRITES = frozenset({"restart", "undo", "set-image"})  # kinds of action that write a template

MOST_REPLICAS = 10_000
LONGEST_IMAGE = 512
LONGEST_SHOWN = 300  # characters of a value in a difference
# Whoever may look at a workload here need not be somebody who may read its secrets.
SECRET = re.compile(r"token|secret|passw|credential|api[-_]?key|private", re.IGNORECASE)
HIDDEN = "•••"

# github.com/distribution/reference, regexp.go: of another image every kubelet says InvalidImageName.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?=[^/]*[.:]|localhost/)(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?/"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG, _DIGEST = (
    r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}",
    r"@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}",
)
_IMAGE = re.compile(rf"(?:{_HOST})?{_PART}(?:/{_PART})*(?:{_TAG})?(?:{_DIGEST})?")


class ChangeError(ValueError):
    """Why a change cannot be made. `why`: a token."""

    def __init__(self, why: str, **facts: str | int | None) -> None:
        super().__init__(why)
        self.why, self.facts = why, facts


class Form(StrEnum):
    """How a patch is merged."""

    MERGE = "merge"
    STRATEGIC = "strategic"


class Patch(Struct, frozen=True):
    """`body` has the resourceVersion for which it is meant; `subresource`: "" the object itself, or "scale"."""

    form: Form
    body: Json
    subresource: str = ""


class Workload(Struct, frozen=True):
    """A Deployment, StatefulSet or DaemonSet, whole, as the API gives it. Only from what was read is anything written."""

    kind: str
    raw: Json

    @property
    def metadata(self) -> Json:
        found: Json = self.raw.get("metadata") or {}
        return found

    @property
    def spec(self) -> Json:
        found: Json = self.raw.get("spec") or {}
        return found

    @property
    def template(self) -> Json:
        found: Json = self.spec.get("template") or {}
        return found

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.metadata.get('namespace', '')}/{self.metadata.get('name', '')}"

    @property
    def uid(self) -> str:
        return str(self.metadata.get("uid", ""))

    @property
    def version(self) -> str:
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def generation(self) -> int:
        """Another one with each change of the spec, and with none of the status."""
        return int(self.metadata.get("generation") or 0)

    @property
    def paused(self) -> bool:
        return bool(self.spec.get("paused"))

    @property
    def replicas(self) -> int:
        found = self.spec.get("replicas")
        return 1 if found is None else int(found)

    @property
    def revision(self) -> str:
        return str((self.metadata.get("annotations") or {}).get(REVISION, ""))

    @property
    def images(self) -> dict[str, str]:
        """By container, init containers as well."""
        return {str(c.get("name", "")): str(c.get("image", "")) for _, c in _containers(self.template)}


# Changes


def stamp(at: float) -> str:
    """As `kubectl rollout restart` writes it: two restarts within one second are one."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def restart(workload: Workload, at: float) -> Patch:
    """New pods of the same template. Raises ChangeError: paused, or restarted in this very second."""
    _unpaused(workload)
    annotations = (workload.template.get("metadata") or {}).get("annotations") or {}
    if annotations.get(RESTARTED) == stamp(at):
        raise ChangeError("same-second")
    return _patch(workload, Form.STRATEGIC, {"template": {"metadata": {"annotations": {RESTARTED: stamp(at)}}}})


def pause(workload: Workload) -> Patch:
    """Raises ChangeError: it cannot pause, or it does already."""
    if workload.kind not in PAUSABLE:
        raise ChangeError("cannot-pause")
    if workload.paused:
        raise ChangeError("paused-already")
    return _patch(workload, Form.MERGE, {"paused": True})


def resume(workload: Workload) -> Patch:
    """Raises ChangeError: it is not paused."""
    if not workload.paused:
        raise ChangeError("not-paused")
    return _patch(workload, Form.MERGE, {"paused": None})


def scale(workload: Workload, replicas: int) -> Patch:
    """Also of a paused one. Raises ChangeError: no such number, the same one, or a kind that has no scale."""
    if workload.kind not in SCALABLE:
        raise ChangeError("cannot-scale")
    if not 0 <= replicas <= MOST_REPLICAS:
        raise ChangeError("replicas", most=MOST_REPLICAS)
    if replicas == workload.replicas:
        raise ChangeError("same-replicas", replicas=replicas)
    return msgspec.structs.replace(_patch(workload, Form.MERGE, {"replicas": replicas}), subresource="scale")


def set_image(workload: Workload, images: Mapping[str, str]) -> Patch:
    """`images` by container. Raises ChangeError: no such container, no image, or nothing new. On a paused Deployment it is kept
    for when it is resumed."""
    lists: dict[str, list[Json]] = {}
    known = {str(c.get("name", "")): (field, c) for field, c in _containers(workload.template)}
    for name, image in images.items():
        if name not in known:
            raise ChangeError("no-container", container=name)
        if not _IMAGE.fullmatch(image) or len(image) > LONGEST_IMAGE:
            raise ChangeError("image", container=name)
        field, container = known[name]
        if container.get("image") != image:
            lists.setdefault(field, []).append({"name": name, "image": image})
    if not lists:
        raise ChangeError("same-image")
    return _patch(workload, Form.STRATEGIC, {"template": {"spec": lists}})


def undo(workload: Workload, to: "Revision") -> Patch:
    """Exactly the template of `to`, whatever came between. Raises ChangeError: paused, or it is the template already."""
    _unpaused(workload)
    if same(workload.template, to.template):
        raise ChangeError("same-template", revision=to.number)
    return _patch(workload, Form.STRATEGIC, {"template": {"$patch": "replace", **plain(to.template)}})


def _patch(workload: Workload, form: Form, spec: Json) -> Patch:
    return Patch(form, {"metadata": {"resourceVersion": workload.version}, "spec": spec})


def _unpaused(workload: Workload) -> None:
    if workload.paused:
        raise ChangeError("paused")


def after(workload: Workload, change: Patch) -> Json:
    """The template as the change would leave it, for showing: the patches of this module alone, not any patch."""
    wanted = change.body["spec"].get("template")
    if wanted is None:
        return workload.template
    if wanted.get("$patch") == "replace":
        return {name: value for name, value in wanted.items() if name != "$patch"}
    found: Json = msgspec.json.decode(msgspec.json.encode(workload.template))
    for field, changed in (wanted.get("spec") or {}).items():
        images = {c["name"]: c["image"] for c in changed}
        for container in found["spec"][field]:
            container["image"] = images.get(container["name"], container.get("image"))
    added = (wanted.get("metadata") or {}).get("annotations") or {}
    if added:
        metadata = found.get("metadata") or {}
        found["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}
    return found


# History


class Revision(Struct, frozen=True):
    """One template that a workload has had. `holder`: the ReplicaSet or ControllerRevision that keeps it."""

    number: int
    holder: str
    uid: str
    template: Json
    images: tuple[str, ...]
    created_at: str  # as the API writes it
    cause: str = ""
    current: bool = False

    @property
    def digest(self) -> str:
        """Tells whether the template is still the one that was shown."""
        return digest(self.template)


def history(workload: Workload, holders: Iterable[Json]) -> tuple[Revision, ...]:
    """Its revisions, the newest first. `holders`: ReplicaSets of a Deployment, ControllerRevisions of the others; those of
    somebody else and those that cannot be read are left out."""
    found = (_revision(workload, holder) for holder in holders if _owned(workload, holder))
    return tuple(sorted(filter(None, found), key=lambda one: one.number, reverse=True))


class Edit(Struct, frozen=True):
    """Who wrote something last, by the name that a program gives itself, and when, as the API writes it."""

    manager: str
    at: str


def edit(workload: Workload) -> Edit | None:
    """Of the present template. Several programs own parts of one; the newest of them counts. None: nobody is named."""
    entries = workload.metadata.get("managedFields") or ()
    mine = [one for one in entries if "f:template" in ((one.get("fieldsV1") or {}).get("f:spec") or {})]
    last = max(mine, key=lambda one: str(one.get("time", "")), default=None)
    return Edit(str(last.get("manager", "")), str(last.get("time", ""))) if last else None


def find(revisions: Iterable[Revision], number: int | None) -> Revision:
    """Revision `number`; None: the newest that is not the present template, as kubectl's undo takes. Raises ChangeError."""
    if number is None:
        found = next((one for one in revisions if not one.current), None)
    else:
        found = next((one for one in revisions if one.number == number), None)
    if found is None:
        raise ChangeError("no-revision", revision=number)
    return found


def _owned(workload: Workload, holder: Json) -> bool:
    owners = (holder.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("uid") == workload.uid and one.get("controller") for one in owners)


def _revision(workload: Workload, holder: Json) -> Revision | None:
    metadata = holder.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    body = holder.get("data") if "data" in holder else holder
    template = ((body or {}).get("spec") or {}).get("template")
    number = str(holder.get("revision", annotations.get(REVISION, "")))
    if not template or not number.isdigit():
        return None
    found = plain(template)
    return Revision(
        number=int(number),
        holder=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        template=found,
        images=tuple(str(c.get("image", "")) for _, c in _containers(found)),
        created_at=str(metadata.get("creationTimestamp", "")),
        cause=str(annotations.get(CAUSE, "")),
        current=same(found, workload.template),
    )


def plain(template: Json) -> Json:
    """Without what controllers add: the hash of a ReplicaSet, the directive of a ControllerRevision, and what is empty."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    kept = {name: value for name, value in metadata.items() if value}
    return {"metadata": kept, "spec": template.get("spec") or {}}


def same(one: Json, other: Json) -> bool:
    return plain(one) == plain(other)


def digest(template: Json) -> str:
    return hashlib.sha256(msgspec.json.encode(plain(template), order="sorted")).hexdigest()


# Differences


class Difference(Struct, frozen=True):
    """One value of a template: `before` or `after` is None where it is not there."""

    path: str  # "containers[server].image"
    before: str | None
    after: str | None


def differences(before: Json, after: Json) -> tuple[Difference, ...]:
    """Everything that two templates do not have in common, by path. Values of variables named like secrets are hidden."""
    old, new = dict(_leaves("", plain(before))), dict(_leaves("", plain(after)))
    paths = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
    return tuple(Difference(_named(path), _shown(path, old.get(path)), _shown(path, new.get(path))) for path in paths)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, item)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            name = item.get("name") if isinstance(item, dict) else None
            yield from _leaves(f"{path}[{name or number}]", item)
    else:
        yield path, value


def _named(path: str) -> str:
    return path.removeprefix("spec.")


def _shown(path: str, value: Any) -> str | None:
    if value is None:
        return None
    if ".env[" in path and path.endswith(".value") and SECRET.search(path):
        return HIDDEN
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def _containers(template: Json) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers"):
        for container in (template.get("spec") or {}).get(field) or ():
            yield field, container

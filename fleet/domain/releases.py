"""What is known of a workload or a pair that an action is about, and what the action would make of it.

Owns the choices that a person may give, the side and the selector that they mean, the patch, and the smoke test to ask. Must not
judge: `release_guards` does.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec
from msgspec import Struct

from fleet.domain import green_sides, kube, revisions, smoke, switching
from fleet.domain.blue_green import Pair, Selector, Side
from fleet.domain.capacity import finished
from fleet.domain.objects import DaemonSet, Deployment, Metadata, Service, StatefulSet
from fleet.domain.pods import is_ready
from fleet.domain.revisions import ChangeError, Json, Patch, Revision, Workload
from fleet.domain.rollouts import Rolled
from fleet.domain.smoke import Request, RequestError, Verdict
from fleet.domain.specs import FullPod, FullPodSpec
from fleet.domain.switching import Preview, WayBack

SERVICE = "Service"
TYPES: Mapping[str, type[Rolled]] = {"Deployment": Deployment, "StatefulSet": StatefulSet, "DaemonSet": DaemonSet}
ON_SERVICE = frozenset({"switch", "way-back", "retire", "create-green"})
SCALES = frozenset({"scale", "retire"})
UNDECLARED = "undeclared"
# Names as Kubernetes has them (RFC 1123): a path is made of them, and dots alone would lead to another object.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Release(Struct, frozen=True, dict=True):
    """Everything read about one target for one decision. `options`: what the person has chosen; `now`: seconds since 1970.

    `workload`: as it was read, the target or that side of the pair which the action is about. `pods`: of the namespace, by the
    key of their workload; `strays` have none. `tested`: one verdict for each pod that was asked. `scalers`: names of the
    autoscalers of the workload, None they may not be read.
    """

    kind: str  # of the action
    target: str  # "Deployment/chat/llm" or "Service/chat/llm"
    options: Mapping[str, str]
    now: float
    workload: Workload | None = None
    holders: tuple[Json, ...] = ()
    service: Service | None = None
    pair: Pair | None = None
    pods: Mapping[str, tuple[FullPod, ...]] = {}
    strays: tuple[FullPod, ...] = ()
    tested: tuple[Verdict, ...] = ()
    scalers: tuple[str, ...] | None = ()
    names: frozenset[str] = frozenset()  # of the Deployments of the namespace
    refusal: str = ""  # what the API server says to the change in a dry run

    @property
    def malformed(self) -> bool:
        """Whether the target is none of the kind of thing that the action is done to."""
        kind, namespace, name = parts(self.target)
        named = bool(_NAME.fullmatch(namespace) and _NAME.fullmatch(name))
        return not named or (kind != SERVICE if self.kind in ON_SERVICE else kind not in TYPES)

    @property
    def namespace(self) -> str:
        return parts(self.target)[1]

    @property
    def name(self) -> str:
        return parts(self.target)[2]

    @property
    def uid(self) -> str:
        if self.of_service:
            return self.service.metadata.uid if self.service else ""
        return self.workload.uid if self.workload else ""

    @property
    def going(self) -> str:
        """The key of what somebody has deleted and that is not gone yet; "" nothing of it."""
        if self.service is not None and self.service.metadata.deletion_timestamp is not None:
            return f"{SERVICE}/{self.service.key}"
        deleted = self.workload is not None and self.workload.metadata.get("deletionTimestamp")
        return self.workload.key if self.workload is not None and deleted else ""

    @property
    def of_service(self) -> bool:
        return parts(self.target)[0] == SERVICE

    @cached_property
    def rolled(self) -> Rolled | None:
        """The workload, typed."""
        if self.workload is None or self.workload.kind not in TYPES:
            return None
        return msgspec.convert(kube.without_nulls(self.workload.raw), TYPES[self.workload.kind])

    @cached_property
    def history(self) -> tuple[Revision, ...]:
        return revisions.history(self.workload, self.holders) if self.workload else ()

    # Sides

    @cached_property
    def way_back(self) -> WayBack | None:
        return switching.way_back(self.service) if self.service else None

    @cached_property
    def to(self) -> Side | None:
        """The side that would serve, go or be copied. None: there is none, or nobody has said which."""
        if self.pair is None:
            return None
        if self.kind == "way-back":
            return self._before()
        wanted = self.options.get("side", "")
        if wanted:
            return self.pair.side(wanted)
        if self.kind == "create-green":
            return self.pair.serving
        return self.pair.idle[0] if len(self.pair.idle) == 1 else None

    def _before(self) -> Side | None:
        """The side with most of the pods that the selector before selects."""
        if self.pair is None or self.way_back is None:
            return None
        was = self.way_back.was
        count = {
            side.key: sum(was.items() <= pod.metadata.labels.items() for pod in self.pods.get(side.key, ()))
            for side in self.pair.sides
        }
        best = max(self.pair.sides, key=lambda side: (count[side.key], was == side.selector))
        return best if count[best.key] or best.selector == was else None

    @cached_property
    def selector(self) -> Selector:
        """What would be written."""
        if self.kind == "way-back":
            return self.way_back.was if self.way_back else {}
        return self.to.selector if self.to else {}

    @cached_property
    def preview(self) -> Preview | None:
        if self.pair is None or self.to is None:
            return None
        return switching.preview(self.pair, self.selector, self.to, self.pods, self.strays)

    # The change

    @cached_property
    def change(self) -> Patch | ChangeError | None:
        """The patch of the workload; None when the action writes none, or there is no workload."""
        if self.workload is None or self.kind not in CHANGES:
            return None
        try:
            return CHANGES[self.kind](self, self.workload)
        except ChangeError as error:
            return error

    def wanted_revision(self) -> Revision:
        """Raises ChangeError."""
        given = self.options.get("revision", "")
        return revisions.find(self.history, number(given, "no-revision") if given else None)

    @cached_property
    def revision(self) -> Revision | None:
        """The one that an undo goes back to."""
        try:
            return self.wanted_revision()
        except ChangeError:
            return None

    @property
    def replicas(self) -> int | None:
        """What a scale asks for."""
        found = self.change
        return found.body["spec"].get("replicas") if isinstance(found, Patch) else None

    @cached_property
    def template(self) -> Json | None:
        """The template afterwards; None when the change does not touch it."""
        if isinstance(self.copy, dict):
            copied: Json = self.copy["spec"]["template"]
            return copied
        found, change = self.workload, self.change
        touches = isinstance(change, Patch) and "template" in change.body["spec"]
        return revisions.after(found, change) if found and isinstance(change, Patch) and touches else None

    @cached_property
    def copy(self) -> Json | ChangeError | None:
        """The Deployment that a create-green would make."""
        if self.kind != "create-green" or self.workload is None or self.pair is None:
            return None
        try:
            return _copy(self, self.workload, self.pair)
        except ChangeError as error:
            return error

    # The smoke test

    @cached_property
    def asked(self) -> Request | RequestError:
        """What is asked of the pods of the side that would serve: by the person, the Service or the pods, or their own readiness
        probe."""
        notes = (self.service.metadata.annotations if self.service else {}, _annotations(self.workload))
        written = self.options.get("smoke", "") or next((n[smoke.DECLARED] for n in notes if smoke.DECLARED in n), "")
        try:
            return smoke.request(written) if written else _probed(self.workload)
        except RequestError as error:
            return error

    @property
    def candidates(self) -> tuple[FullPod, ...]:
        """The Ready pods of the side that would serve."""
        if self.to is None:
            return ()
        mine = self.pods.get(self.to.key, ())
        alive = (pod for pod in mine if pod.metadata.deletion_timestamp is None and not finished(pod))
        return tuple(pod for pod in alive if is_ready(pod) and self.selector.items() <= pod.metadata.labels.items())


CHANGES: Mapping[str, Callable[[Release, Workload], Patch]] = {
    "restart": lambda release, found: revisions.restart(found, release.now),
    "pause": lambda _, found: revisions.pause(found),
    "resume": lambda _, found: revisions.resume(found),
    "undo": lambda release, found: revisions.undo(found, release.wanted_revision()),
    "set-image": lambda release, found: revisions.set_image(found, images(found, release.options.get("image", ""))),
    "scale": lambda release, found: revisions.scale(found, number(release.options.get("replicas", ""), "replicas")),
    "retire": lambda _, found: revisions.scale(found, 0),
}


def _copy(release: Release, blue: Workload, pair: Pair) -> Json:
    options, version = release.options, release.options.get("version", "").strip()
    if blue.kind != "Deployment":
        raise ChangeError("cannot-copy")
    chosen = images(blue, options["image"]) if options.get("image") else {}
    was = release.to.version if release.to else ""
    name = options.get("name", "") or green_sides.default_name(str(blue.metadata.get("name", "")), was, version)
    if name in release.names:
        raise ChangeError("exists", name=name)
    return green_sides.green(blue, pair.labels, version, chosen, name)


def parts(target: str) -> tuple[str, str, str]:
    """Kind, namespace and name of a target; ("", "", "") for what is none."""
    found = target.split("/")
    return (found[0], found[1], found[2]) if len(found) == 3 and all(found) else ("", "", "")


def number(text: str, why: str) -> int:
    """Raises ChangeError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ChangeError(why)
    return int(text)


def images(workload: Workload, text: str) -> dict[str, str]:
    """ "server=repo/llm:2, proxy=repo/proxy:3", each container once, or one image where there is one container. Raises
    ChangeError."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    if len(given) == 1 and "=" not in given[0]:
        containers = [str(c.get("name", "")) for c in (workload.template.get("spec") or {}).get("containers") or ()]
        if len(containers) != 1:
            raise ChangeError("which-container")
        return {containers[0]: given[0]}
    if not given or not all("=" in part for part in given):
        raise ChangeError("image")
    pairs = [part.partition("=") for part in given]
    found = {name.strip(): image.strip() for name, _, image in pairs}
    if len(found) < len(given):
        raise ChangeError("named-twice")
    return found


def pod_of(template: Json, namespace: str) -> FullPod:
    """A pod that the template would make, for asking where it fits."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    spec = msgspec.convert(kube.without_nulls(template.get("spec") or {}), FullPodSpec)
    return FullPod(metadata=Metadata(name="new", namespace=namespace, labels=labels), spec=spec)


def _annotations(workload: Workload | None) -> Mapping[str, str]:
    return ((workload.template.get("metadata") or {}).get("annotations") or {}) if workload else {}


def _probed(workload: Workload | None) -> Request:
    """The readiness probe as a smoke test. Raises RequestError when there is none that we could send."""
    containers = (workload.template.get("spec") or {}).get("containers") or () if workload else ()
    for container in containers:
        get = (container.get("readinessProbe") or {}).get("httpGet") or {}
        if get.get("path") and get.get("scheme", "HTTP") == "HTTP" and not get.get("host"):
            path = str(get["path"])  # a kubelet takes one without a slash
            return smoke.checked(Request(path if path.startswith("/") else f"/{path}", get.get("port")))
    raise RequestError(UNDECLARED)


def declared(pod: FullPod) -> frozenset[int]:
    """The ports that its containers say they have."""
    return frozenset(port.container_port for container in pod.spec.containers for port in container.ports)


def ports(pod: FullPod) -> tuple[dict[str, int], int | None]:
    """Ports by name, and the first that is declared."""
    found = [port for container in pod.spec.containers for port in container.ports]
    return {port.name: port.container_port for port in found if port.name}, found[0].container_port if found else None

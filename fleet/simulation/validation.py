"""What the API server refuses in an object's content: 422 with one cause per wrong field.

Owns the rules of metadata, workloads, services, budgets, nodes and events that matter for what is written here;
pod_validation.py has those of pods. Must not change objects.
"""

import re
from collections.abc import Callable
from typing import Any

from fleet.simulation import pod_validation
from fleet.simulation.label_selectors import LabelSelector
from fleet.simulation.refusals import (
    Cause,
    forbidden_value,
    invalid,
    invalid_value,
    required_value,
    unsupported_value,
)
from fleet.simulation.resources import Resource

Object = dict[str, Any]

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
PERCENT = re.compile(r"[0-9]+%")
IMMUTABLE = "field is immutable"
# Kinds whose names are free text as far as a path allows.
FREE_NAMES = frozenset({"clusterroles", "clusterrolebindings", "roles", "rolebindings"})

BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
BAD_SERVICE_NAME = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
BAD_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
STATEFUL_SET_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
STATEFUL_SET_CHANGEABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip


def check_name(resource: Resource, metadata: Object) -> None:
    """ApiError 422 for an object that has no name."""
    if not metadata.get("name"):
        causes = [required_value("metadata.name", "name or generateName is required")]
        raise invalid(_named(resource), "", causes)


def check_create(resource: Resource, obj: Object) -> None:
    """ApiError 422."""
    causes = _metadata(resource, obj["metadata"])
    check = _CONTENT.get(resource.plural)
    if check is not None:
        causes += check(obj)
    if resource.kind == "Event":
        causes += _event(obj, new_group=resource.group != "")
    if causes:
        raise invalid(_named(resource), obj["metadata"].get("name", ""), causes)


def _named(resource: Resource) -> str:
    """Events are refused as the kind that they are stored as."""
    return "Event" if resource.kind == "Event" else resource.qualified_kind


def check_update(resource: Resource, old: Object, new: Object, subresource: str) -> None:
    """ApiError 422."""
    causes: list[Cause] = []
    uid = new["metadata"].get("uid")
    if uid != old["metadata"]["uid"]:
        causes += [invalid_value("metadata.uid", uid, IMMUTABLE)] * 2  # the real server finds it twice
    if subresource in {"", "scale"}:
        check = _CONTENT.get(resource.plural) if old != new else None
        if check is not None:
            causes += check(new)
        fixed = _FIXED.get(resource.plural)
        if fixed is not None:
            causes += fixed(old, new)
    if causes:
        raise invalid(_named(resource), new["metadata"].get("name", ""), causes)


def _metadata(resource: Resource, metadata: Object) -> list[Cause]:
    name = metadata["name"]
    if resource.plural in FREE_NAMES:
        return []
    pattern, words = SUBDOMAIN, BAD_SUBDOMAIN
    if resource.plural == "services":
        pattern, words = SERVICE_NAME, BAD_SERVICE_NAME
    elif resource.plural == "namespaces":
        pattern, words = DNS_LABEL, BAD_LABEL
    longest = 253 if pattern is SUBDOMAIN else 63
    if len(name) > longest:
        return [invalid_value("metadata.name", name, f"must be no more than {longest} bytes")]
    return [] if pattern.fullmatch(name) else [invalid_value("metadata.name", name, words)]


def _not_negative(field: str, value: object) -> list[Cause]:
    if isinstance(value, int) and value < 0:
        return [invalid_value(field, value, "must be greater than or equal to 0")]
    return []


def _count_or_percent(field: str, value: object) -> list[Cause]:
    if isinstance(value, str):
        return [] if PERCENT.fullmatch(value) else [invalid_value(field, value, BAD_PERCENT)]
    return _not_negative(field, value)


def _selected_template(obj: Object) -> list[Cause]:
    """A selector that exists and chooses the template's labels, and a valid template."""
    spec = obj.get("spec", {})
    template = spec.get("template", {})
    labels = template.get("metadata", {}).get("labels") or {}
    selector = spec.get("selector")
    causes: list[Cause] = []
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        causes.append(required_value("spec.selector"))
    elif not LabelSelector.from_object(selector).matches(labels):
        why = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels, why))
    return causes + pod_validation.spec_causes(template.get("spec", {}), "spec.template.spec")


def _replicas(obj: Object) -> list[Cause]:
    return _not_negative("spec.replicas", obj.get("spec", {}).get("replicas"))


def _deployment(obj: Object) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = _replicas(obj) + _selected_template(obj) + _strategy(spec.get("strategy") or {})
    ready, deadline = spec.get("minReadySeconds", 0), spec.get("progressDeadlineSeconds")
    causes += _not_negative("spec.minReadySeconds", ready)
    if deadline is not None and deadline <= ready:
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _strategy(strategy: Object) -> list[Cause]:
    field, kind, rolling = "spec.strategy", strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_value(f"{field}.rollingUpdate", why)]
    if kind not in {None, "Recreate", "RollingUpdate"}:
        return [unsupported_value(f"{field}.type", kind, ["Recreate", "RollingUpdate"])]
    if rolling is None:
        return []
    below = f"{field}.rollingUpdate"
    surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    causes = _count_or_percent(f"{below}.maxUnavailable", unavailable)
    causes += _count_or_percent(f"{below}.maxSurge", surge)
    if isinstance(unavailable, str) and PERCENT.fullmatch(unavailable) and int(unavailable[:-1]) > 100:
        causes.append(invalid_value(f"{below}.maxUnavailable", unavailable, "must not be greater than 100%"))
    if surge in {0, "0%"} and unavailable in {0, "0%"}:
        shown = 0 if unavailable == 0 else unavailable
        causes.append(invalid_value(f"{below}.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0"))
    return causes


def _replica_set(obj: Object) -> list[Cause]:
    return _replicas(obj) + _selected_template(obj)


def _job(obj: Object) -> list[Cause]:
    spec = obj.get("spec", {})
    causes: list[Cause] = []
    for field in ("parallelism", "completions", "backoffLimit"):
        causes += _not_negative(f"spec.{field}", spec.get(field))
    return causes + pod_validation.spec_causes(spec.get("template", {}).get("spec", {}), "spec.template.spec")


def _budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec", {})
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    causes: list[Cause] = []
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        causes.append(invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    causes += _count_or_percent("spec.minAvailable", least) + _count_or_percent("spec.maxUnavailable", most)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in {None, "AlwaysAllow", "IfHealthyBudget"}:
        causes.append(unsupported_value("spec.unhealthyPodEvictionPolicy", policy, ["AlwaysAllow", "IfHealthyBudget"]))
    return causes


def _service(obj: Object) -> list[Cause]:
    spec = obj.get("spec", {})
    ports, causes = spec.get("ports") or [], []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(required_value("spec.ports"))
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            causes.append(required_value(f"spec.ports[{index}].name"))
        if not 0 < port.get("port", 0) < 65_536:
            why = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"spec.ports[{index}].port", port.get("port", 0), why))
    return causes


def _node(obj: Object) -> list[Cause]:
    causes, seen = [], set()
    for index, taint in enumerate(obj.get("spec", {}).get("taints") or ()):
        field = f"metadata.taints[{index}]"
        effect = taint.get("effect")
        if not taint.get("key"):
            causes.append(required_value(f"{field}.key", "taint key must be specified"))
        if effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
            effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
            causes.append(unsupported_value(f"{field}.effect", effect or "", effects))
        if (taint.get("key"), effect) in seen:
            words = "taints must be unique by key and effect pair"
            causes.append(Cause(field, f"Duplicate value: {words}", "FieldValueDuplicate"))
        seen.add((taint.get("key"), effect))
    return causes


def _event(obj: Object, *, new_group: bool) -> list[Cause]:
    causes: list[Cause] = []
    namespace = (obj.get("involvedObject") or {}).get("namespace") or ""
    home = obj["metadata"].get("namespace")
    if namespace != home and not (namespace == "" and home == "default"):
        causes.append(invalid_value("involvedObject.namespace", namespace, "does not match event.namespace"))
    if new_group and not obj.get("eventTime"):
        causes.append(required_value("eventTime"))
    return causes


# What may not change


def _same_spec(*fields: str) -> Callable[[Object, Object], list[Cause]]:
    def check(old: Object, new: Object) -> list[Cause]:
        before, after = old.get("spec", {}), new.get("spec", {})
        return [invalid_value(f"spec.{f}", after.get(f), IMMUTABLE) for f in fields if before.get(f) != after.get(f)]

    return check


def _fixed_stateful_set(old: Object, new: Object) -> list[Cause]:
    before, after = old.get("spec", {}), new.get("spec", {})
    changed = {f for f in set(before) | set(after) if before.get(f) != after.get(f)}
    return [forbidden_value("spec", STATEFUL_SET_FIXED)] if changed - STATEFUL_SET_CHANGEABLE else []


def _fixed_service(old: Object, new: Object) -> list[Cause]:
    before, after = old.get("spec", {}), new.get("spec", {})
    if after.get("type") == "ExternalName" or not before.get("clusterIP"):
        return []
    if after.get("clusterIP") == before["clusterIP"]:
        return []
    return [invalid_value("spec.clusterIPs[0]", [after.get("clusterIP")], "may not change once set")]


_CONTENT: dict[str, Callable[[Object], list[Cause]]] = {
    "pods": lambda obj: pod_validation.spec_causes(obj.get("spec", {}), "spec"),
    "deployments": _deployment,
    "replicasets": _replica_set,
    "statefulsets": _replica_set,
    "daemonsets": _selected_template,
    "jobs": _job,
    "poddisruptionbudgets": _budget,
    "services": _service,
    "nodes": _node,
}
_FIXED: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "pods": pod_validation.changed_causes,
    "deployments": _same_spec("selector"),
    "replicasets": _same_spec("selector"),
    "daemonsets": _same_spec("selector"),
    "jobs": _same_spec("selector", "template", "completionMode", "podFailurePolicy"),
    "statefulsets": _fixed_stateful_set,
    "services": _fixed_service,
}

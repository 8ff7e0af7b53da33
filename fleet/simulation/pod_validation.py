"""What the API server refuses in a pod or a pod template: containers, resources, and changes of a pod that exists.

Owns the rules for extended resources (GPUs): whole numbers, requests equal to limits. Must not change objects.
"""

from decimal import Decimal, InvalidOperation
from typing import Any

from fleet.simulation.refusals import Cause, forbidden_value, invalid_value, required_value, unsupported_value

Object = dict[str, Any]


SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
POD_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
RESTART_POLICIES = ["Always", "OnFailure", "Never"]


def quantity(text: object) -> Decimal | None:
    """The value of a Kubernetes quantity; None for what is none."""
    words = str(text)
    digits = words.rstrip("numkMGTPEKi")
    if words[len(digits) :] in SUFFIXES:
        try:
            return Decimal(digits) * SUFFIXES[words[len(digits) :]]
        except InvalidOperation:
            return None
    try:
        return Decimal(words)  # 1e3
    except InvalidOperation:
        return None


def is_extended(name: str) -> bool:
    """Whether a resource is counted in whole pieces: "nvidia.com/gpu" and the like."""
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def spec_causes(spec: Object, field: str) -> list[Cause]:
    """Causes in a pod spec that lies at `field` ("spec", "spec.template.spec")."""
    containers = spec.get("containers") or []
    causes: list[Cause] = []
    if not containers:
        causes.append(required_value(f"{field}.containers"))
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            causes += _container(container, f"{field}.{kind}[{index}]", seen)
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        why = "must be greater than or equal to 0"
        causes.append(invalid_value(f"{field}.terminationGracePeriodSeconds", grace, why))
    policy = spec.get("restartPolicy", "Always")
    if policy not in RESTART_POLICIES:
        causes.append(unsupported_value(f"{field}.restartPolicy", policy, RESTART_POLICIES))
    return causes


def _container(container: Object, field: str, seen: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name")
    if not name:
        causes.append(required_value(f"{field}.name"))
    elif name in seen:
        causes.append(Cause(f"{field}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate"))
    seen.add(name or "")
    if not container.get("image"):
        causes.append(required_value(f"{field}.image"))
    policy = container.get("imagePullPolicy")
    if policy not in {None, *PULL_POLICIES}:
        causes.append(unsupported_value(f"{field}.imagePullPolicy", policy, PULL_POLICIES))
    return causes + _resources(container.get("resources") or {}, f"{field}.resources")


def _resources(resources: Object, field: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = _amounts(limits, f"{field}.limits") + _amounts(requests, f"{field}.requests")
    if causes:
        return causes
    for name, asked in requests.items():
        limit = limits.get(name)
        if is_extended(name) and (limit is None or quantity(limit) != quantity(asked)):
            if limit is None:
                causes.append(required_value(f"{field}.limits", "Limit must be set for non overcommitable resources"))
            else:
                why = f"must be equal to {name} limit of {limit}"
                causes.append(invalid_value(f"{field}.requests", asked, why))
        elif limit is not None and (quantity(asked) or 0) > (quantity(limit) or 0):
            why = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{field}.requests", asked, why))
    return causes


def _amounts(amounts: Object, field: str) -> list[Cause]:
    causes = []
    for name, text in amounts.items():
        below, value = f"{field}[{name}]", quantity(text)
        if value is None:
            causes.append(invalid_value(below, text, BAD_QUANTITY))
        elif value < 0:
            causes.append(invalid_value(below, text, "must be greater than or equal to 0"))
        elif is_extended(name) and value != value.to_integral_value():
            causes.append(invalid_value(below, text, "must be an integer"))
    return causes


def changed_causes(old: Object, new: Object) -> list[Cause]:
    """A pod's spec is fixed but for images, deadline and more tolerations."""
    before, after = _fixed_part(old["spec"]), _fixed_part(new["spec"])
    kept = old["spec"].get("tolerations") or []
    tolerations = new["spec"].get("tolerations") or []
    if before == after and all(t in tolerations for t in kept):
        return []
    return [forbidden_value("spec", POD_FIXED)]


def _fixed_part(spec: Object) -> Object:
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    part = {k: v for k, v in spec.items() if k not in free}
    for kind in ("containers", "initContainers"):
        part[kind] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get(kind) or ()]
    return part

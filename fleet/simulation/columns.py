"""Columns and cells of the kinds that are no workloads: services, budgets, events, quotas and the like.

Owns what `kubectl get` shows of them and the choice of a kind's printer. Must not read the store.
"""

from typing import Any

from fleet.simulation.resources import Resource
from fleet.simulation.tables import (
    NONE,
    UNSET,
    WORKLOADS,
    Column,
    Object,
    Printer,
    age,
    columns,
    containers,
    created_age,
    joined,
    label_selector,
    selector,
)


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def _external(spec: Object, status: Object) -> str:
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "LoadBalancer":
            ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
            found = [i.get("ip") or i.get("hostname", "") for i in ingress]
            return ",".join([*found, *(spec.get("externalIPs") or ())]) or "<pending>"
        case _:
            return joined(spec.get("externalIPs") or ())


def _service(obj: Object, now: float) -> list[Any]:
    spec = obj["spec"]
    ips = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    ports = joined(_port(p) for p in spec.get("ports") or ())
    external = _external(spec, obj.get("status", {}))
    shown = [spec.get("type", ""), ips[0], external, ports, created_age(obj, now)]
    return [_name(obj), *shown, selector(spec.get("selector"))]


def _first(values: list[str], shown: int = 3) -> str:
    """The first few values and how many more there are."""
    if not values:
        return UNSET
    more = f" + {len(values) - shown} more..." if len(values) > shown else ""
    return ",".join(values[:shown]) + more


def _endpoint_slice(obj: Object, now: float) -> list[Any]:
    ports = [str(p["port"]) if p.get("port") else (p.get("name") or "*") for p in obj.get("ports") or ()]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    return [_name(obj), obj.get("addressType", ""), _first(ports), _first(addresses), created_age(obj, now)]


def _endpoints(obj: Object, now: float) -> list[Any]:
    found = [
        f"{a['ip']}:{p['port']}"
        for subset in obj.get("subsets") or ()
        for p in subset.get("ports") or ()
        for a in subset.get("addresses") or ()
    ]
    shown = _first(found) if found else NONE
    return [_name(obj), shown, created_age(obj, now)]


def _budget(obj: Object, now: float) -> list[Any]:
    spec = obj["spec"]
    least, most = (str(spec[f]) if f in spec else "N/A" for f in ("minAvailable", "maxUnavailable"))
    allowed = obj.get("status", {}).get("disruptionsAllowed", 0)
    return [_name(obj), least, most, allowed, created_age(obj, now)]


def _event(obj: Object, now: float) -> list[Any]:
    series, about = obj.get("series") or {}, obj.get("involvedObject") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime") or first
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent", "")
    origin = ", ".join(part for part in (component, source.get("host", "")) if part)
    what = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    message = (obj.get("message") or "").strip()
    count = series.get("count") or obj.get("count") or 1
    shown = [age(last, now), obj.get("type", ""), obj.get("reason", ""), what, about.get("fieldPath", "")]
    return [*shown, origin, message, age(first, now), count, _name(obj)]


def _namespace(obj: Object, now: float) -> list[Any]:
    return [_name(obj), obj.get("status", {}).get("phase", ""), created_age(obj, now)]


def _lease(obj: Object, now: float) -> list[Any]:
    return [_name(obj), (obj.get("spec") or {}).get("holderIdentity") or "", created_age(obj, now)]


def _config_map(obj: Object, now: float) -> list[Any]:
    held = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [_name(obj), held, created_age(obj, now)]


def _secret(obj: Object, now: float) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), created_age(obj, now)]


def _service_account(obj: Object, now: float) -> list[Any]:
    return [_name(obj), len(obj.get("secrets") or ()), created_age(obj, now)]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    volume = spec.get("volumeName", "")
    modes = ",".join(_MODES.get(m, m) for m in (status.get("accessModes") or ())) if volume else ""
    size = (status.get("capacity") or {}).get("storage", "") if volume else ""
    classes = [spec.get("storageClassName", ""), spec.get("volumeAttributesClassName") or UNSET]
    wide = spec.get("volumeMode") or UNSET
    return [_name(obj), phase, volume, size, modes, *classes, created_age(obj, now), wide]


def _quota(obj: Object, now: float) -> list[Any]:
    status = obj.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    pairs = [(name, f"{name}: {used.get(name, '0')}/{hard[name]}") for name in sorted(hard)]
    limits = ", ".join(text for name, text in pairs if name.startswith("limits"))
    requests = ", ".join(text for name, text in pairs if not name.startswith("limits"))
    return [_name(obj), requests, limits, created_age(obj, now)]


def _revision(obj: Object, now: float) -> list[Any]:
    owner = next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    name = f"{_lower_resource(owner)}/{owner['name']}" if owner else NONE
    return [_name(obj), name, obj.get("revision", 0), created_age(obj, now)]


def _lower_resource(owner: Object) -> str:
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}.{group}" if group else str(owner["kind"].lower())


def _priority_class(obj: Object, now: float) -> list[Any]:
    shown = [obj.get("value", 0), obj.get("globalDefault", False), created_age(obj, now)]
    return [_name(obj), *shown, obj.get("preemptionPolicy", "PreemptLowerPriority")]


def _cron_job(obj: Object, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    last = status.get("lastScheduleTime")
    shown = [spec.get("schedule", ""), spec.get("timeZone") or NONE, "True" if spec.get("suspend") else "False"]
    ran = age(last, now) if last else NONE
    template = {"spec": {"template": spec.get("jobTemplate", {}).get("spec", {}).get("template", {})}}
    chosen = label_selector(spec.get("jobTemplate", {}).get("spec", {}).get("selector"))
    active = len(status.get("active") or ())
    return [_name(obj), *shown, active, ran, created_age(obj, now), *containers(template), chosen]


def _binding(obj: Object, now: float) -> list[Any]:
    ref, subjects = obj["roleRef"], obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(s["name"] for s in subjects if s["kind"] == kind)

    accounts = ", ".join(f"{s.get('namespace', '')}/{s['name']}" for s in subjects if s["kind"] == "ServiceAccount")
    role = f"{ref['kind']}/{ref['name']}"
    return [_name(obj), role, created_age(obj, now), named("User"), named("Group"), accounts]


def _plain(obj: Object, now: float) -> list[Any]:
    del now
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


_BINDING = Printer(columns("Name", "Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding)
PLAIN = Printer((*columns("Name"), Column("Created At", type="date")), _plain)

PRINTERS: dict[str, Printer] = {
    **WORKLOADS,
    "services": Printer(
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service
    ),
    "endpointslices": Printer(columns("Name", "AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice),
    "endpoints": Printer(columns("Name", "Endpoints", "Age"), _endpoints),
    "poddisruptionbudgets": Printer(
        columns("Name", "Min Available", "Max Unavailable", "#Allowed Disruptions", "Age"), _budget
    ),
    "events": Printer(
        (
            *columns("Last Seen", "Type", "Reason", "Object"),
            *columns(wide=("Subobject", "Source")),
            *columns("Message"),
            *columns(wide=("First Seen", "#Count", "Name")),
        ),
        _event,
    ),
    "namespaces": Printer(columns("Name", "Status", "Age"), _namespace),
    "leases": Printer(columns("Name", "Holder", "Age"), _lease),
    "configmaps": Printer(columns("Name", "#Data", "Age"), _config_map),
    "secrets": Printer(columns("Name", "Type", "#Data", "Age"), _secret),
    "serviceaccounts": Printer(columns("Name", "Secrets", "Age"), _service_account),
    "persistentvolumeclaims": Printer(
        columns(
            "Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age",
            wide=("VolumeMode",),
        ),
        _claim,
    ),
    "resourcequotas": Printer(columns("Name", "Request", "Limit", "Age"), _quota),
    "controllerrevisions": Printer(columns("Name", "Controller", "#Revision", "Age"), _revision),
    "priorityclasses": Printer(
        columns("Name", "#Value", "Global-Default", "Age", "PreemptionPolicy"), _priority_class
    ),
    "cronjobs": Printer(
        columns(
            "Name", "Schedule", "Timezone", "Suspend", "#Active", "Last Schedule", "Age",
            wide=("Containers", "Images", "Selector"),
        ),
        _cron_job,
    ),
    "clusterrolebindings": _BINDING,
    "rolebindings": _BINDING,
}  # fmt: skip


def printer_of(resource: Resource) -> Printer:
    """The kind's own columns, or name and creation time."""
    return PRINTERS.get(resource.plural, PLAIN)

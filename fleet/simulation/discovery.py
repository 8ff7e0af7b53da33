"""What a client asks before it asks for objects: version, groups, resources, health, OpenAPI paths.

Owns these documents, built from the table of resources. Must not know the store.
"""

from typing import Any

from fleet.simulation.exchange import Reply, Request, media_ranges, reply, text
from fleet.simulation.resources import SERVED, Resource, Subresource

Object = dict[str, Any]

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "98b35193b2ac7a23a673325f5e9b830ecd5ba406",
    "gitTreeState": "clean",
    "buildDate": "2026-06-01T00:00:00Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
HEALTH = ("/healthz", "/livez", "/readyz")
CHECKS = (
    "ping", "log", "informer-sync", "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers", "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter", "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers", "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced", "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector", "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller", "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles", "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer", "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller", "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller", "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller", "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion", "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller", "shutdown",
)  # fmt: skip


def answer(request: Request, address: str, *, ready: bool = True) -> Reply | None:
    """The answer to a path that names no object; None when it is none of these. `address` is host:port."""
    path = request.path.rstrip("/") or "/"
    if path in HEALTH:
        return health(path[1:], ready=ready, verbose="verbose" in request.query)
    if path == "/version":
        return reply(VERSION)
    if path in {"/api", "/apis"} and _wants_aggregated(request):
        return Reply(200, reply(aggregated(core=path == "/api")).body, AGGREGATED)
    if path.startswith("/openapi/"):
        return _openapi(path)
    return _groups_or_list(path, address)


def _groups_or_list(path: str, address: str) -> Reply | None:
    parts = path.strip("/").split("/")
    if parts == ["api"]:
        served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return reply({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served})
    if parts == ["apis"]:
        return reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()})
    if parts == ["api", "v1"]:
        return reply(resource_list("v1"))
    if parts[0] == "apis" and len(parts) == 2:
        found = next((g for g in groups() if g["name"] == parts[1]), None)
        return reply({"kind": "APIGroup", "apiVersion": "v1", **found}) if found else None
    if parts[0] == "apis" and len(parts) == 3:
        api_version = f"{parts[1]}/{parts[2]}"
        known = any(r.api_version == api_version for r in SERVED)
        return reply(resource_list(api_version)) if known else None
    return None


def health(check: str, *, ready: bool, verbose: bool) -> Reply:
    """The health endpoints: "ok", or every check by name."""
    if ready and not verbose:
        return text("ok")
    failing = "" if ready or check == "livez" else "poststarthook/rbac/bootstrap-roles"
    lines = [f"[-]{c} failed: reason withheld" if c == failing else f"[+]{c} ok" for c in CHECKS]
    verdict = f"{check} check failed" if failing else f"{check} check passed"
    return text("\n".join([*lines, verdict, ""]), 500 if failing else 200)


def _wants_aggregated(request: Request) -> bool:
    """Whether aggregated discovery v2 comes before anything else that is served in the Accept header."""
    for kind, parameters in media_ranges(request.headers.get("accept", "")):
        if kind != "application/json":
            continue
        if not parameters.get("as"):
            return False
        if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") == "v2":
            return True
    return False


def _group_names() -> list[str]:
    return list(dict.fromkeys(r.group for r in SERVED if r.group))


def groups() -> list[Object]:
    """All groups but the core, in the order of preference."""
    found = []
    for name in _group_names():
        versions = list(dict.fromkeys(r.api_version for r in SERVED if r.group == name))
        listed = [{"groupVersion": v, "version": v.rpartition("/")[2]} for v in versions]
        found.append({"name": name, "versions": listed, "preferredVersion": listed[0]})
    return found


def resource_list(api_version: str) -> Object:
    listed: list[Object] = []
    for resource in sorted((r for r in SERVED if r.api_version == api_version), key=lambda r: r.plural):
        listed.append(_listed(resource))
        listed += [_listed_sub(resource, s) for s in resource.subresources]
    head = {"kind": "APIResourceList", "groupVersion": api_version}
    if api_version != "v1":
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version}
    return {**head, "resources": listed}


def _listed(resource: Resource) -> Object:
    shown: Object = {"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced}
    shown |= {"kind": resource.kind, "verbs": list(resource.verbs)}
    if resource.short_names:
        shown["shortNames"] = list(resource.short_names)
    if resource.categories:
        shown["categories"] = list(resource.categories)
    if "watch" in resource.verbs:
        shown["storageVersionHash"] = resource.storage_hash
    return shown


def _listed_sub(resource: Resource, sub: Subresource) -> Object:
    shown: Object = {"name": f"{resource.plural}/{sub.name}", "singularName": "", "namespaced": resource.namespaced}
    if sub.group:
        shown |= {"group": sub.group, "version": sub.version}
    return {**shown, "kind": sub.kind, "verbs": list(sub.verbs)}


def aggregated(*, core: bool) -> Object:
    """APIGroupDiscoveryList: everything in one document."""
    items = [_aggregated_group(name) for name in ([""] if core else _group_names())]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return {**head, "items": items}


def _aggregated_group(name: str) -> Object:
    versions = []
    for version in dict.fromkeys(r.version for r in SERVED if r.group == name):
        members = sorted((r for r in SERVED if r.group == name and r.version == version), key=lambda r: r.plural)
        versions.append({"version": version, "resources": [_aggregated(r) for r in members], "freshness": "Current"})
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated(resource: Resource) -> Object:
    shown: Object = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        shown["shortNames"] = list(resource.short_names)
    if resource.categories:
        shown["categories"] = list(resource.categories)
    if resource.subresources:
        shown["subresources"] = [
            {
                "subresource": s.name,
                "responseKind": {"group": s.group, "version": s.version, "kind": s.kind},
                "verbs": list(s.verbs),
            }
            for s in resource.subresources
        ]
    return shown


def _openapi(path: str) -> Reply | None:
    """OpenAPI v3 as far as kubectl needs it: which resources take which parameters."""
    prefixes = {"api/v1" if r.api_version == "v1" else f"apis/{r.api_version}": r.api_version for r in SERVED}
    if path == "/openapi/v3":
        return reply({"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}?hash=1"} for p in prefixes}})
    prefix = path.removeprefix("/openapi/v3/")
    if prefix not in prefixes:
        return None
    paths: Object = {}
    for resource in SERVED:
        if resource.api_version == prefixes[prefix] and "patch" in resource.verbs:
            middle = "/namespaces/{namespace}/" if resource.namespaced else "/"
            paths[f"/{prefix}{middle}{resource.plural}/{{name}}"] = {"patch": _patch_operation(resource)}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return reply({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}})


def _patch_operation(resource: Resource) -> Object:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    kinds = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json")
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "parameters": [{"name": n, "in": "query", "schema": {"type": "string"}} for n in names],
        "requestBody": {
            "content": {k: {"schema": {"type": "object"}} for k in (*kinds, "application/apply-patch+yaml")}
        },
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk,
    }

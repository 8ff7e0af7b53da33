"""The roles and bindings that every cluster has from its first start, as far as they matter here.

Owns their rules: those of a real API server (1.36), and one role of our own that reads everything Vigie shows. Must not
decide anything.
"""

from typing import Any

from fleet.simulation.store import Store

Object = dict[str, Any]

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ACCOUNTS = "system:serviceaccounts"
READ = ["get", "list", "watch"]
RBAC = "rbac.authorization.k8s.io"
MANAGER = "kube-apiserver"

PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]
ISSUER = [
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
]

# What the role "view" reads, by API groups: no nodes, no secrets, nothing of RBAC.
_VIEW = """
-: configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers
   replicationcontrollers/scale serviceaccounts services services/status
-: bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas
   resourcequotas/status
-: namespaces
-,events.k8s.io: events
discovery.k8s.io: endpointslices
apps: controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets
   replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status
autoscaling: horizontalpodautoscalers horizontalpodautoscalers/status
batch: cronjobs cronjobs/status jobs jobs/status
extensions: daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status
   networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale
policy: poddisruptionbudgets poddisruptionbudgets/status
networking.k8s.io: ingresses ingresses/status networkpolicies
resource.k8s.io: resourceclaims resourceclaims/status resourceclaimtemplates
"""
# What the fleet's pages read.
_FLEET = """
-,apps,batch,policy,discovery.k8s.io,events.k8s.io,coordination.k8s.io,resource.k8s.io,scheduling.k8s.io: nodes pods
   pods/log namespaces services events endpoints persistentvolumeclaims resourcequotas limitranges configmaps
   serviceaccounts deployments replicasets statefulsets daemonsets controllerrevisions jobs cronjobs
   poddisruptionbudgets endpointslices leases resourceclaims priorityclasses
"""


def plant(store: Store) -> None:
    """Create them all."""
    own = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    basic = [
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": own},
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    roles: list[tuple[str, list[Object], tuple[str, ...]]] = [
        ("cluster-admin", everything, (MASTERS,)),
        ("system:basic-user", basic, (AUTHENTICATED,)),
        ("system:discovery", _paths(DISCOVERY), (AUTHENTICATED,)),
        ("system:public-info-viewer", _paths(PUBLIC), (AUTHENTICATED, UNAUTHENTICATED)),
        ("system:service-account-issuer-discovery", _paths(ISSUER), (ACCOUNTS,)),
        ("view", _reading(_VIEW), ()),
        ("fleet-reader", _reading(_FLEET), ("fleet-readers",)),
    ]
    for name, rules, groups in roles:
        store.create("clusterroles", {"metadata": {"name": name}, "rules": rules}, manager=MANAGER)
        if groups:
            _bind(store, name, groups)


def _paths(paths: list[str]) -> list[Object]:
    return [{"verbs": ["get"], "nonResourceURLs": paths}]


def _reading(text: str) -> list[Object]:
    """Rules from lines "GROUP,GROUP: RESOURCE RESOURCE"; "-" is the core group."""
    rules = []
    for line in text.replace("\n   ", " ").strip().split("\n"):
        groups, _, resources = line.partition(":")
        listed = ["" if g == "-" else g for g in groups.split(",")]
        rules.append({"verbs": READ, "apiGroups": listed, "resources": resources.split()})
    return rules


def _bind(store: Store, name: str, groups: tuple[str, ...]) -> None:
    subjects = [{"kind": "Group", "apiGroup": RBAC, "name": g} for g in groups]
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": subjects, "roleRef": ref}
    store.create("clusterrolebindings", binding, manager=MANAGER)

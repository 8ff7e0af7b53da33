"""The resources that the rehearsal cluster serves: names, verbs, scopes and subresources, in the order of discovery.

Owns the table. Must not know objects or how a resource behaves.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NO_COLLECTION_DELETE = tuple(v for v in ALL_VERBS if v != "deletecollection")
EDIT = ("get", "patch", "update")
PROXY = ("create", "delete", "get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    """`group` and `version` are empty when its bodies are of the parent's group and version."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True)
class Resource:
    """One served resource. `key` is its name in the store; events of both groups share one storage."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """As messages name it: "nodes", "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def qualified_kind(self) -> str:
        """As 422 messages name it: "Node", "Deployment.apps"."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @cached_property
    def head(self) -> bytes:
        """The first bytes of every stored object's JSON; lists leave them out."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def storage_hash(self) -> str:
        """storageVersionHash: the first 8 bytes of SHA-256 of group/version/kind as stored."""
        group = "" if self.kind == "Event" else self.group
        digest = hashlib.sha256(f"{group}/{self.version}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    def subresource(self, name: str) -> Subresource | None:
        return next((s for s in self.subresources if s.name == name), None)

    @cached_property
    def has_status(self) -> bool:
        """Whether status is written through /status only."""
        return self.subresource("status") is not None

    @cached_property
    def stored(self) -> bool:
        return "list" in self.verbs


# group/version: plural singular Kind scope [short,names] [categories] subresources
# A leading "-" among the subresource names stands for none; scope N is namespaced, C is cluster-wide.
_TABLE = """
v1
bindings binding Binding N - - create
componentstatuses componentstatus ComponentStatus C cs - read
configmaps configmap ConfigMap N cm -
endpoints endpoints Endpoints N ep -
events event Event N ev -
limitranges limitrange LimitRange N limits -
namespaces namespace Namespace C ns - most finalize status
nodes node Node C no - * proxy status
persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim N pvc - * status
persistentvolumes persistentvolume PersistentVolume C pv - * status
pods pod Pod N po all * attach binding ephemeralcontainers eviction exec log portforward proxy resize status
podtemplates podtemplate PodTemplate N - -
replicationcontrollers replicationcontroller ReplicationController N rc all * scale status
resourcequotas resourcequota ResourceQuota N quota - * status
secrets secret Secret N - -
serviceaccounts serviceaccount ServiceAccount N sa - * token
services service Service N svc all * proxy status
apiregistration.k8s.io/v1
apiservices apiservice APIService C - api-extensions * status
apps/v1
controllerrevisions controllerrevision ControllerRevision N - -
daemonsets daemonset DaemonSet N ds all * status
deployments deployment Deployment N deploy all * scale status
replicasets replicaset ReplicaSet N rs all * scale status
statefulsets statefulset StatefulSet N sts all * scale status
events.k8s.io/v1
events event Event N ev -
authentication.k8s.io/v1
selfsubjectreviews selfsubjectreview SelfSubjectReview C - - create
tokenreviews tokenreview TokenReview C - - create
authorization.k8s.io/v1
localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview N - - create
selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview C - - create
selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview C - - create
subjectaccessreviews subjectaccessreview SubjectAccessReview C - - create
autoscaling/v2
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler N hpa all * status
autoscaling/v1
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler N hpa all * status
batch/v1
cronjobs cronjob CronJob N cj all * status
jobs job Job N - all * status
certificates.k8s.io/v1
certificatesigningrequests certificatesigningrequest CertificateSigningRequest C csr - * approval status
networking.k8s.io/v1
ingressclasses ingressclass IngressClass C - -
ingresses ingress Ingress N ing - * status
ipaddresses ipaddress IPAddress C ip -
networkpolicies networkpolicy NetworkPolicy N netpol -
servicecidrs servicecidr ServiceCIDR C - - * status
policy/v1
poddisruptionbudgets poddisruptionbudget PodDisruptionBudget N pdb - * status
rbac.authorization.k8s.io/v1
clusterrolebindings clusterrolebinding ClusterRoleBinding C - -
clusterroles clusterrole ClusterRole C - -
rolebindings rolebinding RoleBinding N - -
roles role Role N - -
storage.k8s.io/v1
csidrivers csidriver CSIDriver C - -
csinodes csinode CSINode C - -
csistoragecapacities csistoragecapacity CSIStorageCapacity N - -
storageclasses storageclass StorageClass C sc -
volumeattachments volumeattachment VolumeAttachment C - - * status
volumeattributesclasses volumeattributesclass VolumeAttributesClass C vac -
admissionregistration.k8s.io/v1
mutatingadmissionpolicies mutatingadmissionpolicy MutatingAdmissionPolicy C - api-extensions
mutatingadmissionpolicybindings mutatingadmissionpolicybinding MutatingAdmissionPolicyBinding C - api-extensions
mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration C - api-extensions
validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy C - api-extensions * status
validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding C - api-extensions
validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration C - api-extensions
apiextensions.k8s.io/v1
customresourcedefinitions customresourcedefinition CustomResourceDefinition C crd,crds api-extensions * status
scheduling.k8s.io/v1
priorityclasses priorityclass PriorityClass C pc -
coordination.k8s.io/v1
leases lease Lease N - -
node.k8s.io/v1
runtimeclasses runtimeclass RuntimeClass C - -
discovery.k8s.io/v1
endpointslices endpointslice EndpointSlice N - -
resource.k8s.io/v1
deviceclasses deviceclass DeviceClass C - -
resourceclaims resourceclaim ResourceClaim N - - * status
resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate N - -
resourceslices resourceslice ResourceSlice C - -
flowcontrol.apiserver.k8s.io/v1
flowschemas flowschema FlowSchema C - - * status
prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration C - - * status
"""

_VERB_SETS = {"*": ALL_VERBS, "most": NO_COLLECTION_DELETE, "read": ("get", "list"), "create": ("create",)}

# Subresources whose bodies are not of the parent's kind, or that have verbs of their own.
_SPECIAL: dict[str, Subresource] = {
    "namespaces/finalize": Subresource("finalize", "Namespace", ("update",)),
    "nodes/proxy": Subresource("proxy", "NodeProxyOptions", PROXY),
    "pods/attach": Subresource("attach", "PodAttachOptions", ("create", "get")),
    "pods/binding": Subresource("binding", "Binding", ("create",)),
    "pods/eviction": Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    "pods/exec": Subresource("exec", "PodExecOptions", ("create", "get")),
    "pods/log": Subresource("log", "Pod", ("get",)),
    "pods/portforward": Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    "pods/proxy": Subresource("proxy", "PodProxyOptions", PROXY),
    "serviceaccounts/token": Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
    "services/proxy": Subresource("proxy", "ServiceProxyOptions", PROXY),
}


def _names(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def _subresource(plural: str, kind: str, name: str) -> Subresource:
    special = _SPECIAL.get(f"{plural}/{name}")
    if special is not None:
        return special
    if name == "scale":
        return Subresource("scale", "Scale", EDIT, "autoscaling", "v1")
    return Subresource(name, kind, EDIT)


def _resource(api_version: str, line: str) -> Resource:
    plural, singular, kind, scope, short, categories, *rest = line.split()
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=singular,
        namespaced=scope == "N",
        short_names=_names(short),
        categories=_names(categories),
        verbs=_VERB_SETS[rest[0] if rest else "*"],
        subresources=tuple(_subresource(plural, kind, name) for name in rest[1:]),
    )


def _table() -> list[Resource]:
    rows = []
    api_version = ""
    for line in _TABLE.split("\n"):
        if " " in line:
            rows.append(_resource(api_version, line))
        elif line:
            api_version = line
    return rows


SERVED: tuple[Resource, ...] = tuple(_table())

BY_PATH: dict[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in SERVED}

EVENTS_V1 = BY_PATH["events.k8s.io", "v1", "events"]


def _by_name() -> dict[str, Resource]:
    """Plural name → resource. Where two groups share a plural, the first in discovery order has the plain name."""
    names: dict[str, Resource] = {}
    for resource in SERVED:
        names.setdefault(resource.plural, resource)
    names["events.events.k8s.io"] = EVENTS_V1
    return names


RESOURCES: dict[str, Resource] = _by_name()

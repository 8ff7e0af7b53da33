"""From the settings to the clusters of this site: the only place that chooses adapters.

Owns one adapter per cluster and process, and the Event that asks every waiting task of the process to end. Must not do
anything to a cluster, and reads of a kubeconfig the names of its contexts alone.
"""

import functools
import os
import threading
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from fleet import live
from fleet.domain import xid
from fleet.domain.documents import Document
from fleet.domain.freshness import Freshness
from fleet.domain.grants import Grant
from fleet.domain.picture import Snapshot
from fleet.domain.policies import Policy, PolicyError, policy
from fleet.domain.training import Record, Training
from fleet.live import PictureError
from fleet.logs import LastWords
from fleet.ports import Changer, CheckpointStore, Cluster, Exporters, Logs, Manifests, PortError, TokenReviews
from fleet.recognition import Recognition
from fleet.restarts import Restarts
from fleet.stores import Stores

if TYPE_CHECKING:
    from fleet.act.histories import Histories
    from fleet.act.sides import Sides
    from fleet.save_records import Remembered

IN_CLUSTER = "in-cluster"  # in place of a kubeconfig's path: the service account of this pod

# Set once, when the process has to stop; every wait in a task honours it.
stopping = threading.Event()


@dataclass(frozen=True)
class Site:
    """One cluster and what may be done to it. The cluster's name is the name of its context."""

    name: str
    cluster: Cluster
    reviews: TokenReviews
    changer: Changer
    actions: bool  # whether Vigie may change it
    policy: Policy

    def snapshot(self) -> Snapshot | None:
        """What its picture shows now; None when there is none or it cannot be reached."""
        try:
            found = live.picture().read(self.name)
        except PictureError:
            return None
        return found.snapshot if found else None

    def records(self) -> Mapping[str, Record]:
        """What operators have noted about where workloads save."""
        from fleet import save_records  # models, for which the apps have to be ready; whoever sends tasks loads none

        return save_records.notes(self.name)

    def look(self, training: Training, now: float) -> Freshness:
        """What a workload's checkpoints are like, afresh."""
        return stores(self.name).look(training, now, fresh=True)


def sites() -> list[str]:
    """Names of the configured clusters, in the order of the settings or of the file; none when no kubeconfig is set.

    Raises ImproperlyConfigured when the file cannot be read or lacks a context that was asked for.
    """
    if settings.VIGIE_KUBECONFIG == IN_CLUSTER:
        return list(settings.VIGIE_CONTEXTS) or [IN_CLUSTER]
    if not settings.VIGIE_KUBECONFIG:
        return []
    found = _contexts(settings.VIGIE_KUBECONFIG)
    if missing := [name for name in settings.VIGIE_CONTEXTS if name not in found]:
        raise ImproperlyConfigured(
            f"the kubeconfig has no context {', '.join(missing)}; it has: {', '.join(found) or 'none'}"
        )
    return list(settings.VIGIE_CONTEXTS) or found


@functools.cache
def site(name: str) -> Site:
    """The cluster `name` of this process. Raises LookupError for a name that is not configured."""
    if name not in sites():
        raise LookupError(f"no cluster {name!r} is configured")
    from fleet.adapters.cluster_changes import KubernetesChanges
    from fleet.adapters.cluster_kubernetes import KubernetesCluster
    from fleet.adapters.reviews_kubernetes import KubernetesReviews

    kubeconfig = _kubeconfig()
    cluster, reviews = KubernetesCluster(name, kubeconfig), KubernetesReviews(name, kubeconfig)
    changer = KubernetesChanges(cluster.server)
    return Site(name, cluster, reviews, changer, name in settings.VIGIE_ACTIONS, policies())


@functools.cache
def policies() -> Policy:
    """What this site's policy file says, the cautious defaults without one. Raises ImproperlyConfigured, with the line."""
    if not settings.VIGIE_POLICIES:
        return Policy()
    try:
        return policy(Path(settings.VIGIE_POLICIES).expanduser().read_text())
    except OSError as error:
        raise ImproperlyConfigured(f"cannot read VIGIE_POLICIES: {error.strerror}") from None
    except (PolicyError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"VIGIE_POLICIES {settings.VIGIE_POLICIES}: {error}") from None


def scrapes() -> bool:
    """Whether this site wants its GPU exporters scraped."""
    return bool(settings.VIGIE_DCGM != "off")


@functools.cache
def exporters(name: str) -> Exporters:
    """The GPU exporters of cluster `name`, reached as the settings say. Raises LookupError as `site` does."""
    if name not in sites():
        raise LookupError(f"no cluster {name!r} is configured")
    from fleet.adapters.exporters_kubernetes import KubernetesExporters

    return KubernetesExporters(name, _kubeconfig(), direct=settings.VIGIE_DCGM == "direct")


@functools.cache
def manifests(name: str) -> Manifests:
    """What the objects of cluster `name` say about restarts. Raises LookupError as `site` does."""
    if name not in sites():
        raise LookupError(f"no cluster {name!r} is configured")
    from fleet.adapters.cluster_kubernetes import KubernetesCluster
    from fleet.adapters.cluster_manifests import KubernetesManifests

    return KubernetesManifests(KubernetesCluster(name, _kubeconfig()).server)


@functools.cache
def _logs(name: str) -> Logs:
    if name not in sites():
        raise LookupError(f"no cluster {name!r} is configured")
    from fleet.adapters.cluster_kubernetes import KubernetesCluster
    from fleet.adapters.cluster_logs import KubernetesLogs

    return KubernetesLogs(KubernetesCluster(name, _kubeconfig()).server)


@functools.cache
def last_words() -> LastWords:
    """What pages ask about containers that have ended, with this process' memory of it."""
    return LastWords(_logs)


@functools.cache
def restarts() -> Restarts:
    """What pages ask about restarts, with this process' memory of it."""
    return Restarts(manifests)


@functools.cache
def sides() -> "Sides":
    """What pages ask about blue/green, with this process' memory of it."""
    from fleet.act.sides import Sides  # models, for which the apps have to be ready; whoever sends tasks loads none

    return Sides(site)


@functools.cache
def histories() -> "Histories":
    """What pages ask about revisions, with this process' memory of it."""
    from fleet.act.histories import Histories  # models, as above

    return Histories(site)


def documents(file: str, content: bytes) -> Iterator[Document]:
    """The Kubernetes objects of a YAML file, with their lines. Raises `fleet.domain.documents.Unreadable`."""
    from fleet.adapters.manifests_yaml import documents as found

    return found(file, content)


@functools.cache
def recognition() -> Recognition:
    """Who may hand in readings, for this process."""
    fixed = Path(settings.VIGIE_READING_TOKENS) if settings.VIGIE_READING_TOKENS else None
    return Recognition(lambda name: site(name).reviews, settings.VIGIE_AGENT_ACCOUNT, fixed)


@functools.cache
def catalogue() -> xid.Catalogue:
    """NVIDIA's Xids with this site's overrides. Raises ImproperlyConfigured."""
    if not settings.VIGIE_XID_OVERRIDES:
        return xid.NVIDIA
    try:
        return xid.catalogue(tomllib.loads(Path(settings.VIGIE_XID_OVERRIDES).read_text()))
    except OSError as error:
        raise ImproperlyConfigured(f"cannot read VIGIE_XID_OVERRIDES: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise ImproperlyConfigured(f"VIGIE_XID_OVERRIDES: {error}") from None


def checkpoints(place: str) -> tuple[CheckpointStore, str]:
    """The store that a path or an s3:// address is in, and the path there. For the person at a command line, who may read what
    the account may; endpoint and credentials of S3 come from where the AWS tools look. Raises PortError."""
    if place.startswith("s3://"):
        from fleet.adapters.checkpoints_s3 import ObjectStore

        bucket, _, path = place.removeprefix("s3://").partition("/")
        if not bucket:
            raise PortError("an s3:// address needs a bucket", retryable=False, reason="outside")
        return ObjectStore(bucket), path.strip("/")
    from fleet.adapters.checkpoints_files import FileStore

    found = Path(place).expanduser().absolute()
    return (FileStore(found.parent), found.name) if found.is_file() else (FileStore(found), "")


@functools.cache
def remembered(name: str) -> "Remembered":
    """What the ledger tells this process of the saves of cluster `name`."""
    from fleet.save_records import Remembered

    return Remembered(name)


@functools.cache
def stores(name: str) -> Stores:
    """The checkpoint stores that policy grants of cluster `name`. Raises LookupError as `site` does, ImproperlyConfigured."""
    if name not in sites():
        raise LookupError(f"no cluster {name!r} is configured")
    grants, known = policies().store, credentials()
    if missing := sorted({grant.credential for grant in grants} - known.keys() - {""}):
        raise ImproperlyConfigured(f"VIGIE_CREDENTIALS has no entry {', '.join(missing)}, which the policy names")
    return Stores(grants, lambda grant: _store(grant, known.get(grant.credential)), remembered(name))


@functools.cache
def credentials() -> dict[str, tuple[str, str]]:
    """Access and secret keys by name. Raises ImproperlyConfigured; what the file holds is in no error."""
    if not settings.VIGIE_CREDENTIALS:
        return {}
    try:
        found = tomllib.loads(Path(settings.VIGIE_CREDENTIALS).expanduser().read_text())
        return {name: (str(each["access_key"]), str(each["secret_key"])) for name, each in found.items()}
    except OSError as error:
        raise ImproperlyConfigured(f"cannot read VIGIE_CREDENTIALS: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise ImproperlyConfigured(
            "VIGIE_CREDENTIALS has to be TOML: a table for each name, with access_key and secret_key"
        ) from None


def _store(grant: Grant, keys: tuple[str, str] | None) -> CheckpointStore:
    if grant.path:
        from fleet.adapters.checkpoints_files import FileStore

        return FileStore(Path(grant.path))
    from fleet.adapters.checkpoints_s3 import ObjectStore

    return ObjectStore(*grant.where, grant.endpoint, keys)


def _kubeconfig() -> str | None:
    """None: the service account of this pod."""
    return None if settings.VIGIE_KUBECONFIG == IN_CLUSTER else settings.VIGIE_KUBECONFIG


def _contexts(path: str) -> list[str]:
    """Context names of a kubeconfig, or of several joined like in $KUBECONFIG. The file holds secrets: errors do not quote it."""
    names: dict[str, None] = {}
    for part in filter(None, path.split(os.pathsep)):
        try:
            content = yaml.safe_load(Path(part).expanduser().read_text())
            names |= dict.fromkeys(entry["name"] for entry in content["contexts"])
        except OSError as error:
            raise ImproperlyConfigured(f"cannot read the kubeconfig {part}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError, AttributeError):
            raise ImproperlyConfigured(f"{part} is not a kubeconfig") from None
    return list(names)

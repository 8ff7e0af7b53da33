"""The operations of the API about GPUs: as they are now, and what the ledger knows of them.

Owns their addresses and parameters. What an answer looks like is `answers`'. Must not judge a GPU: the domain does.
"""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router

from dashboard.api import answers
from dashboard.api.answers import Refused, described, head, page, published
from dashboard.api.parameters import Cluster, Part
from fleet.domain.gpus import DeviceState
from fleet.domain.picture import GpuRow, NodeRow

router = Router()


class GpusWanted(Part):
    state: DeviceState | None = Field(None, description="How the GPU is")
    node: str = Field("", max_length=253)
    product: str = Field("", max_length=253, description="Short name of the model, as the nodes have it")
    q: str = Field("", max_length=253, description="Only those whose UUID, serial number or PCI address has this in it")

    def fits(self, row: GpuRow, node: NodeRow | None) -> bool:
        return (
            self.state in {None, row.state}
            and self.node in {"", row.node}
            and self.product in {"", node.product if node else None}
            and any(self.q.lower() in name.lower() for name in (row.uuid, row.serial, row.pci))
        )


@router.get("/gpus", url_name="gpus", openapi_extra=described(answers.GpusAnswer))
def gpus(request: HttpRequest, wanted: Query[GpusWanted]) -> HttpResponse:
    """GPUs that some source measures, by UUID; of those that do not say it, by node and PCI address."""
    name, found = published(request, wanted.cluster)
    nodes = found.snapshot.nodes
    part = page(found.snapshot.gpus, lambda _, row: wanted.fits(row, nodes.get(row.node)), wanted.after, wanted.limit)
    return answers.answer(request, found, answers.GpusAnswer(**head(name, found), **part))


@router.get("/gpus/{uuid}", url_name="gpu", openapi_extra=described(answers.GpuAnswer))
def gpu(request: HttpRequest, uuid: str, cluster: Cluster = "") -> HttpResponse:
    """One GPU of one cluster, with its verdict and the evidence."""
    name, found = published(request, cluster)
    row = found.snapshot.gpus.get(uuid)
    if row is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Cluster {name} has no GPU {uuid}.")
    return answers.answer(request, found, answers.GpuAnswer(**head(name, found), gpu=row))

"""Parameters that many operations have: which cluster, and which part of a list.

Owns their names, bounds and descriptions. Must not know what is listed.
"""

from typing import Annotated

from ninja import Field, Query, Schema

CLUSTER = "Name of a cluster; the first one that you may see when left out"
Cluster = Annotated[str, Query(max_length=253, description=CLUSTER)]


class Part(Schema):
    """Which part of a list."""

    cluster: str = Field("", max_length=253, description=CLUSTER)
    after: str = Field("", max_length=600, description="`next` of the answer before")
    limit: int = Field(500, ge=1, le=1000, description="The most items in one answer")

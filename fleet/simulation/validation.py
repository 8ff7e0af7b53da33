"""What the API server refuses in an object's content: 422 with one cause per wrong field.

Owns the rules that matter for what is written here. Must not change objects.
"""

import re
from typing import Any

from fleet.simulation.refusals import ApiError, Cause, bad_request, invalid, invalid_value, required_value
from fleet.simulation.resources import Resource

Object = dict[str, Any]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def check_create(resource: Resource, obj: Object) -> None:
    """ApiError 422."""
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    if not name:
        causes = [required_value("metadata.name", "name or generateName is required")]
        raise invalid(resource.qualified_kind, "", causes)


def check_update(resource: Resource, old: Object, new: Object, subresource: str) -> None:
    """ApiError 422."""

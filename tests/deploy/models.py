"""Objects against the official client's models, which are generated from Kubernetes' published OpenAPI document.

Stricter than the client itself, which drops unknown fields without a word.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubernetes.client import models

SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


def problems(manifest: dict[str, Any]) -> list[str]:
    """What the manifest's kind does not have, or has with another type; empty when all is well."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    name = f"{version[:1].upper()}{version[1:]}{manifest['kind']}"
    if not hasattr(models, name):
        return [f"no model {name} of {group or 'core'}"]
    return list(_struct(name, manifest, manifest["kind"]))


def _struct(model: str, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is no object"
        return
    cls: Any = getattr(models, model)
    types = {field: cls.openapi_types[attribute] for attribute, field in cls.attribute_map.items()}
    for name, child in value.items():
        if name not in types:
            yield f"{path}.{name} is unknown"
        else:
            yield from _typed(types[name], child, f"{path}.{name}")


def _typed(kind: str, value: Any, path: str) -> Iterator[str]:
    if inner := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{path} is no list"
            return
        for index, child in enumerate(value):
            yield from _typed(inner[1], child, f"{path}[{index}]")
    elif inner := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        if not isinstance(value, dict):
            yield f"{path} is no map"
            return
        for key, child in value.items():
            yield from _typed(inner[1], child, f"{path}.{key}")
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{path} is no {kind}"
    elif kind != "object":  # an integer or a string: ports, percentages
        yield from _struct(kind, value, path)

"""What differs between a recording and its replay without meaning anything: uids, versions, times, tokens.

`Identities` maps recorded ones to ours and masks both sides for comparison.
"""

import base64
import json
import re
from bisect import bisect_right
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
QUOTED_OBJECT = re.compile(r'Invalid value: \\?"\{.*\}\\?": ', re.DOTALL)
VERSION_IN_WORDS = re.compile(r"(version: )\d+ \(\d+\)|(current: )\d+|(ResourceVersion in record \()\d+")
TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}$")
EVENT_NAME = re.compile(r"\.[0-9a-f]{16}$")
FAR_FUTURE = 1_000_000


def decoded_token(token: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return found


def encoded_token(parts: dict[str, Any]) -> str:
    raw = json.dumps(parts, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Identities:
    def __init__(self) -> None:
        self._versions: dict[int, int] = {}
        self._recorded: list[int] = []
        self._uids: dict[str, str] = {}
        self._words: dict[str, str] = {}  # generated names and allotted addresses

    def same_version(self, recorded: int, ours: int) -> None:
        if recorded not in self._versions:
            self._recorded.insert(bisect_right(self._recorded, recorded), recorded)
        self._versions[recorded] = ours

    def knows(self, recorded: int) -> bool:
        return recorded in self._versions

    def stands_for_version(self, ours: int) -> bool:
        """Whether our version already stands for a recorded one."""
        return ours in self._versions.values()

    def version(self, recorded: int) -> int:
        """Ours: of the same change, else of the last known one before it (1: before all of them)."""
        if recorded >= FAR_FUTURE or recorded <= 0:
            return recorded
        known = bisect_right(self._recorded, recorded)
        return self._versions[self._recorded[known - 1]] if known else 1

    def knows_uid(self, recorded: str) -> bool:
        return recorded in self._uids

    def stands_for_one(self, ours: str) -> bool:
        """Whether our uid already stands for a recorded one."""
        return ours in self._uids.values()

    def same_object(self, recorded: dict[str, Any], ours: dict[str, Any]) -> None:
        """Learn uid, a generated name and an allotted address of the same object."""
        metadata, own = recorded["metadata"], ours["metadata"]
        self._uids[metadata["uid"]] = own["uid"]
        if metadata.get("generateName") and metadata["name"] != own["name"]:
            self._words[metadata["name"]] = own["name"]
        address, allotted = recorded.get("spec", {}).get("clusterIP"), ours.get("spec", {}).get("clusterIP")
        if address and allotted and address != allotted:
            self._words[address] = allotted

    def in_text(self, text: str) -> str:
        """Recorded uids, names and addresses replaced by ours."""
        text = UID.sub(lambda m: self._uids.get(m.group(), m.group()), text)
        for recorded, ours in self._words.items():
            text = text.replace(recorded, ours)
        return text

    def translated(self, value: Any) -> Any:
        """A recorded body with our uids, names and addresses in it."""
        return json.loads(self.in_text(json.dumps(value)))

    def token(self, recorded: str) -> str:
        """A recorded continue token for our versions; what is no token stays as it is."""
        try:
            parts = decoded_token(recorded)
        except ValueError:
            return recorded
        return encoded_token({**parts, "rv": self.version(parts["rv"])})

    def query(self, recorded: dict[str, str]) -> dict[str, str]:
        query = dict(recorded)
        if query.get("resourceVersion", "").isdigit():
            query["resourceVersion"] = str(self.version(int(query["resourceVersion"])))
        if "continue" in query:
            query["continue"] = self.token(query["continue"])
        return query

    def body(self, recorded: Any) -> Any:
        """A request's body with our uids and versions."""
        if recorded is None or isinstance(recorded, str):
            return recorded
        return self._renamed(json.loads(self.in_text(json.dumps(recorded))))

    def _renamed(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            is_test = value.get("path") == "/metadata/resourceVersion"
            return {k: self._renamed(v, "resourceVersion" if is_test and k == "value" else k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._renamed(v, field) for v in value]
        if field == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return str(self.version(int(value)))
        return value


def masked(value: Any, field: str = "") -> Any:
    """A body without what no two runs share; who cordoned is all that stays of managedFields."""
    if isinstance(value, dict):
        kept = {k: masked(v, k) for k, v in value.items()}
        if isinstance(value.get("managedFields"), list):
            kept["managedFields"] = [m for e in value["managedFields"] if (m := _cordoner(e))]
            if not kept["managedFields"]:
                del kept["managedFields"]
        return kept
    if isinstance(value, list):
        return [masked(v, field) for v in value]
    if not isinstance(value, str):
        return value
    if field in {"uid", "resourceVersion", "serverAddress", "token"}:
        return "…"
    if field == "continue":
        return decoded_token(value)["start"]
    text = VERSION_IN_WORDS.sub(
        lambda m: (m.group(1) or m.group(2) or m.group(3)) + "…",
        QUOTED_OBJECT.sub('Invalid value: "<object>": ', value),
    )
    text = EVENT_NAME.sub(".…", text)
    return TOKEN_VOLUME.sub("kube-api-access-…", UID.sub("…", TIME.sub("2026-01-01T00:00:00Z", text)))


def _cordoner(entry: dict[str, Any]) -> dict[str, Any]:
    if "f:unschedulable" not in (entry.get("fieldsV1") or {}).get("f:spec", {}):
        return {}
    time = "2026-01-01T00:00:00Z"
    named = {k: entry[k] for k in ("manager", "operation")}
    return {**named, "time": time, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}

"""Folders in an object store that stands beside the rehearsal: objects appear whole, and a new name is a copy.

Owns speaking S3, within seconds or not at all. Credentials come from where the AWS tools look. Must not know what is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

PATIENCE_S = 2.0


class Bucket:
    """Below `prefix` of one bucket; each call is made at once, as whoever saves waits for it. OSError when it fails."""

    visible = True
    grows = False

    def __init__(self, endpoint: str, bucket: str, prefix: str) -> None:
        patience = Config(connect_timeout=PATIENCE_S, read_timeout=PATIENCE_S, retries={"total_max_attempts": 1})
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=patience)
        self._bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""

    def write(self, path: str, content: bytes, at: float, *, more: bool) -> None:  # noqa: ARG002 -- it has times of its own
        with _as_os_error():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + path, Body=content)

    def rename(self, path: str, to: str) -> None:
        for known in self._below(path):
            source = {"Bucket": self._bucket, "Key": self._prefix + known}
            with _as_os_error():
                self._client.copy_object(
                    Bucket=self._bucket, Key=self._prefix + to + known[len(path) :], CopySource=source
                )
        self.remove(path)

    def remove(self, entry: str) -> None:
        for known in self._below(entry):
            with _as_os_error():
                self._client.delete_object(Bucket=self._bucket, Key=self._prefix + known)

    def paths(self) -> set[str]:
        with _as_os_error():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            return {found["Key"][len(self._prefix) :] for page in pages for found in page.get("Contents", ())}

    def _below(self, entry: str) -> list[str]:
        return sorted(path for path in self.paths() if path == entry or path.startswith(f"{entry}/"))


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(None, f"the object store: {error}") from None

"""Checkpoints in an S3-compatible object store.

Owns listings by prefix and ranged reads of exactly the object that was listed, each with a deadline. Must not write, and never
says a credential. `modified_at` is when an object was uploaded, which is not when it was saved.
"""

from collections.abc import Iterator
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from fleet.domain.checkpoint_files import File, Listing, Omitted, Why
from fleet.ports import PortError

_CONFIG: Final = Config(
    connect_timeout=5, read_timeout=20, retries={"max_attempts": 3, "mode": "standard"}, s3={"addressing_style": "auto"}
)
_WORDS = {
    "NoCredentialsError": "no key was found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "EndpointConnectionError": "the object store does not answer at that address",
    "ConnectTimeoutError": "the object store does not answer",
}
_REASONS: Final = {401: "denied", 403: "denied", 404: "gone", 412: "changed", 416: "changed"}


class ObjectStore:
    """One bucket, or what is below a prefix of it.

    Without `endpoint` and `credentials` (access key, secret key) the usual places of the AWS tools are asked for both.
    """

    def __init__(
        self, bucket: str, prefix: str = "", endpoint: str = "", credentials: tuple[str, str] | None = None
    ) -> None:
        import boto3

        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        key, secret = credentials or (None, None)
        try:
            self._client = boto3.session.Session().client(
                "s3",
                endpoint_url=endpoint or None,
                aws_access_key_id=key,
                aws_secret_access_key=secret,
                region_name=None if credentials is None else "us-east-1",
                config=_CONFIG,
            )
        except (BotoCoreError, ValueError) as error:
            raise _trouble(self.name, error) from None

    def list(self, path: str, most: int) -> Listing:
        _check(path)
        files: list[File] = []
        omitted: list[Omitted] = []
        try:
            for found in self._objects(f"{self._prefix}{path}/" if path else self._prefix, most):
                name = found["Key"][len(self._prefix) :]
                if _is_plain(name):
                    files.append(_file(name, found))
                elif not name.endswith("/"):  # an empty object that stands for a directory says nothing
                    omitted.append(Omitted(name, Why.OUTSIDE))
            if path and not files and not omitted:
                files.append(self._one(path))
        except (BotoCoreError, ClientError) as error:
            raise _trouble(f"{self.name}/{path}", error) from None
        return Listing(tuple(sorted(files, key=lambda file: file.path)), tuple(omitted), uploads=True)

    def read(self, file: File, offset: int, length: int) -> bytes:
        span = f"bytes={offset}-{offset + length - 1}"
        try:
            found = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + file.path, Range=span, IfMatch=file.version
            )
            data: bytes = found["Body"].read(length + 1)
        except (BotoCoreError, ClientError) as error:
            raise _trouble(file.path, error) from None
        if len(data) != length:
            raise PortError(f"{file.path}: {len(data)} bytes came for {length}", retryable=True, reason="changed")
        return data

    def _objects(self, prefix: str, most: int) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        count = 0
        for page in pages:
            found = page.get("Contents", [])
            count += len(found)
            if count > most:
                raise PortError(f"more than {most} objects", retryable=False, reason="too-many")
            yield from found

    def _one(self, path: str) -> File:
        found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + path)
        return _file(path, {**found, "Size": found["ContentLength"]})


def _file(path: str, found: dict[str, Any]) -> File:
    return File(path, found["Size"], found["LastModified"].timestamp(), found["ETag"])


def _is_plain(name: str) -> bool:
    """Whether a key can be read as a path that stays below its prefix."""
    return bool(name) and not {"", ".", ".."} & set(name.split("/")) and "\0" not in name


def _check(path: str) -> None:
    if path and not _is_plain(path):
        raise PortError("the path leaves the store", retryable=False, reason=Why.OUTSIDE.value)


def _trouble(what: str, error: Exception) -> PortError:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(error.response.get("Error", {}).get("Code", ""))[:60]
        reason = _REASONS.get(status, "failed")
        return PortError(f"{what}: {code or status}", retryable=status >= 500, status=status, reason=reason)
    # The other side's words may hold an address with a signature: the kind of trouble is enough.
    kind = type(error).__name__
    denied = "Credentials" in kind or "Token" in kind
    words = _WORDS.get(kind, kind)
    return PortError(f"{what}: {words}", retryable=not denied, reason="denied" if denied else "silent")

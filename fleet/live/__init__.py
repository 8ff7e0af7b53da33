"""The picture store: what is, published by one writer per cluster and read by every screen; the GPU store: readings on their
way in, and what is remembered of them; and the store of scans: what is known of checkpoints.

Owns where they are kept (Redis, or this process's memory) and the notices that go out. Must not know Kubernetes or people, and
holds nothing that cannot come back by itself.
"""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from fleet.live.gpus import BEGINNING, Cursor, GpuStore, Hold, Offered, Point, Received, Series, Settled, Told, Worker
from fleet.live.gpus_memory import MemoryGpus
from fleet.live.notices import GROUP, Notices
from fleet.live.picture_memory import MemoryPicture
from fleet.live.published import Lease, Loss, Picture, PictureError, Published, Pulse, Work
from fleet.live.saves import DeepCheck, SaveStore, Scan
from fleet.live.saves_memory import MemorySaves

__all__ = [
    "BEGINNING",
    "GROUP",
    "Cursor",
    "DeepCheck",
    "GpuStore",
    "Hold",
    "Lease",
    "Loss",
    "MemoryGpus",
    "MemoryPicture",
    "MemorySaves",
    "Offered",
    "Picture",
    "PictureError",
    "Point",
    "Published",
    "Pulse",
    "Received",
    "SaveStore",
    "Scan",
    "Series",
    "Settled",
    "Told",
    "Work",
    "Worker",
    "attach",
    "failures",
    "gpus",
    "picture",
    "saves",
    "tell",
]

_notices = Notices()


def attach(loop: asyncio.AbstractEventLoop) -> None:
    """The web server of this process runs on `loop`: notices go out there. Call before anything is published."""
    _notices.attach(loop)


def failures() -> int:
    """How many notices this process could not send."""
    return _notices.failures


def tell(notice: Mapping[str, Any]) -> None:
    """Send something else to everybody who hears of pictures: a hint that may get lost. Returns at once."""
    _notices.send(notice)


@functools.cache
def picture() -> Picture:
    """This process's store, as the settings choose it."""
    if settings.VIGIE_REDIS_URL:
        from fleet.live.picture_redis import RedisPicture

        return RedisPicture(settings.VIGIE_REDIS_URL, _notices.send)
    return MemoryPicture(_notices.send)


@functools.cache
def gpus() -> GpuStore:
    """This process's store of what is known of GPUs."""
    if settings.VIGIE_REDIS_URL:
        from fleet.live.gpus_redis import RedisGpus

        return RedisGpus(settings.VIGIE_REDIS_URL)
    return MemoryGpus()


@functools.cache
def saves() -> SaveStore:
    """This process's store of what is known of checkpoints."""
    if settings.VIGIE_REDIS_URL:
        from fleet.live.saves_redis import RedisSaves

        return RedisSaves(settings.VIGIE_REDIS_URL)
    return MemorySaves()

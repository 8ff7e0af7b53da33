"""The API for programs: `/api/v1/`.

Rows are those of `fleet.domain.picture`, as they are: what a screen shows and what a program gets never differ. `access.Gate`
decides who may ask. Must not hold rules about machines.
"""

from dashboard.api.operations import api

__all__ = ["api"]

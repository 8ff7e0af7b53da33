"""The `celery` command with leases of half a second on actions, so that a test need not wait for a dead worker's to run out.

python -m tests.short_leases -A dashboard.celery worker -Q actions …
"""

import os
import sys

import django

LEASE_S = 0.5


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from fleet.act import claims

    claims.LEASE_S = LEASE_S  # before the tasks are loaded, which take it from there
    from celery.__main__ import main as celery

    sys.argv[0] = "celery"
    celery()


if __name__ == "__main__":
    main()

#!/usr/bin/env python
"""Django's command line.

Owns which settings a command sees: `up` starts without Django, and the commands for people find the instance that runs.
"""

import os
import sys

# These talk about the instance that somebody is looking at, so they follow it without any environment variable.
FOLLOW_THE_RUNNING = ("act", "audit", "plan", "scenario", "token", "user")
# This one only where it asks the ledger; else it answers on any machine.
ASK_THE_LEDGER = {"cadence": {"--gpus", "--workload"}}


def main(argv: list[str]) -> int:
    command = argv[1] if len(argv) > 1 else ""
    if command == "up":
        from dashboard import launcher

        return launcher.main(argv[2:])
    options = {argument.partition("=")[0] for argument in argv}
    follows = command in FOLLOW_THE_RUNNING or ASK_THE_LEDGER.get(command, set()) & options
    if follows and "VIGIE_HOME" not in os.environ and not {"-h", "--help"} & options:
        from dashboard import running

        try:
            os.environ.update(running.environment())
        except LookupError as error:
            sys.exit(f"manage.py {command}: {error}")
        if len(others := running.read()) > 1:
            sys.stderr.write(f"Several run; this is about {others[0].address}, VIGIE_HOME=… chooses another.\n")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

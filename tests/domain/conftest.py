"""How property tests run: on a busy machine an example may take its time, which says nothing about the rule."""

from hypothesis import HealthCheck, settings

settings.register_profile("vigie", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vigie")

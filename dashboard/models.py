"""What the web face remembers about people: API tokens, one-time links, walls, sessions and failed sign-ins.

Owns rows, not rules: `tokens`, `accounts`, `wall`, `sessions` and `throttle` decide. Secrets are stored as digests only. Nothing
about machines.
"""

from django.conf import settings
from django.db import models

DIGEST_LENGTH = 64  # SHA-256 in hexadecimal
CLUSTER_LENGTH = 253


class Scope(models.TextChoices):
    """What a token may be used for, whatever its owner may do."""

    READ = "read"
    ACT = "act"  # reading, and whatever its owner's role may change
    REPORT = "report"  # nothing but saying what one workload has saved


class ApiToken(models.Model):
    """A bearer token of one account. Its secret holds 256 random bits, so an unsalted digest cannot be searched."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=DIGEST_LENGTH, unique=True)
    scope = models.CharField(max_length=16, choices=Scope.choices, default=Scope.READ)
    cluster = models.CharField(
        max_length=CLUSTER_LENGTH, blank=True, default=""
    )  # "": every one that its owner may see
    workload = models.CharField(max_length=600, blank=True, default="")  # of scope REPORT: whose saves it may report
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)  # coarse: to five minutes

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"


class Invitation(models.Model):
    """A link that works once: its holder chooses the password of `user`, or, without one, makes the first account."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="invitations")
    digest = models.CharField(max_length=DIGEST_LENGTH, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link for {self.user or 'the first account'}"


class WallAddress(models.Model):
    """An address for a screen on a wall: opened once, from then on its cookie shows one view of one cluster."""

    name = models.CharField(max_length=100)
    cluster = models.CharField(max_length=CLUSTER_LENGTH)
    digest = models.CharField(max_length=DIGEST_LENGTH, unique=True)
    cookie_digest = models.CharField(max_length=DIGEST_LENGTH, unique=True, null=True)  # noqa: DJ001  (unique, so not "")
    made_by = models.CharField(max_length=150)  # a name, so that it outlives the account
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"wall {self.name} of {self.cluster}"


class SignedIn(models.Model):
    """One session of one person, as they see it in their list."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="signed_in")
    session_key = models.CharField(max_length=40, unique=True)
    browser = models.CharField(max_length=100, blank=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()  # coarse: to five minutes

    def __str__(self) -> str:
        return f"session of {self.user}"


class SignInTries(models.Model):
    """Tries to sign in since the first that failed: with one user name from one address, or from one address at all.

    The key is a digest.
    """

    key = models.CharField(max_length=DIGEST_LENGTH, primary_key=True)
    tries = models.PositiveSmallIntegerField(default=0)
    since_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.tries} tries"

"""What the web face remembers about people: API tokens, one-time links and failed sign-ins.

Owns rows, not rules: `tokens`, `accounts` and `throttle` decide. Secrets are stored as digests only. Nothing about machines.
"""

from django.conf import settings
from django.db import models

DIGEST_LENGTH = 64  # SHA-256 in hexadecimal


class Scope(models.TextChoices):
    """What a token may be used for, whatever its owner may do."""

    READ = "read"


class ApiToken(models.Model):
    """A bearer token of one account. Its secret holds 256 random bits, so an unsalted digest cannot be searched."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=DIGEST_LENGTH, unique=True)
    scope = models.CharField(max_length=16, choices=Scope.choices, default=Scope.READ)
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


class SignInTries(models.Model):
    """Tries to sign in with one user name from one address, since the first that failed. The key is a digest of both."""

    key = models.CharField(max_length=DIGEST_LENGTH, primary_key=True)
    tries = models.PositiveSmallIntegerField(default=0)
    since_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.tries} tries"

"""Django's settings, read from the environment only.

Owns the meaning of every VIGIE_* variable, of REDIS_URL and of DATABASE_URL. Must not know whether the cluster that is watched is
the rehearsal: the launcher says what differs through these variables.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import structlog
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from dashboard import log_secrets, running

ROOT = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1,localhost,[::1]"


def names(variable: str, default: str = "") -> tuple[str, ...]:
    """A comma-separated variable, without blanks and empty parts."""
    parts = (part.strip() for part in os.environ.get(variable, default).split(","))
    return tuple(part for part in parts if part)


def one_of(variable: str, default: str, *others: str) -> str:
    """A variable with a few values. Raises ImproperlyConfigured."""
    value = os.environ.get(variable) or default
    if value not in {default, *others}:
        raise ImproperlyConfigured(f"{variable} is {value!r}; it can be {', '.join((default, *others))}")
    return value


def home() -> Path:
    """The directory of all state, private to the account that runs Vigie."""
    path = Path(os.environ.get("VIGIE_HOME") or running.STATE).expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"VIGIE_HOME {path} cannot be made: {error.strerror}") from error
    return path


def secret_key(folder: Path) -> str:
    """The key that signs cookies: given, or made once. Of processes that start together the first link wins."""
    if given := os.environ.get("VIGIE_SECRET_KEY"):
        return given
    path = folder / "secret-key"
    try:
        if not path.exists():
            _make_secret(path)
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(f"the secret key in VIGIE_HOME {folder}: {error.strerror}") from error


def _make_secret(path: Path) -> None:
    """A whole file appears under its name or none does, so nobody ever reads half a key."""
    mine = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(64))
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(mine, path)
    mine.unlink()


def database(url: str, folder: Path) -> dict[str, Any]:
    """Django's entry for a DATABASE_URL such as postgres://user:password@host:5432/name?sslmode=require.

    Without one: SQLite in `folder`.

    Raises ImproperlyConfigured in words that never hold the password.
    """
    if not url:
        return _sqlite(folder)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured("DATABASE_URL is not an address: its host or port is malformed") from error
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(f"DATABASE_URL must begin with postgres://, not with {parts.scheme or 'nothing'}://")
    name = unquote(parts.path.removeprefix("/"))
    if not name or "/" in name:
        raise ImproperlyConfigured("DATABASE_URL must end with /NAME of one database")
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", unquote(parts.hostname or "")),  # ?host=/run/postgresql names a socket's folder
        "PORT": str(port or ""),
        "OPTIONS": {"connect_timeout": "5", **options},
    }


def _sqlite(folder: Path) -> dict[str, Any]:
    """A file that only we may read, whatever the folder allows: session keys are in it."""
    path = folder / "vigie.sqlite3"
    if not path.exists():
        path.touch(mode=0o600)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "timeout": 10,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON",
        },
        # A file as in real life: threads and the socket's own connection see the same rows under the same locks.
        "TEST": {"NAME": folder / "test.sqlite3"},
    }


# --- Vigie ---------------------------------------------------------------------------------------------------------------------
VIGIE_HOME = home()
VIGIE_KUBECONFIG = os.environ.get("VIGIE_KUBECONFIG", "")
VIGIE_CONTEXTS = names("VIGIE_CONTEXTS")  # empty: every context of the kubeconfig
VIGIE_ACTIONS = frozenset(names("VIGIE_ACTIONS"))  # clusters that may be changed; every other one is read-only
VIGIE_CREDENTIALS = os.environ.get("VIGIE_CREDENTIALS", "")  # a TOML file: keys of object stores, by name
VIGIE_POLICIES = os.environ.get("VIGIE_POLICIES", "")  # a TOML file: limits, windows, freezes, second persons
VIGIE_AGENT_ACCOUNT = os.environ.get("VIGIE_AGENT_ACCOUNT", "vigie:vigie-agent")  # whose tokens may hand in readings
VIGIE_READING_TOKENS = os.environ.get("VIGIE_READING_TOKENS", "")  # a file of tokens that nodes were given by hand
# How dcgm-exporter's pods are scraped: not at all, through the API server's proxy, or at their own addresses.
VIGIE_DCGM = one_of("VIGIE_DCGM", "off", "proxy", "direct")
VIGIE_XID_OVERRIDES = os.environ.get("VIGIE_XID_OVERRIDES", "")  # a TOML file: what this site thinks of an Xid
VIGIE_REDIS_URL = os.environ.get("REDIS_URL", "")  # empty: everything in this process's memory
VIGIE_SECURE = os.environ.get("VIGIE_SECURE", "") == "1"
# Networks that may read /metrics without a token. Behind a proxy every request may look as if it came from this machine.
VIGIE_METRICS_FROM = names("VIGIE_METRICS_FROM", "" if VIGIE_SECURE else "127.0.0.0/8,::1/128")

# --- Django --------------------------------------------------------------------------------------------------------------------
DEBUG = False
SECRET_KEY = secret_key(VIGIE_HOME)
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "dashboard",
    "fleet",
]
MIDDLEWARE = [
    "dashboard.request_ids.RequestIds",
    "dashboard.headers.Headers",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.access.Gate",
    "dashboard.errors.NotAllowed",
    "dashboard.errors.DatabaseAway",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "frontend" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.template.context_processors.i18n",
            ],
        },
    },
]

# --- Memory --------------------------------------------------------------------------------------------------------------------
DATABASES = {"default": database(os.environ.get("DATABASE_URL", ""), VIGIE_HOME)}
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [VIGIE_REDIS_URL], "prefix": "vigie"},
    }
    if VIGIE_REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}},
}

# --- People --------------------------------------------------------------------------------------------------------------------
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "dashboard.errors.forged"
# The prefix makes a browser refuse the cookie from any other host or path; it is only allowed together with Secure.
# Without TLS the port tells two of us on one machine apart: cookies do not know ports.
_COOKIE = "__Host-vigie" if VIGIE_SECURE else "-".join(filter(None, ("vigie", os.environ.get("VIGIE_PORT"))))
SESSION_COOKIE_NAME = _COOKIE
CSRF_COOKIE_NAME = f"{_COOKIE}-csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = VIGIE_SECURE
# Only /wall/ and its socket get it, so it cannot have the prefix __Host-, which wants the path /.
VIGIE_WALL_COOKIE = f"{_COOKIE.replace('__Host-', '__Secure-')}-wall"

# --- Hosts and transport -------------------------------------------------------------------------------------------------------
ALLOWED_HOSTS = list(names("VIGIE_HOSTS", LOOPBACK))
CSRF_TRUSTED_ORIGINS = [
    f"https://{'*' if host.startswith('.') else ''}{host}" for host in ALLOWED_HOSTS if VIGIE_SECURE and host != "*"
]
SECURE_SSL_REDIRECT = VIGIE_SECURE
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]  # probes come from the machine itself, without TLS
SECURE_HSTS_SECONDS = 365 * 86_400 if VIGIE_SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = VIGIE_SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if VIGIE_SECURE else None
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Preloading binds a whole domain for years: that is for its owner to decide, not for one service under it.
SILENCED_SYSTEM_CHECKS = ["security.W021"]

# --- Words and files -----------------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("fr", _("French"))]
LOCALE_PATHS = [ROOT / "frontend" / "locale"]
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = VIGIE_SECURE
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "frontend" / "static"]
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_ALLOW_ALL_ORIGINS = False
# Names carry no hash, so every page load asks whether a file is still the same: an upgrade never mixes two versions.
WHITENOISE_MAX_AGE = 0

# --- Log -----------------------------------------------------------------------------------------------------------------------
_STAMPS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
structlog.configure(
    processors=[*_STAMPS, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "structlog.stdlib.ProcessorFormatter",
            "foreign_pre_chain": _STAMPS,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.dev.ConsoleRenderer(colors=False)
                if os.environ.get("VIGIE_LOG", "console") == "console"
                else structlog.processors.JSONRenderer(),
                log_secrets.hide,
            ],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {
        "handlers": ["stderr"],
        "level": "WARNING",
    },  # libraries write addresses at INFO, and some addresses are secrets
    "loggers": {
        "dashboard": {"level": "INFO"},
        "fleet": {"level": "INFO"},
        # Django's own handlers would print every record twice; a visitor's wrong address is not news.
        "django": {"handlers": [], "propagate": True},
        "django.request": {"level": "ERROR"},
        "django.server": {"handlers": [], "propagate": True},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}

"""What every answer tells the browser: strict policy, no caching of what people see, strict cookies."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

ROOT = Path(__file__).resolve().parent.parent.parent
EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STRICT = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self' ws://testserver",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


def policy(response) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in parts}


@pytest.mark.db
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 302),
        ("/login/", 200),
        ("/c/{cluster}/", 200),
        ("/c/{cluster}/nodes/node-01/", 200),
        ("/c/{cluster}/nodes/missing/", 404),
        ("/c/missing/", 404),
        ("/nowhere", 404),
        ("/welcome/spent/", 410),
        ("/api/v1/nodes", 200),
        ("/api/v1/nowhere", 404),
        ("/healthz", 200),
        ("/readyz", 503),
    ],
)
def test_every_answer_is_strict_and_not_kept(path, status, as_person, writer):
    client = as_person("viewer") if path != "/login/" else Client()
    response = client.get(path.format(cluster=writer.cluster))
    assert response.status_code == status
    assert policy(response) == STRICT
    assert {name: response.headers.get(name) for name in EVERYWHERE} == EVERYWHERE
    assert "camera=()" in response.headers["Permissions-Policy"]
    assert {"no-store", "private"} <= set(re.split(r",\s*", response.headers["Cache-Control"])) or "/api/" in path


@pytest.mark.db
@pytest.mark.parametrize("path", ["/login/", "/c/{cluster}/", "/c/{cluster}/nodes/node-01/", "/nowhere"])
def test_pages_hold_nothing_that_the_policy_forbids(path, as_person, writer):
    client = as_person("viewer") if path != "/login/" else Client()
    page = client.get(path.format(cluster=writer.cluster)).content.decode()
    assert not re.search(r"<[^>]+\sstyle=", page)
    assert not re.search(r"<[^>]+\son[a-z]+=", page)
    assert "<style" not in page
    for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL):
        assert 'type="application/json"' in attributes or not body.strip()
    assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", page)


def test_a_foreign_host_is_refused_with_the_same_headers(client):
    response = client.get("/login/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert policy(response)["connect-src"] == "'self'"
    assert "evil.example" not in response.content.decode()


def test_static_files_have_their_types_and_are_asked_for_again(client):
    response = client.get("/static/css/tokens.css")
    assert response.headers["Content-Type"].startswith("text/css")
    assert response.content == (ROOT / "frontend/static/css/tokens.css").read_bytes()
    assert "max-age=0" in response.headers["Cache-Control"]
    assert "Content-Security-Policy" in response.headers
    assert "Access-Control-Allow-Origin" not in response.headers
    again = client.get("/static/css/tokens.css", headers={"if-modified-since": response.headers["Last-Modified"]})
    assert (again.status_code, again.content) == (304, b"")
    script = next((ROOT / "frontend/static/js").rglob("*.js")).relative_to(ROOT / "frontend")
    assert client.get(f"/{script}").headers["Content-Type"].startswith("text/javascript")
    assert client.get("/static/../settings.py").status_code == 404


@pytest.mark.db
def test_cookies_are_out_of_reach_of_scripts_and_other_sites(client, people):
    client.get("/login/")
    client.post("/login/", {"username": "viewer", "password": "correct horse battery"})
    session, forgery = client.cookies["vigie"], client.cookies["vigie-csrf"]
    assert all(cookie["httponly"] and cookie["samesite"] == "Lax" for cookie in (session, forgery))
    assert session["max-age"] == 12 * 3600


@pytest.mark.db
def test_a_form_without_its_secret_is_refused(people):
    client = Client(enforce_csrf_checks=True)
    response = client.post("/login/", {"username": "viewer", "password": "correct horse battery"})
    assert response.status_code == 403
    assert b"This form is out of date" in response.content


def secure(code: str, tmp_path: Path) -> str:
    """What Python says in a process with the settings of a site outside the rehearsal."""
    env = {"VIGIE_HOME": str(tmp_path), "VIGIE_SECURE": "1", "VIGIE_HOSTS": "vigie.example", "PATH": ""}
    command = [
        sys.executable,
        "-c",
        f"import django\nimport os\nos.environ['DJANGO_SETTINGS_MODULE']='dashboard.settings'\n{code}",
    ]
    return subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_outside_the_rehearsal_everything_is_tls(tmp_path):
    code = """
django.setup()
import json
from django.test import Client
plain, tls = Client(headers={"host": "vigie.example"}), Client(headers={"host": "vigie.example", "x-forwarded-proto": "https"})
page = tls.get("/nowhere")
print(json.dumps({
    "plain": [plain.get("/login/").status_code, plain.get("/login/").headers["Location"]],
    "probe": plain.get("/healthz").status_code,
    "hsts": page.headers["Strict-Transport-Security"],
    "policy": page.headers["Content-Security-Policy"],
}))
from django.conf import settings
names = ("SESSION_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "CSRF_TRUSTED_ORIGINS")
print(json.dumps([getattr(settings, name) for name in names]))
"""
    answers, cookies = (json.loads(line) for line in secure(code, tmp_path).splitlines())
    assert answers["plain"] == [301, "https://vigie.example/login/"]
    assert answers["probe"] == 200
    assert answers["hsts"] == "max-age=31536000; includeSubDomains"
    assert "wss://vigie.example" in answers["policy"]
    assert cookies == ["__Host-vigie", True, True, ["https://vigie.example"]]


def test_djangos_own_check_finds_nothing_to_complain_about(tmp_path):
    code = """
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "check", "--deploy", "--fail-level", "WARNING"])
"""
    assert "no issues" in secure(code, tmp_path)

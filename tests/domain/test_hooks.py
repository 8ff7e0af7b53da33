"""The annotation by which a workload says how it is asked to save."""

import pytest

from fleet.domain import hooks
from fleet.domain.hooks import HOOK, Hook, Way, parsed
from tests.domain.drains import pod


@pytest.mark.parametrize(
    ("said", "hook"),
    [
        ("http:8080/save", Hook(Way.HTTP, port=8080, path="/save")),
        (" http:1/v1/save%20now ", Hook(Way.HTTP, port=1, path="/v1/save%20now")),
        ("http:65535/", Hook(Way.HTTP, port=65535, path="/")),
        ("signal:USR1:trainer", Hook(Way.SIGNAL, signal="USR1", container="trainer")),
        ("signal:HUP:main-0", Hook(Way.SIGNAL, signal="HUP", container="main-0")),
    ],
)
def test_what_a_team_declares(said: str, hook: Hook) -> None:
    assert parsed(said) == hook
    assert parsed(hook.text) == hook


@pytest.mark.parametrize(
    "said",
    [
        "",
        "yes",
        "http:0/save",
        "http:65536/save",
        "http:8080",
        "http:8080/save?all=1",
        "http:8080/../../../../nodes",
        "http:8080/%2e%2e/secrets",
        "http:8080/a%2f..%2fb",
        "http:8080/a b",
        "http:8080/a\nb",
        "https:8080/save",
        "http://elsewhere/save",
        "http:8080/" + "a" * 300,
        "signal:KILL:trainer",
        "signal:9:trainer",
        "signal:USR1:",
        "signal:USR1:trainer; rm -rf /",
        "signal:USR1:-c",
        "signal:usr1:trainer",
    ],
)
def test_what_means_nothing_is_no_hook(said: str) -> None:
    assert parsed(said) is None


def test_a_slip_of_the_pen_is_declared_all_the_same() -> None:
    assert hooks.declared(pod("t-0", annotations={HOOK: "http:8080"}))
    assert hooks.hook(pod("t-0", annotations={HOOK: "http:8080"})) is None
    assert not hooks.declared(pod("t-0"))

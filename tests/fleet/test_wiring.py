"""Which clusters there are, as the settings and the kubeconfig say."""

import pytest
import yaml
from django.core.exceptions import ImproperlyConfigured

from fleet import wiring


@pytest.fixture(autouse=True)
def fresh():
    wiring.site.cache_clear()
    yield
    wiring.site.cache_clear()


@pytest.fixture
def kubeconfig(tmp_path, settings):
    def write(*contexts: str, name: str = "kubeconfig") -> str:
        path = tmp_path / name
        content = {
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": c} for c in contexts],
        }
        path.write_text(yaml.safe_dump(content))
        settings.VIGIE_KUBECONFIG = str(path)
        return str(path)

    settings.VIGIE_CONTEXTS = ()
    settings.VIGIE_ACTIONS = frozenset()
    return write


def test_every_context_is_a_cluster_unless_some_are_named(kubeconfig, settings):
    kubeconfig("paris", "lyon", "lab")
    assert wiring.sites() == ["paris", "lyon", "lab"]
    settings.VIGIE_CONTEXTS = ("lab", "paris")
    assert wiring.sites() == ["lab", "paris"]


def test_a_context_that_is_not_there_is_named(kubeconfig, settings):
    kubeconfig("paris")
    settings.VIGIE_CONTEXTS = ("paris", "rome", "oslo")
    with pytest.raises(ImproperlyConfigured, match="rome, oslo"):
        wiring.sites()


def test_several_files(kubeconfig, settings):
    settings.VIGIE_KUBECONFIG = ":".join(
        [kubeconfig("paris", "lab", name="one"), "", kubeconfig("lab", "oslo", name="two")]
    )
    assert wiring.sites() == ["paris", "lab", "oslo"]


def test_without_a_kubeconfig_there_is_nothing_to_watch(settings):
    settings.VIGIE_KUBECONFIG = ""
    assert wiring.sites() == []


def test_in_a_cluster_its_name_is_chosen(settings):
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS = "in-cluster", ()
    assert wiring.sites() == ["in-cluster"]
    settings.VIGIE_CONTEXTS = ("paris",)
    assert wiring.sites() == ["paris"]


@pytest.mark.parametrize(
    "content", ["", "[]", "users: secret", "contexts: [1]", "{", "\x00\x01", "contexts: {a: secret}"]
)
def test_what_is_no_kubeconfig_is_refused_without_quoting_it(tmp_path, settings, content):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    settings.VIGIE_KUBECONFIG = str(path)
    with pytest.raises(ImproperlyConfigured, match="is not a kubeconfig") as caught:
        wiring.sites()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_missing_is_named(tmp_path, settings):
    settings.VIGIE_KUBECONFIG = str(tmp_path / "none")
    with pytest.raises(ImproperlyConfigured, match=f"{tmp_path}/none: No such file"):
        wiring.sites()


def test_a_cluster_may_be_changed_only_where_the_settings_say_so(kubeconfig, settings):
    kubeconfig("paris", "lab")
    settings.VIGIE_ACTIONS = frozenset({"lab"})
    assert wiring.site("lab").actions
    assert not wiring.site("paris").actions
    assert wiring.site("lab").cluster.name == "lab"
    assert wiring.site("lab") is wiring.site("lab"), "streams and connections live in it"


def test_an_unknown_cluster(kubeconfig):
    kubeconfig("paris")
    with pytest.raises(LookupError):
        wiring.site("rome")

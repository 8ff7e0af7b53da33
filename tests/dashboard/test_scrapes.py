"""Scraping GPU exporters, as a site sees it: the setting, the schedule, the threads, the metric."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard import celery, gpu_metrics
from dashboard.settings import one_of
from fleet import live, wiring
from fleet.adapters.exporters_kubernetes import KubernetesExporters
from fleet.live import Worker

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("said", "meant"), [(None, "off"), ("", "off"), ("proxy", "proxy"), ("direct", "direct")])
def test_the_values_of_the_setting(monkeypatch, said, meant):
    monkeypatch.delenv("VIGIE_DCGM", raising=False)
    if said is not None:
        monkeypatch.setenv("VIGIE_DCGM", said)
    assert one_of("VIGIE_DCGM", "off", "proxy", "direct") == meant


def test_any_other_value_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("VIGIE_DCGM", "yes")
    with pytest.raises(ImproperlyConfigured, match=r"VIGIE_DCGM is 'yes'; it can be off, proxy, direct"):
        one_of("VIGIE_DCGM", "off", "proxy", "direct")


@pytest.mark.parametrize(("value", "scheduled"), [("off", False), ("proxy", True), ("direct", True)])
def test_nothing_is_scraped_unless_asked(tmp_path, value, scheduled):
    code = "import json; from dashboard.celery import app; print(json.dumps(sorted(app.conf.beat_schedule)))"
    env = {"PATH": os.environ["PATH"], "VIGIE_HOME": str(tmp_path), "VIGIE_DCGM": value}
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    assert ("scrape" in json.loads(out.stdout)) is scheduled


def test_a_thread_for_every_cluster_that_is_scraped(settings, monkeypatch):
    monkeypatch.setattr(wiring, "sites", lambda: ["paris", "lab"])
    settings.VIGIE_DCGM = "off"
    without = celery.QUEUES["readings"].threads()
    settings.VIGIE_DCGM = "proxy"
    assert celery.QUEUES["readings"].threads() == without + 2


def test_the_exporters_of_a_cluster(settings):
    settings.VIGIE_KUBECONFIG, settings.VIGIE_CONTEXTS, settings.VIGIE_DCGM = "in-cluster", ("paris",), "proxy"
    wiring.exporters.cache_clear()
    assert isinstance(wiring.exporters("paris"), KubernetesExporters)
    with pytest.raises(LookupError):
        wiring.exporters("elsewhere")
    wiring.exporters.cache_clear()


def test_outcomes_are_exported_by_name():
    live.gpus().say("scraped", Worker(1.0, scrapes={"done": 12, "ServiceUnavailable": 1}))
    lines = gpu_metrics.readings(["scraped"]).decode().splitlines()
    assert 'vigie_scrapes_total{cluster="scraped",outcome="done"} 12' in lines
    assert 'vigie_scrapes_total{cluster="scraped",outcome="ServiceUnavailable"} 1' in lines

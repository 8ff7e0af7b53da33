"""Manifests for the rules of restart readiness: one that no rule has anything against, and changes to it."""

from typing import Any

import yaml

from fleet.adapters.manifests_yaml import documents
from fleet.domain import readiness
from fleet.domain.documents import read
from fleet.domain.manifests import Manifest
from fleet.domain.readiness import Report

GOOD = """
Deployment:
  apiVersion: apps/v1
  kind: Deployment
  metadata: {name: llm, namespace: chat}
  spec:
    replicas: 4
    minReadySeconds: 10
    selector: {matchLabels: {app: llm}}
    template:
      metadata: {labels: {app: llm}}
      spec:
        terminationGracePeriodSeconds: 60
        topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
           labelSelector: {matchLabels: {app: llm}}}
        containers:
        - name: server
          image: registry.example/llm:2.1
          ports: [{name: http, containerPort: 8000}]
          resources: {limits: {nvidia.com/gpu: 1}}
          startupProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 10, failureThreshold: 30}
          readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 5}
          livenessProbe: {httpGet: {path: /alive, port: http}}
          lifecycle: {preStop: {sleep: {seconds: 5}}}
Service:
  apiVersion: v1
  kind: Service
  metadata: {name: llm, namespace: chat}
  spec: {selector: {app: llm}, ports: [{port: 80, targetPort: http}]}
PodDisruptionBudget:
  apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: llm, namespace: chat}
  spec: {maxUnavailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: llm}}}
"""
Objects = dict[str, dict[str, Any]]


def good(changes: str = "") -> Objects:
    """The good manifests by kind, with changes by kind; a kind that is not there is added, one that is null taken away."""
    found: Objects = yaml.safe_load(GOOD)
    return patched(found, yaml.safe_load(changes) or {})


def patched(value: Any, patch: Any) -> Any:
    """As a strategic merge patch: null deletes, lists of named things are merged by name, other lists replaced."""
    if isinstance(value, dict) and isinstance(patch, dict):
        merged = {key: patched(value.get(key), item) for key, item in patch.items() if item is not None}
        return {key: item for key, item in {**value, **merged}.items() if key not in patch or patch[key] is not None}
    if isinstance(patch, dict):
        return {key: patched(None, item) for key, item in patch.items() if item is not None}
    if isinstance(value, list) and isinstance(patch, list):
        names = ("name", "topologyKey")
        name = next((n for n in names if patch and all(isinstance(each, dict) and n in each for each in patch)), None)
        if name and all(isinstance(each, dict) and name in each for each in value):
            own = {each[name]: each for each in value}
            changed = {each[name]: patched(own.get(each[name]), each) for each in patch}
            return [
                *(changed.get(key, each) for key, each in own.items()),
                *(c for key, c in changed.items() if key not in own),
            ]
    return patch


def manifests(objects: Objects | str, file: str = "all.yaml") -> list[Manifest]:
    """Of objects, through the reader of files; or of a file's text."""
    text = objects if isinstance(objects, str) else yaml.safe_dump_all(list(objects.values()), sort_keys=False)
    return [found for document in documents(file, text.encode()) for found in read(document)]


def report(objects: Objects | str) -> Report:
    return readiness.report(manifests(objects))

"""Saving first as a part of a plan: its step, and what somebody would type instead.

Owns both, for every kind of action that ends pods. Must not know which workloads can be asked: `first_saves` does.
"""

import shlex

from fleet.domain.losses import Draft
from fleet.domain.plans import Facts, Save, Step, StepKind
from fleet.domain.training import Hook


def steps(draft: Draft) -> tuple[Step, ...]:
    """One step for all of them; none where nobody is asked."""
    if not draft.saves:
        return ()
    asked = ", ".join(save.workload for save in draft.saves)
    facts: Facts = (("workloads", len(draft.saves)), ("asked", asked))
    return (Step(StepKind.SAVE, draft.facts.target, facts, deadline_s=draft.facts.policy.deadlines.save_s),)


def commands(draft: Draft) -> tuple[str, ...]:
    """Without the proof that the checkpoint is complete: that is somebody's own look."""
    return tuple(line for save in draft.saves for line in _commands(save))


def _commands(save: Save) -> tuple[str, ...]:
    hook = save.training.hook
    if hook is None:
        return ()
    asked = command(save.namespace, save.pod, hook)
    return asked, f"# wait until the new checkpoint of {save.workload} is complete, then:"


def command(namespace: str, pod: str, hook: Hook) -> str:
    """What somebody would type to have one pod save."""
    if hook.signal is not None:
        return f"kubectl exec -n {namespace} {pod} -c {shlex.quote(hook.container)} -- kill -{hook.signal} 1"
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{hook.port}/proxy{hook.path}"
    return f"kubectl create --raw {shlex.quote(path)} -f /dev/null"

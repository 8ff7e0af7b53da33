"""What a training's pods carry so that it saves: arguments, environment, volumes and annotations; and the claims behind them.

Pure: a row of the catalogue in, parts of manifests out. What the trainer makes of it is training_habits.py's.
"""

from typing import Any

from fleet.domain import durations
from fleet.simulation.catalogue import Saving, Told, Workload
from fleet.simulation.training_habits import FORMAT, STEP_SECONDS

Object = dict[str, Any]

STORAGE_CLASS = "nfs-training"
SERVER, EXPORTS = "nfs-1.par1.internal", "/exports"
SIZE = {"storage": "40Ti"}
SEVERAL_NODES = ["ReadWriteMany"]
MOUNTED = {"claim": "/checkpoints", "hostPath": "/nvme", "emptyDir": "/scratch"}
VOLUME = {"claim": "checkpoints", "hostPath": "nvme", "emptyDir": "scratch"}
# What each trainer calls the folder that it saves to, and how often.
OPTIONS = {
    "hf-trainer": ("output_dir", "save_steps"),
    "megatron-lm": ("save", "save-interval"),
    "lightning": ("default_root_dir", "checkpoint-every"),
}
PLAIN_OPTIONS = ("checkpoint-dir", "checkpoint-every")


def target(workload: Workload, saving: Saving) -> str:
    """Where it saves, as its containers see it."""
    kind = saving.to.partition("/")[0]
    return f"{MOUNTED[kind]}/{workload.name}" if kind in MOUNTED else saving.to


def claimed(saving: Saving) -> str:
    """The claim that it saves to, "" none."""
    kind, _, name = saving.to.partition("/")
    return name if kind == "claim" else ""


def notes(workload: Workload, saving: Saving) -> dict[str, str]:
    """The annotations of its pods: how the trainer behaves here, and what its team says of it where it does."""
    behaviour = {FORMAT: saving.layout, STEP_SECONDS: f"{saving.step_s:g}"}
    if saving.told is not Told.ANNOTATION:
        return behaviour
    said = {
        "vigie.dev/checkpoint-uri": target(workload, saving),
        "vigie.dev/checkpoint-interval": durations.spelled(saving.every_steps * saving.step_s),
        "vigie.dev/checkpoint-format": saving.layout,
    }
    return behaviour | said | ({"vigie.dev/checkpoint-hook": saving.hook} if saving.hook else {})


def equip(workload: Workload, saving: Saving, spec: Object) -> None:
    """Add to a pod's spec what its trainer needs to know and to mount."""
    container = spec["containers"][0]
    where, every = target(workload, saving), saving.every_steps
    if saving.told is Told.ENVIRONMENT:
        container["env"] = [{"name": "CKPT_DIR", "value": where}, {"name": "SAVE_STEPS", "value": str(every)}]
    else:
        folder, rhythm = OPTIONS.get(saving.layout, PLAIN_OPTIONS)
        container["args"] = ["train.py", f"--{folder}={where}", f"--{rhythm}={every}"]
    kind, _, name = saving.to.partition("/")
    sources: Object = {
        "claim": {"persistentVolumeClaim": {"claimName": name}},
        "hostPath": {"hostPath": {"path": f"/{name}", "type": "DirectoryOrCreate"}},
    }
    if kind in sources:
        mount = {"name": VOLUME[kind], "mountPath": MOUNTED[kind]}
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
        spec["volumes"] = [*spec.get("volumes", ()), {"name": VOLUME[kind], **sources[kind]}]


def share(namespace: str, claim: str) -> list[tuple[str, Object, Object]]:
    """A network volume that any node may mount, and its claim: plural, object and status of each."""
    volume = f"{STORAGE_CLASS}-{claim}"
    bound = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
    common: Object = {"accessModes": SEVERAL_NODES, "storageClassName": STORAGE_CLASS, "volumeMode": "Filesystem"}
    made: Object = {
        "metadata": {"name": volume, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            **common,
            "capacity": SIZE,
            "claimRef": bound,
            "persistentVolumeReclaimPolicy": "Retain",
            "nfs": {"server": SERVER, "path": f"{EXPORTS}/{claim}"},
        },
    }
    wanted: Object = {
        "metadata": {"name": claim, "namespace": namespace, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {**common, "resources": {"requests": SIZE}, "volumeName": volume},
    }
    return [
        ("persistentvolumes", made, {"phase": "Bound"}),
        ("persistentvolumeclaims", wanted, {"phase": "Bound", "accessModes": SEVERAL_NODES, "capacity": SIZE}),
    ]

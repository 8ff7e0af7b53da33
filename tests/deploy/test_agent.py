"""The agent's DaemonSet: where it runs, how it is confined, what it is told, and which rights reading needs on this kernel."""

import inspect
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import settings
from fleet import agent
from fleet.adapters.gpus_kmsg import KernelRecords
from fleet.domain.callers import AUDIENCE
from fleet.simulation.placement import affinity_matches
from tests.deploy.files import AGENT, ROOT, image, kustomization, manifest, manifests, pod_of, workloads

DAEMON = manifest("DaemonSet", "vigie-agent", AGENT)
POD = pod_of(DAEMON)
CONTAINERS = {container["name"]: container for container in POD["containers"]}
# What the GPU operator stops the driver's users with.
PAUSED_BY = ("nvidia.com/gpu.deploy.dcgm-exporter", "nvidia.com/gpu.deploy.device-plugin")
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}

NEEDS_ROOT = pytest.mark.skipif(
    not (os.geteuid() == 0 and shutil.which("setpriv")), reason="rights are taken away from root, with setpriv"
)


# Where it runs


def test_it_runs_on_every_gpu_node_whatever_is_wrong_with_the_node() -> None:
    assert POD["tolerations"] == [{"operator": "Exists"}]
    terms = POD["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    labels = {expression["key"] for term in terms for expression in term["matchExpressions"]}
    assert labels >= {"nvidia.com/gpu.present", "cloud.google.com/gke-accelerator"}
    others = [[e for e in term["matchExpressions"] if e["key"] not in PAUSED_BY] for term in terms]
    assert all(len(expressions) == 1 for expressions in others), "any of them is enough"
    assert DAEMON["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}


@pytest.mark.parametrize(
    ("label", "runs"),
    [
        (None, True),
        ("true", True),
        ("paused-for-driver-upgrade", False),
        ("paused-for-mig-change", False),
    ],
)
@pytest.mark.parametrize(
    "known_by", ["nvidia.com/gpu.present", "nvidia.com/gpu.count", "k8s.amazonaws.com/accelerator"]
)
@pytest.mark.parametrize("client", PAUSED_BY)
def test_it_leaves_a_node_whose_driver_is_changed(client: str, known_by: str, label: str | None, runs: bool) -> None:
    """Its child keeps the driver open: neither can the module be unloaded, nor MIG be switched. The rehearsal's scheduler
    decides as Kubernetes does: a DaemonSet's pod goes from a node that its affinity leaves out."""
    labels = {known_by: "true"} | ({} if label is None else {client: label})
    node = {"metadata": {"name": "n", "labels": labels}}
    assert affinity_matches({"affinity": POD["affinity"]}, node) is runs


def test_the_driver_s_library_comes_from_the_nvidia_runtime() -> None:
    told = {entry["name"]: entry.get("value") for entry in CONTAINERS["agent"]["env"]}
    assert POD["runtimeClassName"] == "nvidia"
    assert (told["NVIDIA_VISIBLE_DEVICES"], told["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "utility")


# How it is confined


def test_what_speaks_to_others_has_no_capability() -> None:
    assert CONTAINERS["agent"]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_pipe_is_made_before_the_agent_looks_for_it() -> None:
    assert list(CONTAINERS) == ["kernel-log", "agent"]
    annotations = DAEMON["spec"]["template"]["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/default-container"] == "agent"


def test_the_privileged_container_only_copies_the_kernel_log() -> None:
    privileged = [name for name, c in CONTAINERS.items() if c["securityContext"].get("privileged")]
    assert privileged == ["kernel-log"]
    copies = CONTAINERS["kernel-log"]
    shell, option, script = copies["command"]
    assert (shell, option) == ("sh", "-c")
    programs = {line.split()[0] for line in script.replace(";", "\n").replace("||", "\n").splitlines() if line.strip()}
    assert programs <= {"test", "mkfifo", "while", "do", "sleep", "done"}
    assert "cat /dev/kmsg > /run/kernel-log/records" in script
    assert not {"env", "envFrom", "ports"} & set(copies)
    assert copies["securityContext"]["readOnlyRootFilesystem"] is True


def test_of_the_host_it_sees_processes_the_kernel_log_and_the_kubelet_s_socket_read_only() -> None:
    assert POD["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(POD)
    paths = {name: volume["hostPath"]["path"] for name, volume in VOLUMES.items() if "hostPath" in volume}
    assert paths == {"kmsg": "/dev/kmsg", "pod-resources": "/var/lib/kubelet/pod-resources"}
    mounted = [(name, mount) for name, c in CONTAINERS.items() for mount in c["volumeMounts"]]
    assert {(name, m["name"]) for name, m in mounted if m["name"] in paths} == {
        ("agent", "pod-resources"),
        ("kernel-log", "kmsg"),
    }
    assert all(m.get("readOnly") for _, m in mounted if m["name"] in {*paths, "token"})
    writable = {(name, m["name"]) for name, m in mounted if not m.get("readOnly")}
    assert writable == {("agent", "tmp"), ("kernel-log", "records")}


def test_its_token_is_short_and_for_us_alone() -> None:
    (source,) = VOLUMES["token"]["projected"]["sources"]
    assert source["serviceAccountToken"] == {"audience": AUDIENCE, "expirationSeconds": 600, "path": "token"}
    assert POD["automountServiceAccountToken"] is False
    assert POD["serviceAccountName"] == "vigie-agent"
    mount = next(m for m in CONTAINERS["agent"]["volumeMounts"] if m["name"] == "token")
    assert agent.settings({}).token_file == Path(mount["mountPath"]) / "token"


def test_vigie_takes_readings_from_its_account() -> None:
    account = manifest("ServiceAccount", "vigie-agent", AGENT)["metadata"]["name"]
    name = f"{kustomization(AGENT)['namespace']}:{account}"
    assert f"VIGIE_AGENT_ACCOUNT={name}" in kustomization()["configMapGenerator"][0]["literals"]
    assert "VIGIE_AGENT_ACCOUNT" in inspect.getsource(settings)


def test_it_may_do_nothing_in_the_cluster() -> None:
    bound = [m for m in manifests(AGENT) if m["kind"] in {"RoleBinding", "ClusterRoleBinding"}]
    assert {s["name"] for binding in bound for s in binding["subjects"]} == {"vigie-web", "vigie-watch"}
    assert manifest("Role", "vigie-agent-pods", AGENT)["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ]


def test_it_knows_no_secret_and_reaches_no_store() -> None:
    assert not {"secretKeyRef", "secretRef", "secret"} & set(str(DAEMON).replace("'", " ").split())
    assert "REDIS" not in str(DAEMON)
    (policy,) = (m["spec"] for m in manifests(AGENT) if m["kind"] == "NetworkPolicy")
    assert (policy["podSelector"], policy["policyTypes"]) == ({}, ["Ingress", "Egress"])
    assert "ingress" not in policy, "nobody speaks to it"
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, 443}


def test_the_other_namespace_stays_restricted() -> None:
    labels = {f: manifest("Namespace", n, f)["metadata"]["labels"] for f, n in ((AGENT, "vigie-agent"),)}
    assert labels[AGENT]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert manifest("Namespace", "vigie")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_resources_are_bounded() -> None:
    for container in CONTAINERS.values():
        assert container["resources"]["limits"]["memory"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert all(v["emptyDir"]["sizeLimit"] for v in VOLUMES.values() if "emptyDir" in v)


# What runs


def test_it_is_the_image_of_everything_else() -> None:
    ours = {c["image"] for w in workloads().values() for c in pod_of(w)["containers"] if "vigie" in c["image"]}
    assert {container["image"] for container in CONTAINERS.values()} == ours
    assert [rest for instruction, rest in image() if instruction == "WORKDIR"] == ["/srv/vigie"]


def test_every_variable_means_something_to_it() -> None:
    literals = kustomization(AGENT)["configMapGenerator"][0]["literals"]
    told = {literal.partition("=")[0] for literal in literals} | {e["name"] for e in CONTAINERS["agent"]["env"]}
    source = inspect.getsource(agent)
    assert {name for name in told if not name.startswith("NVIDIA_")} - set(source.replace('"', " ").split()) == set()


def test_its_probe_asks_whether_it_goes_round_and_nothing_else(tmp_path: Path) -> None:
    probe = CONTAINERS["agent"]["livenessProbe"]
    assert set(probe) == {"exec", "initialDelaySeconds", "periodSeconds", "timeoutSeconds"}
    _, *arguments = probe["exec"]["command"]
    health = tmp_path / "alive"
    env = {"PATH": os.environ["PATH"], "VIGIE_HEALTH_FILE": str(health)}

    def alive() -> bool:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False).returncode == 0

    assert not alive()
    health.touch()
    assert alive()
    os.utime(health, (time.time() - 600,) * 2)
    assert not alive()


# The kernel log, through the pipe


RECORDS = (
    b"6,100,1000000,-;systemd[1]: started\n"
    b"4,101,2000000,-;NVRM: Xid (PCI:0000:9d:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
    b" SUBSYSTEM=pci\n"
    b"6,102,3000000,-;eth0: up\n"
)


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Path]:
    """The pipe of a `kernel-log` container whose log is a file."""
    log, pipe = tmp_path / "kmsg", tmp_path / "records"
    log.write_bytes(RECORDS)
    script = (
        CONTAINERS["kernel-log"]["command"][2]
        .replace("/dev/kmsg", str(log))
        .replace("/run/kernel-log/records", str(pipe))
    )
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not pipe.exists():
            assert time.monotonic() < deadline, "it makes no pipe"
            time.sleep(0.02)
        yield pipe
    finally:
        os.killpg(process.pid, 9)
        process.wait(15)


def next_lines(records: KernelRecords) -> list[tuple[int, str]]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stretch = records.read()
        assert (stretch.error, stretch.lost) == ("", 0)
        if stretch.lines:
            return [(sequence, text) for sequence, _, text in stretch.lines]
        time.sleep(0.02)
    raise AssertionError("nothing came through the pipe")


def test_the_agent_reads_the_kernel_log_through_the_pipe(copied: Path) -> None:
    line = (101, "NVRM: Xid (PCI:0000:9d:00): 79, pid=1, name=x, GPU has fallen off the bus.")
    assert copied.is_fifo()
    assert copied.stat().st_mode & 0o777 == 0o600
    records = KernelRecords(copied)
    assert next_lines(records) == [line]
    records.close()
    assert next_lines(KernelRecords(copied)) == [line], "an agent that begins anew hears all of it again"


# Which rights reading needs


def as_root_without(capabilities: str, *command: str, before: str = "") -> "subprocess.CompletedProcess[bytes]":
    """A command as root with these capabilities and no others, as a container with `drop: [ALL]` and some added."""
    limited = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={capabilities}", *command]
    script = f'{before}exec "$@"'
    return subprocess.run(["sh", "-c", script, "sh", *limited], capture_output=True, timeout=60, check=False)


OPENS_LOG = (sys.executable, "-c", "import os; os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK)")
NONE, SYSLOG, EVERY = "-all", "-all,+syslog", "+all"


@NEEDS_ROOT
def test_the_kernel_log_needs_syslog_where_the_kernel_restricts_it() -> None:
    restricted = Path("/proc/sys/kernel/dmesg_restrict")
    if not Path("/dev/kmsg").exists() or restricted.read_text().strip() != "1":
        pytest.skip("this kernel lets everybody read its log, or has none here")
    assert as_root_without(NONE, *OPENS_LOG).returncode != 0
    assert as_root_without(SYSLOG, *OPENS_LOG).returncode == 0


@pytest.fixture
def device_list() -> Iterator[Path]:
    """A control group with the devices that container runtimes let every container have."""
    folder = Path("/sys/fs/cgroup/devices") / f"vigie-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "devices.deny").write_text("a")
    except OSError:
        pytest.skip("no control group of devices (cgroup v1) that we may make")
    for device in ("c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm"):
        (folder / "devices.allow").write_text(device)
    yield folder
    folder.rmdir()


@NEEDS_ROOT
def test_no_capability_opens_the_kernel_log_in_a_container_that_is_not_privileged(device_list: Path) -> None:
    inside = f"echo $$ > {device_list}/cgroup.procs; "
    assert as_root_without(NONE, "true", before=inside).returncode == 0
    for capabilities in (NONE, SYSLOG, EVERY):
        assert as_root_without(capabilities, *OPENS_LOG, before=inside).returncode != 0
    (device_list / "devices.allow").write_text("c 1:11 r")
    assert as_root_without(EVERY, *OPENS_LOG, before=inside).returncode == 0


@NEEDS_ROOT
def test_the_kubelet_s_socket_needs_root_and_no_capability(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        tmp_path.chmod(0o700)
        connects = (sys.executable, "-c", f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})")
        assert as_root_without(NONE, *connects).returncode == 0
        nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        assert subprocess.run([*nobody, *connects], capture_output=True, check=False).returncode != 0


@NEEDS_ROOT
def test_the_control_group_of_somebody_else_s_process_needs_nothing() -> None:
    other = subprocess.Popen(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "60"], start_new_session=True
    )
    try:
        assert as_root_without(NONE, "cat", f"/proc/{other.pid}/cgroup").returncode == 0
    finally:
        other.kill()
        other.wait(15)

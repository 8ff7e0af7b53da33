"""Who holds a GPU, by a real gRPC kubelet; and who uses it, by control groups of every shape that there is."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.adapters.gpus_holders import ASK_EVERY_S, Device, Holders, PodResources, device, pod_uid
from fleet.domain.gpus import Gpu, Holder, Instance, Process
from tests.fleet.agent.kubelet import Kubelet, served

UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
FLAT = UID.replace("-", "_")
CONTAINER = "c" * 64


@pytest.mark.parametrize(
    "path",
    [
        # cgroupfs: guaranteed, burstable, best effort
        f"/kubepods/pod{UID}/{CONTAINER}",
        f"/kubepods/burstable/pod{UID}/{CONTAINER}",
        f"/kubepods/besteffort/pod{UID}/{CONTAINER}",
        # systemd: containerd, CRI-O, Docker
        f"/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice/crio-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{FLAT}.slice/docker-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-pod{FLAT}.slice/crio-{CONTAINER}.scope/container",
        # containerd that was not told of systemd; a kubelet below another cgroup; a view from another cgroup namespace
        f"/system.slice/containerd.service/kubepods-burstable-pod{FLAT}.slice:cri-containerd:{CONTAINER}",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{FLAT}.slice/cri-containerd-{CONTAINER}.scope",
        f"/../../kubepods-pod{FLAT}.slice/cri-containerd-{CONTAINER}.scope",
        f"/../../../kubepods/burstable/pod{UID}/{CONTAINER}",
    ],
)
def test_a_process_in_a_pod(path):
    assert pod_uid(f"0::{path}\n") == UID
    assert pod_uid(f"12:pids:/init.scope\n11:devices:{path}\n1:name=systemd:{path}\n0::/\n") == UID


def test_a_static_pod_has_a_hash_in_place_of_a_uid():
    assert pod_uid(f"0::/kubepods/burstable/pod{'ab' * 16}/{CONTAINER}") == "ab" * 16


@pytest.mark.parametrize(
    "content",
    [
        *("", "0::/\n", "0::/init.scope", "0::/user.slice/user-1000.slice/session-4.scope", "kubepods"),
        f"0::/system.slice/docker-{CONTAINER}.scope",
        f"0::/machine.slice/libpod-{UID}.scope",
        f"0::/kubepods/burstable/pod{UID}x/{CONTAINER}",
        "0::/kubepods.slice/kubepods-burstable.slice",
        f"0::/podinfo/pod{UID}/x",
    ],
)
def test_a_process_in_no_pod(content):
    assert pod_uid(content) == ""


@given(
    st.text() | st.lists(st.sampled_from(["0::", "/", "kubepods", "-pod", UID, FLAT, ".slice", "\n", ":"])).map("".join)
)
def test_no_control_group_raises(content):
    assert pod_uid(content) in {"", UID}


@pytest.mark.parametrize(
    ("device_id", "meaning"),
    [
        ("GPU-1", Device("GPU-1")),
        ("GPU-1::3", Device("GPU-1")),
        ("MIG-9", Device("MIG-9")),
        ("MIG-9::0", Device("MIG-9")),
        ("MIG-GPU-1/7/0", Device("GPU-1", gi=7, ci=0)),
        ("MIG-GPU-1/7/0::2", Device("GPU-1", gi=7, ci=0)),
        ("nvidia3", Device(minor=3)),
        ("nvidia3/vgpu2", Device(minor=3)),
        ("nvidia3/gi7", Device(minor=3, gi=7)),
        ("nvidia3/gi1/vgpu0", Device(minor=3, gi=1)),
        ("mlx5_0", None),
        ("nvidia", None),
        ("nvidia" + "9" * 5000, None),
        ("", None),
    ],
)
def test_device_ids(device_id, meaning):
    assert device(device_id) == meaning


@given(st.text())
def test_no_device_id_raises(text):
    device(text)


# With a kubelet

WHOLE = Gpu(index=0, minor=0, uuid="GPU-0", processes=())
SHARED = Gpu(index=1, minor=1, uuid="GPU-1", processes=())
MIG = Gpu(
    index=2,
    minor=2,
    uuid="GPU-2",
    instances=(Instance("MIG-a", gi=7, ci=0), Instance("MIG-b", gi=8, ci=0), Instance("MIG-c", gi=9, ci=0)),
)
FREE = Gpu(index=3, minor=3, uuid="GPU-3", processes=())
SILENT = Gpu(index=4)  # would not say who it is
GPUS = (WHOLE, SHARED, MIG, FREE, SILENT)


@pytest.fixture
def kubelet():
    return Kubelet()


@pytest.fixture
def socket(kubelet, tmp_path):
    with served(kubelet, tmp_path / "kubelet.sock") as path:
        yield path


@pytest.fixture
def holders(socket, tmp_path):
    made = Holders(tmp_path / "proc", PodResources(socket), clock=lambda: 0.0)
    yield made
    made.close()


def test_pods_by_device(kubelet, holders):
    kubelet.pods = [
        ("llm", "chat-0", "server", "nvidia.com/gpu", ["GPU-0"]),
        ("dev", "a", "notebook", "nvidia.com/gpu.shared", ["GPU-1::0", "GPU-1::4"]),
        ("dev", "b", "notebook", "nvidia.com/gpu.shared", ["GPU-1::1"]),
        ("dev", "c", "main", "nvidia.com/mig-1g.10gb", ["MIG-a"]),
        ("dev", "d", "main", "nvidia.com/mig-1g.10gb", ["MIG-GPU-2/8/0"]),
        ("net", "e", "main", "rdma/hca", ["mlx5_0"]),
    ]
    kubelet.offered = ["GPU-0", "GPU-1::0", "GPU-1::1", "MIG-b", "mlx5_0"]
    whole, shared, mig, free, silent = holders.named(GPUS)
    assert whole.assigned == (Holder("llm", "chat-0", "server"),)
    assert shared.assigned == (Holder("dev", "a", "notebook"), Holder("dev", "b", "notebook"))
    assert mig.assigned == free.assigned == silent.assigned == ()
    held = [[holder.pod for holder in instance.assigned] for instance in mig.instances]
    assert held == [["c"], ["d"], []]
    assert [gpu.advertised for gpu in (whole, shared, mig, free, silent)] == [True, True, True, False, False]


def test_pods_by_device_on_gke(kubelet, holders):
    kubelet.pods = [
        ("a", "whole", "c", "nvidia.com/gpu", ["nvidia0"]),
        ("a", "shared", "c", "nvidia.com/gpu", ["nvidia1/vgpu2"]),
        ("a", "part", "c", "nvidia.com/gpu", ["nvidia2/gi7"]),
        ("a", "shared part", "c", "nvidia.com/gpu", ["nvidia2/gi8/vgpu0"]),
    ]
    whole, shared, mig, free, _ = holders.named(GPUS)
    assert [holder.pod for gpu in (whole, shared, free) for holder in gpu.assigned] == ["whole", "shared"]
    assert [[holder.pod for holder in instance.assigned] for instance in mig.instances] == [
        ["part"],
        ["shared part"],
        [],
    ]


def test_a_kubelet_is_not_asked_at_every_reading(kubelet, socket, tmp_path):
    now = [0.0]
    holders = Holders(tmp_path, PodResources(socket), clock=lambda: now[0])
    holders.named(GPUS)
    now[0] = ASK_EVERY_S - 1
    holders.named(GPUS)
    assert kubelet.asked == ["List", "GetAllocatableResources"]
    now[0] = ASK_EVERY_S
    kubelet.pods = [("a", "new", "c", "nvidia.com/gpu", ["GPU-0"])]
    assert holders.named(GPUS)[0].assigned == (Holder("a", "new", "c"),)
    holders.close()


def test_an_old_kubelet_does_not_say_what_is_offered(tmp_path, kubelet):
    kubelet.offered = None
    with served(kubelet, tmp_path / "old.sock") as path:
        found = PodResources(path).ask()
    assert found is not None
    assert (found.held, found.offered) == ({}, None)


def test_without_a_kubelet_nothing_is_known_of_pods(tmp_path):
    found = Holders(tmp_path, PodResources(tmp_path / "none.sock")).named(GPUS)
    assert found == GPUS
    assert {gpu.assigned for gpu in found} == {None}


def test_a_socket_that_nobody_serves(tmp_path):
    (tmp_path / "dead.sock").touch()
    assert PodResources(tmp_path / "dead.sock").ask() is None


def test_a_kubelet_that_does_not_answer(kubelet, socket):
    kubelet.silent.set()
    assert PodResources(socket, deadline_s=0.2).ask() is None


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_no_answer_raises(kubelet, socket, raw):
    kubelet.raw = raw
    resources = PodResources(socket, deadline_s=30)
    Holders(socket, resources).named(GPUS)
    resources.close()


# Processes


@pytest.fixture
def proc(tmp_path):
    folder = tmp_path / "proc"
    for pid, name, content in (
        (2, "kthreadd", "0::/"),
        (41, "python3", f"0::/kubepods/pod{UID}/{CONTAINER}"),
        (42, "x", "0::/"),
    ):
        (folder / str(pid)).mkdir(parents=True)
        (folder / str(pid) / "comm").write_text(name + "\n")
        (folder / str(pid) / "cgroup").write_text(content)
    (folder / "44").mkdir()
    (folder / "44" / "cgroup").write_bytes(b"\xff\xfe0::/kubepods")
    return folder


PROCESSES = tuple(Process(pid) for pid in (41, 42, 43, 44))  # in a pod, in none, gone, unreadable


def used(proc):
    (gpu,) = Holders(proc, PodResources(proc / "none")).named([Gpu(index=0, processes=PROCESSES)])
    return [process.holder for process in gpu.processes]


def test_a_process_belongs_to_the_pod_of_its_control_group(proc):
    assert used(proc) == [Holder(pod_uid=UID), None, None, None]


def test_where_process_ids_are_not_the_machines_nobody_is_named(proc):
    """In a container with process ids of its own, process 41 is another one."""
    (proc / "2" / "comm").write_text("bash\n")
    assert used(proc) == [None] * 4

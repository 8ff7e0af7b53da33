"""Stories of releases: servers that no GPU is left for, that crash, that cannot be pulled or are not allowed.

Owns what happens in them; each uses servers of its own, so that no team's work is touched.
"""

from fleet.simulation.scenarios.hand import Hand
from fleet.simulation.scenarios.scene import Scene, StoryError
from fleet.simulation.scenarios.servers import LIMITED, NAMESPACE, release, rolling, server, service
from fleet.simulation.scenarios.stage import Scenario

SETTLES_S = 60.0
DEADLINE_S = 60
RELEASER = ("release-bot", "argocd-controller")


async def _settled(scene: Scene, name: str, replicas: int) -> None:
    """Wait for a server of ours; StoryError when it does not come up."""
    if not await scene.until(lambda: scene.available(NAMESPACE, name, replicas), SETTLES_S):
        raise StoryError(f"{name} did not come up within {SETTLES_S:g} s")


async def _fill(scene: Scene, hand: Hand, product: str, name: str) -> int:
    """Take every GPU of a product that is still free, one GPU a pod; how many there were."""
    free = scene.free_by_product().get(product, 0)
    if free > 0:
        await scene.create(hand, "deployments", server(name, free, product, image="par-prod/trainer:sweep-3"))
        bound = lambda: sum(bool(p["spec"].get("nodeName")) for p in scene.pods(NAMESPACE, name)) >= free  # noqa: E731
        await scene.until(bound, SETTLES_S)
    return free


def _roomy_product(scene: Scene, gpus: int) -> str:
    """The product with the fewest free GPUs that are enough; StoryError when none has enough."""
    enough = [product for product, free in scene.free_by_product().items() if free >= gpus]
    if not enough:
        raise StoryError(f"no GPU model has {gpus} free GPUs now")
    return enough[-1]


async def stuck_rollout(scene: Scene) -> None:
    team, queue = scene.hand(*RELEASER), scene.hand("batch-queue", "batch-queue")
    product = _roomy_product(scene, 2)
    await scene.create(team, "deployments", server("voice-api", 2, product, strategy=rolling(1, 0)))
    await _settled(scene, "voice-api", 2)
    taken = await _fill(scene, queue, product, "voice-sweep")
    others = f"; a sweep has taken the other {taken} that were free" if taken else ", the last ones that were free"
    scene.tell(f"voice-api runs on two {product}{others}.")
    deployment = await team.get("deployments", NAMESPACE, "voice-api")
    new = release(deployment, "par-prod/voice-api:1.1", progressDeadlineSeconds=DEADLINE_S)
    await team.patch("deployments", NAMESPACE, "voice-api", new)
    scene.tell("Released voice-api 1.1 with maxSurge 1, maxUnavailable 0: it needs one GPU more, and none is free.")
    late = lambda: scene.condition(NAMESPACE, "voice-api", "Progressing").get("status") == "False"  # noqa: E731
    if await scene.until(late, DEADLINE_S + 30.0):
        scene.tell("The rollout has exceeded its progress deadline; the old pods go on serving.")


async def crash_loop(scene: Scene) -> None:
    team = scene.hand(*RELEASER)
    product = next(iter(scene.free_by_product()), "")
    first = server("captions-api", 3, product if scene.free_by_product().get(product, 0) >= 4 else "")
    await scene.create(team, "deployments", {**first, "spec": {**first["spec"], "strategy": rolling(1, 0)}})
    await _settled(scene, "captions-api", 3)
    deployment = await team.get("deployments", NAMESPACE, "captions-api")
    broken = {"sim/run-seconds": "4", "sim/exit-code": "1", "sim/warmup-seconds": "30"}
    await team.patch("deployments", NAMESPACE, "captions-api", release(deployment, "par-prod/captions-api:1.1", broken))
    scene.tell("Released captions-api 1.1, whose containers end with exit code 1 after four seconds.")
    if await scene.until(lambda: _waits_for(scene, "captions-api", "CrashLoopBackOff"), SETTLES_S):
        scene.tell("The new pod is in CrashLoopBackOff; the three old ones go on serving.")
    scene.tell("Try: kubectl -n serving rollout undo deployment/captions-api")


def _waits_for(scene: Scene, app: str, *reasons: str) -> bool:
    statuses = (c for p in scene.pods(NAMESPACE, app) for c in p["status"].get("containerStatuses") or ())
    return any(c["state"].get("waiting", {}).get("reason") in reasons for c in statuses)


async def image_pull(scene: Scene) -> None:
    team = scene.hand(*RELEASER)
    first = server("summary-api", 2)
    await scene.create(team, "deployments", {**first, "spec": {**first["spec"], "strategy": rolling(1, 0)}})
    await _settled(scene, "summary-api", 2)
    deployment = await team.get("deployments", NAMESPACE, "summary-api")
    missing = release(deployment, "par-prod/summary-api:1.1-typo", {"sim/image-error": "true"})
    await team.patch("deployments", NAMESPACE, "summary-api", missing)
    scene.tell("Released summary-api with an image tag that the registry does not have.")
    if await scene.until(lambda: _waits_for(scene, "summary-api", "ErrImagePull", "ImagePullBackOff"), SETTLES_S):
        scene.tell("The new pod cannot pull its image; the two old ones go on serving.")


async def quota(scene: Scene) -> None:
    admin, team, name = scene.hand("platform-admin"), scene.hand(*RELEASER), "dictation-api"
    await scene.create(team, "deployments", server(name, 2, namespace=LIMITED))
    if not await scene.until(lambda: scene.available(LIMITED, name, 2), SETTLES_S):
        raise StoryError(f"{name} did not come up within {SETTLES_S:g} s")
    used = len(scene.store.list("pods", LIMITED))
    limit = {"metadata": {"name": "pods", "namespace": LIMITED}, "spec": {"hard": {"pods": str(used)}}}
    await scene.create(admin, "resourcequotas", limit)
    scene.tell(f"An administrator has limited the namespace {LIMITED} to the {used} pods that it has.")
    await scene.wait(2.0)
    await team.patch("deployments", LIMITED, name, {"spec": {"replicas": 4}})
    scene.tell(f"{name} asks for four replicas: two more than it may have.")
    refused = lambda: scene.condition(LIMITED, name, "ReplicaFailure").get("status") == "True"  # noqa: E731
    if await scene.until(refused, SETTLES_S):
        scene.tell("Its pods are refused (FailedCreate): there is nothing to wait for that would show as a pod.")


async def blue_green(scene: Scene) -> None:
    team = scene.hand(*RELEASER)
    free = scene.free_by_product()
    product = next((p for p, count in free.items() if count >= 4), "")
    labels = {"vigie.dev/service": "search"}
    for colour in ("blue", "green"):
        image = f"par-prod/search-server:{'2.8' if colour == 'blue' else '2.9'}"
        name, own = f"search-{colour}", {**labels, "colour": colour}
        await scene.create(team, "deployments", server(name, 2, product, image=image, labels=own))
        if colour == "blue":
            tested = {"vigie.dev/smoke-test": '{"path": "/version", "port": "http", "json": "version"}'}
            await scene.create(team, "services", service("search", {**labels, "colour": "blue"}, **tested))
            await _settled(scene, name, 2)
            scene.tell("search-blue (2.8) serves behind the Service search.")
    await _settled(scene, "search-green", 2)
    scene.tell("search-green (2.9) is ready beside it. The Service still selects colour=blue: switch it.")


async def full_fleet(scene: Scene) -> None:
    queue = scene.hand("batch-queue", "batch-queue")
    taken = 0
    for number, product in enumerate(scene.free_by_product()):
        taken += await _fill(scene, queue, product, f"sweep-{number + 1}")
    scene.tell(f"A sweep has taken the last {taken} free GPUs: whatever asks for one now has to wait.")


STORIES = (
    Scenario(
        "stuck-rollout",
        "A rollout that no GPU is left for",
        "A server is released with maxSurge 1 and maxUnavailable 0 while every GPU of its model is taken: the new pod waits"
        " for ever, the rollout exceeds its deadline, the old version goes on.",
        "Fleet: needs attention, the rollout of serving/voice-api is held up. It ends when one GPU becomes free.",
        150.0,
        stuck_rollout,
    ),
    Scenario(
        "crash-loop",
        "A release that crashes",
        "A new version ends with an error four seconds after its start, again and again, with longer and longer pauses.",
        "Fleet: needs attention, serving/captions-api. An undo of the rollout repairs it.",
        70.0,
        crash_loop,
    ),
    Scenario(
        "image-pull",
        "An image that does not exist",
        "A server is released with a misspelt tag: its new pod never gets further than pulling the image.",
        "Fleet: needs attention, serving/summary-api.",
        40.0,
        image_pull,
    ),
    Scenario(
        "quota",
        "More than the namespace may have",
        "A ResourceQuota is reached, then a server is scaled up: its pods are refused before they exist.",
        "The workload sandbox/dictation-api: two of four replicas, and no pod that waits.",
        40.0,
        quota,
    ),
    Scenario(
        "blue-green",
        "Blue serves, green is ready",
        "Two versions of one server run side by side, and a Service that selects the blue one by its label.",
        "Blue/green: the Service serving/search. Switch it, and back.",
        40.0,
        blue_green,
    ),
    Scenario(
        "full-fleet",
        "No free GPU anywhere",
        "A parameter sweep takes every GPU that is free, on every node that takes work.",
        "Fleet: nothing free, no holes. Starting a drain now shows that its pods have nowhere to go.",
        60.0,
        full_fleet,
    ),
)

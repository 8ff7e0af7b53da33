"""Stories of PodDisruptionBudgets that nobody can satisfy.

Owns what happens in them; they evict pods of their own servers only.
"""

from fleet.simulation.refusals import ApiError
from fleet.simulation.scenarios.scene import Scene, StoryError
from fleet.simulation.scenarios.servers import NAMESPACE, budget, server
from fleet.simulation.scenarios.stage import Scenario

SETTLES_S = 60.0
TRIES = 3
RETRY_S = 5.0  # as kubectl drain


async def _server(scene: Scene, name: str, replicas: int) -> None:
    team = scene.hand("release-bot", "argocd-controller")
    product = next((p for p, free in scene.free_by_product().items() if free >= replicas), "")
    await scene.create(team, "deployments", server(name, replicas, product))
    if not await scene.until(lambda: scene.available(NAMESPACE, name, replicas), SETTLES_S):
        raise StoryError(f"{name} did not come up within {SETTLES_S:g} s")


async def _known(scene: Scene, name: str) -> None:
    """Wait until the disruption controller has looked at the budget."""
    looked = lambda: "observedGeneration" in scene.store.get("poddisruptionbudgets", NAMESPACE, name)["status"]  # noqa: E731
    await scene.until(looked, 10.0)


async def budget_deadlock(scene: Scene) -> None:
    person = scene.hand("marta")
    await _server(scene, "tts-api", 1)
    await scene.create(person, "poddisruptionbudgets", budget("tts-api", {"app": "tts-api"}, minAvailable=1))
    await _known(scene, "tts-api")
    scene.tell("tts-api has one replica, and a budget that wants one available at all times.")
    (pod,) = [p for p in scene.pods(NAMESPACE, "tts-api") if p["spec"].get("nodeName")][:1]
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    await scene.patch(scene.hand("marta", "kubectl-cordon"), "nodes", "", node, {"spec": {"unschedulable": True}})
    scene.tell(f"Marta has cordoned {node} and drains this pod.")
    for _ in range(TRIES):
        try:
            await person.evict(NAMESPACE, name)
        except ApiError as refusal:
            if refusal.status != 429:
                raise
            scene.tell(f"Refused (429): {refusal.message}")
        await scene.wait(RETRY_S)
    scene.tell("She has given up; the node stays cordoned. Only a second replica, or no budget, would let the pod go.")


async def two_budgets(scene: Scene) -> None:
    person = scene.hand("marta")
    await _server(scene, "translate-api", 3)
    for name, rule in (("translate-api", {"minAvailable": 1}), ("all-of-voice", {"maxUnavailable": 1})):
        await scene.create(person, "poddisruptionbudgets", budget(name, {"app": "translate-api"}, **rule))
        await _known(scene, name)
    scene.tell("The pods of translate-api match two budgets, and both would allow an eviction.")
    name = scene.pods(NAMESPACE, "translate-api")[0]["metadata"]["name"]
    try:
        await person.evict(NAMESPACE, name)
    except ApiError as refusal:
        scene.tell(f"An eviction was refused ({refusal.status}): {refusal.message}")
    else:
        raise StoryError("the eviction went through")
    scene.tell("No retry will help: one of the two budgets has to go.")


STORIES = (
    Scenario(
        "budget-deadlock",
        "One replica, one must stay",
        "A server with a single replica has a budget of minAvailable 1. Its node is cordoned and drained: every eviction is"
        " refused with 429, for ever.",
        "The node of serving/tts-api: cordoned, not empty; its drain plan has to say that it cannot finish.",
        40.0,
        budget_deadlock,
    ),
    Scenario(
        "two-budgets",
        "A pod under two budgets",
        "Two budgets select the same pods. The API server refuses such evictions with 500, and always will.",
        "The workload serving/translate-api: its pods cannot be drained, though both budgets allow one.",
        30.0,
        two_budgets,
    ),
)

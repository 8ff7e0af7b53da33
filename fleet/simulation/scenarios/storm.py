"""The story of an API server in trouble: everything that a client has to live with, one after the other.

Owns the order. What each kind of trouble looks like is server_faults.py's.
"""

from fleet.simulation.scenarios.scene import Scene
from fleet.simulation.scenarios.stage import Scenario
from fleet.simulation.server_faults import Fault, Weather

EACH_S = 10.0
CALM_S = 5.0
DOWN_S = 5.0
TROUBLES: tuple[tuple[str, Fault], ...] = (
    ("Too busy: two requests in three are refused with 429 and Retry-After.", Fault(Weather.BUSY, 0.67, seconds=1)),
    ("Failing: every other request ends with 500.", Fault(Weather.FAILING, 0.5)),
    ("Slow: every request takes three seconds more.", Fault(Weather.SLOW, seconds=3)),
    ("Hanging: requests are accepted and never answered.", Fault(Weather.HANG)),
    ("Streams are cut in the middle of a line.", Fault(Weather.CUT)),
    ("The credentials are refused: 401.", Fault(Weather.UNAUTHORIZED)),
    ("Pods are forbidden: 403, everything else is fine.", Fault(Weather.FORBIDDEN, plural="pods")),
)


async def api_storm(scene: Scene) -> None:
    async def clear() -> None:
        scene.faults.set(())

    scene.on_undo(clear)
    for words, fault in TROUBLES:
        scene.tell(words)
        scene.faults.set((fault,))
        scene.faults.app.cut_streams()  # so that clients ask again, and meet it
        await scene.wait(EACH_S)
        scene.faults.set(())
        await scene.wait(CALM_S)
    scene.tell("Old versions are forgotten: who watches from one gets 410 and has to list again.")
    scene.store.expire()
    scene.faults.app.cut_streams()
    await scene.wait(CALM_S)
    scene.tell("The server is killed and starts again.")
    await scene.faults.restart(DOWN_S)
    await scene.wait(CALM_S)
    scene.tell("Calm again.")


STORIES = (
    Scenario(
        "api-storm",
        "An API server in trouble",
        "429 with Retry-After, 500, slow answers, no answers, cut streams, 401, 403 for pods, 410, a restart: ten seconds"
        " each, with a pause after each. It ends by itself.",
        "Every page: ages grow, and it says what is missing and since when; nothing old may look new. Then all is well.",
        (EACH_S + CALM_S) * len(TROUBLES) + 3 * CALM_S + DOWN_S,
        api_storm,
        passes=True,
    ),
)

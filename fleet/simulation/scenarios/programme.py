"""All scenarios, in the order in which they are shown. Owns nothing else."""

from fleet.simulation.scenarios import budgets, checkpoints, gpus, maintenance, nodes, rollouts, storm
from fleet.simulation.scenarios.stage import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *rollouts.STORIES,
    *budgets.STORIES,
    *nodes.STORIES,
    *gpus.STORIES,
    *maintenance.STORIES,
    *checkpoints.STORIES,
    *storm.STORIES,
)

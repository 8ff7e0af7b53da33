"""All scenarios, in the order in which they are shown. Owns nothing else."""

from fleet.simulation.scenarios import budgets, nodes, rollouts, storm
from fleet.simulation.scenarios.stage import Scenario

SCENARIOS: tuple[Scenario, ...] = (*rollouts.STORIES, *budgets.STORIES, *nodes.STORIES, *storm.STORIES)

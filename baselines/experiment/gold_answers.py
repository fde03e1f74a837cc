"""Scripted oracle policies: the solution of the current task, played by one agent or by a team in its roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from pettingzoo.utils.wrappers import BaseWrapper

import envs_data
from marft_envs.dependency.routed import Routed
from marft_envs.environment_capabilities import dependency_game
from marft_envs.game import FlexMG
from marft_envs.game.task import JudgingTasks
from marft_envs.graders import bare_tasks
from marft_envs.tasks.math import MathTasks
from marft_envs.tasks.tools.tasks import ToolTasks
from marft_envs.tasks.worlds import oracle_policy as worlds


class NoOracleError(ValueError):
    """An environment or a task without a scripted oracle."""


def gold_answer(game: FlexMG) -> str:
    """Return an action with the gold answer of the task being played: in a box, or bare where only that is accepted.

    Raises:
        NoOracleError: The task is a program without an embedded solution.
    """
    tasks = bare_tasks(game.tasks)
    own = _own_oracle(tasks)
    if own is not None:
        agent = sorted(game.team.roster.answering)[-1]
        return own(game, agent, game.observe(agent))
    if game.task.meta.get("kind") == "codeforces":
        return _gold_program(game.task.id)
    golds = game.task.answer
    if game.task.meta.get("gold_mode", "single") != "single":
        golds = ", ".join(json.loads(golds))
    boxed = f"\\boxed{{{golds}}}"
    if isinstance(tasks, MathTasks) or not isinstance(tasks, JudgingTasks) or getattr(tasks, "slow_step", False):
        return boxed
    # A grader of somebody else may want the bare answer. Asking it costs nothing here: it is not slow.
    boxed_is_right = tasks.judge(game.task, boxed, round=0, last_round=True).success
    bare_is_right = tasks.judge(game.task, golds, round=0, last_round=True).success
    return golds if bare_is_right and not boxed_is_right else boxed


def _gold_program(task_id: str) -> str:
    if task_id not in _gold_programs():
        raise NoOracleError(f"the scripted policy knows programs for embedded problems only, not for {task_id!r}")
    return f"```python\n{_gold_programs()[task_id]}```"


@cache
def _gold_programs() -> dict[str, str]:
    """Return a solution in Python of each embedded problem, by its id."""
    found: dict[str, str] = {}
    for solution in envs_data.attachment("codeforces", "solutions"):
        if (solution["language"], solution["verdict"]) == ("python", "OK"):
            found.setdefault(solution["problem"], solution["source"])
    ladder = "ladder/codeforces"
    for split in envs_data.manifest()[ladder]["splits"]:
        found |= {row["id"]: row["solution"] for row in envs_data.rows(ladder, split)}
    return found


Oracle = Callable[[FlexMG, str, Any], str]
"""Maps game, agent and its observation to the action with which the agent plays its part of the solution."""


def oracle_of(env: Any) -> Oracle:
    """Return the oracle of an environment's tasks.

    In worlds with tools the team makes the reference calls, each agent those of its own tools. Elsewhere answering
    agents give the gold answer and others propose it. Sets of tasks may bring their own: a method
    `oracle(task, agent, observation)`, `oracle_action(session, agent)` where it depends on the state of the game, or
    `oracle_turn(game, agent)` where it depends on more of the game, such as its dependency function.

    Raises:
        NoOracleError: The environment is no Flex-MG, or its tasks have no gold answers.
    """
    game = dependency_game(env)
    if game is None:
        raise NoOracleError("no scripted oracle: it plays gold answers and needs a Flex-MG; use random or a model")
    tasks = bare_tasks(game.tasks)
    if isinstance(tasks, ToolTasks):
        return lambda game, agent, _: worlds.next_action(tasks, game, agent)
    own = _own_oracle(tasks)
    if own is not None:
        return own
    # Programs have no gold answer, but solutions that come with them.
    if not tasks[0].answer and not hasattr(tasks, "problems"):
        raise NoOracleError(f"no scripted oracle: tasks of {tasks.name} have no gold answers; use random or a model")
    return _answered


def _own_oracle(tasks: Any) -> Oracle | None:
    """Return the oracle that a set of tasks brings itself; None if it brings none."""
    if hasattr(tasks, "oracle_turn"):
        return lambda game, agent, _: str(tasks.oracle_turn(game, agent))
    if hasattr(tasks, "oracle_action"):
        return lambda game, agent, _: str(tasks.oracle_action(game.session, agent))
    if hasattr(tasks, "oracle"):
        return lambda game, agent, observation: str(tasks.oracle(game.task, agent, observation))
    return None


def _answered(game: FlexMG, agent: str, _: Any) -> str:
    """Let answering agents give the gold answer and others propose it; an orchestrator routes to an answering agent."""
    answering = game.team.roster.answering
    if isinstance(game.dependency, Routed) and agent == game.dependency.by:
        return worlds.route_to(game)
    gold = gold_answer(game)
    return gold if agent in answering else f"I propose this answer:\n{gold}"


class OracleView(BaseWrapper[str, Any, Any]):
    """View in which the observation of an oracle agent is the action that it must play.

    Policies see observations only, so this is how the gold answer reaches them. `ScriptedPolicy` with
    `lambda agent, observation: observation` plays it.

    Args:
        env: AEC environment of a task with a gold answer.
        agents: Agents that play the gold answer.
    """

    def __init__(self, env: Any, agents: Collection[str]) -> None:
        super().__init__(env)
        self._oracles = frozenset(agents)

    def observe(self, agent: str) -> Any:
        """Return the gold answer for an oracle agent, else the agent's observation."""
        game = dependency_game(self.env)
        return gold_answer(game) if game is not None and agent in self._oracles else self.env.observe(agent)


class ScriptedView(BaseWrapper[str, Any, Any]):
    """View in which the observation of each agent is the action of the scripted oracle.

    `ScriptedPolicy` with `lambda agent, observation: observation` plays the solution in it. The game's own record has
    the observations under D. Agents are asked one by one, since an oracle may look at the actions before.

    Args:
        env: AEC environment of tasks with an oracle, see `oracle_of`.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "ready_agents": False}
        self._oracle = oracle_of(env)

    @classmethod
    def of(cls, make_env: Callable[[], Any]) -> ScriptedView:
        """Return the view of a new environment."""
        return cls(make_env())

    def observe(self, agent: str) -> Any:
        """Return the agent's part of the solution."""
        game = dependency_game(self.env)
        assert game is not None  # `oracle_of` refuses others
        return self._oracle(game, agent, self.env.observe(agent))


def check_oracle(make_env: Callable[[], Any], scenario: dict[str, Any]) -> None:
    """Refuse an environment whose first scenario is not solved by agents that all play the gold answer.

    Args:
        make_env: Makes an AEC environment.
        scenario: Reset options; an optional key "seed" is the environment seed.

    Raises:
        NoOracleError: There is no gold answer, or it does not succeed.
    """
    env = make_env()
    if dependency_game(env) is None:
        raise NoOracleError("no scripted oracle: it plays gold answers and needs a Flex-MG")
    env.reset(seed=scenario.get("seed", 0), options={k: v for k, v in scenario.items() if k != "seed"})
    view, success = OracleView(env, env.possible_agents), 0.0
    while view.agents and not any(view.terminations.values()) and not any(view.truncations.values()):
        view.step(str(view.observe(view.agent_selection)))
        success = max([success, *(float(info.get("success", 0.0)) for info in view.infos.values())])
    if not success:
        raise NoOracleError(
            f"no scripted oracle: task {env.unwrapped.task.id!r} is not solved where every agent plays the gold answer"
        )

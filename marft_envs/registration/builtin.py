"""The environments of the suite: `marft/{task}_{team}-v{N}`.

All are v0, but `codeforces` is v1; its v0 can still be made, with a warning. Tasks load on first use: registering needs
their names only.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from marft_envs.communication.action_views import register_form
from marft_envs.dependency.kinds import register_kind
from marft_envs.game.task import Tasks
from marft_envs.registration.task_environment import register_task
from marft_envs.tasks.math import KINDS, MathTasks
from marft_envs.teams.team import FEW_TEAMS, PRESETS

# Rules of codeforces by version, and the reason for the newer version.
_CODE_VERSIONS = (
    ({"termination": "solved"}, "hidden tests can reach an agent in a later round"),
    ({"termination": "examples"}, ""),
)
_NEWER_TEAMS = ("sextet", "dozen", "routed")  # they came after codeforces-v0
_DESCRIPTIONS = {
    "math": "competition mathematics by subject and level (as MATH)",
    "gsm8k": "school word problems in several steps (as GSM8K)",
    "aime": "olympiad problems with whole-number answers (as AIME)",
    "cmath": "Chinese school word problems by grade (as CMATH)",
}

_TAU2_DOMAINS = {"telecom": "a telephone company", "retail": "a shop", "airline": "an airline"}
_TAU2_TEAMS = Path(__file__).parents[1] / "tasks" / "tools" / "tau2" / "teams"
_TAU2_DUOS = {"telecom": "telecom_duo.json"}  # where the customer has tools


def register_builtin() -> None:
    """Register the environments of the suite, and what their tasks add to the core; done by `import marft_envs`."""
    register_kind("handoff", "marft_envs.tasks.tools.handoff_dependency:Handoff", optional=("start", "sees"))
    register_kind("dialogue", "marft_envs.tasks.tools.dialogue_dependency:Dialogue", optional=("start",))
    register_form("record", "marft_envs.tasks.tools.action_record:record")
    for task, language in KINDS.items():
        load = partial(MathTasks.load, task)
        register_task(task, load, language=language, description=_DESCRIPTIONS[task], force=True)
    for version, (rules, deprecated) in enumerate(_CODE_VERSIONS):
        for teams, horizon in ((PRESETS[:2], 1), (PRESETS[2:], 3)):
            register_task(
                "codeforces",
                _load_code,
                teams=[team for team in teams if version or team not in _NEWER_TEAMS],
                family="code",
                version=version,
                description="programs for competitive problems, judged on hidden tests (as Codeforces)",
                deprecated=deprecated,
                keywords=("judge", "languages", "grading"),
                rules=rules,
                force=True,
                horizon=horizon,
                max_action_chars=65536,
            )
    register_task(
        "tools",
        _load_tools,
        family="tools",
        keywords=("listing", "limits", "tools"),
        description="requests to a shop, a desk, a travel agency and a price list, solved with tools",
        force=True,
        horizon=20,
    )
    register_task(
        "bfcl",
        _load_bfcl,
        family="bfcl",
        keywords=("listing",),
        description="function calls for requests of users (Berkeley Function Calling Leaderboard)",
        force=True,
        split="test",
        horizon=40,
    )
    register_task(
        "recall",
        _load_recall,
        teams=FEW_TEAMS["recall"],
        family="recall",
        keywords=("size", "memory"),
        description="questions about facts that were told several sessions back, some of them contradicted",
        force=True,
        horizon=20,
        context_rounds=1,
    )
    _register_tau2()


def _register_tau2() -> None:
    for domain, told in _TAU2_DOMAINS.items():
        solo, duo = (str(_TAU2_TEAMS / name) for name in ("solo.json", _TAU2_DUOS.get(domain, "duo.json")))
        register_task(
            f"tau2_{domain}",
            partial(_load_tau2, domain),
            teams={"solo": solo, "duo": duo},
            family="tools",
            keywords=("listing", "policy"),
            description=f"customer service of {told}, by an assistant and its customer (tau2-bench)",
            solo=solo,
            force=True,
            horizon=100,
        )


def _load_code(
    data: Any,
    split: str,
    *,
    judge: Any = "auto",
    languages: Any = ("python", "c++"),
    grading: Any = "fraction",
    termination: Any = "examples",
) -> Tasks:
    """Load `CodeTasks`; the sandbox is imported when it is first needed."""
    from marft_envs.tasks.code import CodeTasks

    return CodeTasks.load(
        "codeforces", data, split, judge=judge, languages=languages, grading=grading, termination=termination
    )


def _load_tools(data: Any, split: str, *, listing: str | None = None, limits: Any = None, tools: Any = None) -> Tasks:
    """Load the tasks of the worlds.

    Args:
        data: As for every environment.
        split: Split of the data.
        listing: Format in which agents are told of their tools: "schema", "signature" or "names".
        limits: Limits of agents and tools: a `ToolLimits`, or its fields as a dict.
        tools: A TOML file with a world of HTTP endpoints and MCP servers, in place of the worlds that come with marft.
    """
    from marft_envs.tasks.worlds import load

    return load(data, split, listing=listing, limits=limits, tools=tools)


def _load_bfcl(data: Any, split: str, *, listing: str = "schema") -> Tasks:
    """Load the leaderboard; its files are read when they are first needed."""
    from marft_envs.tasks.tools.bfcl.loading import load

    return load(data, split, listing=listing)


def _load_recall(data: Any, split: str, *, size: Any = "small", memory: Any = "agents") -> Tasks:
    """Draw the sessions and questions; the module is imported when it is first needed."""
    from marft_envs.tasks.recall import RecallTasks

    return RecallTasks.load(data, split, size=size, memory=memory)


def _load_tau2(domain: str, data: Any, split: str, *, listing: str = "schema", policy: str = "full") -> Tasks:
    """Load a domain of tau2; its package is imported when it is first needed.

    Args:
        domain: "telecom", "retail" or "airline".
        data: "embedded": the tasks in the package; nothing else.
        split: "train", "test" or "base" (both); telecom also has "small" (20 easy tasks) and "full" (2,285).
        listing: Format in which agents are told of their tools: "schema" or "signature".
        policy: Part of the policy that the assistant is told: "full", "main" (telecom without the manual of technical
            support, 17 kB) or "none".
    """
    from marft_envs.tasks.tools.tau2.loading import load

    return load(domain, data, split, listing=listing, policy=policy)

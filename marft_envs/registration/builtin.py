"""The environments of the suite: `marft/{task}_{team}-v{N}`.

All are v0, but `codeforces` is v1; its v0 can still be made, with a warning. Tasks load on first use: registering needs
their names only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from marft_envs.communication.action_views import register_form
from marft_envs.dependency.kinds import register_kind
from marft_envs.game.task import Tasks
from marft_envs.registration.task_environment import register_task
from marft_envs.tasks.math import KINDS, MathTasks
from marft_envs.tasks.profile_clues import CLUES, ProfileTasks, profile_teams
from marft_envs.tasks.shards import PARTS, ShardTasks, shard_teams
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


def register_builtin() -> None:
    """Register the environments of the suite, and what their tasks add to the core; done by `import marft_envs`."""
    register_kind("handoff", "marft_envs.tasks.tools.turn_taking:Handoff", optional=("start", "sees"))
    register_kind("dialogue", "marft_envs.tasks.tools.turn_taking:Dialogue", optional=("start",))
    register_form("record", "marft_envs.tasks.tools.action_record:record")
    for task, language in KINDS.items():
        load = partial(MathTasks.load, task)
        description = _DESCRIPTIONS[task]
        register_task(task, load, language=language, keywords=("level",), description=description, force=True)
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
                keywords=("judge", "languages", "grading", "level", "instructions"),
                rules=rules,
                force=True,
                horizon=horizon,
                max_action_chars=65536,
            )
    register_task(
        "tools",
        _load_tools,
        family="tools",
        keywords=("listing", "limits", "tools", "level"),
        description="requests to a shop, a desk, a travel agency and a price list, solved with tools",
        force=True,
        horizon=20,
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
    for parts in PARTS:
        for chained in (False, True):
            _register_shards(parts, chained)

    for clues in CLUES:
        _, whole = made = profile_teams(clues)
        register_task(
            "profile",
            _load_profile,
            teams=made,
            keywords=("clues",),
            description="private clues that together name a person, one for each agent",
            solo=made[whole],
            controls={"solo@whole": whole},
            force=True,
            clues=clues,
        )


def _register_shards(parts: int, chained: bool) -> None:
    """Register the team of readers of a document in parts, and the one agents that are its controls."""
    team, solo, notes, whole = made = shard_teams(parts, chained=chained)
    register_task(
        "shards",
        _load_shards,
        teams=made,
        keywords=("parts", "lines", "chained", "notes", "view", "in_order"),
        description="lines of a document in parts, one for each reader; the answer needs a line of every part",
        solo=made[whole],
        controls={"solo@window": solo, "solo@notes": notes, "solo@whole": whole},
        of_team={
            team: {"horizon": 1},
            solo: {"horizon": parts + 1, "notes": "last"},
            notes: {"horizon": parts + 1, "notes": "all"},
            whole: {"horizon": 1, "view": "whole"},
        },
        force=True,
        context_rounds=1,
        parts=parts,
        chained=chained,
    )


def _load_code(
    data: Any,
    split: str,
    *,
    judge: Any = "auto",
    languages: Any = ("python", "c++"),
    grading: Any = "fraction",
    termination: Any = "examples",
    level: Any = None,
    instructions: bool | None = None,
) -> Tasks:
    """Load `CodeTasks`; the sandbox is imported when it is first needed.

    Args:
        data: As for every environment.
        split: Split of the data.
        judge: A judge, or the name of a sandbox backend ("auto": the strongest that works). A named judge is shared
            by the process and started when the first program is judged.
        languages: Allowed languages of an answer: "python", "c++", "c++20".
        grading: Meaning of `Outcome.reward`: the "fraction" of tests passed, or 1.0 only if "all" pass. "all" is
            faster, because it stops at the first failure.
        termination: The rules of the version.
        level: A level of the data, several as a list or as text like "1,2"; None is all.
        instructions: True ends each prompt with two sentences on the limits and the form of the answer. None leaves
            them out of the ladder alone.
    """
    from marft_envs.tasks.code import CodeTasks

    return CodeTasks.load(
        "codeforces",
        data,
        split,
        judge=judge,
        languages=languages,
        grading=grading,
        termination=termination,
        level=level,
        instructions=instructions,
    )


def _load_tools(
    data: Any, split: str, *, listing: str | None = None, limits: Any = None, tools: Any = None, level: Any = None
) -> Tasks:
    """Load the tasks of the worlds.

    Args:
        data: As for every environment.
        split: Split of the data.
        listing: Format in which agents are told of their tools: "schema", "signature" or "names".
        limits: Limits of agents and tools: a `ToolLimits`, or its fields as a dict.
        tools: A TOML file with a world of HTTP endpoints and MCP servers, in place of the worlds that come with marft.
        level: A level of the data, several as a list or as text like "1,2"; None is all.
    """
    from marft_envs.tasks.worlds import load

    return load(data, split, listing=listing, limits=limits, tools=tools, level=level)


def _load_recall(data: Any, split: str, *, size: Any = "small", memory: Any = "agents") -> Tasks:
    """Draw the sessions and questions; the module is imported when it is first needed."""
    from marft_envs.tasks.recall import RecallTasks

    return RecallTasks.load(data, split, size=size, memory=memory)


def _load_shards(
    data: Any,
    split: str,
    *,
    parts: int = 2,
    lines: int = 4,
    chained: bool = False,
    notes: str = "last",
    view: str = "part",
    in_order: bool = False,
) -> Tasks:
    """Draw the documents and questions.

    Args:
        data: As for every environment.
        split: "train", "test" or "bench".
        parts: Parts of a document: 2, 4 or 8; as many as the team has readers.
        lines: Lines of a part, at least 2.
        chained: True: a part names a line of the next part, so that they must be read one after another.
        notes: Of one agent that reads the parts in turns: "last" shows it its last note, "all" every note.
        view: Of one agent: "part" shows it the parts in turns, "whole" all at once.
        in_order: True: a value counts only at the place of its part.
    """
    return ShardTasks.load(
        data, split, parts=parts, lines=lines, chained=chained, notes=notes, view=view, in_order=in_order
    )


def _load_profile(data: Any, split: str, *, clues: int = 2) -> Tasks:
    """Draw the people and clues.

    Args:
        data: As for every environment.
        split: "train", "test" or "bench".
        clues: Clues of a problem: 2, 4 or 8; as many as the team has holders.
    """
    return ProfileTasks.load(data, split, clues=clues)

"""Arms of a benchmark: names, descriptions and groups."""

from __future__ import annotations

from collections.abc import Mapping

TEAM, SOLO, VOTE, SHARED, UNTRAINED = "team", "solo@tokens", "vote@tokens", "shared", "untrained"
MUTED, ANONYMOUS, SHUFFLED = "muted", "anonymous", "shuffled"
RANDOM_ROUTER = "random_router"
FULL, FEWER, MORE = "transfer@full", "transfer@fewer", "transfer@more"
TRANSFERS = (FULL, FEWER, MORE)
WINDOW, NOTES, WHOLE = "solo@window", "solo@notes", "solo@whole"
RFT, TRL = "rft@tokens", "trl@tokens"
OTHER_TRAINERS: Mapping[str, str] = {RFT: "rft", TRL: "trl-grpo"}  # of the one agent; arm -> algorithm in its records
CONTROLS = (WINDOW, NOTES, WHOLE)  # one agents with environments of their own, which the world registers
EQUAL_UPDATES: Mapping[str, str] = {f"{arm}@updates": arm for arm in CONTROLS}
ARMS: Mapping[str, str] = {
    TEAM: "the trained team",
    UNTRAINED: "the team before training",
    SOLO: "one agent with the team's training tokens and the team's tokens per answer",
    RFT: "the same agent, fine-tuned on its own solved answers (rejection sampling), with as many tokens",
    TRL: "the same agent, trained by TRL's GRPOTrainer, with as many tokens; of games of one turn only",
    VOTE: "majority vote over as many samples of that agent as cost the team's output tokens",
    MUTED: "the trained team with D = 0: no agent is shown an action of another",
    ANONYMOUS: "the trained team without role names and profiles: all agents get the profile of the one agent",
    SHUFFLED: "the trained team, each agent hearing the teammates of another episode",
    RANDOM_ROUTER: "the trained team, each route of its orchestrator drawn at random; of routed teams only",
    FULL: "the team trained as a chain, each agent seeing all before it; of chains of 3 agents or more",
    FEWER: "the trained team without its last agent that gives no answer",
    MORE: "the trained team with that agent twice, both played by its adapter",
    SHARED: "the team trained with one adapter for all roles",
    WINDOW: "one agent with the team's window and tokens a turn: it reads in rounds of its own and sees its last note",
    NOTES: "the same agent, which sees all of its notes",
    WHOLE: "one agent that sees everything at once, in a window as large as that takes",
    **{arm: f"{control}, trained for as many updates as the team" for arm, control in EQUAL_UPDATES.items()},
}
FOR_SOME = (RANDOM_ROUTER, *TRANSFERS, *OTHER_TRAINERS, *CONTROLS, *EQUAL_UPDATES)
FOR_ANY_TEAM = tuple(arm for arm in ARMS if arm not in FOR_SOME)
TRAINED_ARMS = (
    TEAM,
    MUTED,
    ANONYMOUS,
    SHUFFLED,
    RANDOM_ROUTER,
    *TRANSFERS,
)  # evaluations of one and the same trained team
TRAINED_AS: Mapping[str, str] = {
    **dict.fromkeys(TRAINED_ARMS, TEAM),
    SHARED: SHARED,
    **dict.fromkeys((SOLO, VOTE), SOLO),
    **{arm: arm for arm in OTHER_TRAINERS},
    **{arm: arm for arm in CONTROLS},
    **EQUAL_UPDATES,
}
"""Arm that plays -> arm whose training it plays, with the settings of that training."""

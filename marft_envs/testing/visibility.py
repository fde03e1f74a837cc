"""Visibility rules for Flex-MG: observations match the dependency exactly, and records replay."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from marft_envs.environment_capabilities import dependency_game
from marft_envs.game import FlexMG
from marft_envs.game.episode import Episode
from marft_envs.records.replay import replay
from marft_envs.testing.playing import play, play_out
from marft_envs.testing.report import Make, NotApplicable, require


def _begun_game(make: Make, seed: int = 1) -> FlexMG:
    """Return the game inside of any views."""
    game = dependency_game(make())
    if game is None:
        raise NotApplicable("it is no FlexMG: who may see what is not known here")
    game.reset(seed=seed)
    return game


def markers_seen(make: Make, cycles: int) -> str:
    """Plant a marker in each action, and look for all of them in all observations after each turn."""
    game = _begun_game(make)
    planted: list[tuple[int, str]] = []

    def say(agent: str) -> str:
        planted.append((len(game.plans) - 1, agent))
        return _marker(*planted[-1])

    whole = _is_whole(game)
    for _ in play(game, say):
        _check_markers(game, planted, whole)
    _check_markers(game, planted, whole)
    return f"{len(planted)} markers"


def _is_whole(game: FlexMG) -> bool:
    """Return True if an action reaches the agents that may see it unchanged."""
    return game.communication.is_full and game.max_action_chars > 100


def _marker(number: int, agent: str) -> str:
    return f"marker<{number}.{agent}>"


def _check_markers(game: FlexMG, planted: Sequence[tuple[int, str]], whole: bool) -> None:
    now = len(game.plans) - 1
    for viewer in game.possible_agents:
        text = str(game.observe(viewer))

        def allows(number: int, author: str, viewer: str = viewer) -> bool:
            plan = game.plans[number]
            return author in plan.sees[viewer] or (number < now and author in plan.later[viewer])

        first = 0 if game.window.rounds is None else now + 1 - game.window.rounds
        for number, author in planted:  # of a compaction that it sees on, an agent is shown no round before
            if author == game.window.compaction and (author == viewer or allows(number, author)):
                first = max(first, number)
        earlier = [number for number, author in planted if author == viewer and number < first]
        kept = {"window": [], "last": earlier[-1:], "all": earlier}[game.window.own]
        for number, author in planted:
            shown = number >= first
            allowed = shown and allows(number, author)
            found = _marker(number, author) in text
            said = f"what {author} said in round {number}"
            own = author == viewer  # it may read its own words at any time, such as notes that a session shows again
            require(found <= (allowed or own), f"{viewer} sees {said}, which D does not allow")
            wanted = allowed or (own and (shown or number in kept))
            if whole or own:
                require(found or not wanted, f"{viewer} does not see {said}, which D allows")


def words_that_reach_nobody(make: Make, cycles: int) -> str:
    """Compare two actions of each agent: within the round, only agents that may see it observe a difference.

    This catches leaks that markers miss: the length of an action, or a part of it.
    """
    game = _begun_game(make)
    for agent in play(game):
        one, other = copy.deepcopy(game), copy.deepcopy(game)
        one.step("a word")
        other.step("another word, and some more of them")
        over = any(one.terminations.values()) or any(one.truncations.values())
        if len(one.plans) == len(game.plans) and not over:
            _compare(one, other, agent)
    return ""


def _compare(one: FlexMG, other: FlexMG, author: str) -> None:
    plan, number = one.plans[-1], len(one.plans) - 1
    for viewer in one.possible_agents:
        allowed = viewer == author or author in plan.sees[viewer]
        same = str(one.observe(viewer)) == str(other.observe(viewer))
        said = f"what {author} says in round {number}"
        require(same or allowed, f"{said} changes what {viewer} sees, which D does not allow")
        require(not same or not allowed or not _is_whole(one), f"{said} does not reach {viewer}, which D allows")


def records_replay(make: Make, cycles: int) -> str:
    """Rebuild every observation from seed, task and actions in the JSON form of a record."""
    game = _begun_game(make, seed=3)
    play_out(game, lambda agent: f"{agent} says \\boxed{{1}}")
    record = Episode.from_json(game.episode().to_json())
    differences = replay(make().unwrapped, record)
    require(not differences, "; ".join(differences))
    return ""

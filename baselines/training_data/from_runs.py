"""Make a turn file of recorded episodes: select, scrub, drop duplicates, split by scenario."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from baselines.experiment.source_commit import source_commit
from baselines.training_data.conditions import Condition
from baselines.training_data.recordings import RecordedEpisode, RecordedTurn, Recording, RecordingError
from baselines.training_data.scrubbing import Scrubber
from baselines.training_data.turn_file import HELD_OUT, TRAIN, Example


class TurnSet(NamedTuple):
    """Examples with the manifest of their origin.

    Attributes:
        examples: Examples in the order of the sources.
        manifest: Origins, selection, split and counts, as JSON has it.
    """

    examples: list[Example]
    manifest: dict[str, Any]


def select(
    recordings: Sequence[Recording], where: Condition, splits: Collection[str] = (TRAIN,)
) -> list[list[RecordedEpisode]]:
    """Return the episodes of each source on which a condition holds.

    Args:
        recordings: Episodes by source.
        where: Condition on the facts of an episode.
        splits: Splits of the tasks that may be used; empty: all.

    Raises:
        ConditionError: The condition names an unknown fact.
        RecordingError: A chosen episode is of another split, or no episode is chosen.
    """
    everything = [episode for recording in recordings for episode in recording.episodes]
    where.check_names(set().union(*(episode.facts for episode in everything)))
    chosen = [[episode for episode in recording.episodes if where.holds(episode.facts)] for recording in recordings]
    found = [episode for episodes in chosen for episode in episodes]
    if not found:
        raise RecordingError(
            f"--where {where.text!r} holds for none of the {len(everything)} episodes; "
            f"{sum(bool(episode.facts['success']) for episode in everything)} of them succeeded"
        )
    others = Counter(split for episode in found if (split := episode.facts["split"]) is not None)
    refused = sorted(set(others) - set(splits)) if splits else []
    if refused:
        name = refused[0]
        raise RecordingError(
            f"{others[name]} chosen episodes are of the split {name!r}, which evaluations may play: training on them "
            f"would leak it. Leave them out with --where \"split == 'train'\", or allow it with --allow-split {name}"
        )
    return chosen


def build(
    recordings: Sequence[Recording],
    where: Condition,
    *,
    splits: Collection[str] = (TRAIN,),
    held_out: float = 0.1,
    seed: int = 0,
    scrubber: Scrubber | None = None,
) -> TurnSet:
    """Make examples of the chosen episodes.

    Turns whose scrubbed action is empty are left out, and so is a second turn of an agent with the same prompt and
    action.

    Args:
        recordings: Episodes by source.
        where: Condition on the facts of an episode.
        splits: Splits of the tasks that may be used.
        held_out: Share of the scenarios that are held out, in [0, 1).
        seed: Seed of the split.
        scrubber: Replaces credentials and control tokens; None makes one.
    """
    scrubber = scrubber or Scrubber()
    chosen = select(recordings, where, splits)
    flat = [episode for episodes in chosen for episode in episodes]
    groups = scenarios_of(flat)
    apart = _held_out(set(groups), held_out, seed)
    examples: list[Example] = []
    seen: set[bytes] = set()
    duplicates = empty = 0
    for number, (episode, group) in enumerate(zip(flat, groups, strict=True)):
        for turn in episode.turns:
            clean = scrubbed(turn, scrubber)
            key = _digest([clean.agent, [dict(message) for message in clean.messages], clean.action])
            if not clean.action.strip():
                empty += 1
            elif key in seen:
                duplicates += 1
            else:
                seen.add(key)
                examples.append(Example(clean, episode.task_id, number, HELD_OUT if group in apart else TRAIN))
    scenarios = {TRAIN: len(set(groups) - apart), HELD_OUT: len(apart)}
    counts = {
        agent: {split: sum(e.turn.agent == agent and e.split == split for e in examples) for split in scenarios}
        for agent in dict.fromkeys(example.turn.agent for example in examples)
    }
    manifest = {
        "origins": [_origin(recording, len(episodes)) for recording, episodes in zip(recordings, chosen, strict=True)],
        "where": where.text,
        "episodes": len(flat),
        "scenarios": scenarios,
        "held_out": held_out,
        "seed": seed,
        "examples": counts,
        "duplicates": duplicates,
        "empty": empty,
        "secrets": dict(sorted(scrubber.secrets.items())),
        "control_tokens": {place: scrubber.control_tokens[place] for place in ("prompts", "completions")},
        "commit": source_commit(),
    }
    return TurnSet(examples, manifest)


def scrubbed(turn: RecordedTurn, scrubber: Scrubber) -> RecordedTurn:
    """Return a turn without credentials and control tokens."""
    messages = tuple({**message, "content": scrubber.prompt(message["content"])} for message in turn.messages)
    return replace(turn, messages=messages, action=scrubber.completion(turn.action))


def scenarios_of(episodes: Iterable[RecordedEpisode]) -> list[str]:
    """Return the scenario of each episode; episodes with one task id or one problem text are of one scenario.

    Equal problems may come under several ids, from several sources. So the two relations are joined.
    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    names = []
    for episode in episodes:
        by_id, by_text = f"id {episode.task_id}", f"text {' '.join(episode.problem.split()).casefold()}"
        names.append(by_id)
        if episode.problem.strip():
            first, second = sorted((root(by_id), root(by_text)))
            parent[second] = first
    return [root(name) for name in names]


def _held_out(groups: Collection[str], share: float, seed: int) -> set[str]:
    """Return the scenarios held out: those with the smallest hashes, at least one of two and never all."""
    ordered = sorted(groups, key=lambda group: _digest([seed, group]))
    count = min(len(ordered) - 1, max(1, round(share * len(ordered)))) if share else 0
    return set(ordered[:count])


def _digest(content: Any) -> bytes:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).digest()


def _origin(recording: Recording, chosen: int) -> dict[str, Any]:
    return {
        "path": str(recording.path),
        "kind": recording.kind,
        "sha256": recording.sha256,
        "env": recording.env,
        "keywords": dict(recording.keywords),
        "episodes": len(recording.episodes),
        "failed": recording.failed,
        **({"left_out": dict(recording.left_out)} if recording.left_out else {}),
        "chosen": chosen,
    }

"""Recorded episodes from any source: runs, evaluations, exported records, OpenTelemetry spans.

The prompt of a turn is the chat form that the agent's observation had under D. Spans hold it. Other records hold only
its text, so their games are rebuilt from the recorded actions and outcomes, and rebuilt texts must equal recorded ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baselines.experiment.config_trust import require_trust
from baselines.experiment.data_checksums import sha256_of
from baselines.experiment.episode_source import EpisodeSource
from marft_envs.environment_capabilities import dependency_game, listing_game
from marft_envs.game.episode import Episode
from marft_envs.game.task import Task
from marft_envs.records.files import read_episodes
from marft_envs.records.replay import rebuild
from marft_envs.records.span_files import Trace, read_traces

Make = Callable[[str], tuple[Mapping[str, Any], Any]]
"""Maps an environment id to the keywords given for it and the environment made with them."""


class RecordingError(ValueError):
    """A source that cannot be used; names the place, what was found and what was wanted."""


@dataclass(frozen=True)
class RecordedTurn:
    """One agent's turn as a supervised example.

    Attributes:
        agent: Agent that acted.
        messages: Chat messages that it saw under D: role, content and possibly the author's name.
        fixed_messages: Number of leading messages that hold profile and problem; None if not known.
        action: Text of its action.
        ended: True if the agent ended the action itself, False if the token limit cut it.
    """

    agent: str
    messages: tuple[Mapping[str, str], ...]
    fixed_messages: int | None
    action: str
    ended: bool = True


@dataclass(frozen=True)
class RecordedEpisode:
    """One episode.

    Attributes:
        place: File and line, or file and trace.
        task_id: Id of its task; the trace's place where there is none.
        problem: Text of the problem.
        facts: Values that `--where` may name.
        turns: Turns in the order of play.
        task: The task; None where no environment lists it.
        tags: Kinds of trouble: violation, invalid action, truncated, status of failed tool calls.
    """

    place: str
    task_id: str
    problem: str
    facts: Mapping[str, Any]
    turns: tuple[RecordedTurn, ...]
    task: Task | None = None
    tags: tuple[str, ...] = ()


@dataclass
class Recording:
    """Episodes of one source, in order.

    Attributes:
        path: Path of the source.
        kind: "run", "evaluation", "records" or "spans".
        sha256: Hash of the file with the episodes.
        env: Id of the environment; None for spans.
        keywords: Keywords of `marft_envs.make`.
        episodes: The episodes that did not fail for reasons outside of the agents.
        failed: Number of those that did.
        left_out: What of a span file cannot be used, counted by the reason.
        game: The environment; None for spans without one.
        config: The config.json or evaluation.json of the folder; empty for files.
        own: True if its settings are this user's, so that files made of it are too.
    """

    path: Path
    kind: str
    sha256: str
    env: str | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    episodes: list[RecordedEpisode] = field(default_factory=list)
    failed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    game: Any = None
    config: Mapping[str, Any] = field(default_factory=dict)
    own: bool = True


def read_recording(
    path: Path, make: Make, env: str | None = None, *, strict: bool = False, trust: bool | None = False
) -> Recording:
    """Read a source.

    Args:
        path: Folder of a run or an evaluation; .jsonl or .parquet file of records; file of OTLP JSON spans.
        make: Makes the environment of files, which do not hold its keywords.
        env: Environment that lists the tasks of spans; None: none does.
        strict: True to refuse a span file with anything that cannot be used, instead of leaving it out.
        trust: True to make the environment that the record of somebody else names.

    Raises:
        RecordingError, ValueError: It cannot be read, or does not fit its environment.
        UntrustedConfigError: This user did not write it here, and it names commands, modules, servers or paths.
    """
    if path.is_dir():
        return _of_folder(path, trust=trust)
    if not path.is_file():
        raise RecordingError(
            f"{path}: there is no such file or folder; wanted a run, an evaluation, .jsonl or .parquet records, or "
            "OTLP JSON spans"
        )
    recording = Recording(path, "records", sha256_of(path))
    if path.suffix != ".parquet" and _holds_spans(path):
        recording.kind = "spans"
        _add_traces(recording, make, env, strict=strict)
    else:
        _add_records(recording, make, trust=trust)
    return recording


def _holds_spans(path: Path) -> bool:
    """Return True for OTLP; a file of the collector may begin with other signals."""
    with path.open("rb") as stream:
        start = stream.read(1 << 16)
    return any(name in start for name in (b'"resourceSpans"', b'"resourceMetrics"', b'"resourceLogs"'))


# ------------------------------------------------------------------ runs, evaluations, records


def _of_folder(path: Path, *, trust: bool | None) -> Recording:
    source = EpisodeSource(path, rebuilt=True, trust=trust)
    replay = source.replay
    assert replay is not None
    kind = "evaluation" if source.evaluation else "run"
    recording = Recording(path, kind, sha256_of(source.file), replay.env_id, replay.keywords, game=replay.env)
    recording.config, recording.own = replay.config, replay.own
    for place, line, episode in source.records():
        recording.episodes.append(_recorded(place, episode, replay.env, line))
    recording.failed = source.failed
    return recording


def _add_records(recording: Recording, make: Make, *, trust: bool | None) -> None:
    """Rebuild whole records in the environment that they name."""
    episodes = read_episodes(recording.path)
    names = sorted({episode.env_id for episode in episodes})
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise RecordingError(f"{recording.path}: found episodes of {found}; wanted those of one environment in a file")
    if not trust:
        require_trust(recording.path, recording.path.read_bytes(), {"env": names[0]})
    recording.env, (recording.keywords, recording.game) = names[0], make(names[0])
    for number, episode in enumerate(episodes, start=1):
        place = f"{recording.path}:{number}"
        recording.episodes.append(_recorded(place, _replayed(place, episode, recording.game), recording.game, {}))


def _replayed(place: str, episode: Episode, env: Any) -> Episode:
    """Return a record with the chat form of its observations.

    Raises:
        RecordingError: The environment differs from the recorded one.
    """
    game = dependency_game(env)
    if game is None:
        raise RecordingError(f"{place}: {episode.env_id} is no Flex-MG: its observations cannot be rebuilt")
    recorded, now = dict(episode.settings), json.loads(json.dumps(game.settings, default=str))
    names = [name for name in {**recorded, **now} if recorded.get(name) != now.get(name)]
    differing = [f"{name}: recorded {recorded.get(name)!r}" for name in names]
    if episode.team != game.team.fingerprint:
        differing.append("another team")
    if differing:
        raise RecordingError(
            f"{place}: {episode.env_id} was played under other settings ({'; '.join(differing)[:300]}): give the flags "
            "of its environment, like --data, --split, --team and --dependency"
        )
    plain = episode.to_dict()
    again = rebuild(
        env,
        seed=episode.seed,
        task_id=episode.task_id,
        actions=[turn.action for turn in episode.turns],
        outcomes=plain["outcomes"],
    )
    for number, (told, turn) in enumerate(zip(episode.turns, again.turns, strict=True)):
        if told.observation != turn.observation or told.agent != turn.agent:
            raise RecordingError(
                f"{place}: turn {number}: {turn.agent} sees another text than was recorded: the data of "
                f"{episode.env_id} or its version changed"
            )
    return again


def _recorded(place: str, episode: Episode, env: Any, line: Mapping[str, Any]) -> RecordedEpisode:
    """Return an episode that was just rebuilt in an environment.

    Args:
        place: File and line.
        episode: The episode, with chat forms.
        env: The environment, still in the episode's last state.
        line: Its line in a run or an evaluation; empty for other records.
    """
    task = env.unwrapped.task
    told = line.get("turns") or [{}] * len(episode.turns)
    turns = [
        RecordedTurn(
            turn.agent,
            tuple(turn.observation.messages),  # type: ignore[attr-defined] # a TextObservation
            turn.observation.fixed_messages,  # type: ignore[attr-defined]
            turn.action,
            bool(own.get("stopped", True)),
        )
        for turn, own in zip(episode.turns, told, strict=True)
    ]
    judged = [outcome for outcome in episode.outcomes if outcome is not None]
    facts = {
        **task.meta,
        "env": episode.env_id,
        "task": task.id,
        "split": task.split,
        "seed": episode.seed,
        "success": episode.success,
        "reward": sum(episode.rewards),
        "terms": dict(episode.terms),
        "turns": len(turns),
        "rounds": len(episode.outcomes),
        "tokens": sum(turn.tokens or 0 for turn in episode.turns) or None,
        "invalid": sum(bool(turn.fault) for turn in episode.turns) + sum(outcome.invalid for outcome in judged),
        "violation": any(bool(outcome.detail.get("violation")) for outcome in judged),
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "update": line.get("update"),
        "infos": dict(line.get("infos") or {}),
    }
    calls = [event for outcome in judged for event in outcome.events if event.get("kind") == "call"]
    statuses = dict.fromkeys(str(call.get("status")) for call in calls if call.get("status") != "ok")
    tags = [name for name in ("violation", "invalid", "truncated") if facts[name]]
    tags += [f"call: {status}" for status in statuses]
    return RecordedEpisode(place, task.id, task.prompt, facts, tuple(turns), task, tuple(tags))


# ------------------------------------------------------------------ spans


def _add_traces(recording: Recording, make: Make, env: str | None, *, strict: bool) -> None:
    tasks: Mapping[str, Task] = {}
    if env is not None:
        recording.env, (recording.keywords, recording.game) = env, make(env)
        tasks = {task.id: task for task in _tasks(recording.game)}
    for trace in read_traces(recording.path, None if strict else recording.left_out):
        recording.episodes.append(_of_trace(trace, tasks))


def _tasks(env: Any) -> Iterator[Task]:
    game = listing_game(env)
    return iter(()) if game is None else (game.tasks[i] for i in range(len(game.tasks)))


def _of_trace(trace: Trace, tasks: Mapping[str, Task]) -> RecordedEpisode:
    told = trace.attributes
    prefix = "marft.reward."
    success = told.get("marft.success")
    task = tasks.get(str(told.get("marft.task.id")))
    facts = {
        **(task.meta if task else {}),
        "env": told.get("gen_ai.workflow.name"),
        "task": told.get("marft.task.id"),
        "split": None if task is None else task.split,
        "seed": told.get("marft.seed"),
        "success": success,
        "reward": told.get("marft.reward"),
        "terms": {name.removeprefix(prefix): value for name, value in told.items() if name.startswith(prefix)},
        "turns": len(trace.turns),
        "tokens": trace.tokens,
        "terminated": told.get("marft.terminated"),
        "truncated": told.get("marft.truncated"),
        "attributes": dict(told),
    }
    turns = tuple(RecordedTurn(*turn) for turn in trace.turns)
    problem = task.prompt if task is not None else _problem(turns)
    tags = ("truncated",) if facts["truncated"] else ()
    return RecordedEpisode(trace.place, str(facts["task"] or trace.place), problem, facts, turns, task, tags)


def _problem(turns: Sequence[RecordedTurn]) -> str:
    """Return the first message of a user to the first agent; with a known number of fixed messages the last of them."""
    messages = turns[0].messages if turns else ()
    if turns and turns[0].fixed_messages:
        return messages[turns[0].fixed_messages - 1]["content"]
    return next((message["content"] for message in messages if message["role"] == "user"), "")

"""KL divergence of each agent's policy between two evaluations, on the prompts of the first one's episodes.

The episodes of side A are rebuilt with the chat form of what each agent saw, and both teams score the recorded actions.
At each token the divergence of the two next-token distributions is computed over the whole vocabulary:

    KL(A || B) = sum_v p_A(v) (log p_A(v) - log p_B(v))

It is that of the models themselves, at temperature 1 and without top-k or top-p. A token's context is the prompt with
the action so far, so the sum over an action is the divergence of the laws of whole actions where A samples at
temperature 1. The unit of the interval is the scenario: each gives the mean over its tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from baselines.experiment.config_trust import Uses, read_config
from baselines.experiment.episode_source import EpisodeSource
from baselines.experiment.trained_team import TeamSettings, experiment_of
from baselines.results.comparison import ComparisonError, Evaluated
from baselines.results.statistics import Interval, grid_mean
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.context_window import ContextSettings

if TYPE_CHECKING:  # they import torch, which a comparison of records does not need
    from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
    from marft_agents.trajectory import Action

MOST_EPISODES = 64  # whose actions are scored
ACTIONS_AT_ONCE = 32  # of a pass


class Divergence(NamedTuple):
    """Divergence of an agent's policies.

    Attributes:
        kl: KL(A || B) in nats per token, with its 95 % interval over scenarios.
        tokens: Number of tokens that were scored.
        scenarios: Number of scenarios that they are of.
    """

    kl: Interval
    tokens: int
    scenarios: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; an interval without an end is null there."""
        ends = {name: value if math.isfinite(value) else None for name, value in self.kl._asdict().items()}
        return {**ends, "tokens": self.tokens, "scenarios": self.scenarios}


def policy_divergence(
    a: Evaluated, b: Evaluated, *, episodes: int = MOST_EPISODES, trust: bool | None = False
) -> dict[str, Divergence | str]:
    """Compute the divergence of each agent that acts in the episodes of A.

    Args:
        a: Evaluation whose prompts and actions are scored.
        b: Evaluation of the other team.
        episodes: Most episodes to score, spread evenly.
        trust: True to act on what the records of somebody else name.

    Returns:
        The divergence by agent, or the reason why it has none.

    Raises:
        ComparisonError: A side has no local model, or its team cannot be loaded; names the reason.
        UntrustedConfigError: This user did not write a record here, and it names modules, servers or paths.
        ValueError: The episodes of A cannot be rebuilt.
    """
    settings = [_settings(one, trust) for one in (a, b)]
    source = EpisodeSource(a.path.parent, rebuilt=True, trust=trust)
    assert source.replay is not None
    agents = source.replay.env.possible_agents
    with ExitStack() as stack:
        teams = []
        for one, each in zip((a, b), settings, strict=True):
            try:
                teams.append(each.load(agents))
            except (OSError, ValueError, RuntimeError) as error:
                raise ComparisonError(f"{one.path}: its team cannot be loaded: {error}") from error
            stack.callback(teams[-1].close)
        reasons = {agent: _refusal(agent, *teams) for agent in agents}
        actions: dict[str, dict[int, list[Action]]] = defaultdict(lambda: defaultdict(list))
        step = max(1, math.ceil(a.grids["success"].size / episodes))
        for number, (_, line, episode) in enumerate(source.records()):
            if number % step == 0:
                for turn, own in zip(episode.turns, line["turns"], strict=True):
                    ended = bool(own.get("stopped", True))
                    # a cut action of special tokens alone has no text, so its tokens are not known
                    if not reasons[turn.agent] and own.get("tokens") and (turn.action or ended):
                        action = _action(teams[0], turn, ended=ended)
                        actions[turn.agent][int(line["group"] or 0)].append(action)
        found: dict[str, Divergence | str] = {}
        for agent in agents:
            known = actions[agent]
            scored = _scored(agent, known, *teams) if known else "it has no sampled tokens in the episodes of A"
            found[agent] = reasons[agent] or scored
    return found


def _settings(one: Evaluated, trust: bool | None) -> TeamSettings:
    """Return the settings with which the team of an evaluation is loaded again."""
    try:
        record: Mapping[str, Any] = read_config(one.path, Uses(only=("models", "checkpoint")), trust=trust)
    except OSError as error:
        raise ComparisonError(f"{one.path} cannot be read: {error.strerror or error}") from error
    wanted = "wanted a team of models of this process, with its checkpoint if it was trained"
    for key, how in (("endpoint", "played by the endpoint"), ("policy", "played without a model, by the policy")):
        if record.get(key) is not None:
            raise ComparisonError(f"{one.path} was {how} {record[key]}, which has no log-probs here: {wanted}")
    models = record.get("models")
    if isinstance(models, list):
        if len(models) != 1:
            raise ComparisonError(f"{one.path} does not say which agent plays which of {models}: {wanted}")
        models = {"*": str(models[0])}
    if not isinstance(models, Mapping):
        raise ComparisonError(f"{one.path} names no models: {wanted}")
    sampling = SamplingParams(max_new_tokens=int((record.get("law") or {}).get("max_new_tokens", 1)))
    context = ContextSettings(**(record.get("context") or {}))
    if record.get("checkpoint") is None:
        return TeamSettings({str(agent): str(name) for agent, name in models.items()}, sampling, context)
    path = Path(record["checkpoint"])
    try:
        trained = TeamSettings.of_run(experiment_of(path, Uses(only=("models",)), trust=trust), path)
    except RuntimeError as error:  # a checkpoint that is gone
        raise ComparisonError(f"{one.path}: {error}") from error
    return TeamSettings(
        {str(agent): str(name) for agent, name in models.items()},
        sampling,
        context,
        lora=trained.lora,
        sharing=trained.sharing,
        checkpoint=path,
        dtype=trained.dtype,
    )


def _refusal(agent: str, a: LanguageModelTeam, b: LanguageModelTeam) -> str:
    """Return the reason why an agent has no divergence; empty if it has one."""
    for side, team in (("A", a), ("B", b)):
        if agent not in team.local_agents:
            return f"it is no local model on side {side}"
    bases = [team.local_agents[agent].base for team in (a, b)]
    if bases[0].tokenizer.get_vocab() != bases[1].tokenizer.get_vocab():
        return f"its models {bases[0].name} and {bases[1].name} have different tokens"
    return ""


def _action(team: LanguageModelTeam, turn: Any, *, ended: bool) -> Action:
    from marft_agents.learning.supervised import demonstration

    return demonstration(team, turn.agent, turn.observation, turn.action, ended=ended)


def _scored(agent: str, actions: Mapping[int, list[Action]], a: LanguageModelTeam, b: LanguageModelTeam) -> Divergence:
    """Score the actions of an agent, which are by scenario."""
    ends = a.local_agents[agent], b.local_agents[agent]
    per_scenario, tokens = [], 0
    flat = [(scenario, action) for scenario, own in actions.items() for action in own]
    sums, counts = dict.fromkeys(actions, 0.0), dict.fromkeys(actions, 0)
    for start in range(0, len(flat), ACTIONS_AT_ONCE):
        batch = flat[start : start + ACTIONS_AT_ONCE]
        values = iter(_kl(*ends, [action for _, action in batch]))
        for scenario, action in batch:
            own = [next(values) for _ in action.token_ids]
            sums[scenario] += sum(own)
            counts[scenario] += len(own)
    for scenario, count in counts.items():
        per_scenario.append(sums[scenario] / count)
        tokens += count
    mean = grid_mean(np.asarray([per_scenario]), bounded=False)
    return Divergence(mean._replace(low=max(mean.low, 0.0)), tokens, len(per_scenario))


def _kl(a: LocalAgent, b: LocalAgent, actions: list[Action]) -> Iterator[float]:
    """Yield KL(A || B) at each token of some actions, in nats."""
    import torch

    from marft_agents.policies.token_log_probs import action_hidden, chunk_rows

    prompts, said = [one.prompt_ids for one in actions], [one.token_ids for one in actions]
    with torch.no_grad():
        hidden = []
        for each in (a, b):
            with each.base.active_adapter(each.adapter):
                hidden.append(action_hidden(each.base.trunk, prompts, said, each.base.device))  # [N, d]
        rows = chunk_rows(a.base.head.out_features, a.base.device)
        for start in range(0, len(hidden[0]), rows):
            laws = []
            for each, states in zip((a, b), hidden, strict=True):
                with each.base.active_adapter(each.adapter):  # which may adapt the head, too
                    laws.append(each.base.head(states[start : start + rows]).float().log_softmax(-1))  # [rows, V]
            first, second = laws[0], laws[1].to(laws[0].device)
            yield from (first.exp() * (first - second)).sum(-1).clamp(min=0).tolist()

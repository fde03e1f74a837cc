"""Training batch: all trainable actions of one update as flat arrays, built once per update."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from marft_agents.learning.advantages import Array
from marft_agents.learning.settings import LearnerSettings
from marft_agents.trajectory import Action, FloatArray, Trajectory, score

Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# characters of scripts that put no blanks between words
CHARACTER = re.compile(
    "["
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, supplementary planes
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001b000-\U0001b16f"  # kana
    "\uac00-\ud7a3"  # Hangul syllables
    "]"
)


class Batch(NamedTuple):
    """Trainable actions of an update, episode by episode in the order they were played.

    Sizes: N actions; T tokens of all actions; D decisions (D = N at action level, D = T at token level); V values. The
    critic evaluates every decision (V = D), only the first action of a round with joint credit, or nothing (V = 0).
    The tokens of action i are entries `token_offsets[i]` to `token_offsets[i + 1]` of the arrays [T]; likewise for
    decisions and values. NaN means not computed yet.

    Attributes:
        agents: Names of the agents, by index.
        policies: Names of the trainable policies, by index.
        actions: N recorded actions with their prompts, the input of forward passes.
        agent: Int64 [N], index of the acting agent.
        policy: Int64 [N], index of its policy; -1 where the batch was built without policies.
        episode: Int64 [N], index of the trajectory.
        turn: Int64 [N], index of the turn in its trajectory.
        round: Int64 [N], round of the game.
        joint: Int64 [N], index of the pair (episode, round), numbered by first appearance.
        group: Int64 [N], prompt group of the episode.
        reader: Int64 [N], index of the turn that read it first, among those of the batch; -1 where none did, or where
            `chain_links` do not ask.
        branch: Int64 [N], turn whose alternatives are compared; -1 for a whole episode.
        terminated: Bool [N], True if nothing follows the last turn of the episode; False if it was truncated.
        positive: Bool [N], True if the episode succeeded.
        exact: Bool [N], True if the recorded log-probs are the trained model's own, see `Action.exact`.
        words: Int64 [N], words of the text; 1 unless the log-prob of an action is divided by them.
        reward: Float64 [N], team reward after the action, with the rewards of untrained turns after it. With the
            setting rewards = "own": the acting agent's own rewards from the action to its next trained one.
        team_return: Float64 [N], undiscounted return of the episode; with rewards = "own" that of the acting agent.
        bootstrap: Float64 [N], V after the last turn of a truncated episode; 0 where nothing evaluates it.
        preceding: Float64 [N], M: ratio pi / pi_old of the agents updated before in the same round, 1 at first.
        weight: Float32 [N], weight of each token of the action in the loss, see `averaging_shares`.
        token_offsets: Int64 [N + 1], where the tokens of each action start.
        decision_offsets: Int64 [N + 1], where the decisions of each action start.
        value_offsets: Int64 [N + 1], where the values of each action start.
        recorded: Float32 [T], log-probs at sampling time.
        old: Float32 [T], log pi_old: log-probs under the trained model before the first step of the update.
        reference: Float32 [T], log-probs under the base without adapter.
        shaping: Float64 [D], costs added to the rewards, not part of any reported return.
        advantages: Float64 [D], centred and scaled.
        credit: Float64 [D], advantages before centring and scaling.
        values: Float64 [V], V before the decision.
        returns: Float64 [V], regression targets of V.
    """

    agents: tuple[str, ...]
    policies: tuple[str, ...]
    actions: tuple[Action, ...]
    agent: Index
    policy: Index
    episode: Index
    turn: Index
    round: Index
    joint: Index
    group: Index
    reader: Index
    branch: Index
    terminated: Flags
    positive: Flags
    exact: Flags
    words: Index
    reward: Array
    team_return: Array
    bootstrap: Array
    preceding: Array
    weight: FloatArray
    token_offsets: Index
    decision_offsets: Index
    value_offsets: Index
    recorded: FloatArray
    old: FloatArray
    reference: FloatArray
    shaping: Array
    advantages: Array
    credit: Array
    values: Array
    returns: Array

    def take(self, index: Index) -> Batch:
        """Return the batch of some actions.

        Args:
            index: Int64 [n], the actions, in the order wanted.
        """
        picked: dict[str, Any] = {name: getattr(self, name)[index] for name in PER_ACTION}
        for kind, names in FLAT.items():
            offsets = getattr(self, kind)  # [N + 1]
            at = positions(offsets, index)  # their entries, one action after the other
            picked |= {name: getattr(self, name)[at] for name in names}
            picked[kind] = offsets_of(np.diff(offsets)[index])
        return self._replace(actions=tuple(self.actions[i] for i in index), **picked)

    def of(self, policy: str) -> Batch:
        """Return the actions of one policy."""
        return self.take(np.flatnonzero(self.policy == self.policies.index(policy)))

    def tokens_of(self, index: Index) -> Index:
        """Return the positions of the tokens of some actions in the arrays [T]."""
        return positions(self.token_offsets, index)

    @property
    def lengths(self) -> Index:
        """Int64 [N], number of tokens of each action."""
        return np.diff(self.token_offsets)

    @property
    def num_decisions(self) -> Index:
        """Int64 [N], number of decisions of each action: 1 at action level, its tokens at token level."""
        return np.diff(self.decision_offsets)

    @property
    def num_values(self) -> Index:
        """Int64 [N], number of decisions of each action that the critic evaluates."""
        return np.diff(self.value_offsets)


FLAT = {
    "token_offsets": ("recorded", "old", "reference"),
    "decision_offsets": ("shaping", "advantages", "credit"),
    "value_offsets": ("values", "returns"),
}
_NOT_PER_ACTION = {"agents", "policies", "actions", *FLAT, *(name for names in FLAT.values() for name in names)}
PER_ACTION = tuple(name for name in Batch._fields if name not in _NOT_PER_ACTION)
_NUMBERS = (
    "agent",
    "policy",
    "episode",
    "turn",
    "round",
    "group",
    "reader",
    "branch",
    "words",
)  # int64 [N] of a record


def build_batch(
    trajectories: Sequence[Trajectory], policies: Mapping[str, Sequence[str]], settings: LearnerSettings
) -> Batch:
    """Build the batch of an update from its episodes; failed episodes are left out.

    Turns of agents that are not trained (frozen, scripted, remote) belong to the environment. So do all turns of a
    branch but the one that is compared. Their reward goes to the trainable turn before them.

    Args:
        trajectories: Episodes of the update.
        policies: Agents of each trainable policy. Empty: all agents that play tokens, without a policy.
        settings: Learner settings: level, critic and credit give the numbers of decisions and values.
    """
    policy_of: dict[str, int] = {}  # index of the policy, by agent
    for i, members in enumerate(policies.values()):
        policy_of |= dict.fromkeys(members, i)
    own = settings.rewards == "own"
    by_words = settings.level == "action" and settings.normalisation == "word"
    places, rewards = _trainable_turns(trajectories, policy_of if policies else None, own=own)

    # One entry an action: N of each.
    numbers: dict[str, Any] = {name: np.zeros(len(places), np.int64) for name in _NUMBERS}
    flags: dict[str, Any] = {name: np.zeros(len(places), np.bool_) for name in ("terminated", "positive", "exact")}
    returns, lengths = np.zeros(len(places)), np.zeros(len(places), np.int64)
    actions: list[Action] = []
    readers = _first_readers(trajectories, places) if settings.chain_links == "reads" else {}
    agents = {agent: i for i, agent in enumerate(policy_of)}  # without policies: in order of their first action
    for i, (e, k) in enumerate(places):
        episode, turn = trajectories[e], trajectories[e].turns[k]
        action = turn.action
        actions.append(action)
        lengths[i] = len(action.token_ids)
        numbers["agent"][i] = agents.setdefault(turn.agent, len(agents))
        numbers["policy"][i] = policy_of.get(turn.agent, -1)
        numbers["episode"][i], numbers["turn"][i], numbers["round"][i] = e, k, turn.round
        numbers["group"][i] = episode.group
        numbers["reader"][i] = readers.get((e, k), -1)
        numbers["branch"][i] = -1 if episode.branch is None else episode.branch
        numbers["words"][i] = count_words(action.text) if by_words else 1
        flags["terminated"][i], flags["positive"][i] = not episode.truncated, score(episode) >= 1
        flags["exact"][i] = action.exact
        returns[i] = episode.return_of(turn.agent) if own else episode.team_return

    joint = numbered(zip(numbers["episode"].tolist(), numbers["round"].tolist(), strict=True))
    decisions = lengths if settings.level == "token" else np.ones_like(lengths)
    evaluated = _count_values(joint, decisions, settings)
    count, flat = len(actions), int(decisions.sum())
    recorded = np.concatenate([np.zeros(0, np.float32), *(action.logprobs for action in actions)])  # [T]
    return Batch(
        agents=tuple(agents),
        policies=tuple(policies),
        actions=tuple(actions),
        joint=joint,
        **numbers,
        **flags,
        reward=np.array(rewards, np.float64),
        team_return=returns,
        bootstrap=np.zeros(count),
        preceding=np.ones(count),
        weight=np.ones(count, np.float32),
        token_offsets=offsets_of(lengths),
        decision_offsets=offsets_of(decisions),
        value_offsets=offsets_of(evaluated),
        recorded=recorded,
        old=recorded.copy(),  # replaced where `exact` is false, see `Learner`
        reference=np.full_like(recorded, np.nan),  # NaN: a term that reads what nobody computed cannot go unnoticed
        shaping=np.zeros(flat),
        advantages=np.full(flat, np.nan),
        credit=np.full(flat, np.nan),
        values=np.full(int(evaluated.sum()), np.nan),
        returns=np.full(int(evaluated.sum()), np.nan),
    )


def _trainable_turns(
    trajectories: Sequence[Trajectory], trained: Collection[str] | None, *, own: bool
) -> tuple[list[tuple[int, int]], list[float]]:
    """Return (episode, turn) and reward of each trainable action; `trained` names its agents, None is all of them.

    A step pays the latest trainable action of its episode; with `own` it pays each agent's latest one.
    """
    places: list[tuple[int, int]] = []
    rewards: list[float] = []
    for e, trajectory in enumerate(trajectories):
        if trajectory.failure is not None:
            continue
        # The action that is paid, by agent; of the team under "". Rewards before the first one are nobody's: nothing
        # that is trained led to them.
        latest: dict[str, int] = {}
        for k, turn in enumerate(trajectory.turns):
            trainable = trained is None or turn.agent in trained
            if trainable and len(turn.action.token_ids) and trajectory.branch in (None, k):
                latest[turn.agent if own else ""] = len(places)
                places.append((e, k))
                rewards.append(0.0)
            for agent, place in latest.items():
                rewards[place] += turn.reward_of(agent) if own else turn.reward
    return places, rewards


def _first_readers(
    trajectories: Sequence[Trajectory], places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Return the turn of the batch that first read each turn of an agent program, directly or through turns outside.

    Args:
        trajectories: Episodes of the update.
        places: Episode and turn of each action of the batch.
    """
    found: dict[tuple[int, int], int] = {}
    inside = set(places)
    for e, trajectory in enumerate(trajectories):
        turns = [] if trajectory.game is None else trajectory.game["turns"]
        for reader in range(len(turns) - 1, -1, -1):  # what reads a reader is known before it
            first = reader if (e, reader) in inside else found.get((e, reader))
            if first is None:
                continue
            for read, _ in turns[reader].get("reads", ()):
                found[e, read] = min(first, found.get((e, read), first))
    return found


def _count_values(joint: Index, decisions: Index, settings: LearnerSettings) -> Index:
    """Return the number of values of each action, int64 [N]: one a decision, or one a round with joint credit."""
    if not settings.critic:
        return np.zeros_like(decisions)
    if settings.credit != "round":
        return decisions
    # V of the state before the round: a later action of the round is chosen from an observation of the first one.
    _, first_of_round = np.unique(joint, return_index=True)
    evaluated = np.zeros_like(decisions)
    evaluated[first_of_round] = 1
    return evaluated


def numbered(keys: Iterable[tuple[int, ...]]) -> Index:
    """Number equal keys alike, in order of first appearance; int64 [N].

    Examples:
        >>> numbered([(7, 0), (7, 1), (7, 0)]).tolist()
        [0, 1, 0]
    """
    seen: dict[tuple[int, ...], int] = {}
    return np.fromiter((seen.setdefault(key, len(seen)) for key in keys), np.int64)


def offsets_of(lengths: Index) -> Index:
    """Return where each of N segments starts, and the end of the last: int64 [N + 1].

    Examples:
        >>> offsets_of(np.array([2, 0, 3])).tolist()
        [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def positions(offsets: Index, index: Index) -> Index:
    """Return the positions of all entries of some segments, one segment after the other.

    Args:
        offsets: Int64 [N + 1], from `offsets_of`.
        index: Int64 [n], the segments.

    Examples:
        >>> positions(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
        [2, 3, 4, 0, 1]
    """
    lengths = np.diff(offsets)[index]
    # The entries of a segment move by one shift: from its start in the result to its start among all entries.
    shifts = offsets[:-1][index] - offsets_of(lengths)[:-1]  # [n]
    return np.repeat(shifts, lengths) + np.arange(lengths.sum())


def count_words(text: str) -> int:
    """Count the words of a text, for normalising an action's log-prob.

    Text is split at white space; each Han, kana or Hangul character is a word of its own.
    Punctuation beside such characters counts as 0. Other text between them counts as 1 if it holds a letter or digit.

    Examples:
        >>> count_words("Add 2 + 3, then stop."), count_words("  ")
        (6, 0)
        >>> count_words("答案是 5。"), count_words("共有12个苹果，每个3元。")
        (4, 10)
    """
    words = 0
    for piece in text.split():
        characters = len(CHARACTER.findall(piece))
        if not characters:
            words += 1
            continue
        words += characters
        # "12个苹果": the 12 is a word beside the characters, a comma is none.
        for between in CHARACTER.split(piece):
            if any(character.isalnum() for character in between):
                words += 1
    return words

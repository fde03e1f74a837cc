r"""Wrappers of a game for algorithms that expect another interface.

| View | Actions | For |
|---|---|---|
| `CandidateAction` | `Discrete(k)`: the index of a proposed text | every library; the simplest |
| `TokenAction` | `Discrete(V)`: token by token, with an optional grammar | every library |
| `TokenSequenceAction` | `MultiDiscrete([V] * T)`: a whole utterance | libraries with such actions |
| `TokenObservation`, `EmbeddingObservation` | | arrays instead of text; a numeric `state()` |
| `BlockObservation` | | vectors in which a partner's word counts, whatever the length of the prompt |
| `ActionMask` | | AEC libraries: masks in observations or infos |
| `RenamedAgents` | | one network for all (`agent_0, ...`), or by role |
| `TurnParallel` | with a no-op for idle agents | parallel libraries |
| `SharedPolicyEnv` | | Gymnasium libraries: one policy plays all |
| `RecordTranscript` | | episodes as JSON Lines |

Apply the wrappers of actions first, then those of observations, then the interface:

    env = marft_envs.make("marft/math_duo-v0")
    env = EmbeddingObservation(CandidateAction(env, ["\\boxed{1}", "\\boxed{2}"]))
    env = TurnParallel(RenamedAgents(env), noop=True, mask="info")

They take any AEC environment with text actions, not only ours. In all of them infos are numbers with fixed keys. An
illegal action is an empty utterance that counts as invalid. Copies in mid-episode continue alike.
"""

from marft_envs.wrappers.block_observation import BlockObservation
from marft_envs.wrappers.candidate_action import CandidateAction
from marft_envs.wrappers.masks import ActionMask
from marft_envs.wrappers.numeric_observation import EmbeddingObservation, HashedNgrams, TokenObservation
from marft_envs.wrappers.record_transcript import RecordTranscript
from marft_envs.wrappers.renamed_agents import RenamedAgents
from marft_envs.wrappers.shared_policy import SharedPolicyEnv
from marft_envs.wrappers.token_action import TokenAction, TokenSequenceAction
from marft_envs.wrappers.tokens import VocabularyTokenizer
from marft_envs.wrappers.turn_parallel import TurnParallel

__all__ = [
    "ActionMask",
    "BlockObservation",
    "CandidateAction",
    "EmbeddingObservation",
    "HashedNgrams",
    "RecordTranscript",
    "RenamedAgents",
    "SharedPolicyEnv",
    "TokenAction",
    "TokenObservation",
    "TokenSequenceAction",
    "TurnParallel",
    "VocabularyTokenizer",
]

r"""Procedural problems of reasoning-gym, as `marft/reasoning_{generator}_{team}-v0`.

| | |
|---|---|
| Answer | the last `<answer>...</answer>` of the answering agent's action; without one its last `\boxed{...}` |
| Reward | the score of the generator's own scorer, 0 to 1; success is a score of 1 |
| Termination | success, or the only round is over |
| Problems | problem `i` has the seed `seed + i`; the split "test" has seeds from 2**31 on, "train" those below |

reasoning-gym runs in a process of its own, see `marft_envs.plugins.reasoning.worker`. It has 106 generators; left out
are `composite`, which mixes others, and five that do not give 1 to their own gold answer.

Version history: v0, first version.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from marft_envs import Profile, Tasks, Team, register_task

_NAMES = """
ab acre advanced_geometry aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation
binary_matrix bitwise_arithmetic caesar_cipher calendar_arithmetic chain_sum circuit_logic codeio coin_flip
color_cube_rotation complex_arithmetic count_bits count_primes countdown course_schedule cryptarithm
decimal_arithmetic decimal_chain_sum dice emoji_mystery family_relationships figlet_font fraction_simplification
futoshiki game_of_life game_of_life_halting gcd group_anagrams gsm_symbolic intermediate_integration
isomorphic_strings jugs kakurasu knight_swap knights_knaves largest_island lcm leg_counting letter_counting
letter_jumble list_functions mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid n_queens
needle_haystack number_filtering number_format number_sequence number_sorting palindrome_generation
palindrome_partitioning path_star polynomial_equations polynomial_multiplication pool_matrix power_function
prime_factorization products puzzle24 quantum_lock ransom_note rearc rectangle_count rotate_matrix
rotten_oranges self_reference sentence_reordering shortest_path simple_equations simple_geometry
simple_integration sokoban spell_backward spiral_matrix string_insertion string_manipulation string_splitting
string_synthesis sudoku survo syllogism time_intervals tower_of_hanoi tsumego word_ladder word_sequence_reversal
word_sorting zebra_puzzles
"""
GENERATORS = tuple(_NAMES.split())
_FORM = "then give the final answer as <answer>answer</answer>."
_REASONER = Profile(
    "reasoner_0", "You are the reasoner of a team that solves puzzles. Work out the answer step by step. Be brief."
)
_VERIFIER = Profile(
    "verifier_0", 'You are the verifier of a team. Check your teammates. Say "Correct" or name and correct the mistake.'
)
_ACTOR = Profile(
    "actor_0",
    f"You are the actor of a team. Read the problem and what your teammates say, {_FORM} Write the answer in the form "
    "that the problem asks for.",
    answers=True,
)
_ALONE = Profile(
    "actor_0",
    f"You solve puzzles. Think step by step, {_FORM} Write the answer in the form that the problem asks for.",
    answers=True,
)
TEAMS = {
    "solo": Team("solo", (_ALONE,)),
    "duo": Team("duo", (_REASONER, _ACTOR)),
    "trio": Team("trio", (_REASONER, _VERIFIER, _ACTOR)),
}


def register() -> None:
    """Register the environments of all generators."""
    for generator in GENERATORS:
        register_task(
            f"reasoning_{generator}",
            partial(_load, generator),
            teams=TEAMS,
            solo=TEAMS["solo"],
            keywords=("size", "seed", "config"),
            description=f"{generator.replace('_', ' ')}, generated and scored by reasoning-gym",
            reward="outcome",
        )


def _load(generator: str, data: Any, split: str, **keywords: Any) -> Tasks:
    from marft_envs.plugins.reasoning.tasks import ReasoningTasks

    if data != "embedded":
        raise ValueError(f"reasoning_{generator}: found data={data!r}, wanted 'embedded': the problems are generated")
    return ReasoningTasks(generator, split, **keywords)

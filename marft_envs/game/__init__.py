"""The game Flex-MG of an LLM team, written once for all tasks: `flex_mg`, its state, observations and rendering."""

from marft_envs.game.flex_mg import INFO_KEYS, FlexMG, Reward

__all__ = ["INFO_KEYS", "FlexMG", "Reward"]

"""A dependency function of your own: you learn how D decides the order of turns, the layers, and what each agent sees.

pip install marft
python examples/own_dependency.py
"""

import marft_envs
from marft_envs import Team
from marft_envs.dependency.drawing import mermaid

# Row i, column j: agent j sees the action of agent i in the same round. Two experts work apart, the editor sees both.
MATRIX = {"kind": "matrix", "rows": [[0, 0, 1], [0, 0, 1], [0, 0, 0]]}
team = Team.from_dict(
    {
        "name": "experts",
        "dependency": MATRIX,
        "profiles": [
            {"name": "algebra_0", "system_prompt": "Set up an equation."},
            {"name": "check_0", "system_prompt": "Estimate the result."},
            {"name": "editor_0", "system_prompt": r"Give the final answer as \boxed{answer}.", "answers": True},
        ],
    }
)
print(mermaid(team.dependency, team.roster))

for dependency in (MATRIX, "chain", {"kind": "schedule", "steps": ["independent", "full"]}):
    env = marft_envs.make("marft/gsm8k_duo-v0", team=team, dependency=dependency, data="embedded:stories")
    env.reset(seed=0)
    said = {}
    while env.agent_selection != "editor_0":
        said[env.agent_selection] = f"<{env.agent_selection} was here>"
        env.step(said[env.agent_selection])
    seen = [agent for agent, words in said.items() if words in env.observe("editor_0")]
    print(f"{env.unwrapped.dependency.plan(team.roster).layers}: the editor sees {' and '.join(seen) or 'nobody'}")

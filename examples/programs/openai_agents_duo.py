"""Two agents of the OpenAI Agents SDK as an agent program: a planner with a tool, then a solver.

Learn: that the SDK runs as it is, by its default `/v1/responses`. Needs `openai-agents`, in an environment of its own:
`marft train --program "env/bin/python openai_agents_duo.py" --program-episodes 0 --agents planner,solver ...`.
"""

import json
import re
import sys

from agents import Agent, Runner, function_tool


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


planner = Agent(
    name="Planner", model="planner", tools=[add], instructions="Write the calculation of the problem in one line."
)
solver = Agent(name="Solver", model="solver", instructions="Answer the problem with a number.")

for line in sys.stdin:
    task = json.loads(line)
    plan = Runner.run_sync(planner, task["question"]).final_output
    text = f"{task['question']}\n\nA helper wrote: {plan}\n\nAnswer with the number alone."
    answer = Runner.run_sync(solver, text).final_output
    numbers = re.findall(r"-?\d+", str(answer))
    print(json.dumps({"reward": float(numbers[-1:] == [task["answer"]])}), flush=True)

"""Two agents of Pydantic AI as an agent program: a planner with a tool, then a solver.

Learn: that agents with tools run as they are. Needs `pydantic-ai-slim[openai]`, in an environment of its own:
`marft train --program "env/bin/python pydantic_ai_duo.py" --program-episodes 0 --agents planner,solver ...`.
"""

import json
import re
import sys

from pydantic_ai import Agent

planner = Agent("openai-chat:planner", instructions="Write the calculation of the problem in one line.")
solver = Agent("openai-chat:solver", instructions="Answer the problem with a number.")


@planner.tool_plain
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


for line in sys.stdin:
    task = json.loads(line)
    plan = planner.run_sync(task["question"]).output
    text = f"{task['question']}\n\nA helper wrote: {plan}\n\nAnswer with the number alone."
    answer = solver.run_sync(text).output
    numbers = re.findall(r"-?\d+", answer)
    print(json.dumps({"reward": float(numbers[-1:] == [task["answer"]])}), flush=True)

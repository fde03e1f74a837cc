"""A plain loop over an OpenAI client as an agent program: a planner writes a plan, a solver answers.

Learn: all that a program needs to do to be trained. Needs `openai`, in an environment of its own:
`marft train --program "env/bin/python openai_duo.py" --program-episodes 0 --agents planner,solver ...`.
"""

import json
import re
import sys

from openai import OpenAI

client = OpenAI()


def ask(agent: str, profile: str, text: str) -> str:
    """Return the reply of an agent."""
    messages = [{"role": "system", "content": profile}, {"role": "user", "content": text}]
    return client.chat.completions.create(model=agent, messages=messages).choices[0].message.content


for line in sys.stdin:
    task = json.loads(line)
    plan = ask("planner", "Write the calculation of the problem in one line.", task["question"])
    text = f"{task['question']}\n\nA helper wrote: {plan}\n\nAnswer with the number alone."
    answer = ask("solver", "Answer the problem with a number.", text)
    numbers = re.findall(r"-?\d+", answer)
    print(json.dumps({"reward": float(numbers[-1:] == [task["answer"]])}), flush=True)

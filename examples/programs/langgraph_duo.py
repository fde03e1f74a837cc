"""A graph of LangGraph as an agent program: a planner writes a plan, a solver answers.

Learn: that a graph is trained as it is; `planner` and `solver` are names of models. Needs `langgraph langchain-openai`,
in an environment of its own: `marft train --program "env/bin/python langgraph_duo.py" --program-episodes 0 ...`.
"""

import json
import re
import sys
from typing import TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    """The state of the graph."""

    question: str
    plan: str
    answer: str


def asked(model: str, profile: str, text: str) -> str:
    """Return the reply of an agent."""
    return str(MODELS[model].invoke([SystemMessage(profile), HumanMessage(text)]).content)


def plan(state: State) -> State:
    """Let the planner write the calculation."""
    return {"plan": asked("planner", "Write the calculation of the problem in one line.", state["question"])}


def solve(state: State) -> State:
    """Let the solver answer, with the plan before it."""
    text = f"{state['question']}\n\nA helper wrote: {state['plan']}\n\nAnswer with the number alone."
    return {"answer": asked("solver", "Answer the problem with a number.", text)}


MODELS = {name: ChatOpenAI(model=name) for name in ("planner", "solver")}
builder = StateGraph(State)
builder.add_node("planner", plan)
builder.add_node("solver", solve)
builder.add_edge(START, "planner")
builder.add_edge("planner", "solver")
builder.add_edge("solver", END)
graph = builder.compile()

for line in sys.stdin:
    task = json.loads(line)
    answer = graph.invoke({"question": task["question"]})["answer"]
    numbers = re.findall(r"-?\d+", answer)
    print(json.dumps({"reward": float(numbers[-1:] == [task["answer"]])}), flush=True)

"""A graph of LangGraph as an agent program: a planner works out the answer, a solver says the number.

Learn: that a graph is trained as it is; `planner` and `solver` are names of models. Needs `langgraph langchain-openai`,
in an environment of its own: `marft train --program "env/bin/python langgraph_duo.py" --program-episodes 0 ...`.
"""

import json
import re
import sys
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

SUM, PEARS = "What is 89 - 14?", "Sara has 31 apples and 12 pears; how many pears does Sara have?"
PLANNER = ("system", "Find the answer."), ("human", SUM), ("ai", "89 - 14 = 75"), ("human", PEARS), ("ai", "12 pears")
SOLVER = (
    ("system", "Write the number."),
    *(("human", f"{SUM} 89 - 14 = 75"), ("ai", "75")),
    *(("human", f"{PEARS} 12 pears"), ("ai", "12")),
)
planner, solver = ChatOpenAI(model="planner"), ChatOpenAI(model="solver")


class State(TypedDict, total=False):
    """The state of the graph."""

    question: str
    plan: str
    answer: str


def plan(state: State) -> State:
    """Let the planner work out the answer."""
    return {"plan": str(planner.invoke([*PLANNER, ("human", state["question"])]).content)}


def solve(state: State) -> State:
    """Let the solver say the number, with the plan before it."""
    return {"answer": str(solver.invoke([*SOLVER, ("human", f"{state['question']} {state['plan']}")]).content)}


builder = StateGraph(State)
builder.add_node("planner", plan)
builder.add_node("solver", solve)
builder.add_edge(START, "planner")
builder.add_edge("planner", "solver")
builder.add_edge("solver", END)
graph = builder.compile()

for line in sys.stdin:
    task = json.loads(line)
    numbers = re.findall(r"-?\d+", graph.invoke({"question": task["question"]})["answer"])
    print(json.dumps({"reward": float(numbers[-1:] == [task["answer"]])}), flush=True)

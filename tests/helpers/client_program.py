"""A program that asks by a client of one library and writes down what it was told: `python client_program.py CLIENT`.

A line is {"texts": [...], "write": FILE}: each text is asked of the agent `speaker`, and FILE gets a JSON list of the
answers. It runs in the environment of the library, without ours.
"""

import json
import sys
from pathlib import Path

AGENT, PROFILE = "speaker", "Say something."


def openai():
    from openai import OpenAI

    client = OpenAI()

    def ask(text):
        messages = [{"role": "system", "content": PROFILE}, {"role": "user", "content": text}]
        return client.chat.completions.create(model=AGENT, messages=messages).choices[0].message.content

    return ask


def openai_agents():
    from agents import Agent, Runner

    agent = Agent(name="Speaker", model=AGENT, instructions=PROFILE)
    return lambda text: Runner.run_sync(agent, text).final_output


def langgraph():
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, StateGraph

    model = ChatOpenAI(model=AGENT)
    builder = StateGraph(dict)
    builder.add_node("speaker", lambda state: {"said": model.invoke([("system", PROFILE), ("human", state["text"])])})
    builder.add_edge(START, "speaker")
    builder.add_edge("speaker", END)
    graph = builder.compile()
    return lambda text: graph.invoke({"text": text})["said"].content


def pydantic_ai():
    from pydantic_ai import Agent

    agent = Agent(f"openai-chat:{AGENT}", instructions=PROFILE)
    return lambda text: agent.run_sync(text).output


ask = {"openai": openai, "openai_agents": openai_agents, "langgraph": langgraph, "pydantic_ai": pydantic_ai}[
    sys.argv[1]
]()
for line in sys.stdin:
    task = json.loads(line)
    Path(task["write"]).write_text(json.dumps([ask(text) for text in task["texts"]]))
    print(json.dumps({"reward": 1}), flush=True)

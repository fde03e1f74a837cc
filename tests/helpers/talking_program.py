"""A program for tests: plays each line of standard input as a list of steps, with the standard library alone.

A line is {"steps": [...], "reward": x}. A step is [agent, text] and asks; "..." in its text stands for the last answer.
Others: {"exit": n}, {"sleep": s}, {"flood": n}, {"fork": code, "until": file}, {"print": text}, {"at_once": [steps]},
{"raw": body}.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

said = [""]
seen = []


def post(path, body, key=None):
    """Return the reply to a body, or to a GET where it is None; of a stream its text."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + (key or os.environ["OPENAI_API_KEY"])},
    )
    try:
        with urllib.request.urlopen(request) as reply:
            text = reply.read().decode()
            return text if "event-stream" in reply.headers["Content-Type"] else json.loads(text)
    except urllib.error.HTTPError as error:
        return json.loads(error.read())


def ask(agent, text):
    body = {"model": agent, "messages": [{"role": "user", "content": text.replace("...", said[0])}]}
    found = post("/chat/completions", body)
    seen.append(found)
    return found["choices"][0]["message"]["content"] if "choices" in found else ""


def do(step):
    if isinstance(step, list):
        said[0] = ask(*step)
    elif "at_once" in step:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: ask(*one), step["at_once"]))
    elif "raw" in step:
        seen.append(post(step.get("path", "/chat/completions"), step["raw"], step.get("key")))
    elif "sleep" in step:
        time.sleep(step["sleep"])
    elif "flood" in step:
        sys.stdout.write("x" * step["flood"] + "\n")
        sys.stdout.flush()
    elif "fork" in step:
        code = step["fork"]
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
        while not os.path.exists(step["until"]):
            time.sleep(0.01)
    elif "print" in step:
        print(step["print"], flush=True)
    elif "exit" in step:
        print("out of order", file=sys.stderr)
        sys.exit(step["exit"])


def main():
    for line in sys.stdin:
        seen.clear()
        episode = json.loads(line)
        for one in episode["steps"]:
            do(one)
        report = {name: episode[name] for name in ("reward", "rewards") if name in episode}
        if "write" in episode:
            with open(episode["write"], "a") as stream:
                stream.write(json.dumps({"pid": os.getpid(), "seen": seen, "key": os.environ["OPENAI_API_KEY"]}) + "\n")
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()

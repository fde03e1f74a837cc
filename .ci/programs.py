"""Train one update with each agent program of `examples/programs`, each in an environment of its own, and compare ids.

`make programs` runs this (ARGS="--requests 1000"). The versions of their packages exclude some of ours, so none is
installed beside marft. Then each client asks alone, and three things must be the same for every request: the ids that
the team sampled, the ids that the episode records, and the text that the client was told, which is those ids decoded.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
NEEDS = {
    "openai": ["openai==3.57.0"],
    "openai_agents": ["openai-agents==0.24.0", "openai==3.57.0"],
    "langgraph": ["langgraph==1.2.24", "langchain-openai==1.7.4", "openai==3.57.0"],
    "pydantic_ai": ["pydantic-ai-slim[openai]==2.68.0", "openai==3.57.0"],
}
TASK = {"question": "Tom has 3 marbles and finds 4 more; how many has he?", "answer": "7"}
EPISODES = 4  # of the comparison of ids, side by side


def install(folder: Path) -> None:
    """Make the environments that are not there yet, side by side."""
    uv, jobs = [str(Path(sys.executable).parent / "uv"), "--quiet"], []
    for name, packages in NEEDS.items():
        python = folder / name / "bin" / "python"
        subprocess.run([*uv, "venv", "--allow-existing", "--python", sys.executable, str(folder / name)], check=True)
        jobs.append(subprocess.Popen([*uv, "pip", "install", "--python", str(python), *packages]))
    codes = [job.wait() for job in jobs]
    if any(codes):
        raise SystemExit("the packages of a program could not be installed")


def train(name: str, python: Path, folder: Path) -> int:
    """Train one update with an example; return its recorded turns."""
    from baselines import Experiment
    from baselines.programs import ENVIRONMENT

    data = folder / "tasks.jsonl"
    data.write_text(json.dumps(TASK) + "\n")
    keywords = {"program": f"{python} {ROOT / 'examples' / 'programs' / name}_duo.py", "data": str(data)}
    keywords |= {"agents": ["planner", "solver"], "program_episodes": 0}
    sizes = {"updates": 1, "groups": 1, "group_size": 2, "num_envs": 1}
    Experiment(ENVIRONMENT, keywords=keywords, algorithm="marft-a", models={"*": "tiny"}, **sizes).run(folder / name)
    turns = [json.loads(line)["turns"] for line in (folder / name / "episodes.jsonl").open()]
    if len(turns) != 2 or any(len(episode) < 2 for episode in turns):
        raise SystemExit(f"{name}: wanted 2 episodes with an answer of each agent, found {turns}")
    return sum(map(len, turns))


def compare(name: str, python: Path, folder: Path, requests: int) -> tuple[int, int]:
    """Let a client ask; return the requests whose sampled ids, recorded ids and told text agree, and all of them."""
    from baselines.experiment.environments import factory
    from baselines.programs import ENVIRONMENT
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.policy import running_session
    from marft_agents.policies.team_building import build_team
    from marft_agents.rollouts.rollout import collect
    from marft_agents.trajectory import EpisodeStart

    team = build_team(["speaker"], {"*": "tiny"}, lora=LoraSettings(), sampling=SamplingParams(max_new_tokens=6))
    sampled: dict[bytes, list[bytes]] = {}  # prompt ids -> sampled ids, as they leave the batch

    class Session:
        def __init__(self) -> None:
            self.session = running_session(team)
            self.act, self.submit, self.close = self.session.act, self.session.submit, self.session.close

        def advance(self):  # noqa: ANN202
            ended = self.session.advance()
            for _, action in ended:
                sampled.setdefault(action.prompt_ids.tobytes(), []).append(action.token_ids.tobytes())
            return ended

    class Sampled:
        act, open_session = team.act, staticmethod(Session)

    texts = [[f"{episode}.{number}" for number in range(requests // EPISODES)] for episode in range(EPISODES)]
    lines = [{"texts": own, "write": str(folder / f"{name}-{i}.json")} for i, own in enumerate(texts)]
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = f"{python} {ROOT / 'tests' / 'helpers' / 'client_program.py'} {name}"
    keywords = {"program": program, "agents": ["speaker"], "data": str(data), "program_requests": 2 * requests}
    keywords |= {"program_tokens": 1000 * requests}
    env = factory(ENVIRONMENT, keywords)()
    starts = [EpisodeStart(i, i, i, {"index": i}) for i in range(EPISODES)]
    played = collect(lambda: env, Sampled(), starts, seed=0)
    env.unwrapped.programs.close()
    if failed := [episode.failure for episode in played if episode.failure is not None]:
        raise SystemExit(f"{name}: {failed[0]}")
    text_of, right, asked = team.local_agent("speaker").base.text_of, 0, 0
    for line, episode in zip(lines, played, strict=True):
        # Pydantic AI asks again where an answer is blank, and passes the next one on.
        told = iter([text for text in json.loads(Path(line["write"]).read_text()) if text.strip()])
        for turn in episode.turns:
            ids, asked = turn.action.token_ids, asked + 1
            decoded = text_of(ids)
            was_told = not decoded.strip() or decoded == next(told, None)
            right += was_told and ids.tobytes() in sampled[turn.action.prompt_ids.tobytes()]
        if len(episode.turns) < requests // EPISODES or next(told, None) is not None:
            raise SystemExit(f"{name}: wanted {requests // EPISODES} answers that were recorded and told")
    return right, asked


def main() -> int:
    """Install, train and compare; return 1 if an answer was recorded or told otherwise than it was sampled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-programs", help="of the environments")
    parser.add_argument("--requests", type=int, default=40, help="of each client, whose ids are compared")
    arguments, wrong = parser.parse_args(), 0
    install(arguments.folder)
    for name in NEEDS:
        python, began = arguments.folder / name / "bin" / "python", time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            turns = train(name, python, Path(scratch))
            right, asked = compare(name, python, Path(scratch), arguments.requests)
        said = f"{name}: trained on {turns} turns; sampled, recorded and told ids agree in {right} of {asked} requests"
        sys.stdout.write(f"{said}; {time.monotonic() - began:.0f} s\n")
        wrong += asked - right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Train one update with each agent program of `examples/programs`, each in an environment of its own.

`make programs` runs this (ARGS="--folder DIR").
The versions of their packages exclude some of ours, so none is installed beside marft.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDS = {
    "openai_duo": ["openai"],
    "openai_agents_duo": ["openai-agents"],
    "langgraph_duo": ["langgraph", "langchain-openai"],
    "pydantic_ai_duo": ["pydantic-ai-slim[openai]"],
}
TASK = {"question": "Tom has 3 marbles and finds 4 more; how many has he?", "answer": "7"}


def main() -> int:
    """Install and train; return the number of programs that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-programs", help="of the environments")
    folder, bin_ = parser.parse_args().folder, Path(sys.executable).parent
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "tasks.jsonl"
        data.write_text(json.dumps(TASK) + "\n")
        for name, packages in NEEDS.items():
            python = folder / name / "bin" / "python"
            uv = [str(bin_ / "uv"), "--quiet"]
            if not python.exists():
                subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / name)], check=True)
            subprocess.run([*uv, "pip", "install", "--python", str(python), *packages], check=True)
            program = f"{python} {ROOT / 'examples' / 'programs' / name}.py"
            flags = f"--data {data} --agents planner,solver --program-episodes 0 --model tiny --updates 1 --groups 1"
            out = ["--group-size", "2", "--algorithm", "marft-a", "--out", str(Path(scratch) / name)]
            trained = subprocess.run(
                [str(bin_ / "marft"), "train", "--program", program, *flags.split(), *out], check=False
            )
            turns = [json.loads(line)["turns"] for line in (Path(scratch) / name / "episodes.jsonl").open()]
            right = trained.returncode == 0 and all(len(one) >= 2 for one in turns)
            failed += not right
            sys.stdout.write(f"{name}: {'trained on' if right else 'failed after'} {sum(map(len, turns))} turns\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())

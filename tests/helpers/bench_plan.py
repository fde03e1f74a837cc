"""Small benchmark plan, and its records without what the clock says."""

import json

PLAN = """
name = "tiny"
evaluation_seeds = [0, 1]
arms = [{arms}]
[[tasks]]
name = "stories"
env = "marft/gsm8k_duo-v0"
data = "embedded:stories"
model = "tiny"
teams = ["laptop_duo"]
solo = "laptop_solo"
problems = 2
max_new_tokens = 2
temperature = 1.0
training_tokens = {tokens}
[tasks.settings]
groups = 1
group_size = 2
"""
STORIES = {
    "name": "stories",
    "env": "marft/gsm8k_duo-v0",
    "data": "embedded:stories",
    "model": "tiny",
    "teams": ["laptop_duo"],
    "solo": "laptop_solo",
}
ALL = ("team", "untrained", "solo@tokens", "vote@tokens", "muted", "anonymous", "shuffled", "shared")
CLOCK = ("seconds", "cpu_seconds", "training_seconds", "command")


def write_plan(folder, names=ALL, tokens=20):
    path = folder / "plan.toml"
    path.write_text(PLAN.format(arms=", ".join(f'"{name}"' for name in names), tokens=tokens))
    return path


def timeless(value):
    """Return a record without what the clock says."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in CLOCK and "seconds" not in k}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def records(out):
    return {
        path.relative_to(out): timeless(json.loads(path.read_text()))
        for kind in ("cells", "trainings")
        for path in out.glob(f"{kind}/*.json")
    }

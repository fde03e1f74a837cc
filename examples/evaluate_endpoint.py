"""Evaluate a served model as a team: you learn to play with any OpenAI-compatible endpoint, and to read the interval.

pip install -e ".[agents,remote]"
python examples/evaluate_endpoint.py --url http://localhost:8000/v1 --model NAME --limit 50
"""

import argparse

import marft_envs
from marft_agents import RemotePolicy, SamplingParams, evaluate

parser = argparse.ArgumentParser(description="Evaluate an endpoint; the key is read from OPENAI_API_KEY.")
parser.add_argument("--url", default="http://localhost:8000/v1")
parser.add_argument("--model", required=True, help="name of the model at the endpoint")
parser.add_argument("--env", default="marft/gsm8k_duo-v0")
parser.add_argument("--limit", type=int, default=50, help="held-out problems")
args = parser.parse_args()


def make_env():
    """Make an independent game on held-out problems."""
    return marft_envs.make(args.env, split="test")


policy = RemotePolicy(args.url, args.model, SamplingParams(temperature=0.0, max_new_tokens=256))
result = evaluate(make_env, policy, [{"index": index} for index in range(args.limit)])
policy.close()

mean, low, high = result.accuracy
print(f"accuracy {mean:.3f}, 95 % interval {low:.3f} to {high:.3f}, {result.failures} of {args.limit} failed")
for turn in result.trajectories[0].turns:
    print(f"{turn.agent}: {turn.action.text}")

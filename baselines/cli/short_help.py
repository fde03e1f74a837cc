"""Short help of the commands with many flags: the flags that matter and examples, printed without importing torch.

`--help-all` prints the full help, which the parser makes from the settings. A test compares these pages with it.
"""

from __future__ import annotations

from collections.abc import Mapping

TRAIN = """\
usage: marft train --env ID --out DIR [FLAGS]
       marft train --resume DIR [--updates N]

Train a team of language models on an environment, or go on with a run.

  --env ID              environment; `marft envs` lists them
  --out DIR             folder of the run
  --resume DIR          go on with the run in DIR, from its newest checkpoint
  --model [AGENT=]MODEL folder, hub id, .gguf file, smollm2-135m (default), or tiny (random, to try things out)
  --algorithm NAME      marft-a (default), marft-t, grpo, dr-grpo, dapo, gspo, rloo, mappo, happo, ppo-a (one agent)
                        and others
  --preset NAME         values of all other settings: laptop (default), authors, paper
  --updates N           updates of the whole run (default: 100)
  --groups N            task draws per update (default: 8)
  --group-size N        episodes per task draw (default: 8)
  --max-new-tokens N    longest action in tokens (default: 16)
  --policy-lr NUMBER    learning rate of the LoRA adapters (default: 0.002)
  --temperature NUMBER  divides the logits of training episodes (default: 0.8)
  --horizon ROUNDS      rounds per episode
  --data DATA           embedded[:NAME], a JSON, JSONL, CSV or Parquet file, or hub:owner/name
  --team FILE           JSON file of a team, or a preset (default: that of the id)
  --validate-every N    play held-out tasks every N updates; 0: never (default: 0)
  --seed N              of everything random in the run (default: 0)
  --device DEVICE       cpu, cuda or cuda:1 (default: CUDA if there, else CPU)
  --config FILE         take flags from a TOML file, or the config.json of a run
  --print-config        print all settings as TOML for --config, and do nothing else

Examples:
  marft train --env marft/gsm8k_duo-v0 --data embedded:stories --model tiny --updates 2 --out runs/try
  marft train --env marft/gsm8k_duo-v0 --algorithm grpo --max-new-tokens 256 --updates 50 --out runs/duo
  marft train --resume runs/duo --updates 100

marft train --help-all lists all flags and algorithms.
"""

EVAL = """\
usage: marft eval --env ID --out DIR [FLAGS]

Evaluate a team on a fixed list of scenarios: accuracy with its 95 % interval.

  --env ID              environment; `marft envs` lists them
  --out DIR             folder for evaluation.json and episodes.jsonl
  --checkpoint RUN      a run of `marft train` (its newest checkpoint), RUN@best, RUN@update-00012, or a checkpoint
  --model [AGENT=]MODEL an untrained model instead, as in `marft train` (default: smollm2-135m)
  --endpoint URL        ask an OpenAI-compatible server for --model
  --policy NAME         play without a model: scripted (the solution) or random
  --limit N             play only N scenarios, spread evenly over all
  --seeds S,S           sampling seeds (default: 0)
  --split NAME          train, test, ... (default: test)
  --data DATA           embedded[:NAME], a JSON, JSONL, CSV or Parquet file, or hub:owner/name
  --temperature NUMBER  0 is greedy (default: that of the checkpoint, else 1.0)
  --max-new-tokens N    longest action in tokens (default: that of the checkpoint, else 64)
  --scenarios FILE      play exactly the scenarios of a list, see --save-scenarios
  --retain              also measure what training took away from the base model
  --device DEVICE       cpu, cuda or cuda:1 (default: CUDA if there, else CPU)
  --config FILE         take flags from a TOML file, or from an evaluation to repeat

Examples:
  marft eval --env marft/gsm8k_duo-v0 --checkpoint runs/duo --limit 100 --out runs/duo/test
  marft eval --env marft/gsm8k_duo-v0 --limit 100 --out runs/untrained
  marft eval --env marft/gsm8k_duo-v0 --policy scripted --limit 20 --out runs/solutions

marft eval --help-all lists all flags. `marft compare A B` compares two evaluations.
"""

PAGES: Mapping[str, str] = {"train": TRAIN, "eval": EVAL}

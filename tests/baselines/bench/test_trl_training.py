"""TRL's GRPO on the one agent: prompts, rewards, budget and the adapter that an evaluation loads."""

import pytest

from baselines.bench import trl_training
from baselines.bench.trl_training import TRL_DEFAULTS, AnsweredGames, train_with_trl
from baselines.experiment.environments import factory, scenarios
from baselines.experiment.experiment import Experiment
from baselines.experiment.trained_team import TeamSettings
from baselines.probes.digit_games import team_of
from marft_agents.models.model_error import ModelError
from marft_agents.policies.adapter_files import pack_adapters
from marft_agents.rollouts.rollout import training_episodes
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.run_folder import read_metrics

of_trl = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def copy_game(**settings):
    """Return a training of the one agent that reads a digit and says it."""
    given = {"groups": 2, "group_size": 4, "max_new_tokens": 1, "temperature": 1.0, "budget_tokens": 12, "seed": 3}
    env = "baselines.probes.digit_games:probe/copy_duo-v0"
    return Experiment(env, team=team_of("copy", 1), models="tiny-words", policy_lr=5e-3, **given | settings)


@pytest.fixture(scope="module")
def games():
    experiment = copy_game()
    return AnsweredGames(factory(experiment.env, experiment.keywords), experiment.build_team(["agent_0"]), 3, 8)


def test_the_rows_are_the_prompt_groups_of_our_own_training(games):
    rows = games.rows(4)
    env = games.make_env()
    for row, start in zip(rows, training_episodes(3, 0, 4, 1), strict=True):
        env.reset(seed=start.seed)
        shown = env.observe("agent_0").messages
        assert [turn["content"] for turn in row["prompt"]] == [message["content"] for message in shown]


def test_a_completion_plays_its_game_and_is_paid_the_team_reward(games):
    rows = games.rows(2)
    tokenizer = games.base.tokenizer
    digits = [int(row["prompt"][0]["content"].split()[-1]) for row in rows]
    said = [[digits[0], digits[1]], [(digits[0] + 1) % 3, (digits[1] + 1) % 3]]
    ids = [[tokenizer.convert_tokens_to_ids(str(digit))] for answers in said for digit in answers]
    games.played = []
    assert games(completion_ids=ids, number=[0, 1, 0, 1], prompts=None) == [1.0, 1.0, 0.0, 0.0]
    assert [episode.num_tokens for episode in games.played] == [1, 1, 1, 1]
    assert [len(episode.turns[0].action.prompt_ids) > 0 for episode in games.played] == [True] * 4


def test_other_prompts_than_those_of_our_policy_are_refused(games, monkeypatch):
    monkeypatch.setattr(trl_training, "turns_of", lambda tokenizer, messages: [{"role": "user", "content": "digit"}])
    with pytest.raises(ModelError, match=r"TRL reads \d+ tokens where our policy reads"):
        games.rows(1)


@of_trl
def test_the_settings_that_are_taken_have_these_values_in_trl(tmp_path):
    from trl import GRPOConfig

    theirs = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    assert theirs.learning_rate == TRL_DEFAULTS["policy_lr"]
    assert theirs.num_generations == TRL_DEFAULTS["group_size"]
    assert theirs.generation_batch_size == TRL_DEFAULTS["groups"] * TRL_DEFAULTS["group_size"]
    assert theirs.temperature == TRL_DEFAULTS["temperature"]


@of_trl
@pytest.mark.long
def test_it_ends_with_the_step_in_which_the_budget_is_spent(tmp_path):
    experiment, told = copy_game(), []
    train_with_trl(experiment, tmp_path / "run", progress=told.append)
    assert [line["tokens_total"] for line in read_metrics(tmp_path / "run")] == [8, 16]
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 16
    assert len(told) == 4  # start, two steps, end
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    train_with_trl(experiment, tmp_path / "run")  # it is finished
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    (tmp_path / "killed").mkdir()
    for name in ("config.json", "metrics.jsonl"):  # no checkpoint: it starts anew
        (tmp_path / "killed" / name).write_bytes((tmp_path / "run" / name).read_bytes())
    train_with_trl(experiment, tmp_path / "killed")
    again = read_metrics(tmp_path / "killed")
    assert [line["team/success"] for line in again] == [line["team/success"] for line in read_metrics(tmp_path / "run")]


@of_trl
@pytest.mark.probes
def test_it_learns_and_its_adapter_is_the_one_that_plays(tmp_path):
    experiment = copy_game(groups=16, budget_tokens=1024)
    train_with_trl(experiment, tmp_path)
    success = [line["team/success"] for line in read_metrics(tmp_path)]
    assert success[0] < 0.45 < 0.7 < success[-1]
    players = TeamSettings(experiment.models, experiment.sampling, experiment.context, checkpoint=tmp_path)
    team, make_env = players.load(["agent_0"]), factory(experiment.env, experiment.keywords)
    assert evaluate(make_env, team, scenarios(make_env(), 64)).accuracy.mean > 0.7
    assert pack_adapters(team) != pack_adapters(experiment.build_team(["agent_0"]))

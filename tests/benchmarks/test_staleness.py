"""Benchmark of staleness: episodes are exactly so many updates old, and finished runs are not repeated."""

from __future__ import annotations

import json

import pytest

from benchmarks import staleness
from benchmarks.staleness import LateRollouts, learned_after, main
from marft_agents.rollouts.prompt_groups import GroupSettings, PromptGroup
from marft_agents.trajectory import Trajectory


class Player:
    """Plays nothing, and notes which prompt groups it is asked for."""

    grouping = GroupSettings(seed=0, groups=2, group_size=1)

    def __init__(self):
        self.asked = []

    def play(self, numbers):
        self.asked.append(list(numbers))
        episodes = [Trajectory(seed=n, group=n, turns=(), terminated=True, truncated=False) for n in numbers]
        return [PromptGroup((episode,), (episode,), (), (False,)) for episode in episodes]


def test_episodes_are_played_so_many_updates_before_they_are_trained_on():
    player = Player()
    source = LateRollouts(player, 2)
    trained = [[t.group for t in source.rollout(update).experience.trained] for update in range(3)]
    assert trained == [[0, 1], [2, 3], [4, 5]]
    assert player.asked == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]  # three before the first update, then one for each


def test_a_game_is_learned_once_a_window_of_updates_is_won():
    assert learned_after([1.0] * 5) == 5
    assert learned_after([0.0, *[1.0] * 5, 0.0]) == 6
    assert learned_after([1.0] * 4) is None


def test_runs_are_added_to_the_file_and_not_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(staleness, "STALENESS", (0, 1))
    out = tmp_path / "staleness.json"
    assert main(["--out", str(out), "--seeds", "1", "--updates", "2", "--groups", "4"]) == 0
    runs = json.loads(out.read_text())["runs"]
    assert [(run["staleness"], run["seed"], len(run["success"])) for run in runs] == [(0, 0, 2), (1, 0, 2)]
    assert "| 1 | never |" in capsys.readouterr().out
    monkeypatch.setattr(staleness, "learn", lambda *arguments: pytest.fail("was there already"))
    assert main(["--out", str(out), "--seeds", "1", "--updates", "2", "--groups", "4"]) == 0
    with pytest.raises(SystemExit):
        main(["--out", str(out), "--seeds", "1", "--updates", "3", "--groups", "4"])
    assert "holds runs of" in capsys.readouterr().err

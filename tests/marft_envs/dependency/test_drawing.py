from __future__ import annotations

import sys

import pytest

from marft_envs import Team
from marft_envs.dependency import chain, full, independent, routed, schedule
from marft_envs.dependency.drawing import dot, mermaid, picture
from tests.helpers.toy_games import toy_team

TRIO = Team.preset("trio")


def test_mermaid_and_dot_hold_agents_and_edges():
    team = Team.preset("octet")
    pictures = (
        (mermaid(team.dependency, team.roster), "{} --> {}"),
        (dot(team.dependency, team.roster), '"{}" -> "{}";'),
    )
    for text, arrow in pictures:
        for edge in team.dependency.plan(team.roster).edges:
            assert arrow.format(*edge) in text
        assert text.count("->" if "digraph" in text else "-->") == 15
        assert all(agent in text for agent in team.roster.agents)
    assert "rank=same" in dot(team.dependency, team.roster)


def test_delayed_and_open_edges_look_otherwise():
    assert "actor_0 -.-> reasoner_0" in mermaid(chain(delayed="all"), TRIO.roster)
    assert "style=dashed" in dot(chain(delayed="all"), TRIO.roster)
    team = toy_team("boss_0", "a_0")
    assert "chosen by its action" in mermaid(routed(by="boss_0"), team.roster)
    assert "chosen by its action" in dot(routed(by="boss_0"), team.roster)


@pytest.mark.parametrize("rounds", [1, 2])
def test_png(tmp_path, rounds):
    dependency = schedule([full(delayed="all"), independent()])
    path = picture(dependency, TRIO.roster, tmp_path / "d.png", rounds=rounds)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 2000


def test_without_matplotlib_nothing_but_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install matplotlib "):
        picture(full(), TRIO.roster, tmp_path / "d.png")

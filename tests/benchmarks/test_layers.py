"""The benchmark of layers: what it counts, and that a layer of one game is one call of the model."""

from __future__ import annotations

import json

from benchmarks.layers import main


def test_a_layer_of_one_game_is_one_call_and_the_critical_path_is_that_of_the_layers(tmp_path, capsys):
    file = tmp_path / "layers.json"
    assert main(["--repeats", "1", "--max-new-tokens", "2", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert [(row["team"], row["dependency"], row["batches"]) for row in rows] == [
        ("octet", "independent", [1, 8]),
        ("octet", "", [5, 8]),
        ("dozen", "", [5, 12]),
        ("octet", "chain", [8, 8]),
    ]
    for row, layers in zip(rows, (1, 5, 5, 8), strict=True):
        assert layers <= row["critical_path_tokens"] <= 2 * layers
        assert row["output_tokens"] >= row["critical_path_tokens"]
    assert "| octet, independent | 1 (one by one 8) |" in capsys.readouterr().out

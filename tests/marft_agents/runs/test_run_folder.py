"""The run folder: which place it takes, and with which mode its files are written."""

import json
import os
import stat

import pytest
import torch
from safetensors.torch import save_file

from marft_agents.models.pretrained import unlock_weights
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import RunFolder, check_free, write_json
from marft_agents.trajectory import Trajectory

EPISODE = Trajectory(seed=0, group=0, turns=(), terminated=True, truncated=False)


@pytest.fixture(params=[0o022, 0o027, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_every_file_has_the_mode_that_the_umask_gives(tmp_path, umask):
    records = RunFolder(tmp_path / "run", {"a": 1}, notes={"b": "2"})
    records.log(0, {"x": 1.0}, [])
    records.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
    assert {"config.json", "versions.json", "metrics.jsonl", "episodes.jsonl", "alarms.jsonl"} <= modes.keys()
    assert set(modes.values()) == {0o666 & ~umask}, modes


def test_weights_are_no_more_private_than_other_files(tmp_path, umask):
    (tmp_path / "agent_0").mkdir()
    save_file({"a": torch.zeros(1)}, tmp_path / "agent_0" / "adapter_model.safetensors")
    unlock_weights(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["agent_0"]
    [file] = (tmp_path / "agent_0").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    file = tmp_path / "deep" / "a.json"
    write_json(file, {"old": "\u00e9"})
    with pytest.raises(TypeError):  # in the middle of the file
        write_json(file, {"new": object()})
    assert json.loads(file.read_text(encoding="utf-8")) == {"old": "\u00e9"}
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("damage", [b'{"upd\0\0\0\0": 0}', b"[]", b"{}"])
def test_a_resume_drops_what_a_kill_left_and_refuses_a_damaged_record(tmp_path, damage):
    records = RunFolder(tmp_path / "run", {})
    for update in range(3):
        records.log(update, {"x": 1.0}, [])
    records.close()
    file = tmp_path / "run" / "metrics.jsonl"
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*lines, b'{"upda']))  # killed while it wrote
    RunFolder(tmp_path / "run", {}, resume_at=2).close()
    assert file.read_bytes().splitlines() == lines[:2]
    damaged = b"\n".join([damage, *lines[1:], b""])
    file.write_bytes(damaged)
    with pytest.raises(
        RunFolderError, match=r"metrics\.jsonl, line 1: wanted the record of an update, found .*: restore"
    ):
        RunFolder(tmp_path / "run", {}, resume_at=2)
    assert file.read_bytes() == damaged


@pytest.mark.parametrize(
    ("name", "kept", "told"),
    [
        ("metrics.jsonl", None, r"metrics\.jsonl is missing \(found 0 lines of these updates, wanted 3\)"),
        ("metrics.jsonl", 2, r"metrics\.jsonl was cut or changed \(found 2 lines of these updates, wanted 3\)"),
        ("episodes.jsonl", None, r"episodes\.jsonl is missing \(found 0 lines of these updates, wanted 6\)"),
        ("episodes.jsonl", 3, r"episodes\.jsonl was cut or changed \(found 3 lines of these updates, wanted 6\)"),
    ],
)
def test_a_resume_says_which_records_are_gone(tmp_path, name, kept, told):
    records = RunFolder(tmp_path, {})
    for update in range(3):
        records.log(update, {"x": 1.0}, [EPISODE] * 2)
    written = dict(records.lines)
    assert written == {"metrics.jsonl": 3, "episodes.jsonl": 6, "alarms.jsonl": 0}
    records.close()
    file = tmp_path / name
    lines = file.read_text().splitlines(keepends=True)
    file.unlink()
    if kept is not None:
        file.write_text("".join(lines[:kept]) + "{")  # the next line is cut
    with pytest.warns(UserWarning, match=rf"{tmp_path}: {told}: the run goes on without these records"):
        records = RunFolder(tmp_path, {}, resume_at=3, recorded=written)
    records.log(3, {"x": 1.0}, [EPISODE])
    records.close()
    again = RunFolder(tmp_path, {}, resume_at=4, recorded=records.lines)  # said once
    assert again.lines == records.lines
    again.close()


def test_a_resume_of_an_older_run_knows_its_number_of_updates(tmp_path):
    with pytest.warns(UserWarning, match=r"metrics\.jsonl is missing \(.*wanted 2\); episodes\.jsonl is missing;"):
        RunFolder(tmp_path, {}, resume_at=2).close()


def test_asking_for_a_place_leaves_nothing(tmp_path):
    check_free(tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    check_free(tmp_path / "a" / "b")
    check_free(tmp_path / "a")
    assert list(tmp_path.rglob("*")) == [tmp_path / "a"]


def test_a_place_that_can_not_be_had(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for name in ("file", "file/run", "nowhere"):
        with pytest.raises(RunFolderError, match=f"{tmp_path / name} cannot be the folder of results: .*another --out"):
            check_free(tmp_path / name)
    with pytest.raises(RunFolderError, match="it is a file"):
        RunFolder(tmp_path / "file", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "nowhere"]

"""The way through `datasets`, with local folders in the layout of the hub and no network."""

import json
import sys
from functools import partial
from types import SimpleNamespace

import datasets
import pytest

from marft_envs.data import DataError, load_tasks
from marft_envs.data.sources import MATH_CONFIGS


@pytest.fixture
def hub(tmp_path):
    """`datasets` with its cache in the test's folder."""
    load = partial(datasets.load_dataset, cache_dir=str(tmp_path / "cache"))
    return lambda: SimpleNamespace(
        get_dataset_config_names=datasets.get_dataset_config_names,
        load_dataset=load,
    )


def published(folder, configs):
    """Write a folder as a hub repository: configurations in the README, JSON Lines files below."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            path = folder / config / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
            lines += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]), "utf-8")
    return f"hub:{folder}"


def math_row(text, answer):
    return {"problem": text, "level": "Level 2", "type": "Algebra", "solution": rf"It is $\boxed{{{answer}}}$."}


def test_the_seven_parts_of_math_are_read_as_one(tmp_path, hub):
    parts = {
        name: {"train": [math_row(name, i)], "test": [math_row(name, 9)]} for i, name in enumerate(sorted(MATH_CONFIGS))
    }
    data = published(tmp_path / "hendrycks_math", parts)
    tasks = load_tasks("math", data, "train", hub=hub)
    assert [task.prompt for task in tasks] == sorted(MATH_CONFIGS)
    assert [task.answer for task in tasks] == list("0123456")
    assert tasks[6].id == "hendrycks_math-train-00006"
    assert len(load_tasks("math", f"{data}:algebra", "test", hub=hub)) == 1


def test_gsm8k_is_its_main_configuration(tmp_path, hub):
    row = {"question": "q", "answer": "so\n#### 7"}
    data = published(tmp_path / "gsm8k", {"main": {"train": [row]}, "socratic": {"train": [row, row]}})
    assert [task.answer for task in load_tasks("gsm8k", data, "train", hub=hub)] == ["7"]
    assert len(load_tasks("gsm8k", f"{data}:socratic", "train", hub=hub)) == 2


def test_a_single_configuration_needs_no_name(tmp_path, hub):
    row = {"grade": 6, "question": "q", "golden": "25%", "reasoning_step": 2, "num_digits": 4}
    data = published(tmp_path / "cmath", {"default": {"validation": [row], "test": [row]}})
    assert load_tasks("cmath", data, "validation", hub=hub)[0].meta["grade"] == 6
    with pytest.raises(DataError, match="found splits: validation, test, wanted split 'train'"):
        load_tasks("cmath", data, "train", hub=hub)


def test_aime_columns_in_capitals(tmp_path, hub):
    row = {"ID": "2024-I-1", "Problem": "p", "Solution": "s", "Answer": 25}
    data = published(tmp_path / "AIME_2024", {"default": {"train": [row]}})
    (task,) = load_tasks("aime", data, "train", hub=hub)
    assert (task.id, task.answer) == ("2024-I-1", "25")


def test_several_configurations_are_listed(tmp_path, hub):
    row = {"question": "q", "answer": "1"}
    data = published(tmp_path / "mixed", {"easy": {"train": [row]}, "hard": {"train": [row]}})
    with pytest.raises(DataError, match=r"found configurations: easy, hard, wanted one; write hub:.*mixed:easy"):
        load_tasks("gsm8k", data, "train", hub=hub)


def test_a_missing_data_set_is_one_line(tmp_path, hub):
    with pytest.raises(DataError, match=r"wanted a readable data set; check name, configuration and network") as caught:
        load_tasks("math", f"hub:{tmp_path / 'nothing'}", "train", hub=hub)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="hub:: found no name, wanted hub:OWNER/NAME"):
        load_tasks("math", "hub:", "train", hub=hub)


def test_a_revision_is_handed_on():
    class Pinned:
        def get_dataset_config_names(self, path, *, revision):
            assert (path, revision) == ("owner/name", "abc123")
            return ["default"]

        def load_dataset(self, path, name, *, revision):
            assert (path, name, revision) == ("owner/name", "default", "abc123")
            return {"train": [{"problem": "p", "answer": "1"}]}

    (task,) = load_tasks("math", "hub:owner/name@abc123", "train", hub=Pinned)
    assert task.id == "name-train-00000"


def test_an_empty_split_is_named():
    class Empty:
        def get_dataset_config_names(self, path, *, revision):
            return ["default"]

        def load_dataset(self, path, name, *, revision):
            return {"train": []}

    with pytest.raises(DataError, match="hub:owner/name: found no rows, wanted at least one"):
        load_tasks("math", "hub:owner/name", "train", hub=Empty)


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"found no package datasets, .*run pip install .*\[data\]'"):
        load_tasks("math", "hub:owner/name", "train")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"found no package pyarrow, .*run pip install .*\[data\]'"):
        load_tasks("math", str(tmp_path / "x.parquet"), "train")

"""A small Parquet file cannot take more memory than a large file of another form; honest files read as before."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_data import DataError
from marft_envs.data import parquet_rows as module
from marft_envs.data.files import read_file
from marft_envs.data.parquet_rows import parquet_rows
from marft_envs.records.files import read_episodes

LONG = "x" * 1_000_000  # stored once
LIMIT = 2**26  # bytes; that of users is four times as large
PEAK = 400  # MB
COUNT = 1_000


def repeated(value, kind=None):
    """One value, stored once and named by a thousand indices."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int32()), pa.array([value], kind))


def one_list(values):
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


BOMBS = {
    "a text repeated by a dictionary": (lambda: repeated(LONG), {"store_schema": False}),
    "a dictionary that Arrow knows as one": (lambda: repeated(LONG), {}),
    "a single row with a list": (lambda: one_list(repeated(LONG)), {"store_schema": False}),
    "a list in a struct": (lambda: pa.StructArray.from_arrays([one_list(repeated(LONG))], ["b"]), {}),
    "values of a fixed width": (lambda: repeated(b"x" * 100_000, pa.binary(100_000)), {"store_schema": False}),
    "nulls": (lambda: pa.nulls(5_000_000), {}),
    "a list of nulls": (lambda: one_list(pa.nulls(5_000_000)), {}),
    "compressed text": (lambda: pa.array([LONG * 10] * 10), {"use_dictionary": False}),
    "shared prefixes": (
        lambda: pa.array([LONG] * 100),
        {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}},
    ),
    "a list of shared prefixes": (
        lambda: one_list(pa.array([LONG] * 100)),
        {"use_dictionary": False, "column_encoding": {"a.list.element": "DELTA_BYTE_ARRAY"}},
    ),
}
READ = r"""
import re, resource, sys
from pathlib import Path
from envs_data import DataError
from marft_envs.data import parquet_rows
from marft_envs.data.files import read_file
parquet_rows.SMALL = int(sys.argv[2])
try:
    print(len(read_file(Path(sys.argv[1]))))
except DataError as error:
    print(error)
own = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024)
"""


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, compression="zstd", **options)


QUICK = ("a text repeated by a dictionary", "a single row with a list")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in BOMBS]
)
def test_a_bomb_is_refused_within_the_bound(tmp_path, name):
    make, options = BOMBS[name]
    path = tmp_path / "x.parquet"
    write(path, {"a": make()}, **options)
    assert path.stat().st_size < 100_000
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(LIMIT)], capture_output=True, text=True, check=True
    )
    message, peak = done.stdout.splitlines()
    assert message.startswith(f"{path}: found {path.stat().st_size:,} bytes whose rows take ")
    assert f"wanted at most {LIMIT:,}" in message
    assert int(peak) < PEAK


def test_records_have_the_same_bound(tmp_path):
    write(tmp_path / "x.parquet", {"a": pa.nulls(5_000_000)})
    with pytest.raises(DataError, match="wanted at most"):
        read_episodes(tmp_path / "x.parquet")


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"store_schema": False}, {"row_group_size": 7}])
def test_all_kinds_of_columns_read_as_pyarrow_reads_them(tmp_path, options):
    rows = [
        {
            "text": f"word {i % 5}",
            "number": i,
            "share": i / 3,
            "flag": i % 2 == 0,
            "none": None,
            "list": [f"a{i % 3}", None, "b"][: i % 4],
            "struct": {"x": [i], "y": None if i % 2 else "naïve 答案"},
            "turns": [{"agent": "a", "seen": [{"round": j}]} for j in range(i % 3)],
        }
        for i in range(600)
    ]
    table = pa.Table.from_pylist(rows)
    table = table.append_column("map", pa.array([[("k", "v")]] * 600, pa.map_(pa.string(), pa.string())))
    table = table.append_column("coded", pa.array(["u", "v"] * 300).dictionary_encode())
    pq.write_table(table, tmp_path / "x.parquet", **options)
    assert list(parquet_rows(tmp_path / "x.parquet")) == pq.read_table(tmp_path / "x.parquet").to_pylist()
    found = read_file(tmp_path / "x.parquet")
    assert [row.where for row in found[:2]] == [f"{tmp_path / 'x.parquet'}: row {i}" for i in (1, 2)]


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.text(max_size=50) | st.none(), max_size=5), min_size=1, max_size=20),
    st.sampled_from([{}, {"use_dictionary": False}, {"store_schema": False}]),
)
def test_no_array_is_measured_below_what_its_texts_take(tmp_path_factory, lists, options):
    path = tmp_path_factory.mktemp("texts") / "x.parquet"
    pq.write_table(pa.table({"a": pa.array(lists, pa.list_(pa.string()))}), path, **options)
    texts = sum(len(text.encode()) for one in lists for text in one if text)
    column = pq.read_table(path).column("a").combine_chunks()
    assert module._bytes(column) >= texts
    flat = pa.array([text for one in lists for text in one], pa.string())
    assert module._bytes(flat.dictionary_encode()) >= texts


def test_lists_of_long_texts_are_read_where_they_fit(tmp_path, monkeypatch):
    """Half of the column is a dictionary, the other half is plain, and rows span the border."""
    monkeypatch.setattr(module, "SMALL", 40_000_000)  # their number times their column is more: another process reads
    rows = [[f"{i} " + "long " * 50, "short"] for i in range(8000)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": rows}), path, dictionary_pagesize_limit=100_000)
    assert module._lists_may_repeat_text(pq.read_metadata(path), 40_000_000)
    assert [row["a"] for row in parquet_rows(path)] == rows


def test_a_larger_file_may_take_more(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SMALL", 1000)
    path = tmp_path / "x.parquet"
    write(path, {"a": [f"{i} " * 5 for i in range(500)]})
    assert len(list(parquet_rows(path))) == 500
    write(path, {"a": ["y" * 100_000] * 20})
    with pytest.raises(DataError, match="take"):
        list(parquet_rows(path))


def test_a_broken_file_is_named_wherever_it_is_read(tmp_path: Path):
    path = tmp_path / "x.parquet"
    write(path, {"a": [str(i) for i in range(5000)]}, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[100:2000] = b"\0" * 1900  # pages, which are read after the metadata
    path.write_bytes(content)
    for read in (read_file, read_episodes):
        with pytest.raises(DataError, match=r"x\.parquet: found a broken file"):
            read(path)

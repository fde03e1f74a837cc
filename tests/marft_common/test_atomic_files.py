"""Files that appear whole: an error names the file that was asked for, and leaves nothing behind."""

import pytest

from marft_common.atomic_files import replacing


def write(path):
    with replacing(path) as part:
        part.write_text("new", encoding="utf-8")


@pytest.mark.parametrize("place", ["missing/x", "file/x", "folder"])
def test_an_error_names_the_file_that_was_asked_for(tmp_path, place):
    (tmp_path / "file").write_text("old", encoding="utf-8")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory") as error:
        write(tmp_path / place)
    assert error.value.filename == str(tmp_path / place)
    assert ".part" not in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_another_error_passes_through(tmp_path):
    with pytest.raises(PermissionError, match="elsewhere"):
        raise_within(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def raise_within(path):
    with replacing(path) as part:
        part.write_text("half", encoding="utf-8")
        raise PermissionError(13, "denied", "elsewhere")

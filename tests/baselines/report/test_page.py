"""The file: self-contained, with a strict policy, small, and cut where texts are too long."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import subprocess
import sys
import tomllib
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from baselines import report
from baselines.cli.main import main
from baselines.report.page import SCRIPTS, assets, build_report, page, policy
from tests.baselines.report.report_inputs import HOSTILE, episode, evaluation, run

ROOT = Path(__file__).parents[3]


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of those with an id."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags, self.texts, self._id = [], {}, None
        self.feed(content.decode())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._id = dict(attrs).get("id")

    def handle_data(self, data):
        if self._id:
            self.texts[self._id] = self.texts.get(self._id, "") + data


def read(elements, name):
    return json.loads(zlib.decompress(base64.b64decode(elements.texts[name]), -zlib.MAX_WBITS))


def test_the_file_holds_everything_and_asks_for_nothing(tmp_path):
    content = build_report(run(tmp_path / "duo"))
    elements = Elements(content)
    assert not [
        tag for tag in elements.tags if {"src", "href", "action"} & tag[1].keys() and tag[1].get("href", "#")[0] != "#"
    ]
    assert read(elements, "report")["title"] == "duo"
    assert len(read(elements, "block-0-0")) == 24
    assert "connect-src" not in policy()
    assert "'unsafe-" not in policy(follow=True)


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_file():
    content = page("title").decode()
    for kind, text in (("style", assets()[1]), ("script", assets()[2])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src &#x27;sha256-{digest}&#x27;" in content
        assert text in content
        assert f"</{kind}" not in text


def test_scripts_make_no_markup_from_text():
    own = [name for name in SCRIPTS if name != "d3.min.js"]
    from pathlib import Path

    from baselines.report import page as module

    for name in own:
        source = (Path(module.__file__).parent / "page" / name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source), (
            name
        )


def test_the_wheel_has_every_file_of_the_page_and_nothing_of_npm():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    baselines = ROOT / "baselines"
    kept = {path for pattern in settings["package-data"]["baselines"] for path in baselines.glob(pattern)}
    there = set((baselines / "report" / "page").iterdir())
    assert there
    assert there <= kept
    assert not [path for path in kept if "node_modules" in path.parts]


def test_titles_are_escaped():
    assert b"<title>&lt;b&gt;</title>" in page("<b>")


def test_a_thousand_episodes_of_a_thousand_tokens_stay_below_five_megabytes(tmp_path):
    words = random.Random(0)
    vocabulary = ["".join(words.choices("abcdefghijklmnop", k=words.randint(2, 9))) for _ in range(4000)]
    records = [episode(n, [" ".join(words.choices(vocabulary, k=330)) for _ in range(3)]) for n in range(1000)]
    content = build_report(evaluation(tmp_path / "eval", 1, records=records))
    assert len(content) < 5_000_000


def test_texts_are_cut_only_where_the_file_would_be_too_large(tmp_path):
    noise = random.Random(1)
    long = "".join(chr(noise.randrange(0x4E00, 0x9000)) for _ in range(400_000))
    small, large = (
        build_report(evaluation(tmp_path / name, 2, records=[episode(9, [text, "b", "c"])]))
        for name, text in (("small", HOSTILE["megabyte"]), ("large", long))
    )
    for content, cut in ((small, False), (large, True)):
        [text] = [one["turns"][0]["text"] for one in read(Elements(content), "block-0-0") if one["seed"] == 9]
        assert ("characters left out of this report" in text) is cut
        assert len(content) < 2_000_000


def test_the_command_writes_the_file_or_nothing(tmp_path, capsys):
    path = evaluation(tmp_path / "eval", 5)
    out = tmp_path / "new" / "page.html"
    assert main(["report", str(path), "--compare", str(path), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 0.")
    assert out.read_bytes().startswith(b"<!doctype html>")
    (path / "episodes.jsonl").write_text("no json\n")
    assert main(["report", str(path), "--out", str(tmp_path / "other.html")]) == 1
    assert "episodes.jsonl:1: this is no record of an episode" in capsys.readouterr().err
    assert [file.name for file in out.parent.iterdir()] == ["page.html"]
    assert not (tmp_path / "other.html").exists()


def test_reports_of_other_records_are_other_files(tmp_path, capsys):
    first, second = (evaluation(tmp_path / name, 2) for name in ("a", "b"))
    export = tmp_path / "main.json"
    for arguments in ([first], [second], [first, "--compare", second]):
        assert main(["report", *map(str, arguments)]) == 0
    assert [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*.html"))] == [
        *(Path("a/report-b.html"), Path("a/report.html"), Path("b/report.html"))
    ]
    others = [evaluation(tmp_path / "c" / name, 1) for name in ("1/duo", "2/duo")]
    assert {report._file_of(first, other).name for other in others} == {"report-c-1-duo.html", "report-c-2-duo.html"}
    export.write_text("{}")
    assert report._file_of(export, None) == tmp_path / "main.html"


@pytest.mark.parametrize("arguments", [["--episodes", "0"], ["--episodes", "x"], []])
def test_bad_usage_ends_with_two(arguments):
    with pytest.raises(SystemExit) as ended:
        main(["report", *arguments])
    assert ended.value.code == 2


def test_reports_load_no_torch(tmp_path):
    path = run(tmp_path / "duo")
    code = (
        "import sys; from pathlib import Path; from baselines.report.page import build_report; "
        f"build_report(Path({str(path)!r})); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

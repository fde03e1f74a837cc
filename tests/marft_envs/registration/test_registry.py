from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import gymnasium
import pettingzoo
import pytest
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

import marft_envs
from marft_envs.registration import registry
from tests.helpers.toy_games import play_out, toy_game, toy_tasks, toy_team

FIRST_TEAMS = ("solo", "duo", "trio", "quartet", "octet")
TEAMS = (*FIRST_TEAMS, "sextet", "dozen", "routed")
MATH_IDS = [f"marft/{task}_{team}-v0" for task in ("math", "gsm8k", "aime", "cmath") for team in TEAMS]
OTHERS = ("codeforces", 0, FIRST_TEAMS), ("codeforces", 1, TEAMS), ("tools", 0, TEAMS)
OTHERS += (("recall", 0, ("solo", "duo", "trio", "quartet")),)
SHARDS = ("readers", "solo", "notes", "whole", "relay", "relay_solo", "relay_notes", "relay_whole")
OTHERS += (("shards", 0, tuple(f"{team}{parts}" for team in SHARDS for parts in (2, 4, 8))),)
OTHERS += (("profile", 0, tuple(f"{team}{clues}" for team in ("holders", "whole") for clues in (2, 4, 8))),)
IDS = [*MATH_IDS, *(f"marft/{task}_{team}-v{version}" for task, version, teams in OTHERS for team in teams)]


@pytest.fixture
def clean_registry(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    yield
    for entries in (gymnasium.registry, *foreign_registries().values()):
        for name in [name for name in entries if name.startswith("test/")]:
            del entries[name]


def foreign_registries():
    if not hasattr(pettingzoo, "register"):
        return {}
    return {"aec": pettingzoo.aec_registry, "parallel": pettingzoo.parallel_registry}


def test_all_environments_are_registered_everywhere():
    ours = {env_id for env_id in marft_envs.envs() if env_id.startswith("marft/")}
    assert set(IDS) == {env_id for env_id in ours if not marft_envs.spec(env_id).plugin}
    assert set(IDS) <= set(gymnasium.registry)
    if hasattr(pettingzoo, "register"):
        assert set(IDS) <= set(pettingzoo.aec_registry) & set(pettingzoo.parallel_registry)


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="PettingZoo has no registry before 1.27")
def test_pettingzoo_makes_the_same_game():
    ours = marft_envs.make("marft/math_duo-v0", data=toy_tasks(), horizon=2)
    theirs = pettingzoo.make("aec", "marft/math_duo-v0", data=toy_tasks(), horizon=2)
    for env in (ours, theirs):
        assert isinstance(env, OrderEnforcingWrapper)
        env.reset(seed=1)
        play_out(env)
    assert ours.unwrapped.episode() == theirs.unwrapped.episode()
    parallel = pettingzoo.make("parallel", "marft/math_duo-v0", data=toy_tasks())
    assert isinstance(parallel, marft_envs.TurnParallel)


def test_gymnasium_makes_the_shared_view():
    env = gymnasium.make("marft_envs:marft/math_solo-v0", data=toy_tasks(), disable_env_checker=True)
    assert isinstance(env.unwrapped, marft_envs.SharedPolicyEnv)
    observation, info = env.reset(seed=1, options={"task_id": "add-3"})
    assert "What is 3 + 1?" in observation
    assert info["turn"] == 0
    assert env.step("\\boxed{4}")[1:4] == (1.0, True, False)


def test_ids_may_leave_out_the_version_or_write_it_otherwise():
    for name in ("marft/aime_duo", "marft/aime_duo_v0", "marft_envs:marft/aime_duo-v0"):
        assert marft_envs.spec(name).id == "marft/aime_duo-v0"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("marft/math_dou-v0", "did you mean marft/math_duo-v0"),
        ("marft/math_duo-v7", "marft/math_duo-v0"),
        ("nonsense", r"there are \d+, which begin with .*marft/"),
        ("json:marft/math_dou-v0", "did you mean json:marft/math_duo-v0"),
        ("mine/math_duo-v0", "no id begins with mine/; .* a module that is not imported is MODULE:mine/math_duo-v0"),
        ("mine/math_duo-v0", "an id that a program registers as it runs is known in that program alone"),
        ("", "no environment has the id ''"),
    ],
)
def test_an_unknown_id_names_close_ones(name, message):
    with pytest.raises(marft_envs.UnknownEnvironmentError, match=message):
        marft_envs.make(name)
    with pytest.raises(TypeError, match="string"):
        marft_envs.make(3)


def test_a_module_that_cannot_be_imported_is_named_with_the_id():
    with pytest.raises(ImportError, match=r"'no_such_module:my/game-v0': no_such_module cannot .* install it"):
        marft_envs.make("no_such_module:my/game-v0")


def test_an_unknown_keyword_names_close_ones():
    with pytest.raises(TypeError, match=r"math_duo-v0: unknown keyword 'horizn'; did you mean horizon"):
        marft_envs.make("marft/math_duo-v0", horizn=2)
    with pytest.raises(TypeError, match=r"unknown keyword 'qqq'; there are canaries, communication, compaction,"):
        marft_envs.make("marft/math_duo-v0", qqq=2)


@pytest.mark.parametrize("keyword", ["task", "team_name", "name", "language", "family", "factory", "rules", "tasks"])
def test_no_keyword_is_hidden(keyword):
    with pytest.raises(TypeError, match=f"unknown keyword '{keyword}'"):
        marft_envs.make("marft/math_duo-v0", **{keyword: "anything"})


def test_team_and_data_of_ones_own(tmp_path):
    toy_team("thinker_0", "writer_0").save(tmp_path / "team.json")
    env = marft_envs.make("marft/math_duo-v0", data=toy_tasks(), team=str(tmp_path / "team.json"))
    assert env.possible_agents == ["thinker_0", "writer_0"]
    assert env.unwrapped.metadata["name"] == "marft/math_duo-v0"
    with pytest.raises(marft_envs.TeamError, match="nowhere"):
        marft_envs.make("marft/math_duo-v0", data=toy_tasks(), team="nowhere.json")


def make_toy(**kwargs):
    return toy_game(**kwargs)


def test_register_an_environment(clean_registry):
    marft_envs.register("test/toy-v0", make_toy, description="a toy")
    marft_envs.register("test/toy-v1", "tests.helpers.toy_games:toy_game", kwargs={"horizon": 3})
    assert marft_envs.make("test/toy").unwrapped.horizon == 3
    assert marft_envs.make("test/toy-v0", horizon=2).unwrapped.horizon == 2
    with pytest.raises(ValueError, match="taken by"):
        marft_envs.register("test/toy-v0", make_toy)
    marft_envs.register("test/toy-v0", "tests.helpers.toy_games:nothing", force=True)
    with pytest.raises(ImportError, match=r"tests.helpers.toy_games:nothing' cannot be loaded"):
        marft_envs.make("test/toy-v0")
    marft_envs.register("test/toy-v0", lambda: 3, force=True)
    with pytest.raises(TypeError, match="made a int"):
        marft_envs.make("test/toy-v0")
    with pytest.raises(TypeError, match="unknown keyword 'horizon'"):
        marft_envs.make("test/toy-v0", horizon=3)


@pytest.mark.parametrize("library", ["gymnasium", *foreign_registries()])
def test_an_id_of_gymnasium_or_pettingzoo_is_replaced_by_force_only(clean_registry, library):
    theirs, id = "somewhere:Else", "test/theirs_duo-v0"
    if library == "gymnasium":
        entries = gymnasium.registry
        gymnasium.register(id, theirs)
    else:
        entries = foreign_registries()[library]
        pettingzoo.register(library, id, theirs)
    with pytest.raises(ValueError, match=r"is taken with \w+( \(\w+\))? by 'somewhere:Else'.*force=True"):
        marft_envs.register(id, make_toy)
    with pytest.raises(ValueError, match="theirs_duo-v0' is taken"):
        marft_envs.register_task("theirs", lambda data, split: toy_tasks(), namespace="test", teams=["solo", "duo"])
    assert entries[id].entry_point == theirs
    assert not {name for name in marft_envs.envs() if name.startswith("test/")}, "a part was registered"
    with pytest.warns(RuntimeWarning, match="by 'somewhere:Else', which is replaced"):
        marft_envs.register(id, make_toy, force=True)
    assert isinstance(gymnasium.make(id, disable_env_checker=True).unwrapped, marft_envs.SharedPolicyEnv)


def test_an_id_that_gymnasium_refuses_is_registered_nowhere(clean_registry):
    gymnasium.register("test/plain", "somewhere:Else")
    with pytest.raises(gymnasium.error.Error, match="unversioned"):
        marft_envs.register("test/plain-v0", make_toy)
    assert "test/plain-v0" not in marft_envs.envs()
    assert all("test/plain-v0" not in entries for entries in foreign_registries().values())


def test_an_id_of_ours_that_was_taken_before_the_import_is_named_and_replaced():
    program = """
import gymnasium
gymnasium.register("marft/math_duo-v0", "somewhere:Else")
import marft_envs
print(gymnasium.registry["marft/math_duo-v0"].entry_point)
"""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "marft_envs.registration.factory:make_shared\n"
    assert "the id 'marft/math_duo-v0' was taken with Gymnasium by 'somewhere:Else', which is replaced" in done.stderr


def test_the_package_can_be_imported_again():
    program = """
import sys, warnings
warnings.simplefilter("error")
import marft_envs, importlib
importlib.reload(marft_envs)
for name in [name for name in sys.modules if name.split(".")[0] == "marft_envs"]:
    del sys.modules[name]
import marft_envs, gymnasium
print(type(gymnasium.make("marft/math_solo-v0", disable_env_checker=True).unwrapped).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "SharedPolicyEnv\n"


@pytest.mark.parametrize("name", ["toy-v0", "test/toy", "test/toy_v0", "te st/toy-v0", ""])
def test_ids_have_one_form(clean_registry, name):
    with pytest.raises(ValueError, match="wanted 'namespace/name-vN'"):
        marft_envs.register(name, make_toy)


def test_register_a_task(clean_registry):
    def adding(data: str, split: str):
        return toy_tasks(3 if split == "train" else 5)

    specs = marft_envs.register_task(
        "adding", adding, namespace="test", teams={"pair": toy_team("a_0", "b_0"), "duo": None}, horizon=2
    )
    assert [spec.id for spec in specs] == ["test/adding_pair-v0", "test/adding_duo-v0"]
    env = marft_envs.make("test/adding_pair-v0", split="test")
    assert len(env.unwrapped.tasks) == 5
    assert env.unwrapped.horizon == 2
    assert marft_envs.make("test/adding_duo-v0").possible_agents == ["reasoner_0", "actor_0"]


def test_make_passes_the_named_keywords_to_the_factory_and_no_others(clean_registry):
    def load(data, split, *, size=1, secret=0):
        return toy_tasks(size)

    marft_envs.register_task("sized", load, namespace="test", teams=["duo"], keywords=["size"])
    assert len(marft_envs.make("test/sized_duo-v0", size=4).unwrapped.tasks) == 4
    with pytest.raises(TypeError, match="unknown keyword 'secret'"):
        marft_envs.make("test/sized_duo-v0", secret=1)
    with pytest.raises(ValueError, match=r"keywords \['horizon'\] belong to every game, or are rules"):
        marft_envs.register_task("other", load, namespace="test", teams=["duo"], keywords=["horizon"])
    assert "test/other_duo-v0" not in marft_envs.envs()


PLUGIN = """
import json, sys, warnings
sys.path.insert(0, {folder!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import {first}
    import marft_envs, pettingzoo
    known = [name in pettingzoo.aec_registry for name in ("test/toy-v0", "test/called-v0")]
    names = marft_envs.envs()
print(json.dumps([known, [name in names for name in ("test/toy-v0", "test/called-v0")],
                  [str(one.message) for one in caught]]))
"""


@pytest.fixture
def plugin_folder(tmp_path):
    info = tmp_path / "toyplugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toyplugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[marft_envs.plugins]\ngood = toyplugin\ncalled = toyplugin:add\nbroken = toyplugin_missing\n"
        "raising = toyplugin:fail\nexiting = toyplugin:leave\n"
    )
    (tmp_path / "toyplugin.py").write_text(
        textwrap.dedent("""
        import marft_envs
        def make(**kwargs): ...
        marft_envs.register("test/toy-v0", make)
        def add(): marft_envs.register("test/called-v0", make)
        def fail(): raise RuntimeError("no luck")
        def leave(): raise SystemExit(3)
        """)
    )
    return tmp_path


@pytest.mark.parametrize("first", ["marft_envs", "toyplugin"])
def test_plugins_are_found_and_broken_ones_reported(plugin_folder, first):
    program = PLUGIN.format(folder=str(plugin_folder), first=first)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    known, found, warned = json.loads(done.stdout)
    assert found == [True, True]
    assert known == [True, first == "marft_envs"]  # a plugin that imports us is called once it is whole
    assert len(warned) == 3
    assert any("'broken' (toyplugin_missing)" in line and "No module named" in line for line in warned)
    assert any("RuntimeError: no luck" in line for line in warned)
    assert any("SystemExit: 3" in line for line in warned)


def test_a_broken_plugin_is_no_error_even_where_warnings_are(plugin_folder):
    program = f"import sys; sys.path.insert(0, {str(plugin_folder)!r}); import marft_envs"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "RuntimeError: no luck" in done.stderr


def test_importing_is_light():
    heavy = ("torch", "transformers", "sympy", "datasets", "matplotlib", "pandas", "marft_envs.data")
    program = f"import sys, marft_envs; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", MATH_IDS)
def test_every_environment_of_mathematics_plays_its_embedded_data(name):
    env = marft_envs.make(name)
    env.reset(seed=0, options={"index": 0})
    gold = env.unwrapped.task.answer
    play_out(env, lambda agent: f"\\boxed{{{gold}}}")
    assert env.infos["actor_0"]["success"] == 1
    assert set(env.rewards.values()) == {1.0}


def test_an_id_may_name_the_module_that_registers_it(tmp_path, monkeypatch, clean_registry):
    (tmp_path / "a_third_party_module.py").write_text(
        "import marft_envs\n"
        "marft_envs.register('test/third_party_duo-v0', lambda: marft_envs.make('marft/math_duo-v0').unwrapped)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = marft_envs.make("a_third_party_module:test/third_party_duo-v0")
    env.reset(seed=0)
    assert env.agents == ["reasoner_0", "actor_0"]
    with pytest.raises(ImportError, match="no_such_module"):
        marft_envs.spec("no_such_module:test/third_party_duo-v0")


@pytest.mark.parametrize(
    ("teams", "wanted"),
    [
        (["solo", "duett"], "task 'adding': teams: no preset team 'duett'; there are solo, .* did you mean .*duo"),
        ({"pair": "duett"}, "no preset team 'duett'"),
        (["octet"], "no preset team 'octet' for 'recall' in language 'en'"),
    ],
)
def test_a_task_with_an_unknown_team_is_refused_whole(clean_registry, teams, wanted):
    with pytest.raises(ValueError, match=wanted):
        marft_envs.register_task(
            "adding", lambda **_: toy_tasks(), namespace="test", teams=teams, family="recall", description="sums"
        )
    assert "test/adding_solo-v0" not in marft_envs.envs()

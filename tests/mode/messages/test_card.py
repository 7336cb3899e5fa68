import builtins
import io
import json
import os

import pytest
import yaml
from markdown_it import MarkdownIt

from rltrain.config.compose import compose_checked
from rltrain.errors import UNPRINTABLE
from rltrain.mode.messages.card import card, describes_run, differences
from rltrain.mode.messages.closing import to_trust

FACTS = {
    "env_steps": 50_000,
    "updates": 12_000,
    "seconds": 600.0,
    "version": "0.1.0",
    "git_commit": "0123456789abcdef",
    "git_dirty": False,
    "final_test": {"env_steps": 50_000, "test/return_mean": 18.5, "test/win_rate": 0.9},
    "best_test": {"env_steps": 40_000, "test/return_mean": 19.25, "test/win_rate": 0.95},
}
COMMANDS = ["rltrain mode=evaluate checkpoint=RUN", "RUN/learning_curve.png"]


def settings(*overrides):
    return compose_checked(["algo=qmix", "env=smac", *overrides]).settings()


def test_card_has_tests_settings_and_commands(tmp_path):
    run_dir = tmp_path / "my run"
    run_dir.mkdir()
    text = card(run_dir, settings("algo.loss.gamma=0.95", "seed=3"), FACTS, COMMANDS)
    assert "# qmix on smac 3m, seed 3" in text
    counts = "50,000 env steps (12,000 updates) in 10 min"
    assert f"{counts} with rltrain 0.1.0, commit `0123456789`." in text
    assert "| test | env steps | return | win rate |" in text
    assert "| best | 40,000 | 19.25 | 95.0% |" in text
    assert "* `algo.loss.gamma=0.95`\n* `seed=3`" in text
    assert f"```bash\n{COMMANDS[0]}\nrltrain config='my run' seed=4\n```" in text
    assert "load_policy" in text


CHANGED = [
    ([], []),
    (["seed=3"], ["seed=3"]),
    (["algo/network=attention", "algo/mixer=entities"], None),
    (["algo=dqn", "env=cartpole"], []),
    (["algo=dqn", "env=cartpole", "tuned=none"], ["tuned=none"]),
    (["algo=dqn", "env=cartpole", "buffer=prioritized", "total_env_steps=1e4"], None),
    (["logger=[csv]", "hardware=process"], None),
    (["experiment=pymarl2/qmix", "algo.loss.gamma=0.9"], None),
    (["algo=dqn", "env=gymnasium", "+env.kwargs.x=1"], ["env.kwargs.x=1"]),
    (["sweep.jobs=2", "trust=[mine]", "callbacks=[]"], []),
]
"""Overrides, and the settings that the card lists; None: each of them."""


@pytest.mark.parametrize(("overrides", "listed"), CHANGED)
def test_settings_are_compared_with_those_of_algorithm_and_environment(overrides, listed):
    """Defect: choices were left out, and so was everything that the last command did not type."""
    composed = compose_checked(overrides).settings()
    typed = [o for o in overrides if o.partition("=")[0] not in ("algo", "env")]
    expected = [o.replace("1e4", "10000") for o in typed] if listed is None else listed
    changed = differences(composed.record, composed.typed)
    assert sorted(changed) == sorted(expected)
    assert differences(composed.record, frozenset({"total_env_steps"})) == changed


@pytest.mark.parametrize("group", ["experiment", "algo", "env", "algo/network", "tuned", "new"])
@pytest.mark.parametrize("kind", ["file", "long", "list", "grammar"])
def test_choices_that_are_not_shipped_are_not_composed(tmp_path, monkeypatch, group, kind):
    """Defect: ``config.json`` could name a file of configuration, whose interpolations were
    resolved, and names too long for a file system. (An audit hook would notice all that is opened,
    but stay, and slow down every later test.)
    """
    file = tmp_path / "x.yaml"
    file.write_text("log: {interval: '${oc.decode:${oc.env:HOME_STEPS}}'}\n")
    choice = {"file": str(file), "long": "x" * 300, "list": f"[{'a,' * 10_000}]", "grammar": "a=["}
    record = settings("log.interval=777").record
    record["choices"][group] = choice[kind]
    opened = []

    def noting(opens):
        return lambda file, *args, **options: opened.append(file) or opens(file, *args, **options)

    with monkeypatch.context() as patch:
        for module in (builtins, io, os):
            patch.setattr(module, "open", noting(module.open))
        listed = differences(record, frozenset({"log.interval"}))
        assert file.read_text()
        assert opened.pop() == file
    assert "log.interval=777" in listed
    assert str(file) not in map(str, opened)
    assert not any(choice[kind] in line for line in listed)


def test_a_card_is_about_the_file_of_the_run_and_not_about_how_it_was_loaded(tmp_path):
    """Defect: of a run that was pushed, it listed the classes that were not built."""
    loaded = settings()
    (tmp_path / "config.json").write_text(json.dumps(settings("stop.hours=3.5").record))
    loaded.plain["algo"]["loss"]["_target_"] = "rltrain.config.trust.nowhere"
    assert "has all):\n\n* `stop.hours=3.5`\n\n" in card(tmp_path, loaded, FACTS, COMMANDS)


def test_commands_of_several_processes_begin_with_torchrun(tmp_path):
    """Defect: such a run had no command to continue it."""
    start = "torchrun --nproc-per-node=4 -m rltrain"
    text = card(tmp_path, settings(), FACTS, [COMMANDS[0], f"{start} resume=RUN"])
    assert f"```bash\n{COMMANDS[0]}\n{start} resume=RUN\n{start} config=" in text


def test_what_must_be_trusted_is_in_every_command(tmp_path):
    """Defect: the command that repeats a run was refused, and those of a run on the Hub."""
    for address in (None, "hf://me/game"):
        text = card(tmp_path, settings(), FACTS, [], "mine,ours", address)
        assert (" seed=1 trust=[mine,ours]\n" in text) == (address is None)
        assert ", trust=['mine', 'ours'])" in text
    assert "```bash" not in card(tmp_path, settings(), FACTS, [], "__main__")
    assert to_trust({"algo": {"loss": {"_target_": "x; rm -r /.Loss"}}}) is None


def test_a_card_has_no_character_that_moves_the_cursor(tmp_path):
    run_dir = tmp_path / "a\x1b[31m\u202e"
    text = card(run_dir, settings(), FACTS, [f"rltrain resume='{run_dir}'"])
    assert not UNPRINTABLE.search(text)
    assert r"a\x1b[31m\u202e" in text


MARKUP = ("<img src=x>", "[a](http://b)", "![a](b)", "`", "``` `` `", "**b** __c__")
MARKUP += ("# d\n\n# e", "|")


@pytest.mark.parametrize("text", [*MARKUP, "x](y)\n\n<b>`z` " + " ".join(MARKUP)])
def test_names_in_a_run_are_no_markup(tmp_path, text):
    """Defect: file names and settings of a stranger's run put links and HTML into its card."""
    name = text.replace("/", "-")
    for file in (f"500/{name}.gif", f"{name}-1.html", "\udcff-0.html"):
        (tmp_path / "recordings" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "recordings" / file).touch()
    run = settings()
    run.nodes["env"].kwargs["map_name"] = text
    (tmp_path / "config.json").write_text(json.dumps({**run.record, "name": text, text: text}))
    written = card(tmp_path, run, FACTS, [f"rltrain resume={text}"]).split("---\n", 2)[2]
    blocks = MarkdownIt("commonmark").enable("table").parse(written)
    inline = [one for block in blocks for one in block.children or ()]
    harmless = {"text", "code_inline", "image", "link_open", "link_close", "softbreak"}
    assert {one.type for one in inline} <= harmless
    links = [one.attrs["href"] for one in inline if one.type == "link_open"]
    assert [link.partition("/")[0] for link in links] == ["recordings"]
    kinds = [block.type for block in blocks if block.type[:4] in ("html", "head", "fenc")]
    assert kinds == ["heading_open", "heading_close", "fence", "fence"]
    spans = [one.content for one in inline if one.type == "code_inline"]
    assert f"name={' '.join(text.split())}" in [" ".join(one.split()) for one in spans]


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: -3} for name in ("env_steps", "updates", "seconds")),
        *({name: 1e99} for name in ("env_steps", "updates", "seconds")),
        *({"env_steps": steps} for steps in (3.5, True, None)),
    ],
)
def test_a_run_with_counters_that_no_run_has_gets_no_card(wrong):
    assert describes_run(FACTS)
    assert not describes_run({**FACTS, **wrong})


def test_pictures_are_shown_where_there_are_any(tmp_path):
    assert "![" not in card(tmp_path, settings(), FACTS, COMMANDS)
    (tmp_path / "learning_curve.png").touch()
    (tmp_path / "recordings/500").mkdir(parents=True)
    (tmp_path / "recordings/500/episode_0.gif").touch()
    (tmp_path / "recordings/battle-2.html").touch()
    text = card(tmp_path, settings(), FACTS, COMMANDS)
    assert "[Episodes to look into](recordings/battle-2.html)" in text
    assert "![Learning curve](learning_curve.png)" in text
    assert "![episode_0](recordings/500/episode_0.gif)" in text


def test_metadata_at_the_top_is_yaml(tmp_path):
    head = card(tmp_path, settings(), FACTS, COMMANDS).split("---")[1]
    about = yaml.safe_load(head)
    assert about == {"library_name": "rltrain", "tags": ["reinforcement-learning", "qmix", "smac"]}


def test_a_run_without_tests_or_commit_has_a_card(tmp_path):
    facts = {**FACTS, "final_test": None, "best_test": None, "git_commit": None}
    assert "| test |" not in card(tmp_path, settings(), facts, [])

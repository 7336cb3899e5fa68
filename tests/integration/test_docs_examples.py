"""Examples of the documents run as they are pasted."""

import re
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env

DOCS = Path(__file__).parents[2] / "docs"


def python_blocks(file):
    return blocks(file, "python")


def blocks(file, language):
    text = file.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_block(code, scope):
    """Run an example, with few steps and quietly."""
    code = re.sub(r'(total_env_steps"?(?:: |=))[\d_]+', r"\g<1>60", code)
    exec(compile(code, "example", "exec"), scope)


@pytest.mark.slow
def test_the_class_of_own_environment_can_be_pasted_and_trained(capsys):
    scope = {"__name__": __name__}
    for code in python_blocks(DOCS / "own_environment.md")[:2]:
        run_block(code, scope)
    assert check_env(scope["Row"]()) is None
    assert len(python_blocks(DOCS / "own_environment.md")[0].splitlines()) <= 20


@pytest.mark.slow
def test_the_team_environment_can_be_pasted_into_python_and_yaml(own_folder, command, capsys):
    rock, use = python_blocks(DOCS / "team_environment.md")
    assert len([line for line in rock.splitlines() if line.strip()]) <= 30
    (own_folder / "rock.py").write_text(rock)
    (yaml_block,) = blocks(DOCS / "team_environment.md", "yaml")
    (own_folder / "myconf/env").mkdir(parents=True)
    (own_folder / "myconf/env/rock.yaml").write_text(yaml_block)
    scope = {"__name__": "rock"}
    exec(compile(rock, "rock", "exec"), scope)
    run_block(use, scope)
    assert "No problem was found." in capsys.readouterr().out
    overrides = ["env=rock", "hydra.searchpath=[myconf]"]
    few = ["total_env_steps=20", "hardware.n_envs=2", "hardware.threads=1", "test.episodes=2"]
    assert command("mode=doctor", *overrides) == 0
    assert command("algo=vdn", *overrides, *few, "logger.wandb.mode=disabled") == 0


@pytest.mark.slow
def test_the_pasted_team_learns_what_the_page_says():
    rock, use = python_blocks(DOCS / "team_environment.md")
    scope = {"__name__": "rock"}
    exec(compile(rock, "rock", "exec"), scope)
    exec(compile(use, "example", "exec"), scope)
    assert scope["result"].metrics["test/return_mean"] > 8.5


@pytest.mark.slow
def test_a_pasted_class_learns_what_the_page_says(capsys):
    scope = {"__name__": __name__}
    for code in python_blocks(DOCS / "own_environment.md")[:2]:
        exec(compile(code, "example", "exec"), scope)
    shown = capsys.readouterr().out
    assert scope["result"].metrics["test/return_mean"] > 0.7
    assert "[2, 2, 0, 0]" in shown


@pytest.mark.slow
def test_the_examples_of_the_readme_run(capsys):
    (code,) = python_blocks(DOCS.parent / "README.md")
    run_block(code, {"__name__": __name__})

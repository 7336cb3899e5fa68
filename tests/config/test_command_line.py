"""Overrides as they are printed: a shell and Hydra give the value back."""

import random
import shlex

import pytest

from rltrain.config.command_line import shell_word, typed
from rltrain.config.hydra_sweep import job_overrides
from rltrain.config.overrides import parse_one, swept_paths

PLAIN = ["/tmp/x/data", "./a.yaml", "../up", "outputs/run-1", "2m_vs_1z", "1/2", "a@b", "50%", "é"]
TEXTS = [*PLAIN, "", "null", "5", ".5", "1e3", "-inf", "True", "~/x", "a b", "it's", 'a "b"', "a\\"]
SIGNS = "aé_19.0/:+@%*?-~$\\ '\"`!,=[]{}()enultrif&;#|<>"


@pytest.mark.parametrize("key", ["env.x", "dataset.read"])
def test_what_is_printed_is_read_as_the_value(key):
    drawn = random.Random(0)
    texts = ("".join(drawn.choices(SIGNS, k=drawn.randint(1, 9))) for _ in range(500))
    for text in (*TEXTS, *texts):
        for value in (text, [text, 1], {"a": text}) if key == "env.x" else [text]:
            word = shell_word(f"{key}={typed(value, key)}")
            (override,) = shlex.split(word)
            read = parse_one(override)
            assert read is not None, word
            assert read.value() == value, word


@pytest.mark.parametrize("text", [text for text in PLAIN if text.isascii()])
def test_plain_texts_have_no_quotes(text):
    """Defect: a path was printed as ``"'/tmp/x/data'"``."""
    assert shell_word(f"env.x={typed(text, 'env.x')}") == f"env.x={text}"
    assert parse_one(f"dataset.read={text}").input_line == f"dataset.read={text}"
    jobs = job_overrides([swept_paths(f"dataset.read={text},/b"), "seed=1"])
    assert jobs[0] == [f"dataset.read={text}", "seed=1"]
    assert shell_word("") == "''"

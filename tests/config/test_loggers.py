"""``logger=[…]``: several choices of one group."""

import pytest

from rltrain.config.catalog import SHIPPED, split_options
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError


def loggers(*overrides):
    nodes = compose_checked(overrides).settings().nodes
    return [path.partition(".")[2] for path in nodes if path.startswith("logger.")]


@pytest.mark.parametrize(
    ("overrides", "chosen"),
    [
        ([], ["wandb"]),
        (["logger=[]"], []),
        (["logger=csv"], ["csv"]),
        (["logger=[csv,wandb]"], ["csv", "wandb"]),
        (
            ["logger=[trackio,tensorboard]", "logger.trackio.project=mine"],
            ["trackio", "tensorboard"],
        ),
    ],
)
def test_several_loggers_are_chosen_in_one_override(overrides, chosen):
    assert loggers(*overrides) == chosen
    composed = compose_checked(overrides)
    assert composed.choices["logger"] == f"[{','.join(chosen)}]"


def test_each_logger_is_a_choice_with_its_keys():
    assert SHIPPED.options("logger") == ["csv", "tensorboard", "trackio", "wandb"]
    keys = SHIPPED.keys({"logger": "[csv,trackio]"})
    assert "logger.trackio.project" in keys
    assert "logger.wandb.mode" not in keys
    assert keys["logger.console"].value == "true"
    assert SHIPPED.choices({})["logger"] == "[wandb]"
    assert split_options("[a, b]") == ["a", "b"]
    assert (split_options("[]"), split_options("a")) == ([], ["a"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["logger=[csv,nix]"],
            "unknown logger 'nix'. Expected one of csv, tensorboard, trackio, wandb",
        ),
        (["logger=[csv,wandbb]"], "unknown logger 'wandbb'. Did you mean logger=wandb?"),
        (["logger=tb"], "Type 'logger=[tensorboard]'"),
        (["logger=none"], "Type 'logger=[]'"),
        (
            ["logger=[csv]", "logger.wandb.mode=online"],
            "Type logger=[csv,wandb] logger.wandb.mode=online",
        ),
        (["logger.trackio.project=x"], "Type logger=[wandb,trackio] logger.trackio.project=x"),
        (["logger=csv", "logger=wandb"], "logger is chosen twice"),
        (["logger.wandb.mode=on"], "logger.wandb.mode=on: expected"),
        (["env=[smac,lbf]"], "One run has one env"),
    ],
)
def test_what_to_type_instead(overrides, message):
    with pytest.raises(UsageError) as error:
        compose_checked(overrides).settings()
    assert message in str(error.value)

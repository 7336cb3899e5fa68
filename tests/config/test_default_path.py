"""What a default command does not need is neither imported nor done twice."""

from functools import partial, partialmethod

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked, compose_choices
from tests.imports import imported

RARE = ("exchange", "names", "saved_config", "suggest.choices")


NOT_THERE = (
    "resume=latest",
    "mode=evaluate checkpoint=latest",
    "env=cartpole checkpoint=missing",
    "env=smac env.map_name=3n",
    "env=smacv2 env.map_name=terran_5",
    "env=gymnasium env.id=CartPol-v1",
    "experiment=atari/rainbow algo.loss.gamma=2",
)


@pytest.mark.slow
def test_a_default_command_imports_no_explanations_and_a_refused_one_no_torch(own_folder):
    rare = [f"rltrain.config.{name}" for name in RARE]
    code = f"""
import sys
from contextlib import suppress
from rltrain.config.compose import compose_single
compose_single(["algo=qmix", "env=smac", "seed=1"])
assert not {{*{rare}}} & {{*sys.modules}}
from rltrain.errors import CheckpointError, UsageError
from rltrain.main import run
for words in {NOT_THERE}:
    with suppress(UsageError, CheckpointError):
        run(words.split())
        raise AssertionError(f"{{words}} is not refused")
    assert "torch" not in sys.modules, words
"""
    assert imported(code, "torch") == []


@pytest.mark.slow
def test_training_imports_no_videos_reports_or_hub():
    rare = ("video", "report", "mode.tune", "mode.hub", "mode.watch", "callback.video")
    assert imported("import rltrain.mode.train", *(f"rltrain.{name}" for name in rare)) == []


@pytest.mark.slow
def test_a_local_run_imports_no_workers_cluster_or_ranks(tmp_path):
    code = "import rltrain; rltrain.make_trainer(['algo=iql', 'env=matrix'], run_dir='run').close()"
    own = ("hardware.process", "hardware.ray", "hardware.ddp", "assemble.workers")
    names = [f"rltrain.{name}" for name in own]
    assert imported(code, *names, "ray", "torch.distributed.run") == []


def test_the_files_of_a_run_need_no_second_composition(monkeypatch, tmp_path):
    composed = []

    def counted(make, self, config_name, *args, **kwargs):
        composed.append(config_name)
        return make(self, config_name, *args, **kwargs)

    for name in ("load_configuration", "compute_defaults_list"):
        method = partialmethod(partial(counted, getattr(ConfigLoaderImpl, name)))
        monkeypatch.setattr(ConfigLoaderImpl, name, method)
    compose_choices.cache_clear()
    SHIPPED.layers.cache_clear()
    texts = compose_checked(["algo=vdn", "env=matrix"]).files(tmp_path)
    assert composed.count("config") == 1
    assert f"dir: {tmp_path}" in texts["hydra.yaml"]
    assert "algo: vdn" in texts["hydra.yaml"]

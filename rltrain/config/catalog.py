"""The YAML files as data: groups, their options, every key with its default and comment, and the
files that a composition consists of.

Hydra alone resolves defaults lists, and is imported when a composition is asked for. A file is read
when it is asked for.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from rltrain.config.command_line import as_text
from rltrain.config.yaml_files import LOADER, File, Key, merged, read
from rltrain.errors import UsageError, closest

Tree = Mapping[str, Any]
"""A configuration, or a node of one, in plain containers; or its values by their dotted paths."""
MutableTree = dict[str, Any]
"""One that may be changed."""
PRESETS = ("tuned", "experiment")
"""Groups whose choices set keys of other groups and have none of their own."""
SEVERAL = ("logger",)
"""Groups of which several options can be chosen: ``logger=[csv,wandb]``."""
WHOLE_GROUPS = ("algo", "env", "hardware", "logger")
"""Groups whose choice leaves every part with the file and the values that come with it."""
ONE_OF = {
    "algo": ("updates_per_episode", "updates_per_env_step"),
    "algo.target_update": ("episodes", "env_steps", "updates"),
}
"""Keys of which exactly one is set, the others are null."""
FREE_FORM = (
    "env.kwargs",
    "test.env",
    "algo.optimizer",
    "logger.wandb",
    "logger.trackio",
    "report.ranges",
    "hardware.worker_resources",
)
"""Nodes whose keys ``+`` adds and ``~`` removes; the constructors behind them check the names."""
MAPPING_KEYS = (*FREE_FORM, "test.function", "env.opponents")
"""Keys whose value is a mapping itself."""
CONF = next(c for p in Path(__file__).parents[1:3] if (c := p / "conf").is_dir())
"""The shipped folder: inside an installed wheel, or next to the package in a repository."""
NO_GROUP = re.compile(r"(^|/)[._]|shared|hydra|^experiment/")
"""Folders that are not groups."""
RECOMMENDED = {"tuned=auto": "tuned=${algo}-${env}"}
"""What Hydra gets for it: the file of that name in ``conf/tuned/``."""


@dataclass(frozen=True)
class Layer:
    """One YAML file of a composition.

    Attributes:
        file: ``algo/dqn``, ``algo/loss/td``, ``experiment/zoo/cartpole``.
        package: the dotted path of its keys; "" is the root.
        tree: its values at their place in the composition, interpolations as they stand.
    """

    file: str
    package: str
    tree: Tree


def split_options(option: str) -> list[str]:
    """The options in a choice: ``[csv,wandb]`` has two, ``csv`` is one."""
    if not option.startswith("["):
        return [option]
    return [name.strip() for name in option.strip("[]").split(",") if name.strip()]


class Catalog:
    """The groups and keys of one or more configuration folders; earlier folders hide later ones.

    Args:
        folders: one of them holds ``config.yaml``, whose groups there are.
        preset: a file that is an option of ``experiment`` too.
        wrong: what is wrong with files such as ``experiment/mine``, said where they are chosen.
    """

    def __init__(
        self, *folders: Path, preset: Path | None = None, wrong: Mapping[str, str] | None = None
    ) -> None:
        self.folders, self.wrong = folders or (CONF,), wrong or {}
        self.main = next(folder for folder in self.folders if (folder / "config.yaml").is_file())
        self.files: dict[str, Path] = {}  # options that are elsewhere
        if preset is not None:
            name = re.sub(r"\W", "_", preset.stem)
            taken = self.path(f"experiment/{name}") is not None
            self.files = {f"experiment/{'my_' if taken else ''}{name}": preset}

    @cached_property
    def groups(self) -> list[str]:
        """Every group and sub-group: algo, algo/network, env, and so on."""
        folders = (path for path in sorted(self.main.rglob("*")) if path.is_dir())
        names = (path.relative_to(self.main).as_posix() for path in folders)
        return [name for name in names if not NO_GROUP.search(name)]

    @cache  # noqa: B019  a catalog is kept as long as the process runs
    def options(self, group: str) -> list[str]:
        """The choices of a group, presets in sub-folders included (``pymarl/qmix``)."""
        pattern = "**/*.yaml" if group == "experiment" else "*.yaml"
        options = {
            path.relative_to(folder / group).with_suffix("").as_posix()
            for folder in self.folders
            for path in (folder / group).glob(pattern)
        }
        options |= {f.removeprefix(f"{group}/") for f in self.files if f.startswith(f"{group}/")}
        return sorted(options | {"auto"} if group == "tuned" else options)

    def file(self, group: str, option: str) -> File | None:
        """The file behind ``group=option``, if it can be read."""
        path = self.path(f"{group}/{option}")
        return read(path) if path and not self.wrong.get(f"{group}/{option}") else None

    def about(self, group: str, option: str) -> str:
        """Return the description of a choice: the first line of its file."""
        if self.wrong.get(f"{group}/{option}"):
            return f"cannot be used: {group}={option} says why"
        file = self.file(group, option)
        return file.about[0] if file and file.about else ""

    def choices(self, typed: Mapping[str, str]) -> dict[str, str]:
        """The choice of every group when ``typed`` ones are typed."""
        return {group: str(option) for group, option in self._composed(typed)[1].items()}

    @property
    def root(self) -> File:
        return read(self.main / "config.yaml")

    def path(self, file: str) -> Path | None:
        """Where a file is, such as ``experiment/zoo/cartpole``."""
        paths = (folder / f"{file}.yaml" for folder in self.folders)
        return self.files.get(file) or next((path for path in paths if path.is_file()), None)

    def own_files(self, group: str, option: str) -> Iterator[File]:
        """The file of a choice after those of its group that it includes."""
        file = self.file(group, option)
        for entry in file.defaults if file else ():
            if isinstance(entry, str) and entry != "_self_":
                yield from self.own_files(group, entry.partition("@")[0])
        if file:
            yield file

    def env_algo(self, env: str) -> str | None:
        """The algorithm that an environment's file chooses, if it does."""
        entries = [entry for file in self.own_files("env", env) for entry in file.defaults]
        chosen = [e.get("override /algo@_global_.algo") for e in entries if isinstance(e, dict)]
        return next(filter(None, reversed(chosen)), None)

    def own_keys(self, group: str, option: str) -> dict[str, Key]:
        """The keys that a choice sets, those of parts in other files left out, by their path."""
        prefix = f"{group.replace('/', '.')}."
        files = self.own_files(group, option)
        is_preset = group in PRESETS  # also without '@package _global_', by its path
        return merged(("" if is_preset or file.is_global else prefix, file) for file in files)

    def keys(self, typed: Mapping[str, str], group: str = "") -> dict[str, Key]:
        """Every key of the composition of ``typed`` choices, or those that a group's files set."""
        return merged(
            (f"{layer.package}." if layer.package else "", read(path))
            for layer in self._composed(typed)[0]
            if layer.file.startswith(f"{group}/" if group else "")
            and (path := self.path(layer.file))
        )

    def known(self, typed: Mapping[str, str]) -> MutableTree:
        """Every key of that composition with its value."""
        keys = self.keys(typed).items()
        return {path: yaml.load(key.value, Loader=LOADER) for path, key in keys}

    @cached_property
    def homes(self) -> dict[str, list[str]]:
        """Which choices have a key: ``algo.mixer.embed_dim`` has ``algo/mixer=qmix``."""
        homes: dict[str, list[str]] = {}
        for group in self.groups:
            for option in self.options(group) if group not in PRESETS else ():
                for path in self.own_keys(group, option):
                    part = "/".join(path.split(".")[:2])
                    if part not in self.groups or part == group:
                        homes.setdefault(path, []).append(f"{group}={option}")
        return {path: list(dict.fromkeys(at)) for path, at in homes.items()}

    @cached_property
    def loader(self) -> Any:
        """Hydra's loader of these folders and files."""
        from hydra import initialize_config_dir
        from hydra.core.config_search_path import SearchPathQuery
        from hydra.core.config_store import ConfigStore
        from hydra.core.global_hydra import GlobalHydra
        from omegaconf import OmegaConf

        with initialize_config_dir(str(self.main), job_name="rltrain", version_base="1.3"):
            loader = GlobalHydra.instance().config_loader()
        search_path = loader.get_search_path()
        for folder in self.folders:
            if folder != self.main:
                last = SearchPathQuery(provider="schema")
                search_path.prepend("command-line", f"file://{folder}", anchor=last)
        for file, path in self.files.items():
            group, _, name = file.partition("/")
            ConfigStore.instance().store(
                group=group,
                name=name,
                node=OmegaConf.load(path),
                package="_global_",
                provider="command-line",
            )
        vars(loader)["repository"].initialize_sources(search_path)
        return loader

    @cached_property
    def lists(self) -> Any:
        """The loader for lists of defaults. Files do not change while a process runs: each is read
        once, and of what it holds only its own list is copied.
        """
        loader = copy.copy(self.loader)
        loader.repository = repository = copy.copy(loader.repository)
        load = cache(repository.load_config)

        def listed(config_path: str) -> Any:
            if problem := self.wrong.get(config_path.removesuffix(".yaml")):
                raise UsageError(problem)
            file = load(config_path)
            return file and replace(file, defaults_list=copy.deepcopy(file.defaults_list))

        vars(repository).update(load_config=listed, __deepcopy__=lambda memo: repository)
        return loader

    @cache  # noqa: B019  a catalog is kept as long as the process runs
    def tree(self, file: str, package: str = "") -> Tree:
        """The values of a file at their place, interpolations as they stand."""
        from omegaconf import OmegaConf

        tree: Any = OmegaConf.to_container(self.lists.repository.load_config(file).config)
        tree.pop("hydra", None)
        for name in reversed(package.split(".") if package else []):
            tree = {name: tree}
        return dict(tree)

    def hydra_with(self, overrides: Sequence[str]) -> Any:
        """Hydra's own part with overrides of it, composed alone: no choice of ours changes it."""
        from hydra.core.config_store import ConfigStore
        from hydra.types import RunMode
        from omegaconf import OmegaConf

        file = self.lists.repository.load_config("config")
        own = [entry for entry in self.root.defaults if "override hydra/" in str(entry)]
        node = {"defaults": own, "hydra": OmegaConf.to_container(file.config.hydra)}
        ConfigStore.instance().store("hydra_alone", node)
        lines = [*overrides]
        config = self.loader.load_configuration("hydra_alone", lines, RunMode.RUN, from_shell=False)
        config.hydra.job.config_name = "config"
        OmegaConf.set_struct(config.hydra.runtime.choices, False)  # each job has its own
        return config

    @cached_property
    def hydra(self) -> Any:
        """The same before it knows a job."""
        config = self.hydra_with([])
        config.hydra.runtime.choices.clear()
        return config

    @cache  # noqa: B019  a catalog is kept as long as the process runs
    def layers(self, *overrides: str) -> tuple[tuple[Layer, ...], dict[str, str | None]]:
        """The files that ``group=option`` overrides compose, in order, and every group's option.

        Raises:
            HydraException: a missing file, or a wrong list of defaults.
            UsageError: a file of the user's own that is not one of ours.
        """
        from hydra.errors import HydraException
        from hydra.types import RunMode

        lines = [as_text(RECOMMENDED.get(override, override)) for override in overrides]
        try:
            result = self.lists.compute_defaults_list("config", lines, RunMode.RUN)
            asked = result.overrides.override_choices
            preset = bool(asked.get("experiment")) and "tuned" not in asked
            unread = ("hydra/", "tuned/") if preset else ("hydra/",)  # not recommended settings
            files = [(d.config_path, d.package or "") for d in result.defaults]
            layers = tuple(
                Layer(*file, self.tree(*file)) for file in files if not file[0].startswith(unread)
            )
        except RecursionError as error:
            raise HydraException("a file is among its own defaults") from error
        except HydraException as error:
            texts = [t for o in overrides for t in self._mistakes(o.replace("=", "/", 1))]
            raise HydraException("; ".join(texts) or str(error)) from error
        except ValueError as error:
            raise HydraException(str(error)) from error
        chosen = result.overrides.known_choices
        options = {g: o for g, o in chosen.items() if not g.startswith("hydra/")}
        options |= {"tuned": "none"} if preset else {}
        for group in SEVERAL:
            within = [x.file for x in layers if x.file.startswith(f"{group}/")]
            names = dict.fromkeys(file.removeprefix(f"{group}/") for file in within)
            options[group] = f"[{','.join(names)}]"
        return layers, options

    def _mistakes(self, file: str) -> Iterator[str]:
        """What is wrong with the defaults list of the user's own preset that does not compose."""
        path = self.path(file)
        if path is None or self.main in path.parents or not file.startswith(PRESETS):
            return
        content = read.__wrapped__(path)
        if file not in self.files and not content.is_global:
            yield "begin the file with '# @package _global_'"
        for typed, chosen in chain(*(e.items() for e in content.defaults if isinstance(e, dict))):
            head = str(typed).partition("@")[0]
            name = head.rpartition(" ")[2].removeprefix("/")
            group = (*closest(name, self.groups, n=1), "GROUP")[0]
            options, several = [*self.options(group), "None"], isinstance(chosen, list)
            names = [str(n) for n in (chosen if several else [chosen])]
            near = [n if n in options else (*closest(n, options, n=1), "NAME")[0] for n in names]
            old, new = (f"[{', '.join(ns)}]" if several else ns[0] for ns in (names, near))
            ours = name.startswith((*PRESETS, "hydra")) or "$" in old
            if not ours and (head, old) != (f"override /{group}", new):
                yield f"write '- override /{group}: {new}', not '- {typed}: {old}'"

    def _composed(
        self, typed: Mapping[str, str]
    ) -> tuple[tuple[Layer, ...], dict[str, str | None]]:
        """The same for choices, without parts that belong to another algorithm."""
        from hydra.errors import HydraException

        try:
            return self.layers(*(f"{group}={option}" for group, option in typed.items()))
        except HydraException:
            whole = (f"{group}={option}" for group, option in typed.items() if "/" not in group)
        try:
            return self.layers(*whole)
        except HydraException as error:
            text = str(error).splitlines()[0]
            raise UsageError(f"The configuration cannot be composed: {text}") from error


SHIPPED = Catalog()
"""The configuration of rltrain itself."""

"""Making Gymnasium environments: ids, packages, classes of one's own, refusals."""

import re
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.common.machine.install import install_extra
from rltrain.env.env_options import EnvOptions
from rltrain.env.games.matrix import TwoStepGames
from rltrain.env.make_gymnasium import from_class, in_lockstep
from rltrain.env.team.team_names import Teams
from rltrain.mode.messages.closing import can_be_drawn
from tests.env.scripted import DEFAULTS, Drawn, Scripted, made


def own(make: Any, n_envs: int = 1, **options: Any) -> Any:
    """Environments of a class or factory of one's own."""
    return from_class(make, n_envs=n_envs, **{**DEFAULTS, **options})


IDS = {
    "CartPol-v1": "there is no such id. Did you mean env.id=CartPole-v1?",
    "Xyzzy-v0": "Expected one of gymnasium.registry, or module:Class for your own.",
    "CartPole-v7": "there is no version 7 of it. Type env.id=CartPole-v1.",
    "LunarLander-v2": "there is no version 2 of it. Type env.id=LunarLander-v3.",
    "ALE/SpaceInvaders-v5": "Type env=atari env.game=space_invaders.",
    "PongNoFrameskip-v4": "Type env=atari env.game=pong.",
    "tests.env.scripted:Scriptd": "Did you mean env.id=tests.env.scripted:Scripted?",
}


@pytest.mark.parametrize("id", IDS)
def test_an_unknown_id_is_refused_with_what_to_type(id, recwarn, monkeypatch):
    for spec in list(gymnasium.registry.values()):
        if str(spec.entry_point).startswith("ale_py"):  # where the extra [atari] is installed
            monkeypatch.delitem(gymnasium.registry, spec.id)
    said = rf"^env\.id={re.escape(id)} cannot be created: "
    with pytest.raises(ValueError, match=said) as caught:
        made(id)
    assert str(caught.value).endswith(IDS[id])
    assert ".." not in str(caught.value)
    assert not recwarn.list  # nothing but the message


def test_a_missing_package_is_refused_with_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [n for n in sys.modules if n.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match=r"LunarLander-v3 cannot be created: ") as caught:
        made("LunarLander-v3")
    assert str(caught.value).endswith(f"Type {install_extra('box2d')}")


def test_a_module_may_register_its_own_environment(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "walking.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Walking-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert made("walking:Walking-v0").spec.obs_shape == (4,)


def test_a_class_can_be_named_without_registration() -> None:
    env = made("tests.env.scripted:Scripted", kwargs={"rewards": (5.0,)}, max_episode_steps=2)
    assert (env.envs[0].name, env.spec.max_steps) == ("Scripted", 2)


def test_a_class_of_ones_own_needs_no_registration() -> None:
    env = own(Scripted, 2)
    env.reset(lambda i, k: i)
    assert (env.obs.shape, env.envs[0].name) == ((2, 1, 2), "Scripted")


@pytest.mark.parametrize("training", [True, False])
def test_a_maker_that_asks_is_told_what_its_environments_are_for(training: bool) -> None:
    told = []

    def make(training: bool) -> Scripted:
        told.append(training)
        return Scripted()

    own(make, 2, training=training)
    assert told == [training, training]


def test_a_class_of_ones_own_has_the_options_of_others() -> None:
    options = {"kwargs": {"rewards": (5.0,)}, "max_episode_steps": 2, "frame_stack": 3}
    env = own(Scripted, **options, reward_clip=1.0)
    assert (env.spec.frame_stack, env.spec.max_steps) == (3, 2)
    env.reset(lambda i, k: i)
    rewards = [float(env.step(np.zeros((1, 1), np.int64))[0][0, 0]) for _ in range(2)]
    assert rewards == [1, 1]
    assert env.last.all()
    assert env.unclipped.tolist() == [[5]]


OPTIONS = {
    **{"time_limit": "terminal", "max_episode_steps": 9, "frame_stack": 2, "reward": "mean"},
    **{"channels": "first", "reward_clip": 1.5, "factored": True, "compiled": False},
    "teams": Teams("a"),
}


@pytest.mark.parametrize("name", [*vars(EnvOptions()), "teams"])
def test_every_option_is_refused_for_a_batched_environment(name: str) -> None:
    """Defect: some had no effect, without a message."""
    with pytest.raises(ValueError, match=rf"^env\.{name.rstrip('s')}\w*=.* batched environment, "):
        own(TwoStepGames, 2, **{name: OPTIONS[name]})
    assert own(TwoStepGames, 2).n_envs == 2


def test_environments_do_not_share_what_a_keyword_holds() -> None:
    def make(sizes: list[int]) -> Scripted:
        return Scripted(shows=[np.full(2, sizes.pop(), np.float32)])

    env = own(make, 2, kwargs={"sizes": [3]})
    env.reset(lambda i, k: i)
    assert env.obs.tolist() == [[[3, 3]], [[3, 3]]]


@pytest.mark.parametrize("name", ["action_space", "observation_space", "unwrapped", "spec"])
def test_a_property_that_raises_is_answered_with_the_class(name):
    """Defect: a traceback."""
    raises = property(lambda self: {}["link"], lambda self, value: None)
    with pytest.raises(ValueError, match=r"Remote cannot be used: KeyError: 'link'"):
        own(type("Remote", (Scripted,), {name: raises}))


class NoSpaces(gymnasium.Env):
    """Says neither what can be done nor what can be seen."""


class NoObservations(NoSpaces):
    action_space, observation_space = spaces.Discrete(2), 4


def sized(size: int) -> Scripted:
    return Scripted()


def failing() -> Scripted:
    raise KeyError("prices.csv")


gymnasium.register("Unmakeable-v0", entry_point=failing)
REFUSED = {  # by what is said
    r"cannot be created: No module named 'no_such_package'\. Expected an installed module": (
        lambda: made("no_such_package:Thing-v0")
    ),
    r"scripted:Scriptid cannot be created: ": lambda: made("tests.env.scripted:Scriptid"),
    r"cannot be created: .*color": lambda: made("Scripted-v0", kwargs={"color": 1}),
    r"pip install minigrid, then env.id=minigrid:MiniGrid-X-v0": lambda: made("MiniGrid-X-v0"),
    r"env.id=Unmakeable-v0 .*KeyError: 'prices.csv'": lambda: made("Unmakeable-v0"),
    r"^env\.id=Blind-v0 .*pip install pygame": lambda: made("Blind-v0", record=True),
    r"failing.* cannot create an .*KeyError: 'prices.csv'": lambda: own(failing),
    r"missing a required argument: 'size'.*env.kwargs": lambda: own(sized),
    "int is not an environment: it has no reset, step": lambda: own(lambda: 3),
    r"NoSpaces has no action_space: .* Set self.action_space = gymnasium.spaces": (
        lambda: own(NoSpaces)
    ),
    r"NoObservations has the int 4 as observation_space: expected": lambda: own(NoObservations),
    r"Remote\.unwrapped is None": lambda: own(type("Remote", (Scripted,), {"unwrapped": None})),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_makes_no_environment_is_refused_in_words(said: str) -> None:
    """Defect: where ``unwrapped`` is None, the factory returned "the same NoneType"."""
    with pytest.raises(ValueError, match=said):
        REFUSED[said]()
    own(sized, kwargs={"size": 3})


def test_a_record_is_drawn_by_makers_that_need_keywords() -> None:
    """Defect: a factory that passes keywords on was asked without the ones that it needs."""

    class Sized(Drawn):
        def __init__(self, size: int, **given: Any) -> None:
            super().__init__(**given)

    for make in (Sized, lambda **given: Sized(**given)):
        assert own(make, record=True, kwargs={"size": 3}).frames_per_second == 20


def test_an_environment_may_call_something_of_its_own_spec() -> None:
    """Defect: "'dict' object has no attribute 'max_episode_steps'", also from ``check_env``."""
    make: Any = type("Own", (Scripted,), {"spec": {"size": 3}})
    env = own(make, max_episode_steps=2)
    assert (env.envs[0].name, env.spec.max_steps) == ("Own", 2)


class Closed(Drawn):
    """Keeps the number of those that are open."""

    n_open = 0

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        Closed.n_open += 1

    def close(self) -> None:
        Closed.n_open -= 1


def closed_of_two_sizes(training: bool) -> Closed:
    return Closed(space=spaces.Box(-1, 1, (2 + training,), np.float32))


gymnasium.register("Closed-v0", entry_point=Closed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: made("Closed-v0", record=True).close(),
        lambda: in_lockstep(Closed, 1, EnvOptions(), classic=True).close(),
        lambda: rltrain.check_env(Closed),
        lambda: rltrain.check_env(closed_of_two_sizes),
        lambda: rltrain.check_env(lambda: Closed(space=spaces.Text(2))),
    ],
    ids=["record", "compiled", "check", "refused", "unsupported"],
)
def test_every_environment_that_is_made_is_closed(make: Any) -> None:
    """Defect: not those made to be looked at, of ``check_env``, and with unsupported spaces."""
    before = Closed.n_open
    make()
    assert Closed.n_open == before


class Checked(Drawn):
    """Refuses modes that it does not list, as Gymnasium's template does."""

    def __init__(self, render_mode: str | None = None) -> None:
        assert render_mode is None or render_mode in self.metadata["render_modes"]
        super().__init__(render_mode)


class TwoAgents(Drawn):
    """A Tuple of two actions."""

    def __init__(self, render_mode: str | None = None) -> None:
        two = [spaces.Tuple([space] * 2) for space in (spaces.Box(0, 1, (1,)), spaces.Discrete(2))]
        super().__init__(render_mode, space=two[0], shows=[(np.zeros(1),) * 2], actions=two[1])


ANSI, IMAGES = {"render_modes": ["human", "ansi"]}, {"render_modes": {"rgb_array"}}
METADATA = [None, [], "rgb_array", 3, {}, {"render_modes": None}, {"render_modes": 3}, ANSI, IMAGES]


@pytest.mark.parametrize("kind", [Drawn, TwoAgents, lambda **given: Drawn(**given), Checked])
@pytest.mark.parametrize("metadata", METADATA, ids=str)
def test_metadata_of_any_kind_say_at_most_what_is_drawn(metadata, kind, monkeypatch):
    """Defects: AttributeError, at the end of a run as well; text was taken for images."""
    monkeypatch.setattr(Drawn, "metadata", metadata)
    for record in (False, True) if kind is not Checked or metadata in (ANSI, IMAGES) else ():
        env = own(kind, record=record)
        drawn = record and metadata is not ANSI
        assert env.frames_per_second == (30 if drawn else None)
        about: Any = SimpleNamespace(test_rollout=SimpleNamespace(env=env))
        assert can_be_drawn(about) == (drawn or metadata is IMAGES)

"""mode=doctor env=…: what is wrong with an environment."""

from __future__ import annotations

from collections.abc import Sequence

from rltrain.build.env import build_env
from rltrain.config.compose import compose_checked
from rltrain.config.validate.settings import check_composition
from rltrain.errors import UsageError


def examine_env(overrides: Sequence[str]) -> bool:
    """Play an environment and print what is wrong with it; whether anything is.

    Raises:
        UsageError: it cannot be made.
    """
    from rltrain.env.check import check

    settings = check_composition(compose_checked(list(overrides)))
    try:
        env = build_env(settings, 1, training=True)
    except ValueError as error:
        raise UsageError(str(error)) from error
    spec = env.spec
    print(
        f"env={settings.choices['env']}: {spec.n_agents} agents, {spec.n_actions} actions, "
        f"observations {list(spec.obs_shape)}, state {spec.state_dim}, {spec.n_rewards} rewards, "
        f"episodes of at most {spec.max_steps or 'any number of'} steps"
    )
    found = check(env)
    env.close()
    print(found)
    return bool(found.problems)

"""mode=doctor env=…: what is wrong with an environment."""

from __future__ import annotations

from collections.abc import Sequence

from rltrain.assemble.env import build_env
from rltrain.common.machine.streams import say
from rltrain.common.spec_record import channel_text
from rltrain.config.compose import compose_checked
from rltrain.errors import usage_errors
from rltrain.logger.screen import plural

NO_LIMIT = "episodes without a known limit (env.max_episode_steps sets one)"


def examine_env(overrides: Sequence[str]) -> bool:
    """Play an environment and print what is wrong with it; whether anything is."""
    from rltrain.env.check import check

    settings = compose_checked(list(overrides)).settings()
    with usage_errors():
        env = build_env(settings, 1, training=True)
    spec = env.spec
    length = f"episodes of at most {plural(spec.max_steps, 'step')}" if spec.max_steps else NO_LIMIT
    channels = f"{words}, " if (words := channel_text(spec.record)) else ""
    say(
        f"env={settings.choices['env']}: {plural(spec.n_agents, 'agent')}, "
        f"{plural(spec.n_actions, 'action')}, observations {list(spec.obs_shape)}, {channels}"
        f"state {spec.state_dim}, {plural(spec.n_rewards, 'reward')}, {length}"
    )
    report = check(env)
    env.close()
    say(report)
    return bool(report.problems)

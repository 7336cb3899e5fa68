"""JaxMARL's SMAX: its compiled battles with random available actions."""

import jax
import jax.numpy as jnp
from jaxmarl import make
from jaxmarl.environments.smax import map_name_to_scenario

STEPS = 8


def battles(map_name, n_envs):
    """Env steps of all environments; ended episodes begin again within a step."""
    env = make("HeuristicEnemySMAX", scenario=map_name_to_scenario(map_name))

    def action_of(key, available):
        return jax.random.categorical(key, jnp.where(available > 0, 0.0, -jnp.inf))

    def one(key, state):
        key, acting, stepping = jax.random.split(key, 3)
        available = env.get_avail_actions(state)
        keys = jax.random.split(acting, len(available))
        action = {
            agent: action_of(k, mask)
            for k, (agent, mask) in zip(keys, available.items(), strict=True)
        }
        obs, state, reward, _, _ = env.step(stepping, state, action)
        return key, state, (obs, reward)

    @jax.jit
    def steps(keys, states):
        def body(carry, _):
            keys, states, seen = jax.vmap(one)(*carry)
            return (keys, states), seen

        return jax.lax.scan(body, (keys, states), None, STEPS)

    keys = jax.random.split(jax.random.key(0), n_envs)
    _, states = jax.vmap(env.reset)(keys)
    running = {"carry": steps(keys, states)[0]}  # compiled twice: its own result has other types

    def do():
        running["carry"], seen = steps(*running["carry"])
        jax.block_until_ready(seen)
        return float(STEPS * n_envs)

    return do

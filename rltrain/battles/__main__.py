"""``python -m rltrain.battles`` compiles the battle engine once, so that the first run does not
have to."""

from __future__ import annotations

BATTLES = (("3m", "sc2"), ("terran_5_vs_5", "sc2"), ("3m", "smaclite"))
"""Maps and rules that together call every kernel."""


def compile_engine() -> None:
    """Compile every kernel, or load it from the cache."""
    from rltrain.battles.engine.battles import UNITS_PER_CALL, Battles
    from rltrain.battles.engine.compile_cache import MAX_THREADS
    from rltrain.battles.options import Options

    for map_name, rules in BATTLES:
        for n_envs, n_threads in ((2, 1), (UNITS_PER_CALL, 2)):
            battles = Battles(
                map_name=map_name,
                n_envs=n_envs,
                options=Options(),
                rules=rules,
                n_threads=min(n_threads, MAX_THREADS),
                two_sided=rules == "sc2",
            )
            battles.reset({e: e for e in range(n_envs)})
            orders = None if battles.other is None else battles.other.avail.argmax(-1)
            battles.step(battles.avail.argmax(-1), other_action=orders)
            battles.load_state_dict(battles.state_dict())


if __name__ == "__main__":
    compile_engine()
    print("the battle engine is compiled")

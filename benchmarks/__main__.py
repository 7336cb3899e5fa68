"""`make bench`: start-up, the battle engine, the learner, the replay, whole commands, and others
beside.
"""

from benchmarks import cartpole, end_to_end, engine, learner, replay, startup

for part in (startup, engine, learner, replay, end_to_end, cartpole):
    part.main()

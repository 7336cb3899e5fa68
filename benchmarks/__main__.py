"""`make bench`: the battle engine, the learner, the replay, and the whole default command."""

from benchmarks import end_to_end, engine, learner, replay

for part in (engine, learner, replay, end_to_end):
    part.main()

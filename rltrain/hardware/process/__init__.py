"""Rollouts in worker processes: shared memory, the processes, and the rollout that joins them."""

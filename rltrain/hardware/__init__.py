"""Where things run: device, threads and allocator, and the rollout that acts in the environment."""

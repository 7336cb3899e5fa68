"""rltrain -m: the jobs of a sweep as processes, how they are continued, and their tables."""

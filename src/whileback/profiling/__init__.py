"""Where the time and the memory of a run go."""

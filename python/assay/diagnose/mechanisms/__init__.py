"""Physical mechanisms that take time from a step, one file each."""

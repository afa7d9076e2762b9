"""What to try, in which order, and whether to try at all."""

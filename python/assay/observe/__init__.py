"""What a machine is like (state) and what ran on it (events)."""

"""The loop: capture, predict, rank, experiment, soak, report."""

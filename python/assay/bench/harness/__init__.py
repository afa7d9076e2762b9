"""The measurement loop: cases, clocks, samples, statistics, results and comparisons."""

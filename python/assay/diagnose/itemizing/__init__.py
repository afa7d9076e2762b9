"""Every nanosecond of a step in one term: intervals, lanes, gaps, kernels, host activity."""

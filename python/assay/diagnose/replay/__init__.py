"""Event-driven replay of a trace's dependency graph on a virtual clock."""

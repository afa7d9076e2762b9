"""The write-ahead journal of a run, its hash chain, and how a run is undone."""

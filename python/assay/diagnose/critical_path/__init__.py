"""The chain of events that the end of a trace had to wait for."""

"""Staged promotion over the replicas of a fleet: stages, evidence, guards, and agents on the nodes."""

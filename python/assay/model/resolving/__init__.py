"""Computing one variable, with its trace and provenance."""

"""Lowering a cone of definitions to a tape that runs over many points."""

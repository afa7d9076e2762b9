"""Distances between residues from aligned sequences: a small Evoformer trunk on arrays of the runtime."""

"""Runs of the loop, from the options of `assay run` to its report; stored runs, and their undoing."""

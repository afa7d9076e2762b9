"""Computing one variable, with the whole account of it."""

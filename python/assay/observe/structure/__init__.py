"""Structure recovery: steps, phases, layers and operations of a trace that names none of them."""

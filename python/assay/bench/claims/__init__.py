"""Claims: what is measured, with which data, beside whom, and what must hold of the result."""

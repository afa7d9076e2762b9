"""A request: its prompt and parameters, the state of its text, and what it puts into a step."""

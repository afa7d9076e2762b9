"""Levers: changes that may help, when they apply, what they risk, and how to take them back."""

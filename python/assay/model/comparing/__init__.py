"""Comparing answers: what moves a value, and what carries the difference between two of them."""

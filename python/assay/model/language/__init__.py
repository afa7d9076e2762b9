"""The language itself: units, expressions, variables, relations, scopes."""

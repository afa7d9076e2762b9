"""Units, expressions, variables, relations and scopes."""

"""Published training runs."""

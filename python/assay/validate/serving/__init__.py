"""Published serving figures."""

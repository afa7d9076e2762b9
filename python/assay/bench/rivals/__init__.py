"""Other libraries and programs that do the same work, where they are installed."""

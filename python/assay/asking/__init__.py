"""Questions in words: read into names and numbers, matched with an intent, answered by a command."""

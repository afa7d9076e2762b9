"""What an engine is asked to do: requests, when they arrive, and how long they are."""

"""What a model should do on some hardware: a graph of operations with floors and intervals."""

"""What every client of an OpenAI-compatible server shares: address, bodies, answers."""

"""What a question may ask for: tables of intents, an entry each."""

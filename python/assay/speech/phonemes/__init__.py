"""English text to the phonemes that Kokoro was trained on."""

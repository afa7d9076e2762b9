"""Kokoro-82M: speech from phonemes."""

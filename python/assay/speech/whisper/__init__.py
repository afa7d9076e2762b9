"""Whisper: files, vocabulary, encoder and decoder, search, long recordings and times of words."""

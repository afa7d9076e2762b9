"""Tracing other programs: an injected library in CUDA programs, and servers that profile themselves."""

"""Kernels: FLOPs, bytes and time of every operation, one module per family."""

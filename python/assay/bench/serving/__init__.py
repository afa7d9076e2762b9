"""Servers side by side on one machine: the same weights, the same requests, the same client."""

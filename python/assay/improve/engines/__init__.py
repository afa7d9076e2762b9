"""Engines that the loop can drive, behind one protocol."""

"""Limit-order events to top of book, depth, microprice and VWAP."""

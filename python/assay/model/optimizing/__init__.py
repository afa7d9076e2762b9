"""Choosing the best among discrete and continuous choices; sweeping over them."""

"""Spoken conversation: hear a question, think of an answer, say it."""

"""Spoken conversation: hear a question, think of an answer, say it.

`turns.py` (when somebody speaks and has said all), `clauses.py` (text cut into what is said at once) and
`stages.py` (models as tasks of the scheduler) are joined by `conversation.py`; `sources.py` and
`players.py` are recordings, microphone and loudspeaker.
"""

"""Questions in words: read into names and numbers, matched with an intent, answered by a command.

- Reading: `reading.py` finds names (`names.py`: catalog, aliases, near-misses) and numbers
  (`quantities.py`, `price_patterns.py`: tables of patterns, of `numbers.py`).
- Intents: `intents/` has tables of what may be asked, an entry each; `recognizing.py` finds the
  intent, `adapting.py` puts the question into its slots, `unused.py` names what it leaves unused, `dividing.py`
  what it does not divide by ("per dollar").
- Answers: a module a subject (`facts.py`, `memory.py`, `serving.py`, `costs.py`, `training.py`,
  `purchases.py`, `physics.py`, `ratios.py` ...; `rates.py` asks `assay plan`) builds a scenario (`case.py`;
  `cases.py` from a question, `splitting.py` its layout, `spreading.py` its replicas) and runs a
  command (`commands.py`).
- Several at once: `comparing.py` has alternatives and changes, `several.py` two questions in one,
  `choosing.py` says among what.
- `answering.py` joins them, or refuses and names what is nearest.
"""

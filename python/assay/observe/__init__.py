"""What a machine is like (state) and what ran on it (events).

- A trace is a header, a table of events and a table of steps (`schema.py`, `trace.py`, `store.py`),
  with names of operations (`operations.py`).
- `capture/` records the own engine, `attach/` other programs and servers; `importers/` and
  `exporters/` have one file a format.
- `structure/` recovers steps, layers and operations; `timeline/` draws a trace in the terminal or as
  a page.
- `telemetry/` samples the machine: `sources/`, `sinks/`.
"""

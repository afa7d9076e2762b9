"""Runs of the loop, from the options of `assay run` to its report; stored runs, and their undoing.

`subject.py` opens the engine and workload that `subject_options.py` names, `speech.py` those of speech,
`arrays.py` those of a workload on arrays (its settings are levers, `array_engine.py`). `optimize.py`
joins loop, calibration and report, `fleet.py` promotes over replicas. `stored.py`, `rollback.py` and
`abandoned.py` (runs that were cut short) are about runs that have ended.
"""

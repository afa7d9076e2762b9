"""Sourced numbers: accelerators, models, sites, prices and fitted constants.

`data/` has entries keyed by variables of the graph, `calibration/` fitted constants, `cases/` published
figures; `questions.py` gives entries as answers, `stand_ins.py` has what chips without
multiprocessors borrow. Modules are imported where they are used, so that a
question that needs no catalog reads none.
"""

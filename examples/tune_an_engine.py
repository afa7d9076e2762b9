"""Tune an engine of this process: measure, try what should help, keep what is proven."""

import assay

with assay.Engine.load("synthetic", threads=1, graph_buckets=0, max_batch=1) as engine:
    # A dry run changes nothing: without dry_run it tries the candidates and keeps what is proven.
    outcome = assay.optimize(engine, budget="1m", workload="decode", dry_run=True)
    print(outcome.verdict, "by", outcome.metric)
    for note in outcome.notes:
        print(note)
    print("the run is stored in", outcome.run.name)

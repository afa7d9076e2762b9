"""The controller of a promotion over two nodes, in a hurry; faults come by environment.

`fleet_driver FOLDER PORT PORT`: prints the verdict and the exit code.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from fleet_processes import Servers, promote

from assay.errors import AssayError
from assay.improve.fleet import node, replicas
from assay.improve.fleet.settings import PromotionSettings
from assay.runs import fleet

LEASE_S = 4.0
ANSWER_S = 12.0


def main() -> int:
    """Promote with a weak test: what is tried here is not statistics."""
    folder, ports = Path(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    fleet.LEAST_WINDOW_S = 0.15
    fleet.PromotionSettings = partial(PromotionSettings, alpha=0.3, baseline_rounds=2)  # type: ignore[attr-defined]
    fleet.FleetPlan = partial(replicas.FleetPlan, lease_s=LEASE_S)  # type: ignore[attr-defined]
    replicas.ANSWER_S = ANSWER_S  # type: ignore[misc]
    replicas.LOST_S = 2.0  # type: ignore[misc]
    replicas.AgentFleet.restart_s = lambda self, of: ANSWER_S  # type: ignore[method-assign]
    node.BEAT_S = 4.0  # type: ignore[misc]
    servers = Servers(ports, folder)
    start = Path(__file__).parent / "node_start.py"
    words = f"{sys.executable} {start} {folder} {{number}}"
    try:
        outcome = promote(servers.options(node_python=words, budget_s=4.0 * ANSWER_S, max_out=2))
    except (AssayError, OSError) as error:
        print(f"raised {error}", flush=True)
        return getattr(error, "exit_code", 2)
    print(f"verdict {outcome.verdict}: {outcome.reason}", flush=True)
    return 0 if outcome.problem is None else outcome.problem.exit_code


if __name__ == "__main__":
    sys.exit(main())

r"""A Ray cluster of two nodes on this machine, one core each, by one command.

    python examples/ray_cluster/two_nodes.py
    python examples/ray_cluster/two_nodes.py -- assay sweep econ.cost.per_token \
        --preset dense_training_cost_fixture --over gpu.power="400:900:10000 W/GPU" \
        --over econ.electricity.price="0.03:0.2:10000 USD/kWh" --summary

The first prints the address for --on and waits for Ctrl-C; the second runs a command there, of 10^8
points, and ends the cluster. Needs the extra `fleet`: pip install 'assay[fleet]'.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Ray gives its dashboard one minute, in which a busy machine does not load it.
os.environ.setdefault("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "600")
# Jobs are started with the `python` of the head's environment: this one.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


class TwoNodes:
    """A head and nodes beside it, each on a core of its own where the machine has as many."""

    def __init__(self, nodes: int = 2, port: int = 8265) -> None:
        """Start the head and the other nodes."""
        from ray.cluster_utils import Cluster

        self.cores = sorted(os.sched_getaffinity(0))
        self.address = f"http://127.0.0.1:{port}"
        with self._pinned(0):
            self.cluster: Any = Cluster(
                initialize_head=True,
                head_node_args={"num_cpus": 1, "include_dashboard": True, "dashboard_port": port},
            )
        try:
            self.others = [self.add(number) for number in range(1, nodes)]
        except Exception:
            self.end()
            raise

    def add(self, number: int) -> Any:
        """Start another node."""
        with self._pinned(number):
            return self.cluster.add_node(num_cpus=1)

    def lose(self, node: Any) -> None:
        """Kill a node with all that runs on it."""
        self.cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        """End all nodes."""
        self.cluster.shutdown()

    @contextmanager
    def _pinned(self, number: int) -> Iterator[None]:
        """What is started here runs on one core; Ray's processes keep it."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cores[number % len(self.cores)]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def main(words: Sequence[str]) -> int:
    """Start the cluster, and run a command on it or wait."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    nodes = TwoNodes()
    try:
        command = list(words[words.index("--") + 1 :]) if "--" in words else []
        if command:
            return subprocess.run([*command, "--on", nodes.address]).returncode
        print(f"two nodes: assay sweep ... --on {nodes.address}; Ctrl-C ends them", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        nodes.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Windows of a workload against a server, by a client of their own."""

from collections.abc import Mapping

from assay.load.client import ClientOptions, LoadClient
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload


def run_window(
    url: str,
    workload: Workload,
    window: Window,
    settings: Mapping[str, Setting] | None = None,
    options: ClientOptions | None = None,
) -> Measurement:
    """Measure the window and close the client."""
    with LoadClient(url, options) as client:
        return client.run_window(workload, window, settings)


def quietest_window(
    url: str,
    workload: Workload,
    window: Window,
    settings: Mapping[str, Setting] | None = None,
    count: int = 3,
) -> Measurement:
    """The shortest of several equal windows: what else the machine does only adds time."""
    with LoadClient(url) as client:
        windows = [client.run_window(workload, window, settings) for _ in range(count)]
    return min(windows, key=lambda measured: measured.seconds)

"""A user-defined registry: a message over a link, and the size above which bandwidth dominates."""

from assay.model import Registry, Scope, by_definition, cited

scope = Scope("link", "A message over a link")
size = scope.variable(
    "size", "n", "B", "bytes in the message", reference=by_definition(), boundary="scenario"
)
latency = scope.variable(
    "latency",
    "alpha",
    "s",
    "time of an empty message",
    reference=by_definition(),
    boundary="scenario",
)
bandwidth = scope.variable(
    "bandwidth", "b", "B/s", "asymptotic rate", reference=by_definition(), boundary="scenario"
)
time = scope.variable(
    "time", "t", "s", "time of the message", display="us",
    equals=latency + size / bandwidth, reference=cited("Hockney 1994, Parallel Computing 20(3)"),
)  # fmt: skip
scope.variable(
    "efficiency", "eta", "1", "share of the asymptotic rate", display="%",
    equals=size / bandwidth / time, reference=by_definition(), target=True,
)  # fmt: skip
registry = Registry.from_scopes([scope])


def main() -> None:
    """Resolve forwards, then solve for the size that reaches half of the rate."""
    given = {"link.latency": "5 us", "link.bandwidth": "50 GB/s"}
    result = registry.resolve("link.efficiency", {**given, "link.size": "1 MiB"})
    print(f"1 MiB reaches {result.variable.format(result.require_value())} of the rate")
    answer = registry.solve(["link.size"], given=given, equal={"link.efficiency": 0.5})
    print(f"half of the rate needs {answer.values['link.size']:.0f} bytes")


if __name__ == "__main__":
    main()

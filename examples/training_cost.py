"""Price a training run, then ask what would have to change to make it cheaper."""

from assay import scenario, stack

fixture = scenario.preset("dense_training_cost_fixture")
registry = stack.registry()


def main() -> None:
    """Resolve, solve backwards, and differentiate."""
    for label, target in fixture.targets:
        result = fixture.resolve(target)
        print(f"{label:15} {result.variable.format(result.require_value())}")

    wanted = {"training.tokens_per_second": "7e6 token/s"}
    given = {k: v for k, v in fixture.given.items() if k != "training.exposed_communication_time"}
    answer = registry.solve(
        ["training.exposed_communication_time"], given, wanted, fixture.variants
    )
    (seconds,) = answer.values.values()
    print(f"7 million tokens a second leave {seconds:.6f} s of exposed communication")

    levers = ["gpu.power", "econ.electricity.price", "econ.capex.rate"]
    cost = registry.compile(levers, ["econ.cost.per_token"], fixture.given, fixture.variants)
    point = {name: fixture.resolve(name).require_value() for name in levers}
    slopes = cost.jacobian(point)[0]
    value = cost(point)[0]
    for name, slope in zip(levers, slopes, strict=True):
        print(f"1 % more {name} adds {slope * point[name] / value:.5f} % to the cost of a token")


if __name__ == "__main__":
    main()

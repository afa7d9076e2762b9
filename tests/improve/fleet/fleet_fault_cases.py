"""The faults that are injected into promotions: node lost, controller killed, partition, full disk."""

from fleet_faults import FleetCase

PARTS = ("before", "torn", "unacknowledged", "after")
CONTROLLER = (
    ("started", 1), ("replica", 1), ("replica", 2), ("stage", 1), ("stage", 2), ("stage", 3),
    ("stage", 4), ("stage", 5), ("kept", 1), ("finished", 1),
)  # fmt: skip
"""Records of the controller, and which of their kind: windows, rounds, the decision, the end."""
AGENT = (
    ("started", 1), ("safe", 1), ("intend", 1), ("intend", 2), ("applied", 1), ("applied", 2),
    ("engine", 2), ("engine", 3), ("safe", 2), ("finished", 1),
)  # fmt: skip
CALLS = (
    ("configure", 1), ("configure", 2), ("measure", 1), ("measure", 3),
    ("measure", 4), ("settings", 3), ("settings", 8), ("close", 1),
)  # fmt: skip
GOING_BACK = ("reverting", "reverted")
"""Records of the node that has the change first and is drawn for the control then."""
LOST_AFTER = ((0, range(2, 14)), (1, range(2, 12)))
"""Records of a node's journal, which has more of them when it ends."""
FILES = ("configuration.json", "marker")


def _of(node: int) -> str:
    return f"of node {node}"


CASES = [
    *(
        FleetCase(f"controller killed at {kind} {number} {part}", f"journal.{kind}.{part}=kill@{number}")
        for kind, number in CONTROLLER
        for part in PARTS
    ),
    *(
        FleetCase(f"controller killed after {records} records", happening="controller killed", records=records)
        for records in range(2, 12)
    ),
    *(
        FleetCase(f"agent {_of(node)} killed at {kind} {number} {part}", node=node,
                  agent=f"journal.{kind}.{part}=kill@{number}")
        for node in (0, 1)
        for kind, number in AGENT
        for part in PARTS[node::2]
    ),
    *(
        FleetCase(f"agent {_of(0)} killed at {kind} {part}", agent=f"journal.{kind}.{part}=kill")
        for kind in GOING_BACK
        for part in PARTS
    ),
    *(
        FleetCase(f"agent {_of(0)} killed {part} going back", agent=f"engine.revert.{part}=kill")
        for part in ("before", "after")
    ),
    *(
        FleetCase(f"disk {_of(0)} full at {kind}", agent=f"journal.{kind}.torn=full")
        for kind in GOING_BACK
    ),
    *(
        FleetCase(f"agent {_of(number % 2)} killed {part} {call} {number}", node=number % 2,
                  agent=f"engine.{call}.{part}=kill@{number}")
        for call, number in CALLS
        for part in ("before", "after")
    ),
    *(
        FleetCase(f"agent killed at {name} {part}", agent=f"write.{name}.{part}=kill")
        for name in FILES
        for part in ("before", "unnamed", "after")
    ),
    *(
        FleetCase(f"node {node} lost after {records} records", node=node, happening="node lost", records=records)
        for node, counts in LOST_AFTER
        for records in counts
    ),
    *(
        FleetCase(f"node {node} cut off after {records} records", node=node, happening="node cut off",
                  records=records)
        for node, counts in LOST_AFTER
        for records in counts[1:]
    ),
    *(
        FleetCase(f"controller silent after {records} records", happening="controller silent", records=records)
        for records in range(1, 11)
    ),
    *(
        FleetCase(f"disk of the controller full at {kind} {number}", f"journal.{kind}.torn=full@{number}")
        for kind, number in CONTROLLER
    ),
    *(
        FleetCase(f"disk {_of(number % 2)} full at {kind} {number}", node=number % 2,
                  agent=f"journal.{kind}.torn=full@{number}")
        for kind, number in AGENT
    ),
    *(
        FleetCase(f"disk full at {name} {part}", agent=f"write.{name}.{part}=full")
        for name in FILES
        for part in ("before", "unnamed")
    ),
    *(
        FleetCase(f"ctrl-c after {records} records", happening="controller interrupted", records=records)
        for records in (2, 4, 6, 8)
    ),
    *(
        FleetCase(f"agent {_of(1)} fails unexpectedly {part} {call}", node=1, agent=f"engine.{call}.{part}=error")
        for call in ("configure", "measure", "settings")
        for part in ("before", "after")
    ),
]  # fmt: skip

SAMPLE = [
    case
    for case in CASES
    if case.name
    in {
        "controller killed at stage 4 torn",
        "node 0 lost after 11 records",
        "disk of node 1 full at intend 1",
    }
]
"""What the default tests have time for."""

"""Work that a claim brings along: functions and commands of the user, measured as workloads are."""

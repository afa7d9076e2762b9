"""A store of runs, traces, telemetry, results and calibrations that a team shares."""

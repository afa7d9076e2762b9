"""The load client: sends a workload to a server, and reckons latencies, throughput and goodput."""

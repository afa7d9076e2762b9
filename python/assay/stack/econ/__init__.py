"""Costs of runs and deployments: hardware by time, electricity by energy, both per token."""

from assay.stack.econ import capital, deployment, gpu_price, rates, run, tariff
from assay.stack.econ.tariff import scope

__all__ = ["capital", "deployment", "gpu_price", "rates", "run", "scope", "tariff"]

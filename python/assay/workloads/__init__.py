"""Workloads that are not language models, each behind the contract of `contract.py`."""

"""The workflow of GitHub Actions that gates pull requests."""

from __future__ import annotations

from importlib.resources import files


def workflow_text() -> str:
    """A workflow file, ready for .github/workflows; its first lines say what to change."""
    return files("assay.gating").joinpath("assets", "workflow.yml").read_text("utf-8")

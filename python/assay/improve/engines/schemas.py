"""Knobs that an engine's own schema knows, joined with an adapter of YAML."""

from __future__ import annotations

from assay.engine.core.knobs import KNOBS, Knob
from assay.errors import unknown_name
from assay.improve.engines.adapter import VALUE, Adapter, AdapterKnob, Kind, Source, with_knobs


def complete(adapter: Adapter, program: str | None = None) -> Adapter:
    """The adapter with the knobs of its schema; `program` is what starts the server."""
    if not adapter.schema:
        return adapter
    if adapter.schema == "assay":
        return with_knobs(adapter, assay_knobs(), "this release of assay serve has no such knob")
    if adapter.schema == "vllm":
        from assay.improve.engines.vllm_arguments import installed

        return installed(program).adapter(adapter)
    raise unknown_name("schema of knobs", adapter.schema, ("assay", "vllm"))


def assay_knobs() -> dict[str, AdapterKnob]:
    """The knobs of `assay serve`: the engine's own table."""
    return {name: _own(knob) for name, knob in KNOBS.items()}


def _own(knob: Knob) -> AdapterKnob:
    kind: Kind = "text" if isinstance(knob.default, str) else "integer"
    if isinstance(knob.default, bool):
        kind = "boolean"
    return AdapterKnob(
        name=knob.name,
        meaning=knob.meaning,
        kind=kind,
        default=knob.default,
        least=knob.least,
        most=knob.most,
        choices=knob.choices,
        argument=f"--knob {knob.name}={VALUE}",
        read=(Source(endpoint="/server_info", path=f"settings/{knob.name}"),),
    )

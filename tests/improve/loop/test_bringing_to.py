"""Settings that the loop goes back to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from assay.improve.loop.trials import bring_to


@pytest.mark.parametrize(
    ("now", "changed", "expected"),
    [
        # A server that was found did not state it; the same one, started again, does.
        ({"async": True, "seqs": 64}, [], None),
        ({"async": True, "seqs": 256}, [], {"seqs": 64}),
        # Somebody gave it: it is taken away.
        ({"async": True, "seqs": 64}, ["async"], {"async": None}),
    ],
)
def test_what_was_not_stated_is_no_setting_to_go_back_to(
    now: dict[str, object], changed: list[str], expected: dict[str, object] | None
) -> None:
    made: list[dict[str, object]] = []
    stack = [SimpleNamespace(changes={name: True}) for name in changed]
    engine = SimpleNamespace(settings=lambda: now, stack=stack, configure=made.append)
    state = SimpleNamespace(engine=engine, progress=SimpleNamespace(say=lambda text: None))
    bring_to(state, {"async": None, "seqs": 64})  # type: ignore[arg-type]
    assert made == ([] if expected is None else [expected])

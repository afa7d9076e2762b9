"""A run from its first record to its last: however it ends, the engine is in a safe state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assay.errors import AssayError
from assay.improve.engines.protocol import Engine
from assay.improve.journal import block_table
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.watchdog import Watchdog


@contextmanager
def guarded(
    engine: Engine, run: RunFolder, journal: Journal, on_loss: Callable[[str], None] | None = None
) -> Iterator[JournaledEngine]:
    """An engine that comes back to the safe configuration when the block raises or the process dies.

    `on_loss` is told when the watchdog was killed and started again; the default journals it. Whatever
    is still on the stack at the end of the block is taken back: what is to stay is declared safe.
    """

    def lost(text: str) -> None:
        journal.append("degradation", text=text)

    watchdog = Watchdog.start(run, on_loss or lost)
    journaled = JournaledEngine(engine, journal, run, watchdog.beat)
    try:
        try:
            yield journaled
            if journaled.stack:
                journaled.revert("the run ended with changes that were not declared safe")
        except BaseException as error:
            restore(journaled, run, journal, f"{type(error).__name__}: {error}")
            raise
    finally:
        watchdog.close()


def restore(engine: JournaledEngine, run: RunFolder, journal: Journal, why: str) -> None:
    """Bring back the safe configuration, by the engine or, where it fails, from the records.

    Closes the journal in the second case: recovery writes its end.
    """
    if engine.safe is None:
        return
    try:
        engine.revert(why, automatic=bool(engine.stack))
        journal.append("recovered", by="controller", why=why, action="reverted")
        block_table.rebuild(run)
    except (AssayError, OSError):
        # A server that does not come back this way is started from its record, or stopped; and
        # what could not be written now is written when the run is opened next.
        journal.close()
        recover(run, "controller", why)

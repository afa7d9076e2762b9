"""The driver of a job on a Ray cluster: runs the command that was submitted, with its parts on the nodes.

The cluster starts it (`python -m assay.cli.job_driver`). What the command prints goes back by the log
of the job: the answer as it is, its digest beside it.
"""

import io
import os
import sys
import threading

from assay.errors import AssayError, InputError


def main() -> int:
    """Run the command of the job; its exit code."""
    from assay.cli.output import show_error
    from assay.cluster.envelope import JOB, Envelope, answer_lines
    from assay.cluster.job_files import enter_files
    from assay.improve.journal.run_folder import GIVEN_ID

    envelope = Envelope.from_text(os.environ[JOB])
    # Programs that the command starts are no jobs.
    del os.environ[JOB]
    os.environ[GIVEN_ID] = envelope.id
    try:
        _connect(envelope.code)
        enter_files()
    except AssayError as error:
        show_error(error)
        return error.exit_code
    code, answer = _captured(list(envelope.arguments), envelope.script)
    sys.stderr.flush()
    print("\n".join(answer_lines(answer)), flush=True)
    return code


def _connect(code: str) -> None:
    from assay.cluster import current
    from assay.cluster.by_ray import RayRunner
    from assay.cluster.code import code_digest

    if code != code_digest():
        raise InputError(
            f"the head of the cluster: expected Assay with sources {code[:12]}, as where the job was "
            f"submitted, got {code_digest()[:12]}",
            "install the same release of Assay on the head, on every node, and here",
        )
    current.use(RayRunner())


def _captured(arguments: list[str], script: str) -> tuple[int, bytes]:
    """Run the command, or the script; its exit code and what it printed on stdout."""
    from assay.cli import app

    captured = _Answer(io.BytesIO(), "utf-8")
    stdout, sys.stdout = sys.stdout, captured
    try:
        code = _run_script(script, arguments) if script else app.run(arguments)
        captured.flush()
    finally:
        sys.stdout = stdout
    return code, captured.content.getvalue()


def _run_script(script: str, arguments: list[str]) -> int:
    """Run a Python file of the folder that came with the job."""
    import runpy

    sys.argv = [script, *arguments]
    sys.path.insert(0, os.getcwd())
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


class _Answer(io.TextIOWrapper):
    """Standard output of the command; what Ray's threads print, of lost nodes, is none of it."""

    def __init__(self, content: io.BytesIO, encoding: str) -> None:
        super().__init__(content, encoding)
        self.content = content
        self._command = threading.current_thread()

    def write(self, text: str) -> int:
        """Take what the command writes; the rest goes to stderr."""
        if threading.current_thread() is self._command:
            return super().write(text)
        return sys.stderr.write(text)


if __name__ == "__main__":
    sys.exit(main())

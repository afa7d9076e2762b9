"""Commits of a repository: resolved, checked out beside the working tree, built and removed again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.escaping import clipped
from assay.improve.engines.process import Output, output_of
from assay.improve.journal import active

GIT_S: Final = 600.0
"""How long git may take; a checkout of a large repository on a slow disk takes minutes."""
BUILD_S: Final = 3600.0
PLAIN: Final = ("env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE")
"""Without what git sets for its hooks, from which a gate may be started."""
_LINE: Final = 200


class BuildError(InputError):
    """A commit does not build: a bisection skips it."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository; nothing of its working tree or its branches is changed."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> Repository:
        """The repository that a folder is in."""
        if not path.is_dir():
            raise InputError(f"--repository {path}: expected a folder, got none")
        done = output_of((*PLAIN, "git", "-C", str(path), "rev-parse", "--show-toplevel"), GIT_S)
        if done.code != 0:
            raise InputError(
                f"{path.resolve()}: expected a git repository, got none",
                "--repository FOLDER; two commands are compared with {port} in each",
            )
        return cls(Path(done.text.strip().splitlines()[-1]))

    def commit(self, ref: str) -> str:
        """The full hash of a ref."""
        done = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
        if done.code != 0:
            raise InputError(
                f'unknown commit "{ref}" of {self.path.name}',
                "a branch, a tag or a hash; git fetch brings what a shallow clone lacks",
            )
        return done.text.strip()

    def subject(self, commit: str) -> str:
        """The first line of a commit's message."""
        return clipped(self._git("show", "-s", "--format=%s", commit).text.strip(), _LINE)

    def require_measured(self, commits: Sequence[str]) -> None:
        """Refuse changes that no commit has, where one of the commits is the checked-out one."""
        if self._git("rev-parse", "HEAD").text.strip() not in commits:
            return
        changed = self._git("status", "--porcelain", "--untracked-files=no").text.splitlines()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise InputError(
                f"{self.path.name}: expected no changes that are not committed, got "
                f"{changed[0][3:]}{more}: they would not be measured",
                "git commit or git stash them",
            )

    def between(self, base: str, head: str) -> list[str]:
        """Commits after the base up to the head, the oldest first, along first parents."""
        if self._git("merge-base", "--is-ancestor", base, head).code != 0:
            raise InputError(
                f"--bisect: expected BASE to be an ancestor of HEAD, got {base[:12]} and {head[:12]}",
                "git merge-base BASE HEAD names the commit that both come from",
            )
        listed = self._git("rev-list", "--first-parent", "--reverse", f"{base}..{head}")
        return listed.text.split()

    def remove_abandoned(self, runs: Path) -> None:
        """Remove worktrees of gates that were killed: nobody looks after their runs any more."""
        attended = {run.run.id for run in active.active_runs() if run.is_attended}
        for line in self._git("worktree", "list", "--porcelain").text.splitlines():
            word, _, name = line.partition(" ")
            place = Path(name)
            if word != "worktree" or not place.is_relative_to(runs):
                continue
            if place.relative_to(runs).parts[0] not in attended:
                self._git("worktree", "remove", "--force", "--force", name)

    @contextmanager
    def checked_out(
        self, commit: str, folder: Path, build: str | None, say: Callable[[str], None]
    ) -> Iterator[Path]:
        """A worktree of a commit, built; it is removed at the end of the block."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            say(f"checking out {commit[:12]}")
            done = self._git("worktree", "add", "--detach", "--quiet", str(folder), commit)
            if done.code != 0:
                raise InputError(f"git worktree add {commit[:12]}: {_last(done)}")
            if build is not None:
                say(f"building {commit[:12]}")
                self._build(commit, folder, build)
            yield folder
        finally:
            self._git("worktree", "remove", "--force", "--force", str(folder))
            self._git("worktree", "prune")

    def _build(self, commit: str, folder: Path, build: str) -> None:
        # env takes variables before the program, as a shell would.
        script = 'cd "$1" && shift && exec env "$@"'
        try:
            words = shlex.split(build)
        except ValueError as error:
            raise InputError(f"--build: expected balanced quotes, got: {error}") from None
        done = output_of((*PLAIN, "sh", "-c", script, "sh", str(folder), *words), BUILD_S)
        if done.code != 0:
            raise BuildError(f"--build of {commit[:12]}: exited with {done.code}: {_last(done)}")

    def _git(self, *arguments: str) -> Output:
        return output_of((*PLAIN, "git", "-C", str(self.path), *arguments), GIT_S)


def _last(done: Output) -> str:
    lines = [line for line in done.text.splitlines() if line.strip()]
    return clipped(lines[-1], _LINE) if lines else "it printed nothing"

"""The documentation in place: of a checkout, of an installed wheel, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import wheel_documents
from assay.ui import documents


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation without a checkout around it."""
    monkeypatch.setattr(documents, "IN_CHECKOUT", tmp_path / "docs")
    monkeypatch.setattr(documents, "IN_WHEEL", tmp_path / "documents")
    documents.documents.cache_clear()
    documents.glossary.cache_clear()
    yield tmp_path / "documents"
    documents.documents.cache_clear()
    documents.glossary.cache_clear()


def test_a_wheel_has_the_documents_of_the_checkout(installed: Path, root: Path) -> None:
    assert documents.documents() == {}
    documents.documents.cache_clear()
    copied = wheel_documents.copy_documents(root / "docs", installed)
    assert len(documents.documents()) == copied > 50
    assert documents.documents()["guides/ui"].title == "The pages"
    assert {one["term"] for one in documents.glossary()} >= {"AIPW", "MFU"}


def test_documents_are_in_the_package_only_while_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel_documents, "PLACE", tmp_path / "documents")
    with wheel_documents.placed():
        assert (tmp_path / "documents" / "guides" / "ui.md").is_file()
    assert not (tmp_path / "documents").exists()
    monkeypatch.setattr(wheel_documents, "DOCUMENTS", tmp_path / "nothing")
    with (
        pytest.raises(FileNotFoundError, match="expected Markdown files"),
        wheel_documents.placed(),
    ):
        pass

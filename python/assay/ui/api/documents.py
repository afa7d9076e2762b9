"""`/documents` and `/glossary`: the documentation of this release."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from assay.ui.api.reports import REFUSALS
from assay.ui.documents import documents, glossary
from assay.ui.errors import NotThereError

router = APIRouter(tags=["documents"], responses=REFUSALS)


class DocumentTitle(BaseModel):
    """A page of the documentation."""

    name: str
    title: str


class DocumentText(DocumentTitle):
    """A page with its text in Markdown."""

    text: str


class Term(BaseModel):
    """A term of the field."""

    term: str
    meaning: str
    file: str
    """The file where it lives."""
    symbol: str


@router.get("/documents")
def list_documents() -> list[DocumentTitle]:
    """The pages of the documentation."""
    return [
        DocumentTitle(name=document.name, title=document.title) for document in documents().values()
    ]


@router.get("/documents/{name:path}")
def show_document(
    name: Annotated[str, Path(max_length=200, description="Such as guides/ui.")],
) -> DocumentText:
    """A page of the documentation, in Markdown."""
    document = documents().get(name)
    if document is None:
        raise NotThereError(f'there is no page "{name}"', "/documents names the pages")
    return DocumentText(name=document.name, title=document.title, text=document.text)


@router.get("/glossary")
def show_glossary() -> list[Term]:
    """The terms of the field, what each means and where it lives."""
    return [Term(**term) for term in glossary()]

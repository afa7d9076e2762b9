"""Folds by source: which constants predict a case that a fit may have seen."""

from dataclasses import replace

from assay.validate import folds
from assay.validate.cases import Case
from assay.validate.folds import Fold, fold_of, inputs_hash

CASE = Case("a-1", "training", {"gpu": "H100"}, {"step_time_s": 1.0}, {"url": "https://a.org/x"})
HERE = Fold("a.org", frozenset({"a-1"}), {})
OLD = Fold("a", frozenset({"a-2"}), {})


def test_every_case_of_a_source_has_its_fold(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(folds, "_folds_by_source", lambda kind: {"a.org": HERE})
    monkeypatch.setattr(folds, "folds_by_case", lambda kind: {"a-1": HERE, "a-2": OLD})
    assert fold_of(CASE, "training") is HERE
    assert fold_of(replace(CASE, id="b-9", tier="B"), "training") is HERE
    elsewhere = replace(CASE, id="a-2", source={"url": "https://b.org"})
    assert fold_of(elsewhere, "training") is OLD
    assert fold_of(replace(elsewhere, id="c-1"), "training") is None


def test_hash_follows_what_a_fit_reads() -> None:
    other = replace(CASE, id="a-2")
    base = inputs_hash([CASE, other])
    assert base == inputs_hash([other, CASE])
    assert base != inputs_hash([CASE])
    assert base != inputs_hash([replace(CASE, observed={"step_time_s": 1.1}), other])
    assert base != inputs_hash([replace(CASE, inputs={"gpu": "H200"}), other])
    assert base == inputs_hash([replace(CASE, notes="a remark"), other])

//! Tests of tapes as a whole; what concerns one file is tested there.

mod blocks;
mod derivatives;
mod evaluation;
mod programs;
mod smooth;
mod storage;
mod validation;

//! Any bytes as a Kineto trace: read or refused, alike for blocks of any size.
#![no_main]

use std::path::PathBuf;

use assay_trace::kineto::{Facts, Options, read};
use assay_trace::{Result, TraceTable};

fn read_blocks(path: &PathBuf, block_bytes: usize) -> Result<(TraceTable, Facts)> {
    let options = Options { block_bytes, ..Options::default() };
    read(path, &options, &mut |_, _| true)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("assay-fuzz-kineto-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    match (read_blocks(&path, 8 << 20), read_blocks(&path, 64)) {
        (Ok((one, facts)), Ok((other, _))) => {
            assert_eq!(one.rows(), other.rows());
            let counted: u64 = facts.sums.values().map(|&(events, _)| events).sum();
            assert_eq!(one.rows() as u64, counted);
        }
        (Err(one), Err(other)) => assert_eq!(one.code(), other.code()),
        (one, other) => panic!("{:?} and {:?}", one.map(|_| ()), other.map(|_| ())),
    }
});

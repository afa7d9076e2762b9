//! Tables through shards.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use assay_trace::columns::Data;
use assay_trace::{Batch, Event, EventBuilder, Kind, Phase, ShardWriter, TraceTable, read_shard};
use proptest::prelude::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("assay-trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn table(first: i64, rows: i64) -> TraceTable {
    let mut builder = EventBuilder::new();
    for row in first..first + rows {
        let name = format!("kernel {}", row % 7);
        let mut event = Event::new(Kind::Kernel, &name, row * 10, 5);
        event.stream = (row % 2 == 0).then_some(row);
        event.phase = Some(Phase::Decode);
        event.grid = (row % 3 == 0).then_some([1, 2, row as i32]);
        event.args = (row % 5 == 0).then_some("{\"queued\": 0}");
        builder.push(&event).unwrap();
    }
    assert_eq!(builder.rows(), rows as usize);
    builder.finish().unwrap()
}

fn starts(batches: &[Batch]) -> Vec<i64> {
    let column = |batch: &Batch| batch.integers("start_ns").to_vec();
    batches.iter().flat_map(column).collect()
}

fn names(batch: &Batch) -> Vec<&str> {
    let names = batch.column("name").unwrap();
    (0..batch.rows()).filter_map(|row| names.text(row)).collect()
}

#[test]
fn a_shard_cut_at_any_byte_keeps_its_whole_batches() {
    let folder = Folder::new("cut");
    let path = folder.0.join("whole.events");
    let metadata = HashMap::from([("pid".to_owned(), "12".to_owned())]);
    let mut writer = ShardWriter::create(&path, &metadata).unwrap();
    let mut ends = vec![fs::metadata(&path).unwrap().len()];
    for part in 0..3 {
        writer.append(&table(part * 4, 4)).unwrap();
        // Written when `append` returns: a killed process loses nothing of it.
        ends.push(fs::metadata(&path).unwrap().len());
    }
    writer.finish().unwrap();
    let whole = fs::read(&path).unwrap();
    let shard = read_shard(&path).unwrap();
    assert!(shard.complete && shard.cut_bytes == 0 && shard.metadata == metadata);
    assert_eq!(starts(shard.table.batches()), (0..12).map(|row| row * 10).collect::<Vec<_>>());
    assert_eq!(names(&shard.table.batches()[2])[..2], ["kernel 1", "kernel 2"]);

    let cut = folder.0.join("cut.events");
    let near = |length: u64| ends.iter().any(|end| end.abs_diff(length) < 9);
    for length in (0..whole.len() as u64).filter(|&length| length % 61 == 0 || near(length)) {
        fs::write(&cut, &whole[..length as usize]).unwrap();
        let complete = ends.iter().filter(|&&end| end <= length).count();
        match read_shard(&cut) {
            Ok(shard) => {
                assert_eq!(shard.table.rows(), 4 * (complete - 1), "cut at {length}");
                assert_eq!(shard.cut_bytes, length - ends[complete - 1]);
                assert!(!shard.complete);
            }
            Err(error) => {
                assert_eq!(complete, 0, "cut at {length}: {error}");
                assert_eq!(error.code(), "format");
            }
        }
    }
}

#[test]
fn a_shard_does_not_replace_a_file() {
    let folder = Folder::new("exists");
    let path = folder.0.join("one.events");
    fs::write(&path, "kept").unwrap();
    let error = ShardWriter::create(&path, &HashMap::new());
    assert!(error.err().unwrap().to_string().contains("one.events"));
    assert_eq!(fs::read(&path).unwrap(), b"kept");
}

#[test]
fn a_shard_holds_what_the_table_holds() {
    let folder = Folder::new("whole");
    let path = folder.0.join("one.events");
    let table = table(0, 40);
    let mut writer = ShardWriter::create(&path, &HashMap::new()).unwrap();
    writer.append(&table).unwrap();
    writer.finish().unwrap();
    let read = read_shard(&path).unwrap().table;
    assert_eq!(format!("{:?}", read.batches()), format!("{:?}", table.batches()));
}

#[test]
fn clocks_and_ranks_are_set_for_whole_tables() {
    let table = table(0, 3).shifted(i64::MAX - 10).ranked(4);
    assert_eq!(starts(table.batches()), [i64::MAX - 10, i64::MAX, i64::MAX]);
    let ranks = table.batches()[0].column("rank").unwrap().data();
    assert!(matches!(ranks, Data::Int32(ranks) if ranks[..] == [4, 4, 4]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes changed anywhere: whole batches, or an error; never a panic.
    #[test]
    fn a_damaged_shard_is_read_or_refused(place in 0_usize..20000, bytes in prop::collection::vec(any::<u8>(), 1..16)) {
        let folder = Folder::new("damaged");
        let path = folder.0.join(format!("{place}.events"));
        let _ = fs::remove_file(&path);
        let mut writer = ShardWriter::create(&path, &HashMap::new()).unwrap();
        writer.append(&table(0, 4)).unwrap();
        writer.finish().unwrap();
        let mut whole = fs::read(&path).unwrap();
        let place = place % whole.len();
        let end = whole.len().min(place + bytes.len());
        whole[place..end].copy_from_slice(&bytes[..end - place]);
        fs::write(&path, &whole).unwrap();
        if let Ok(shard) = read_shard(&path) {
            prop_assert!(shard.table.rows() <= 4);
        }
    }
}

//! The Kineto reader: cuts of blocks do not show, and no bytes break it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use assay_trace::kineto::{Facts, Late, Options, read, read_batches};
use assay_trace::{Kind, Result, TraceTable};
use proptest::prelude::*;
use serde_json::{Value, json};

static FILES: AtomicU64 = AtomicU64::new(0);

struct TraceFile(PathBuf);

impl TraceFile {
    fn new(bytes: &[u8]) -> Self {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("assay-kineto-{}-{number}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        TraceFile(path)
    }

    fn read(&self, block_bytes: usize) -> Result<(TraceTable, Facts)> {
        let options = Options { block_bytes, ..Options::default() };
        read(&self.0, &options, &mut |_, _| true)
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Name, start, duration and args of each event.
fn rows(table: &TraceTable) -> Vec<(String, i64, i64, Option<Value>)> {
    let mut rows = Vec::new();
    for batch in table.batches() {
        let (names, args) = (batch.column("name"), batch.column("args"));
        let times = batch.integers("start_ns").iter().zip(batch.integers("dur_ns"));
        for (row, (&start, &duration)) in times.enumerate() {
            let name = names.unwrap().text(row).unwrap().to_owned();
            let args = args.unwrap().text(row);
            let args = args.map(|args| serde_json::from_str(args).unwrap());
            rows.push((name, start, duration, args));
        }
    }
    rows
}

/// Events whose strings and lists look like the borders of events.
fn event() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{0,6}",
        Just("}, {\"ph\": \"X\"".to_owned()),
        Just("},\n  {".to_owned()),
        Just("\"]}\\".to_owned()),
        any::<String>(),
    ];
    let nested = prop::collection::vec(text.clone(), 0..3)
        .prop_map(|texts| texts.into_iter().map(|text| json!({ "k": text })).collect::<Vec<_>>());
    (text.clone(), text, nested, 0_i64..1 << 40, 0_i64..1 << 30).prop_map(
        |(name, note, nested, start, duration)| {
            json!({
                "ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": duration,
                "args": {"note": note, "nested": nested},
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn blocks_do_not_show(events in prop::collection::vec(event(), 0..20), block in 1_usize..400, indent: bool) {
        let trace = json!({"schemaVersion": 1, "traceEvents": events, "traceName": "}, {"});
        let text = if indent { serde_json::to_string_pretty(&trace) } else { serde_json::to_string(&trace) };
        let file = TraceFile::new(text.unwrap().as_bytes());
        let (table, facts) = file.read(block).unwrap();
        let expected: Vec<_> = events
            .iter()
            .map(|event| {
                let number = |name: &str| event[name].as_i64().unwrap() * 1000;
                let name = event["name"].as_str().unwrap().to_owned();
                (name, number("ts"), number("dur"), Some(event["args"].clone()))
            })
            .collect();
        prop_assert_eq!(rows(&table), expected);
        prop_assert_eq!(facts, file.read(8 << 20).unwrap().1);
    }

    /// A trace with bytes changed or cut: read or refused, alike for all blocks; never a panic.
    #[test]
    fn damage_is_mended_or_refused(
        events in prop::collection::vec(event(), 1..8),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
        cuts: bool,
    ) {
        let mut bytes = serde_json::to_vec(&json!({"traceEvents": events, "x": 1})).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cuts {
            bytes.truncate(end.index(bytes.len()));
        }
        let file = TraceFile::new(&bytes);
        let whole = file.read(8 << 20);
        let parts = file.read(50);
        match (whole, parts) {
            (Ok((one, _)), Ok((other, _))) => {
                prop_assert!(one.rows() <= events.len());
                prop_assert_eq!(rows(&one), rows(&other));
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.code(), other.code()),
            (one, other) => prop_assert!(false, "{:?} and {:?}", one.map(|_| ()), other.map(|_| ())),
        }
    }
}

#[test]
fn batches_hold_what_memory_holds() {
    let event = |number: i64| {
        json!({"ph": "X", "cat": "kernel", "name": format!("k{}", number % 5), "ts": number,
               "dur": 1, "args": {"number": number}})
    };
    let events: Vec<Value> = (0..3000).map(event).collect();
    // What holds for all events is known only at the end.
    let text = json!({"traceEvents": events}).to_string();
    let text = format!("{}, \"baseTimeNanoseconds\": 7}}", text.strip_suffix('}').unwrap());
    let file = TraceFile::new(text.as_bytes());
    let (table, facts) = read(&file.0, &Options::default(), &mut |_, _| true).unwrap();
    let mut known = Late::default();
    for pass in 1..=2 {
        let mut batches = Vec::new();
        let options = Options::default();
        let mut keep = |batch| {
            batches.push(batch);
            Ok(())
        };
        let (again, late) =
            read_batches(&file.0, &options, known, &mut |_, _| true, &mut keep).unwrap();
        assert_eq!(again, facts);
        // What the file says behind its events is in the batches of the second reading.
        assert_eq!(late.base_ns, (pass == 1).then_some(7));
        assert_eq!(rows(&TraceTable::new(batches)) == rows(&table), pass == 2);
        known = late;
    }
    assert_eq!(facts.sums["kernel"], (3000, 3_000_000));
    assert_eq!(rows(&table)[2].1, 2007);
}

#[test]
fn kinds_can_be_chosen_and_reading_can_be_stopped() {
    let event =
        |category: &str| json!({"ph": "X", "cat": category, "name": "a", "ts": 1, "dur": 1});
    let events = [event("kernel"), event("cpu_op"), event("gpu_memcpy")];
    let file = TraceFile::new(json!(events).to_string().as_bytes());
    let options = Options { kinds: Some(vec![Kind::Kernel, Kind::Memcpy]), ..Options::default() };
    let (table, facts) = read(&file.0, &options, &mut |_, _| true).unwrap();
    assert_eq!((table.rows(), facts.sums.contains_key("host")), (2, false));
    let stopped = read(&file.0, &options, &mut |_, _| false);
    assert!(stopped.unwrap_err().to_string().contains("an interruption"));
}

//! The shard of a process: its events, and a status row with every flush.

use crate::folder::Folder;
use assay_cuda::cupti::{CLOCK, CuptiError, Progress, Sink, quoted};
use assay_trace::{Event, EventBuilder, Kind, ShardWriter, TraceTable};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The name of status rows.
const STATUS_NAME: &str = "assay.status";
/// The category of status rows.
const STATUS_CATEGORY: &str = "assay";

/// A status row is written this often while nothing runs.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The shard that is being written.
pub(crate) struct OpenShard {
    writer: Option<ShardWriter>,
    process: u32,
    last_status: Option<(String, Instant)>,
}

/// A sink that writes to a shard.
#[derive(Clone)]
pub(crate) struct ShardSink(Arc<Mutex<OpenShard>>);

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// The command line of this process, for people.
fn command_line() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let line = words.join(" ");
    line.trim_end().chars().take(500).collect()
}

impl ShardSink {
    /// Creates the shard of this process.
    pub fn create(folder: &Folder, period_ms: u64) -> io::Result<ShardSink> {
        let process = std::process::id();
        let mut number = 0;
        let (file, name) = loop {
            let name = format!("shard-{process}-{number}.events");
            match folder.create(&name) {
                Ok(file) => break (file, name),
                // Another recording of this process, or a process of another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let metadata = HashMap::from(
            [
                ("assay.shard", "1".to_owned()),
                ("pid", process.to_string()),
                ("parent", std::os::unix::process::parent_id().to_string()),
                ("command", command_line()),
                ("clock", CLOCK.to_owned()),
                ("started_ns", now_ns().to_string()),
                ("period_ms", period_ms.to_string()),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let path = folder.path().join(name);
        let writer = ShardWriter::new(file, &path, &metadata)
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(ShardSink(Arc::new(Mutex::new(OpenShard {
            writer: Some(writer),
            process,
            last_status: None,
        }))))
    }

    fn with<T>(&self, act: impl FnOnce(&mut OpenShard) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Says why nothing is recorded, and ends the shard.
    pub fn fail(&self, error: &CuptiError) {
        let progress =
            Progress { degradations: vec![format!("no records: {error}")], ..Progress::default() };
        self.finish(&progress, "");
    }

    /// Writes the last status and marks the shard as complete.
    pub fn finish(&self, progress: &Progress, library: &str) {
        self.with(|shard| {
            let status = status_text(progress, Some(library));
            // A shard that cannot be ended is read as one that was cut.
            let _ = shard.write_status(&status);
            if let Some(writer) = shard.writer.take() {
                let _ = writer.finish();
            }
        });
    }
}

impl Sink for ShardSink {
    fn write(&mut self, events: TraceTable, progress: &Progress) -> Result<(), String> {
        self.with(|shard| shard.append(&events, progress))
    }
}

impl OpenShard {
    fn append(&mut self, events: &TraceTable, progress: &Progress) -> Result<(), String> {
        // The child of a fork has the parent's shard, and must not write to it.
        if std::process::id() != self.process {
            return Ok(());
        }
        if let Some(writer) = &mut self.writer
            && events.rows() > 0
        {
            writer.append(events).map_err(|error| error.to_string())?;
        }
        let status = status_text(progress, None);
        let is_due = match &self.last_status {
            Some((before, when)) => {
                events.rows() > 0 || *before != status || when.elapsed() >= HEARTBEAT
            }
            None => true,
        };
        if is_due {
            self.write_status(&status)?;
            self.last_status = Some((status, Instant::now()));
        }
        Ok(())
    }

    fn write_status(&mut self, status: &str) -> Result<(), String> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let mut event = Event::new(Kind::Instant, STATUS_NAME, now_ns(), 0);
        event.category = Some(STATUS_CATEGORY);
        event.pid = Some(self.process.into());
        event.args = Some(status);
        let mut builder = EventBuilder::new();
        let written = builder
            .push(&event)
            .and_then(|()| builder.finish())
            .and_then(|table| writer.append(&table));
        written.map_err(|error| error.to_string())
    }
}

/// The counts as a JSON object.
fn status_text(progress: &Progress, library: Option<&str>) -> String {
    let counts = &progress.counts;
    let degradations: Vec<_> = progress.degradations.iter().map(|one| quoted(one)).collect();
    let end = match library {
        Some(library) => format!(",\"end\":true,\"library\":{}", quoted(library)),
        None => String::new(),
    };
    format!(
        "{{\"events\":{},\"dropped\":{},\"lost\":{},\"incomplete\":{},\"unknown\":{},\
         \"malformed\":{},\"unopened_ranges\":{},\"degradations\":[{}]{end}}}",
        counts.events,
        progress.dropped,
        progress.lost,
        counts.incomplete,
        counts.unknown,
        counts.malformed,
        counts.unopened_ranges,
        degradations.join(",")
    )
}

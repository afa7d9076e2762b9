//! What the library does in a process: watch the control file, record while it says so.

use crate::CONTROL_FILE;
use crate::control::{Control, State};
use crate::folder::{Folder, Stamp};
use crate::shard::ShardSink;
use assay_cuda::cupti::Session;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often the control file is looked at; a look costs a microsecond.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// A recording: the session and its shard.
struct Recording {
    session: Session,
    shard: ShardSink,
}

/// The tracer of this process.
pub(crate) struct Tracer {
    folder: Folder,
    process: u32,
    seen: Option<Stamp>,
    recording: Option<Recording>,
    /// Set once, before CUPTI records: what must run at the exit of the process.
    before_recording: fn(),
}

impl Tracer {
    /// Opens the folder, or says why it is not safe.
    pub fn open(folder: &Path, before_recording: fn()) -> io::Result<Tracer> {
        Ok(Tracer {
            folder: Folder::open(folder)?,
            process: std::process::id(),
            seen: None,
            recording: None,
            before_recording,
        })
    }

    /// Looks at the control file, and follows it where it changed.
    pub fn poll(&mut self) -> io::Result<()> {
        if std::process::id() != self.process {
            return Ok(());
        }
        let stamp = self.folder.stamp(CONTROL_FILE)?;
        if self.seen == Some(stamp) {
            return Ok(());
        }
        self.seen = Some(stamp);
        let control = Control::parse(&self.folder.read(CONTROL_FILE)?).map_err(io::Error::other)?;
        match control.state {
            State::Armed => self.arm(&control),
            State::Idle => {
                self.disarm();
                Ok(())
            }
        }
    }

    fn arm(&mut self, control: &Control) -> io::Result<()> {
        if self.recording.is_some() {
            return Ok(());
        }
        let shard = ShardSink::create(&self.folder, control.period_ms)?;
        match Session::start(&control.options(), Box::new(shard.clone())) {
            Ok(session) => {
                // CUPTI is loaded: what is registered now runs before CUPTI's own end.
                (self.before_recording)();
                self.recording = Some(Recording { session, shard });
            }
            Err(error) => shard.fail(&error),
        }
        Ok(())
    }

    /// Ends the recording, if there is one: all that ended is on disk afterwards.
    pub fn disarm(&mut self) {
        if std::process::id() != self.process {
            // A forked child: neither threads nor CUPTI came along.
            return;
        }
        let Some(recording) = self.recording.take() else {
            return;
        };
        let library = recording.session.library().to_owned();
        let library = format!("{library} (CUPTI {})", recording.session.version());
        let progress = recording.session.stop();
        recording.shard.finish(&progress, &library);
    }
}

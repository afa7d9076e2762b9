//! A session records the activity of this process and hands its events to a sink.

use super::api::{Cupti, FLUSH_FORCED, Subscriber};
use super::buffers::Buffers;
use super::clock;
use super::decode::{Counts, Decoder};
use super::driver_major;
use super::error::CuptiError;
use super::records::kind;
use assay_collections::named;
use assay_trace::{EventBuilder, TraceTable};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The buffers of this process: CUPTI's callbacks carry no pointer of ours.
static BUFFERS: Buffers = Buffers::new();
/// CUPTI of the running session, for its callbacks.
static CUPTI: AtomicPtr<Cupti> = AtomicPtr::new(std::ptr::null_mut());
/// Whether a session runs.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// How long the end of a session waits for work that is still on the device.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How long nothing must come for the end not to wait any longer.
const QUIET: Duration = Duration::from_millis(300);

named! {
    /// What a session records.
    pub enum Activity {
        /// Kernels, those of replayed graphs one by one.
        Kernels = "kernel",
        /// Copies.
        Copies = "memcpy",
        /// Fills.
        Fills = "memset",
        /// Waits of the host and of streams.
        Synchronization = "sync",
        /// Calls of runtime and driver; costs most.
        Calls = "api",
        /// NVTX ranges and markers.
        Ranges = "nvtx",
        /// Time that CUPTI itself takes.
        Overhead = "overhead",
        /// Replayed graphs as a whole, instead of their kernels.
        Graphs = "graph",
    }
}

impl Activity {
    /// What is recorded unless asked otherwise.
    pub const DEFAULT: [Activity; 4] =
        [Activity::Kernels, Activity::Copies, Activity::Fills, Activity::Ranges];

    /// CUPTI's kinds of record.
    const fn kinds(self) -> &'static [u32] {
        match self {
            Activity::Kernels => &[kind::CONCURRENT_KERNEL],
            Activity::Copies => &[kind::MEMCPY, kind::MEMCPY2],
            Activity::Fills => &[kind::MEMSET],
            Activity::Synchronization => &[kind::SYNCHRONIZATION],
            Activity::Calls => &[kind::RUNTIME, kind::DRIVER, kind::EXTERNAL_CORRELATION],
            Activity::Ranges => &[kind::MARKER],
            Activity::Overhead => &[kind::OVERHEAD],
            Activity::Graphs => &[kind::GRAPH_TRACE],
        }
    }
}

/// How a session records.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it records.
    pub activities: Vec<Activity>,
    /// How often part-filled buffers are delivered.
    pub period: Duration,
    /// Libraries to try before those of wheels, toolkit and system.
    pub libraries: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            activities: Activity::DEFAULT.to_vec(),
            period: Duration::from_millis(250),
            libraries: Vec::new(),
        }
    }
}

/// How far a session is.
#[derive(Clone, Default, Debug)]
pub struct Progress {
    /// What decoding counted.
    pub counts: Counts,
    /// Records that CUPTI lost.
    pub dropped: u64,
    /// Events that the sink could not take.
    pub lost: u64,
    /// What is missing, and why.
    pub degradations: Vec<String>,
}

/// Takes the events of a session, on its flush thread.
pub trait Sink: Send {
    /// Takes the events since the last call, which may be none, and the counts so far.
    fn write(&mut self, events: TraceTable, progress: &Progress) -> Result<(), String>;
}

/// State that the flush thread shares with the session.
struct Shared {
    cupti: &'static Cupti,
    collected: Mutex<Collected>,
    stop: AtomicBool,
    period: Duration,
}

struct Collected {
    decoder: Decoder,
    events: EventBuilder,
    sink: Box<dyn Sink>,
    progress: Progress,
}

/// A running session; one in a process at a time.
pub struct Session {
    shared: Arc<Shared>,
    subscriber: Option<Subscriber>,
    enabled: Vec<u32>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let given = catch_unwind(|| BUFFERS.request()).ok().flatten();
    let (start, bytes, most) = given.unwrap_or((std::ptr::null_mut(), 0, 0));
    // SAFETY: CUPTI gave three places to write to.
    unsafe {
        *buffer = start;
        *size = bytes;
        *records = most;
    }
}

extern "C" fn buffer_completed(
    _context: *mut c_void,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    // SAFETY: the pointer is null or that of a library which is never closed.
    let dropped = match unsafe { CUPTI.load(Ordering::Acquire).as_ref() } {
        Some(cupti) => cupti.take_dropped(),
        None => 0,
    };
    let _ = catch_unwind(|| BUFFERS.complete(buffer, valid, dropped));
}

impl Session {
    /// Starts to record; the sink gets events at least every `period`.
    pub fn start(options: &Options, sink: Box<dyn Sink>) -> Result<Session, CuptiError> {
        let major = driver_major()?;
        let cupti = Cupti::open(major, &options.libraries)?;
        if RUNNING.swap(true, Ordering::AcqRel) {
            return Err(CuptiError::Busy);
        }
        let session = Session::subscribe(cupti, options, sink);
        if session.is_err() {
            RUNNING.store(false, Ordering::Release);
        }
        session
    }

    fn subscribe(
        cupti: &'static Cupti,
        options: &Options,
        sink: Box<dyn Sink>,
    ) -> Result<Session, CuptiError> {
        let subscriber = cupti.subscribe()?;
        let mut session = Session {
            shared: Arc::new(Shared {
                cupti,
                collected: Mutex::new(Collected {
                    decoder: Decoder::new(),
                    events: EventBuilder::new(),
                    sink,
                    progress: Progress::default(),
                }),
                stop: AtomicBool::new(false),
                period: options.period,
            }),
            subscriber: Some(subscriber),
            enabled: Vec::new(),
            thread: None,
        };
        // Dropping the session undoes what was done so far.
        session.enable(options)?;
        let shared = Arc::clone(&session.shared);
        let thread = std::thread::Builder::new()
            .name("assay-cupti".to_owned())
            .spawn(move || flush_until_stopped(&shared))
            .map_err(|error| CuptiError::Thread(error.to_string()))?;
        session.thread = Some(thread);
        Ok(session)
    }

    fn enable(&mut self, options: &Options) -> Result<(), CuptiError> {
        let cupti = self.shared.cupti;
        BUFFERS.reset();
        CUPTI.store(std::ptr::from_ref(cupti).cast_mut(), Ordering::Release);
        cupti.take_dropped();
        cupti.use_system_thread_ids();
        // Before any kind is enabled, so that every record is on this clock.
        let is_set = cupti.set_clock(clock::realtime)?;
        if !is_set {
            let note = clock::difference_note(cupti.timestamp()?);
            lock(&self.shared.collected).progress.degradations.extend(note);
        }
        super::nvtx::connect(cupti);
        cupti.register(buffer_requested, buffer_completed)?;
        for activity in &options.activities {
            for kind in activity.kinds() {
                match cupti.enable(*kind) {
                    Ok(()) => self.enabled.push(*kind),
                    Err(error @ CuptiError::OtherSubscriber { .. }) => return Err(error),
                    Err(error) if *activity == Activity::Kernels => return Err(error),
                    Err(error) => lock(&self.shared.collected)
                        .progress
                        .degradations
                        .push(format!("no {} records: {error}", activity.name())),
                }
            }
        }
        Ok(())
    }

    /// CUPTI's version.
    pub fn version(&self) -> u32 {
        self.shared.cupti.version
    }

    /// Where CUPTI was opened.
    pub fn library(&self) -> &str {
        &self.shared.cupti.path
    }

    /// The counts so far.
    pub fn progress(&self) -> Progress {
        let mut progress = lock(&self.shared.collected).progress.clone();
        progress.dropped = BUFFERS.dropped();
        progress
    }

    /// Delivers what is complete now.
    pub fn flush(&self) {
        self.shared.deliver(0);
    }

    /// Ends the session: waits briefly for work that is still on the device, delivers everything.
    pub fn stop(mut self) -> Progress {
        self.end();
        self.progress()
    }

    fn end(&mut self) {
        let Some(subscriber) = self.subscriber.take() else {
            return;
        };
        let cupti = self.shared.cupti;
        self.shared.stop.store(true, Ordering::Release);
        BUFFERS.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for kind in std::mem::take(&mut self.enabled) {
            // What it recorded so far is delivered all the same.
            let _ = cupti.disable(kind);
        }
        let (start, mut before, mut last) = (Instant::now(), BUFFERS.delivered(), Instant::now());
        loop {
            self.shared.deliver(0);
            if BUFFERS.delivered() != before {
                (before, last) = (BUFFERS.delivered(), Instant::now());
            }
            let waited = start.elapsed() > LAST_WAIT || last.elapsed() > QUIET;
            if BUFFERS.outstanding() == 0 || waited {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.shared.deliver(FLUSH_FORCED);
        BUFFERS.add_dropped(cupti.take_dropped());
        self.shared.close();
        cupti.unsubscribe(subscriber);
        RUNNING.store(false, Ordering::Release);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// The flush thread.
fn flush_until_stopped(shared: &Shared) {
    let mut flushed = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        BUFFERS.wait(shared.period.saturating_sub(flushed.elapsed()));
        if flushed.elapsed() >= shared.period {
            flushed = Instant::now();
            shared.deliver(0);
        } else {
            shared.drain();
        }
    }
}

impl Shared {
    /// Has CUPTI give buffers back, and hands their events to the sink.
    fn deliver(&self, flag: u32) {
        if let Err(error) = self.cupti.flush(flag) {
            lock(&self.collected).degrade(format!("flush: {error}"));
        }
        self.drain();
    }

    /// Hands the events of filled buffers to the sink.
    fn drain(&self) {
        let mut collected = lock(&self.collected);
        let collected = &mut *collected;
        for filled in BUFFERS.take() {
            let decoded = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: CUPTI filled the buffer and gave it up.
                unsafe {
                    let Collected { decoder, events, .. } = &mut *collected;
                    decoder.buffer(self.cupti, filled.start, filled.valid, events);
                }
            }));
            if decoded.is_err() {
                collected.degrade("a buffer of records could not be decoded".to_owned());
            }
            // SAFETY: it came from `take`; events hold copies.
            unsafe { BUFFERS.recycle(filled) };
        }
        collected.write();
    }

    /// The last events: ranges that are still open.
    fn close(&self) {
        let mut collected = lock(&self.collected);
        let collected = &mut *collected;
        let now = clock::realtime();
        collected.decoder.close_ranges(now, &mut collected.events);
        collected.write();
    }
}

impl Collected {
    fn degrade(&mut self, sentence: String) {
        if !self.progress.degradations.contains(&sentence) {
            self.progress.degradations.push(sentence);
        }
    }

    fn write(&mut self) {
        self.progress.counts = self.decoder.counts;
        self.progress.dropped = BUFFERS.dropped();
        let rows = self.events.rows() as u64;
        let written = match self.events.finish() {
            Ok(table) => self.sink.write(table, &self.progress),
            Err(error) => Err(error.to_string()),
        };
        if let Err(problem) = written {
            self.progress.lost += rows;
            self.degrade(format!("events were lost: {problem}"));
        }
    }
}

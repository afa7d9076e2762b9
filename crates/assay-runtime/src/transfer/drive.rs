//! Progress: finished chunks are taken in, freed slots are filled, copies are queued.
//!
//! Any thread may drive. Bytes are copied between slots and buffers outside the lock, so several
//! threads stage at once; the lock is held across the two calls that queue a chunk, which keeps
//! the books in the order of the stream.

use super::books::Books;
use super::error::TransferError;
use super::job::{Chunk, ChunkError, Route, Way};
use super::{Shared, lock};
use crate::backend::BackendError;
use crate::scheduler::{Lane, ProgressEngine};

/// What a thread that drives has in hand.
enum InHand {
    Stage(Chunk),
    Drain(Chunk),
}

impl Shared {
    /// Does everything that can be done without waiting.
    pub(super) fn drive(&self) -> Result<(), TransferError> {
        let backend = &*self.backend;
        loop {
            let next = {
                let mut books = lock(&self.books)?;
                books.take_in();
                books.next_in_hand()
            };
            let Some(in_hand) = next else {
                return Ok(());
            };
            match in_hand {
                InHand::Stage(chunk) => {
                    let staged = chunk.stage(backend);
                    let mut books = lock(&self.books)?;
                    if let Err(error) = staged {
                        books.fail_job(&chunk, error);
                    }
                    books.issue(chunk);
                }
                InHand::Drain(chunk) => {
                    let drained = chunk.drain(backend);
                    lock(&self.books)?.drained(chunk, drained);
                }
            }
            self.changed.notify_all();
        }
    }
}

impl ProgressEngine for Shared {
    fn make_progress(&self) {
        // Whoever waits for one of the transfers meets the error.
        let _ = Shared::drive(self);
    }

    fn wait_for_grant_end(&self, lane: Option<Lane>) -> bool {
        let Ok(books) = lock(&self.books) else {
            return false;
        };
        let holds = |chunk: &&Chunk| chunk.turn.is_some() && chunk.mark.is_some();
        let oldest = Way::ALL
            .into_iter()
            .filter(|way| lane.is_none_or(|lane| lane == way.lane()))
            .find_map(|way| books.ways[way as usize].under_way.iter().find(holds));
        let Some(mark) = oldest.and_then(|chunk| chunk.mark.clone()) else {
            return false;
        };
        drop(books);
        // A failure shows again, with its chunk, when the books are next brought up to date.
        let _ = mark.synchronize();
        ProgressEngine::make_progress(self);
        true
    }
}

impl Books {
    /// Queues what needs no staging and hands out what does.
    fn next_in_hand(&mut self) -> Option<InHand> {
        if let Some(chunk) = self.to_drain.pop_front() {
            self.ways[chunk.route.way() as usize].in_hand += 1;
            return Some(InHand::Drain(chunk));
        }
        for way in Way::ALL {
            while let Some(chunk) = self.claim(way) {
                match chunk.route {
                    Route::Upload { .. } => return Some(InHand::Stage(chunk)),
                    Route::Download { .. } | Route::Direct { .. } => self.issue(chunk),
                }
            }
        }
        None
    }

    /// Takes in every chunk that is over.
    fn take_in(&mut self) {
        for way in Way::ALL {
            loop {
                let books = &self.ways[way as usize];
                let (Some(first), Some(stream)) = (books.under_way.front(), books.stream) else {
                    break;
                };
                let reached = match &first.mark {
                    Some(mark) => mark.is_complete(),
                    None => self.backend.query_stream(stream),
                };
                match reached {
                    Ok(false) => break,
                    Ok(true) => self.arrived(way),
                    Err(error) => self.replace_stream(way, error),
                }
            }
        }
    }

    /// The first chunk under way is over.
    fn arrived(&mut self, way: Way) {
        let Some(mut chunk) = self.ways[way as usize].under_way.pop_front() else {
            return;
        };
        drop(chunk.turn.take());
        let sound = self
            .jobs
            .get_mut(chunk.job)
            .filter(|job| job.error.is_none());
        match (sound, &chunk.route) {
            (Some(_), Route::Download { .. }) => return self.to_drain.push_back(chunk),
            (Some(job), _) => job.arrived += chunk.bytes,
            (None, _) => {}
        }
        self.retire(chunk);
    }

    /// A downloaded chunk was read out of its slot.
    fn drained(&mut self, chunk: Chunk, outcome: Result<(), ChunkError>) {
        self.ways[chunk.route.way() as usize].in_hand -= 1;
        match outcome {
            Ok(()) => {
                if let Some(job) = self.jobs.get_mut(chunk.job) {
                    job.arrived += chunk.bytes;
                }
            }
            Err(error) => self.fail_job(&chunk, error),
        }
        self.retire(chunk);
    }

    /// The stream failed on its first chunk: that transfer fails, the others start over.
    ///
    /// A failed stream does no more work, so the chunks behind have not been copied. Their bytes
    /// are still in their slots or at their source.
    fn replace_stream(&mut self, way: Way, error: BackendError) {
        let books = &mut self.ways[way as usize];
        if let Some(stream) = books.stream.take() {
            // Whatever of it still runs must not meet slots in their next use. Its failure is
            // known already.
            let _ = self.backend.synchronize_stream(stream);
            let _ = self.backend.destroy_stream(stream);
        }
        let mut again = std::mem::take(&mut books.under_way);
        if let Some(first) = again.pop_front() {
            self.fail_chunk(first, ChunkError::Backend(error));
        }
        for mut chunk in again {
            chunk.mark = None;
            match self.jobs.get(chunk.job) {
                Some(job) if job.error.is_none() => self.enqueue(way, chunk),
                _ => self.retire(chunk),
            }
        }
    }
}

//! The lock around the books, and waiting for them to change.

use super::books::Books;
use super::driver::Driver;
use super::error::SchedulerError;
use super::lane::Lane;
use crate::clock::Clock;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// The longest sleep before a waiting thread looks again whether it is still wanted.
const SLICE_NS: u64 = 1_000_000;

/// What a waiting thread waits for.
pub(super) enum Outlook<T> {
    /// It is there.
    Ready(T),
    /// It comes with time, at this moment, if nothing else happens.
    At(u64),
    /// It comes when a turn ends, in this lane if one is named, or someone changes something.
    OnChange(Option<Lane>),
}

/// What a thread that waits for a change has tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Nothing,
    Driving,
    Blocking,
}

/// The books with their lock and clock, shared by every handle.
///
/// One lock guards everything. It is held for the length of a decision, a fraction of a
/// microsecond, and no foreign code but [`MemorySource`](super::MemorySource) runs under it.
pub(super) struct Shared {
    books: Mutex<Books>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    drivers: Mutex<Vec<Weak<dyn Driver>>>,
}

impl Shared {
    pub fn new(books: Books, clock: Arc<dyn Clock>) -> Self {
        Shared {
            books: Mutex::new(books),
            changed: Condvar::new(),
            clock,
            drivers: Mutex::new(Vec::new()),
        }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Works on the books as they are now.
    pub fn with<T>(&self, work: impl FnOnce(&mut Books) -> T) -> Result<T, SchedulerError> {
        let now_ns = self.clock.now_ns();
        let mut books = self.books.lock().map_err(|_| SchedulerError::Poisoned)?;
        books.advance(now_ns);
        let result = work(&mut books);
        self.unlock(books);
        Ok(result)
    }

    /// Works on the books even if a thread panicked over them, for giving things back.
    pub fn with_always(&self, work: impl FnOnce(&mut Books)) {
        let now_ns = self.clock.now_ns();
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.advance(now_ns);
        work(&mut books);
        self.unlock(books);
    }

    fn unlock(&self, mut books: MutexGuard<'_, Books>) {
        let wake = std::mem::take(&mut books.changed) && books.waiters > 0;
        drop(books);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Remembers someone who holds turns while work runs.
    pub fn add_driver(&self, driver: &Arc<dyn Driver>) {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            |other: &Weak<dyn Driver>| std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(driver));
        if !drivers.iter().any(known) {
            drivers.retain(|other| other.strong_count() > 0);
            drivers.push(Arc::downgrade(driver));
        }
    }

    fn drivers(&self) -> Vec<Arc<dyn Driver>> {
        let drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        drivers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Blocks until `look` finds what it looks for.
    ///
    /// Waiting for time goes through the clock, so that it also ends on a clock that moves only
    /// when someone sleeps on it. Waiting for a turn to end moves on those who hold turns.
    pub fn wait<T>(
        &self,
        mut look: impl FnMut(&mut Books) -> Outlook<T>,
    ) -> Result<T, SchedulerError> {
        let mut tried = Tried::Nothing;
        let mut books = self.books.lock().map_err(|_| SchedulerError::Poisoned)?;
        loop {
            let now_ns = self.clock.now_ns();
            books.advance(now_ns);
            match look(&mut books) {
                Outlook::Ready(value) => {
                    self.unlock(books);
                    return Ok(value);
                }
                Outlook::At(instant_ns) => {
                    self.unlock(books);
                    let slice = now_ns.saturating_add(SLICE_NS);
                    self.clock.sleep_until_ns(instant_ns.min(slice));
                    books = self.books.lock().map_err(|_| SchedulerError::Poisoned)?;
                }
                Outlook::OnChange(_) if tried == Tried::Blocking => {
                    books = self.sleep(books)?;
                    tried = Tried::Nothing;
                }
                Outlook::OnChange(lane) => {
                    self.unlock(books);
                    tried = self.drive(tried, lane);
                    books = self.books.lock().map_err(|_| SchedulerError::Poisoned)?;
                }
            }
        }
    }

    /// Moves on those who hold turns: first without waiting, then by waiting for one of them.
    fn drive(&self, tried: Tried, lane: Option<Lane>) -> Tried {
        let drivers = self.drivers();
        if tried == Tried::Nothing {
            drivers.iter().for_each(|driver| driver.drive());
            return Tried::Driving;
        }
        match drivers.iter().any(|driver| driver.wait_for_turn_end(lane)) {
            true => Tried::Nothing,
            false => Tried::Blocking,
        }
    }

    /// Sleeps until someone changes something, or for a while: another thread may queue work
    /// under a turn and never look at it again.
    fn sleep<'a>(
        &'a self,
        mut books: MutexGuard<'a, Books>,
    ) -> Result<MutexGuard<'a, Books>, SchedulerError> {
        // Whatever this thread changed on the way, others must hear of before it sleeps.
        if std::mem::take(&mut books.changed) && books.waiters > 0 {
            self.changed.notify_all();
        }
        books.waiters += 1;
        let slice = Duration::from_nanos(SLICE_NS);
        let woken = self.changed.wait_timeout(books, slice);
        let (mut books, _) = woken.map_err(|_| SchedulerError::Poisoned)?;
        books.waiters -= 1;
        Ok(books)
    }
}

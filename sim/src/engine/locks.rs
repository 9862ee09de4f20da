//! The holders of locks: statistics, and the check that a lock has one holder.

use crate::engine::ids::{ContextId, LockId};
use crate::engine::state::{LockState, State};
use crate::line::NO_ID;
use crate::time::Time;

impl State {
    fn lock(&mut self, lock: LockId) -> &mut LockState {
        &mut self.locks[lock.0 as usize]
    }

    /// A context begins to wait for a lock. Returns the time.
    pub fn want(&mut self, id: ContextId, lock: LockId) -> Time {
        self.context(id).wants = lock.0;
        if self.lock(lock).holder != NO_ID && self.is_deadlocked(id) {
            self.fail(self.deadlock());
        }
        self.now
    }

    /// A context has acquired a lock exclusively, for which it has waited since that time.
    pub fn acquired(&mut self, id: ContextId, lock: LockId, since: Time) {
        let now = self.now;
        let taken = self.count_acquired(id, lock, since);
        let (holder, readers) = (taken.holder, taken.readers);
        (taken.holder, taken.since) = (id.0, now);
        if holder != NO_ID || readers != 0 {
            self.fail(self.two_holders(lock, id.cpu(), holder));
        }
    }

    /// A context has acquired a lock as a reader.
    pub fn acquired_to_read(&mut self, id: ContextId, lock: LockId, since: Time) {
        let taken = self.count_acquired(id, lock, since);
        taken.readers += 1;
        let holder = taken.holder;
        if holder != NO_ID {
            self.fail(self.two_holders(lock, id.cpu(), holder));
        }
    }

    fn count_acquired(&mut self, id: ContextId, lock: LockId, since: Time) -> &mut LockState {
        self.context(id).wants = NO_ID;
        let waiting = self.now - since;
        let taken = self.lock(lock);
        taken.traffic.acquired += 1;
        taken.traffic.waiting += waiting;
        taken
    }

    /// A context is about to release a lock that it holds exclusively.
    pub fn released(&mut self, id: ContextId, lock: LockId) {
        let now = self.now;
        let left = self.lock(lock);
        left.traffic.holding += now - left.since;
        if left.holder != id.0 {
            self.fail(self.not_held(lock, id.cpu()));
        } else {
            left.holder = NO_ID;
        }
    }

    /// A context is about to release a lock that it holds as a reader.
    pub fn released_by_reader(&mut self, id: ContextId, lock: LockId) {
        let left = self.lock(lock);
        if left.readers == 0 {
            self.fail(self.not_held(lock, id.cpu()));
        } else {
            left.readers -= 1;
        }
    }

    /// The exclusive holder of a lock is about to become one of its readers.
    pub fn downgraded(&mut self, id: ContextId, lock: LockId) {
        self.released(id, lock);
        self.lock(lock).readers += 1;
    }
}

//! Memory accesses: loads, stores through the store buffer, atomic accesses, and spinning on a cache line.

use crate::engine::context::{Action, Context, Doing, Drained, Mode};
use crate::engine::ids::{ContextId, Word};
use crate::engine::state::{RecentFill, State, Store, WordState};
use crate::line::{NO_ID, Served};
use crate::time::Time;

impl State {
    /// Begins an access to a word.
    #[inline]
    pub fn access(&mut self, id: ContextId, word: Word, action: Action, operands: [u64; 2]) {
        let context = self.begin(id);
        context.word = word.0;
        context.operands = operands;
        self.request(id, word.0, action);
    }

    /// Requests the cache line of a word. An atomic access first waits until the stores before it have arrived. If
    /// one of them has requested the same cache line already, the access needs no request of its own.
    #[inline]
    pub(super) fn request(&mut self, id: ContextId, word: u32, action: Action) {
        let (now, writes) = (self.now, action != Action::Read);
        if writes && self.cpus[id.cpu()].is_storing {
            let line = &self.lines[self.words[word as usize].line as usize];
            let is_coming = line.is_owned_by(id.cpu());
            return self.drain(id, if is_coming { Drained::Hit(action) } else { Drained::Request(action) });
        }
        let served = self.serve(id.cpu(), word, writes, now);
        let context = self.context(id);
        context.doing = Doing::Access(action);
        context.begin = served.begin;
        context.done = served.done;
    }

    fn drain(&mut self, id: ContextId, then: Drained) {
        let done = self.drained(id.cpu());
        let context = self.context(id);
        (context.doing, context.done) = (Doing::Drain(then), done);
    }

    /// Begins a fence: the context waits until all stores of its CPU are visible to others.
    pub fn fence(&mut self, id: ContextId) {
        self.begin(id);
        self.drain(id, Drained::Fence);
    }

    /// When the cache line of a word reaches the CPU. Within the minimum residency it is still there, even if others
    /// have requested it: a core finishes what it does to a line in quick succession before it gives the line away.
    #[inline]
    fn serve(&mut self, cpu: usize, word: u32, writes: bool, since: Time) -> Served {
        let number = self.words[word as usize].line;
        let hit = self.machine.hit;
        if self.min_residency == Time::ZERO {
            return self.lines[number as usize].access(&self.machine, &mut self.links, cpu, writes, since);
        }
        if self.is_resident(cpu, number, writes, since) {
            return Served { begin: since, done: since + hit };
        }
        let served = self.lines[number as usize].access(&self.machine, &mut self.links, cpu, writes, since);
        if served.done > since + hit {
            let recent = &mut self.recent_fills[cpu];
            recent.rotate_right(1);
            recent[0] = RecentFill { line: number, done: served.done, written: writes };
        }
        served
    }

    /// Whether a cache line that the CPU has received is within its minimum residency there.
    #[inline]
    fn is_resident(&self, cpu: usize, line: u32, writes: bool, since: Time) -> bool {
        let is_resident = |fill: &RecentFill| {
            let is_in_time = fill.done <= since && since <= fill.done + self.min_residency;
            fill.line == line && is_in_time && (fill.written || !writes)
        };
        self.min_residency > Time::ZERO && self.recent_fills[cpu].iter().any(is_resident)
    }

    /// How long the line's home is busy with an addition without a result. `None`: the CPU does it, as its cache has
    /// the line in a unique state (Arm, Cortex-A76 TRM, 100798, A6.4.1). So it has a line that none has used yet: who
    /// uses memory has set it to zero before.
    fn far_addition(&self, cpu: usize, word: u32) -> Option<Time> {
        let busy = self.machine.far_atomic?;
        let number = self.words[word as usize].line;
        let line = &self.lines[number as usize];
        let is_unique =
            line.is_owned_by(cpu) || line.is_unused() || self.is_resident(cpu, number, true, self.now);
        (!is_unique).then_some(busy)
    }

    /// Requests a cache line for reading, without waiting for it. Returns when it will have come.
    pub fn prefetch(&mut self, cpu: usize, word: Word) -> Time {
        let now = self.now;
        self.serve(cpu, word.0, false, now).done
    }

    /// Requests a cache line for writing, without waiting for it. CPUs that spin on a copy of it lose the copy and
    /// read the line again.
    pub fn prefetch_to_write(&mut self, cpu: usize, word: Word) {
        let (now, line) = (self.now, self.words[word.0 as usize].line);
        self.serve(cpu, word.0, true, now);
        self.wake_watchers(line);
    }

    /// All caches lose the cache line of a word.
    pub fn evict(&mut self, word: Word) {
        let line = self.words[word.0 as usize].line;
        self.lines[line as usize].evict();
    }

    /// When all stores in the CPU's store buffer will have arrived.
    #[inline]
    fn drained(&self, cpu: usize) -> Time {
        if !self.cpus[cpu].is_storing {
            return self.now;
        }
        self.stores[cpu].back().map_or(self.now, |last| last.done)
    }

    /// Some stores of the CPU are not yet visible to others.
    pub fn is_storing(&self, cpu: usize) -> bool {
        self.cpus[cpu].is_storing
    }

    /// Just after the CPU's stores have become visible: a program that is woken then sees them.
    pub fn stores_visible(&self, cpu: usize) -> Time {
        if self.is_storing(cpu) { self.drained(cpu) + Time::of_ps(1) } else { self.now }
    }

    /// Begins a plain store. It is done as soon as the store is in the store buffer.
    pub fn store(&mut self, id: ContextId, word: Word, value: u64, mask: u64) {
        let context = self.begin(id);
        context.word = word.0;
        context.operands = [value, mask];
        self.store_or_wait(id, Action::Replace);
    }

    /// Begins an addition without a result. Where these are far, it is done as soon as it is in the store buffer.
    pub fn add(&mut self, id: ContextId, word: Word, more: u64) {
        if self.machine.far_atomic.is_none() {
            return self.access(id, word, Action::Add, [more, 0]);
        }
        let context = self.begin(id);
        context.word = word.0;
        context.operands = [more, 0];
        self.store_or_wait(id, Action::Add);
    }

    /// Puts the store or addition of a context into the store buffer, or waits for a free entry.
    fn store_or_wait(&mut self, id: ContextId, action: Action) {
        let (now, cpu, hit) = (self.now, id.cpu(), self.machine.hit);
        if self.stores[cpu].len() >= self.machine.store_buffer {
            let done = self.stores[cpu][0].done;
            let context = self.context(id);
            (context.doing, context.done) = (Doing::Store(action), done);
            return;
        }
        let before = self.drained(cpu);
        let word = self.context(id).word;
        let far = if action == Action::Add { self.far_addition(cpu, word) } else { None };
        let served = match far {
            Some(busy) => {
                let line = &mut self.lines[self.words[word as usize].line as usize];
                line.add_at_home(&self.machine, &mut self.links, (cpu, busy), now)
            }
            None => self.serve(cpu, word, true, now),
        };
        let context = self.context(id);
        if served.done == now + hit && before == now {
            context.doing = Doing::Access(action);
            context.begin = served.begin;
            context.done = served.done;
            return;
        }
        (context.doing, context.done) = (Doing::Work(Mode::Kernel), now + hit);
        let operands = context.operands;
        let done = served.done.max(before);
        let state = &mut self.cpus[cpu];
        state.is_storing = true;
        state.next_arrival = state.next_arrival.min(done);
        let last = self.stores[cpu].back().map(|last| self.words[last.word as usize].line);
        let at_home = far.is_some();
        let is_late = !at_home && before > served.done && last != Some(self.words[word as usize].line);
        self.stores[cpu].push_back(Store { done, word, action, operands, at_home, is_late });
    }

    /// Lets the first store of a CPU arrive, if its time has come.
    pub(super) fn store_arrives(&mut self, cpu: usize) -> bool {
        let Some(first) = self.stores[cpu].front().filter(|first| first.done <= self.now) else {
            return false;
        };
        let Store { word, action, operands, is_late, .. } = *first;
        let WordState { line, value } = self.words[word as usize];
        if is_late && !self.lines[line as usize].is_owned_by(cpu) {
            self.request_again(cpu, word);
            return true;
        }
        self.stores[cpu].pop_front();
        self.cpus[cpu].is_storing = !self.stores[cpu].is_empty();
        self.set_next_arrival(cpu);
        self.words[word as usize].value = action.applied(value, operands);
        self.wake_watchers(line);
        true
    }

    /// The first store of a CPU has lost its cache line and requests it again. The stores behind it wait.
    fn request_again(&mut self, cpu: usize, word: u32) {
        let now = self.now;
        let done = self.serve(cpu, word, true, now).done;
        let mut last = self.words[word as usize].line;
        for store in &mut self.stores[cpu] {
            let line = self.words[store.word as usize].line;
            if store.done < done {
                (store.done, store.is_late) = (done, !store.at_home && line != last);
            }
            last = line;
        }
        self.set_next_arrival(cpu);
    }

    /// Handles the end of a wait for stores. Returns whether the context still waits: for its cache line, or for
    /// stores that had to request theirs again.
    pub(super) fn waits_after_stores(&mut self, id: ContextId, waiting: Doing) -> bool {
        if !matches!(waiting, Doing::Drain(_) | Doing::Store(_)) {
            return false;
        }
        let (now, hit) = (self.now, self.machine.hit);
        let is_storing = self.cpus[id.cpu()].is_storing;
        let context = self.context(id);
        context.start = now;
        let word = context.word;
        match waiting {
            Doing::Store(action) => self.store_or_wait(id, action),
            Doing::Drain(then) if is_storing => self.drain(id, then),
            Doing::Drain(Drained::Request(action)) => self.request(id, word, action),
            Doing::Drain(Drained::Hit(action)) => {
                (context.doing, context.begin, context.done) = (Doing::Access(action), now, now + hit);
            }
            _ => return false,
        }
        true
    }

    /// Begins to wait for a write of a cache line, then reads the word. It reads at once if the word no longer holds
    /// `seen`, or if the CPU has lost its copy of the line.
    pub fn watch(&mut self, id: ContextId, word: Word, seen: u64) {
        self.begin(id).word = word.0;
        let WordState { line, value } = self.words[word.0 as usize];
        let line = &mut self.lines[line as usize];
        if value != seen || !line.has_copy(id.cpu()) {
            self.request(id, word.0, Action::Read);
            return;
        }
        let context = &mut self.contexts[id.0 as usize];
        context.doing = Doing::Watch;
        context.done = Time::NEVER;
        context.next_watcher = line.watchers;
        line.watchers = id.0;
    }

    /// A cache line has been written: every context that spins on it reads it again, in random order.
    #[inline]
    fn wake_watchers(&mut self, line: u32) {
        if self.lines[line as usize].watchers != NO_ID {
            self.wake_all_watchers(line);
        }
    }

    fn wake_all_watchers(&mut self, line: u32) {
        let mut watcher = std::mem::replace(&mut self.lines[line as usize].watchers, NO_ID);
        let mut woken = std::mem::take(&mut self.woken);
        while watcher != NO_ID {
            let id = ContextId(watcher);
            woken.push(id);
            watcher = std::mem::replace(&mut self.context(id).next_watcher, NO_ID);
        }
        self.random.shuffle(&mut woken);
        for id in woken.drain(..) {
            if self.running(id.cpu()) == id {
                self.account(id);
                let now = self.now;
                let context = self.context(id);
                context.start = now;
                let word = context.word;
                self.request(id, word, Action::Read);
                self.schedule(id.cpu());
            } else {
                self.context(id).doing = Doing::Written;
            }
        }
        self.woken = woken;
    }

    /// Carries out an access whose cache line has come.
    #[inline]
    pub(super) fn apply(&mut self, id: ContextId, action: Action) {
        let Context { operands, word, .. } = self.contexts[id.0 as usize];
        let WordState { line, value } = &mut self.words[word as usize];
        let (line, mut before) = (*line, *value);
        if self.cpus[id.cpu()].is_storing {
            // A CPU sees its own stores before others do. An atomic access comes after all of them.
            for store in self.stores[id.cpu()].iter().filter(|store| store.word == word) {
                before = store.action.applied(before, store.operands);
            }
        }
        if action != Action::Read {
            *value = action.applied(before, operands);
        }
        self.context(id).operands[0] = before;
        if action != Action::Read {
            self.wake_watchers(line);
        }
    }
}

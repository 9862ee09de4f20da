//! A CPU as its program sees it: operations that take time, one after the other.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use crate::engine::{Action, ContextId, Doing, Interrupt, LockId, Mode, State, Word, decode};
use crate::failure::Failure;
use crate::line::NOBODY;
use crate::locks::{DowngradeLock, Lock, ReadLock, TryLock, TryReadLock};
use crate::time::Time;

/// The CPU on which a program or an interrupt handler runs.
///
/// A program is an ordinary async function. Whatever takes time is awaited, and a CPU does one thing at a time:
///
/// ```
/// use bigiron_sim::{Machine, Run, Simulation, Time, ns, us};
///
/// let mut sim = Simulation::new(Machine::uniform(4, ns(1), ns(100)), 1);
/// let counter = sim.word("counter", 0);
/// for cpu in 0..4 {
///     sim.program(cpu, move |cpu| async move {
///         loop {
///             cpu.fetch_add(counter, 1).await;
///             cpu.operation();
///         }
///     });
/// }
/// let report = sim.run(Run::measuring(us(1), us(100))).unwrap();
/// assert_eq!(report.operations, 1000); // one for each transfer of the line
/// ```
#[derive(Clone)]
pub struct Cpu {
    state: Rc<RefCell<State>>,
    context: ContextId,
}

impl Cpu {
    pub(crate) fn new(state: Rc<RefCell<State>>, context: ContextId) -> Cpu {
        Cpu { state, context }
    }

    /// Its number.
    pub fn id(&self) -> usize {
        self.context.cpu()
    }

    /// Its node.
    pub fn node(&self) -> usize {
        self.node_of(self.id())
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.state.borrow().machine.node_of(cpu)
    }

    /// Nanoseconds that this CPU takes to write so many bytes to memory, and that its node is busy with them.
    pub(crate) fn ns_of_bytes(&self, bytes: f64) -> (f64, f64) {
        let state = self.state.borrow();
        state.machine.processor().map_or((0.0, 0.0), |processor| processor.ns_of_bytes(bytes))
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.state.borrow().now
    }

    // Work and sleep.

    /// Runs in the kernel for so long. An interrupt makes it take longer.
    #[inline]
    pub fn work(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::Kernel), |now| now + time)
    }

    /// Runs in user mode for so long.
    #[inline]
    pub fn user(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::User), |now| now + time)
    }

    /// Waits in a loop for so long, looking at nothing.
    pub fn relax(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::Spin), |now| now + time)
    }

    /// Has nothing to do until `time`, or until another CPU wakes it.
    pub fn sleep_until(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Sleep, |now| time.max(now))
    }

    /// Has nothing to do until another CPU wakes it. A wakeup that came before is not lost.
    pub fn sleep(&self) -> Pause<'_> {
        self.pause(Doing::Sleep, |_| Time::NEVER)
    }

    /// Has nothing to do ever again but interrupts.
    pub fn idle(&self) -> Pause<'_> {
        self.pause(Doing::Idle, |_| Time::NEVER)
    }

    /// Wakes the program of a CPU. That takes the machine's time for a wakeup, and this CPU none: a design adds
    /// what its own code costs.
    pub fn wake(&self, cpu: usize) {
        let mut state = self.state.borrow_mut();
        let at = self.visible(&state) + state.machine.wakeup;
        state.wake(cpu, at);
    }

    /// Whether the program of a CPU runs: it neither sleeps nor has it ended.
    pub fn runs(&self, cpu: usize) -> bool {
        let state = self.state.borrow();
        !matches!(
            state.contexts[ContextId::program(cpu).0 as usize].doing,
            Doing::Sleep | Doing::Idle | Doing::Nothing
        )
    }

    /// Wakes the program of a CPU at once, which no machine can: for locks that cost nothing.
    pub(crate) fn wake_now(&self, cpu: usize) {
        let mut state = self.state.borrow_mut();
        let now = state.now;
        state.wake(cpu, now);
    }

    /// Just after its writes have become visible: who is woken sees what was written before.
    fn visible(&self, state: &State) -> Time {
        if state.cpus[self.id()].is_storing { state.drained(self.id()) + Time::of_ps(1) } else { state.now }
    }

    // Memory.

    /// Reads a word.
    #[inline]
    pub fn read(&self, word: Word) -> Access<'_> {
        self.access(word, Action::Read, [0, 0])
    }

    /// What a word holds whose line an access has just brought: part of what that access saw.
    pub(crate) fn beside(&self, word: Word) -> u64 {
        self.state.borrow().words[word.0 as usize].value
    }

    /// Asks for a word's line, to read it later, and goes on: what a CPU that executes out of order does with a load
    /// whose value nothing waits for. Gives when the line will have come; to this CPU it is there at once.
    pub fn prefetch(&self, word: Word) -> Time {
        self.state.borrow_mut().prefetch(self.id(), word.0)
    }

    /// Reads a word, and goes on before its line has come: nothing but a prefetch depends on the value.
    pub(crate) fn glance(&self, word: Word) -> u64 {
        self.prefetch(word);
        self.beside(word)
    }

    /// Asks for a word's line, to write it later, and goes on (`prefetchw`). A CPU that spins on the line loses it, and
    /// reads it again.
    pub fn prefetch_to_write(&self, word: Word) {
        self.state.borrow_mut().prefetch_to_write(self.id(), word.0);
    }

    /// Writes a word. The CPU goes on at once: the write waits in its store buffer until the line has come. Writes
    /// become visible to others in the order of the program; to the CPU itself, at once.
    #[inline]
    pub fn write(&self, word: Word, value: u64) -> Pause<'_> {
        self.write_bits(word, u64::MAX, value)
    }

    /// Writes the bits of `mask`, as a store to some bytes of the word.
    #[inline]
    pub fn write_bits(&self, word: Word, mask: u64, value: u64) -> Pause<'_> {
        self.state.borrow_mut().store(self.context, word.0, value, mask);
        Pause(Access { cpu: self, asked: false })
    }

    /// Waits until all its writes are visible to others (`smp_mb`). Atomic accesses do so by themselves.
    pub fn fence(&self) -> Pause<'_> {
        self.state.borrow_mut().fence(self.context);
        Pause(Access { cpu: self, asked: false })
    }

    /// Whether writes of its own are not yet visible to others.
    pub(crate) fn is_storing(&self) -> bool {
        self.state.borrow().cpus[self.id()].is_storing
    }

    /// Adds to a word atomically; gives the value from before. To subtract, add `n.wrapping_neg()`.
    #[inline]
    pub fn fetch_add(&self, word: Word, more: u64) -> Access<'_> {
        self.access(word, Action::Add, [more, 0])
    }

    /// Clears the bits that `mask` lacks, atomically; gives the value from before.
    #[inline]
    pub fn fetch_and(&self, word: Word, mask: u64) -> Access<'_> {
        self.access(word, Action::And, [mask, 0])
    }

    /// Sets the bits of `mask`, atomically; gives the value from before.
    #[inline]
    pub fn fetch_or(&self, word: Word, mask: u64) -> Access<'_> {
        self.access(word, Action::Or, [mask, 0])
    }

    /// Writes a word atomically; gives the value from before.
    #[inline]
    pub fn swap(&self, word: Word, value: u64) -> Access<'_> {
        self.access(word, Action::Replace, [value, u64::MAX])
    }

    /// Writes the bits of `mask`, atomically; gives the value from before.
    #[inline]
    pub fn swap_bits(&self, word: Word, mask: u64, value: u64) -> Access<'_> {
        self.access(word, Action::Replace, [value, mask])
    }

    /// Writes `new` if the word holds `old`; gives the value from before. The line comes even if it does not.
    #[inline]
    pub fn compare_exchange(&self, word: Word, old: u64, new: u64) -> Access<'_> {
        self.access(word, Action::CompareExchange, [old, new])
    }

    /// Reads a word again and again while it `must_wait`, and gives the value that ended the wait. Between
    /// writes of the line the CPU spins on its own copy, which disturbs nobody.
    pub async fn spin_while(&self, word: Word, must_wait: impl Fn(u64) -> bool) -> u64 {
        let mut value = self.read(word).await;
        while must_wait(value) {
            value = self.watch(word, value).await;
        }
        value
    }

    fn watch(&self, word: Word, seen: u64) -> Access<'_> {
        self.state.borrow_mut().watch(self.context, word.0, seen);
        Access { cpu: self, asked: false }
    }

    #[inline]
    fn access(&self, word: Word, action: Action, operands: [u64; 2]) -> Access<'_> {
        self.state.borrow_mut().access(self.context, word.0, action, operands);
        Access { cpu: self, asked: false }
    }

    #[inline]
    fn ask(&self, doing: Doing, until: impl FnOnce(Time) -> Time) -> Access<'_> {
        let mut state = self.state.borrow_mut();
        let done = until(state.now);
        state.ask(self.context, doing, done);
        Access { cpu: self, asked: false }
    }

    #[inline]
    fn pause(&self, doing: Doing, until: impl FnOnce(Time) -> Time) -> Pause<'_> {
        Pause(self.ask(doing, until))
    }

    // Interrupts.

    /// In a handler: waits for the next interrupt. Meanwhile the program runs.
    pub async fn interrupt(&self) -> Interrupt {
        decode(self.ask(Doing::AwaitInterrupt, |_| Time::NEVER).await)
    }

    /// Keeps interrupts waiting until `enable_interrupts`. The calls nest.
    pub fn disable_interrupts(&self) {
        self.state.borrow_mut().cpus[self.id()].masked += 1;
    }

    /// Lets interrupts come again. Those that wait come with the next operation.
    pub fn enable_interrupts(&self) {
        let masked = &mut self.state.borrow_mut().cpus[self.id()].masked;
        *masked = masked.checked_sub(1).expect("interrupts were disabled before they are enabled");
    }

    /// Interrupts this CPU at `time`.
    pub fn set_timer(&self, time: Time, tag: u64) {
        let mut state = self.state.borrow_mut();
        let time = time.max(state.now);
        state.send(self.id(), time, Interrupt::Timer(tag));
    }

    /// Interrupts another CPU, which takes the machine's time for an IPI, and this CPU none.
    pub fn send_ipi(&self, cpu: usize, message: u64) {
        let mut state = self.state.borrow_mut();
        let at = self.visible(&state) + state.machine.ipi;
        state.send(cpu, at, Interrupt::Ipi { from: self.id(), message });
    }

    // Locks.

    /// Takes a lock. What it waits and holds is reported; that nobody else holds it is checked.
    pub async fn lock(&self, lock: &impl Lock) {
        let since = self.want(lock.id());
        lock.acquire(self).await;
        self.got(lock.id(), since);
    }

    /// Takes a lock if it is free. Whether it has it.
    pub async fn try_lock(&self, lock: &impl TryLock) -> bool {
        let since = self.now();
        let taken = lock.try_acquire(self).await;
        if taken {
            self.got(lock.id(), since);
        }
        taken
    }

    /// Takes a lock to read if that needs no waiting. Whether it has it.
    pub async fn try_read_lock(&self, lock: &impl TryReadLock) -> bool {
        let since = self.now();
        let taken = lock.try_acquire_read(self).await;
        if taken {
            self.got_to_read(lock.id(), since);
        }
        taken
    }

    /// Gives a lock back.
    pub async fn unlock(&self, lock: &impl Lock) {
        self.leave(lock.id());
        lock.release(self).await;
    }

    /// Takes a lock to read, with others who read.
    pub async fn read_lock(&self, lock: &impl ReadLock) {
        let since = self.want(lock.id());
        lock.acquire_read(self).await;
        self.got_to_read(lock.id(), since);
    }

    /// Gives a lock back that was taken to read.
    pub async fn read_unlock(&self, lock: &impl ReadLock) {
        self.leave_as_reader(lock.id());
        lock.release_read(self).await;
    }

    /// Keeps a lock to read that was taken alone.
    pub async fn downgrade(&self, lock: &impl DowngradeLock) {
        self.leave(lock.id());
        self.state.borrow_mut().locks[lock.id().0 as usize].readers += 1;
        lock.downgrade(self).await;
    }

    fn want(&self, lock: LockId) -> Time {
        let mut state = self.state.borrow_mut();
        state.context(self.context).wants = lock.0;
        if state.locks[lock.0 as usize].holder != NOBODY && state.is_deadlocked(self.context) {
            let failure = Failure::deadlock(&state);
            state.failure.get_or_insert(failure);
        }
        state.now
    }

    fn got(&self, lock: LockId, since: Time) {
        let mut state = self.state.borrow_mut();
        state.context(self.context).wants = NOBODY;
        let now = state.now;
        let taken = &mut state.locks[lock.0 as usize];
        taken.traffic.acquired += 1;
        taken.traffic.waiting += now - since;
        let (holder, readers) = (taken.holder, taken.readers);
        taken.holder = self.context.0;
        taken.since = now;
        if holder != NOBODY || readers != 0 {
            let failure = Failure::two_holders(&state, lock, self.id(), holder);
            state.failure.get_or_insert(failure);
        }
    }

    fn leave(&self, lock: LockId) {
        let mut state = self.state.borrow_mut();
        let now = state.now;
        let left = &mut state.locks[lock.0 as usize];
        left.traffic.holding += now - left.since;
        if left.holder != self.context.0 {
            let failure = Failure::not_held(&state, lock, self.id());
            state.failure.get_or_insert(failure);
        } else {
            left.holder = NOBODY;
        }
    }

    fn got_to_read(&self, lock: LockId, since: Time) {
        let mut state = self.state.borrow_mut();
        state.context(self.context).wants = NOBODY;
        let now = state.now;
        let taken = &mut state.locks[lock.0 as usize];
        taken.traffic.acquired += 1;
        taken.traffic.waiting += now - since;
        taken.readers += 1;
        let holder = taken.holder;
        if holder != NOBODY {
            let failure = Failure::two_holders(&state, lock, self.id(), holder);
            state.failure.get_or_insert(failure);
        }
    }

    fn leave_as_reader(&self, lock: LockId) {
        let mut state = self.state.borrow_mut();
        let left = &mut state.locks[lock.0 as usize];
        if left.readers == 0 {
            let failure = Failure::not_held(&state, lock, self.id());
            state.failure.get_or_insert(failure);
        } else {
            left.readers -= 1;
        }
    }

    // Chance, and what is counted.

    /// A random number, from this CPU's own stream.
    pub fn random(&self) -> u64 {
        self.state.borrow_mut().randoms[self.id()].next()
    }

    /// A random whole number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.state.borrow_mut().randoms[self.id()].below(bound)
    }

    /// A random time with the exponential distribution.
    pub fn exponential(&self, mean: Time) -> Time {
        self.state.borrow_mut().randoms[self.id()].exponential(mean)
    }

    /// One operation of the workload is done.
    pub fn operation(&self) {
        self.state.borrow_mut().operations[self.id()] += 1;
    }

    /// Adds to a counter of the design's own, which is reported under its name.
    pub fn count(&self, counter: Counter, more: u64) {
        self.state.borrow_mut().counters[counter.0].1 += more;
    }

    /// States what must be true. If it is not, the run fails with the message.
    pub fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            let mut state = self.state.borrow_mut();
            let failure = Failure::Broken(format!("at {}, CPU {}: {}", state.now, self.id(), otherwise()));
            state.failure.get_or_insert(failure);
        }
    }
}

/// A counter of a design's own.
#[derive(Clone, Copy, Debug)]
pub struct Counter(pub(crate) usize);

/// An operation that gives a value. It begins when it is called, so it is awaited at once.
#[must_use = "an operation is awaited at once"]
pub struct Access<'a> {
    cpu: &'a Cpu,
    asked: bool,
}

impl Future for Access<'_> {
    type Output = u64;

    /// The engine polls a program only when the operation it waits for is done.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<u64> {
        if self.asked {
            let cpu = self.cpu;
            return Poll::Ready(cpu.state.borrow().value(cpu.context));
        }
        self.asked = true;
        Poll::Pending
    }
}

/// An operation that gives nothing. It begins when it is called, so it is awaited at once.
#[must_use = "an operation is awaited at once"]
pub struct Pause<'a>(Access<'a>);

impl Future for Pause<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<()> {
        if self.0.asked {
            return Poll::Ready(());
        }
        self.0.asked = true;
        Poll::Pending
    }
}

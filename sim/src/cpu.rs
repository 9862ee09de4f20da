//! A CPU as its program sees it: a sequence of operations that take time.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use crate::engine::{Action, ContextId, Counter, Doing, Interrupt, LockId, Mode, State, Word, decode};
use crate::failure::Failure;
use crate::time::Time;

/// The CPU on which a program or an interrupt handler runs.
///
/// A program is an ordinary async function. It awaits every operation that takes time, one at a time:
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
/// assert_eq!(report.operations, 1000); // one per transfer of the line
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

    /// Nanoseconds that this CPU takes to write `bytes` to memory, and nanoseconds that its node's memory is busy
    /// with them.
    pub(crate) fn ns_of_bytes(&self, bytes: f64) -> (f64, f64) {
        let state = self.state.borrow();
        state.machine.processor().map_or((0.0, 0.0), |processor| processor.ns_of_bytes(bytes))
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.state.borrow().now
    }

    // Work and sleep.

    /// Runs in the kernel for `time`, and longer if interrupted.
    #[inline]
    pub fn work(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::Kernel), |now| now + time)
    }

    /// Runs in user mode for `time`, and longer if interrupted.
    #[inline]
    pub fn user(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::User), |now| now + time)
    }

    /// Waits in a loop for `time`, without memory accesses.
    pub fn relax(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Work(Mode::Spin), |now| now + time)
    }

    /// Sleeps until `time`, or until another CPU wakes it.
    pub fn sleep_until(&self, time: Time) -> Pause<'_> {
        self.pause(Doing::Sleep, |now| time.max(now))
    }

    /// Sleeps until another CPU wakes it. If a wakeup came before, it does not sleep.
    pub fn sleep(&self) -> Pause<'_> {
        self.pause(Doing::Sleep, |_| Time::NEVER)
    }

    /// Does nothing but handle interrupts, for the rest of the run.
    pub fn idle(&self) -> Pause<'_> {
        self.pause(Doing::Idle, |_| Time::NEVER)
    }

    /// Wakes the program of a CPU. The wakeup takes as long as the machine says, but no time of this CPU: a design
    /// adds what its own code costs.
    pub fn wake(&self, cpu: usize) {
        let mut state = self.state.borrow_mut();
        let at = state.stores_visible(self.id()) + state.machine.wakeup;
        state.wake(cpu, at);
    }

    /// Wakes the program of a CPU at once, which no machine can: for locks that cost nothing.
    pub(crate) fn wake_now(&self, cpu: usize) {
        let mut state = self.state.borrow_mut();
        let now = state.now;
        state.wake(cpu, now);
    }

    /// Whether the program of a CPU runs: it neither sleeps nor has it ended.
    pub fn runs(&self, cpu: usize) -> bool {
        self.state.borrow().is_awake(cpu)
    }

    // Memory.

    /// Reads a word.
    #[inline]
    pub fn read(&self, word: Word) -> Access<'_> {
        self.access(word, Action::Read, [0, 0])
    }

    /// The value of a word, without an access: for a word on the cache line that the previous access has brought.
    pub(crate) fn peek_same_line(&self, word: Word) -> u64 {
        self.state.borrow().peek(word)
    }

    /// Requests the cache line of a word for reading, without waiting for it, as an out-of-order CPU does with a load
    /// whose value nothing depends on yet. Returns when the line will have come. From now on the CPU can read it.
    pub fn prefetch(&self, word: Word) -> Time {
        self.state.borrow_mut().prefetch(self.id(), word)
    }

    /// Reads a word without waiting for its cache line: for a value that only a prefetch depends on.
    pub(crate) fn prefetch_and_peek(&self, word: Word) -> u64 {
        self.prefetch(word);
        self.peek_same_line(word)
    }

    /// All caches lose the cache line of a word, as other lines take its place in each. The next access is of memory.
    pub(crate) fn evict(&self, word: Word) {
        self.state.borrow_mut().evict(word);
    }

    /// Requests the cache line of a word for writing, without waiting for it (`prefetchw`). CPUs that spin on a copy
    /// of the line lose the copy and read the line again.
    pub fn prefetch_to_write(&self, word: Word) {
        self.state.borrow_mut().prefetch_to_write(self.id(), word);
    }

    /// Writes a word. The CPU continues at once, and the store waits in its store buffer until the cache line has
    /// come. Stores become visible to other CPUs in program order, and to this CPU at once.
    #[inline]
    pub fn write(&self, word: Word, value: u64) -> Pause<'_> {
        self.write_bits(word, u64::MAX, value)
    }

    /// Writes the bits of `mask`, as a store to some of the word's bytes does.
    #[inline]
    pub fn write_bits(&self, word: Word, mask: u64, value: u64) -> Pause<'_> {
        self.state.borrow_mut().store(self.context, word, value, mask);
        Pause(Access { cpu: self, polled: false })
    }

    /// Waits until all its stores are visible to other CPUs (`smp_mb`). Atomic accesses do so by themselves.
    pub fn fence(&self) -> Pause<'_> {
        self.state.borrow_mut().fence(self.context);
        Pause(Access { cpu: self, polled: false })
    }

    /// Whether some of its stores are not yet visible to other CPUs.
    pub(crate) fn is_storing(&self) -> bool {
        self.state.borrow().is_storing(self.id())
    }

    /// Adds to a word atomically; returns the previous value. To subtract, add `n.wrapping_neg()`.
    #[inline]
    pub fn fetch_add(&self, word: Word, more: u64) -> Access<'_> {
        self.access(word, Action::Add, [more, 0])
    }

    /// Adds to a word atomically, and returns nothing, as Arm's STADD. Where the machine's atomics are far, the CPU
    /// continues at once, and the addition waits in its store buffer.
    #[inline]
    pub fn add(&self, word: Word, more: u64) -> Pause<'_> {
        self.state.borrow_mut().add(self.context, word, more);
        Pause(Access { cpu: self, polled: false })
    }

    /// Clears the bits that `mask` lacks, atomically; returns the previous value.
    #[inline]
    pub fn fetch_and(&self, word: Word, mask: u64) -> Access<'_> {
        self.access(word, Action::And, [mask, 0])
    }

    /// Sets the bits of `mask`, atomically; returns the previous value.
    #[inline]
    pub fn fetch_or(&self, word: Word, mask: u64) -> Access<'_> {
        self.access(word, Action::Or, [mask, 0])
    }

    /// Writes a word atomically; returns the previous value.
    #[inline]
    pub fn swap(&self, word: Word, value: u64) -> Access<'_> {
        self.access(word, Action::Replace, [value, u64::MAX])
    }

    /// Writes the bits of `mask`, atomically; returns the previous value.
    #[inline]
    pub fn swap_bits(&self, word: Word, mask: u64, value: u64) -> Access<'_> {
        self.access(word, Action::Replace, [value, mask])
    }

    /// Writes `new` if the word holds `old`; returns the previous value. The cache line is brought in either case.
    #[inline]
    pub fn compare_exchange(&self, word: Word, old: u64, new: u64) -> Access<'_> {
        self.access(word, Action::CompareExchange, [old, new])
    }

    /// Reads a word again and again while its value `must_wait`, and returns the value that ended the wait. Until the
    /// cache line is written the CPU spins on its own copy, without traffic.
    pub async fn spin_while(&self, word: Word, must_wait: impl Fn(u64) -> bool) -> u64 {
        let mut value = self.read(word).await;
        while must_wait(value) {
            value = self.watch(word, value).await;
        }
        value
    }

    fn watch(&self, word: Word, seen: u64) -> Access<'_> {
        self.state.borrow_mut().watch(self.context, word, seen);
        Access { cpu: self, polled: false }
    }

    #[inline]
    fn access(&self, word: Word, action: Action, operands: [u64; 2]) -> Access<'_> {
        self.state.borrow_mut().access(self.context, word, action, operands);
        Access { cpu: self, polled: false }
    }

    #[inline]
    fn wait(&self, doing: Doing, until: impl FnOnce(Time) -> Time) -> Access<'_> {
        let mut state = self.state.borrow_mut();
        let done = until(state.now);
        state.pause(self.context, doing, done);
        Access { cpu: self, polled: false }
    }

    #[inline]
    fn pause(&self, doing: Doing, until: impl FnOnce(Time) -> Time) -> Pause<'_> {
        Pause(self.wait(doing, until))
    }

    // Interrupts.

    /// In a handler: waits for the next interrupt. The program runs meanwhile.
    pub async fn interrupt(&self) -> Interrupt {
        decode(self.wait(Doing::AwaitInterrupt, |_| Time::NEVER).await)
    }

    /// Keeps interrupts waiting until `enable_interrupts`. The calls nest.
    pub fn disable_interrupts(&self) {
        self.state.borrow_mut().disable_interrupts(self.id());
    }

    /// Allows interrupts again. Those that waited come with the next operation.
    pub fn enable_interrupts(&self) {
        self.state.borrow_mut().enable_interrupts(self.id());
    }

    /// Interrupts this CPU at `time`.
    pub fn set_timer(&self, time: Time, tag: u64) {
        let mut state = self.state.borrow_mut();
        let time = time.max(state.now);
        state.send(self.id(), time, Interrupt::Timer(tag));
    }

    /// Interrupts another CPU. The IPI takes as long as the machine says, but no time of this CPU.
    pub fn send_ipi(&self, cpu: usize, message: u64) {
        let mut state = self.state.borrow_mut();
        let at = state.stores_visible(self.id()) + state.machine.ipi;
        state.send(cpu, at, Interrupt::Ipi { from: self.id(), message });
    }

    // Statistics of locks, for `lock.rs`.

    /// It begins to wait for a lock. Returns the time.
    pub(crate) fn wants_lock(&self, lock: LockId) -> Time {
        self.state.borrow_mut().want(self.context, lock)
    }

    pub(crate) fn has_acquired(&self, lock: LockId, since: Time) {
        self.state.borrow_mut().acquired(self.context, lock, since);
    }

    pub(crate) fn has_acquired_to_read(&self, lock: LockId, since: Time) {
        self.state.borrow_mut().acquired_to_read(self.context, lock, since);
    }

    pub(crate) fn releases(&self, lock: LockId) {
        self.state.borrow_mut().released(self.context, lock);
    }

    pub(crate) fn releases_as_reader(&self, lock: LockId) {
        self.state.borrow_mut().released_by_reader(self.context, lock);
    }

    pub(crate) fn downgrades(&self, lock: LockId) {
        self.state.borrow_mut().downgraded(self.context, lock);
    }

    // Random numbers, counters and checks.

    /// A random number, from this CPU's own stream.
    pub fn random(&self) -> u64 {
        self.state.borrow_mut().random(self.id()).next()
    }

    /// A random whole number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.state.borrow_mut().random(self.id()).below(bound)
    }

    /// A random time with the exponential distribution.
    pub fn exponential(&self, mean: Time) -> Time {
        self.state.borrow_mut().random(self.id()).exponential(mean)
    }

    /// Counts an operation of the workload.
    pub fn operation(&self) {
        self.state.borrow_mut().count_operation(self.id());
    }

    /// Adds to a counter of the design. It is reported under its name.
    pub fn count(&self, counter: Counter, more: u64) {
        self.state.borrow_mut().count(counter, more);
    }

    /// Checks an invariant. If it does not hold, the run fails with the message.
    pub fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            let mut state = self.state.borrow_mut();
            let failure = Failure::Broken(format!("at {}, CPU {}: {}", state.now, self.id(), otherwise()));
            state.fail(failure);
        }
    }
}

/// An operation that returns a value. It begins when it is called, so await it at once.
#[must_use = "an operation is awaited at once"]
pub struct Access<'a> {
    cpu: &'a Cpu,
    polled: bool,
}

impl Future for Access<'_> {
    type Output = u64;

    /// The simulation polls a program only when the operation that it awaits is done.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<u64> {
        if self.polled {
            let cpu = self.cpu;
            return Poll::Ready(cpu.state.borrow().value(cpu.context));
        }
        self.polled = true;
        Poll::Pending
    }
}

/// An operation that returns nothing. It begins when it is called, so await it at once.
#[must_use = "an operation is awaited at once"]
pub struct Pause<'a>(Access<'a>);

impl Future for Pause<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<()> {
        if self.0.polled {
            return Poll::Ready(());
        }
        self.0.polled = true;
        Poll::Pending
    }
}

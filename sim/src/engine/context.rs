//! What a context, the program or the interrupt handler of a CPU, is doing.

use crate::line::NO_ID;
use crate::time::Time;

/// What a memory access does to its word. It has up to two operands, and returns the word's previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Add,
    And,
    Or,
    /// Replaces the bits of the second operand.
    Replace,
    /// Writes the second operand if the word holds the first.
    CompareExchange,
}

impl Action {
    /// What it makes of a word's value.
    #[inline]
    pub fn applied(self, before: u64, [first, second]: [u64; 2]) -> u64 {
        match self {
            Action::Read => before,
            Action::Add => before.wrapping_add(first),
            Action::And => before & first,
            Action::Or => before | first,
            Action::Replace => before & !second | first & second,
            Action::CompareExchange if before == first => second,
            Action::CompareExchange => before,
        }
    }
}

/// The kind of time that a CPU's work counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    User,
    Kernel,
    /// In the kernel, waiting in a loop.
    Spin,
}

/// What a context is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    /// It has not begun an operation yet, or has ended.
    Nothing,
    /// Its operation is done, and it can continue.
    Ready,
    Work(Mode),
    Access(Action),
    /// Waits until the CPU's stores have arrived.
    Drain(Drained),
    /// Waits for a free entry of the store buffer, for a store or an addition without a result.
    Store(Action),
    /// Spins on its own copy of the cache line until another CPU writes it, then reads the word.
    Watch,
    /// Was watching when it was interrupted, and the cache line has been written since.
    Written,
    /// Sleeps until a time or a wakeup.
    Sleep,
    /// Does nothing but handle interrupts, for the rest of the run.
    Idle,
    /// An interrupt handler waits for the next interrupt.
    AwaitInterrupt,
}

/// What a context does once the CPU's stores have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drained {
    /// A fence is done.
    Fence,
    /// An atomic access requests its cache line.
    Request(Action),
    /// An atomic access finds its cache line present: a store has brought it.
    Hit(Action),
}

/// A context. It fills one cache line of the host: consecutive events seldom concern neighbouring contexts.
#[repr(align(64))]
pub(crate) struct Context {
    /// When the operation began, or up to when it has been accounted for.
    pub start: Time,
    /// Of an access: when the cache line began to move.
    pub begin: Time,
    /// When the operation will be done. Of work that is interrupted: how much is left.
    pub done: Time,
    /// Of an access. The first becomes the previous value once the access is done.
    pub operands: [u64; 2],
    pub word: u32,
    /// The next context that watches the same cache line.
    pub next_watcher: u32,
    /// The lock that it waits for.
    pub wants: u32,
    pub doing: Doing,
}

impl Context {
    pub fn new() -> Context {
        Context {
            start: Time::ZERO,
            begin: Time::ZERO,
            done: Time::NEVER,
            operands: [0; 2],
            word: 0,
            next_watcher: NO_ID,
            wants: NO_ID,
            doing: Doing::Nothing,
        }
    }
}

//! Numbers that stand for the parts of a simulation.

/// An eight-byte word in a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub(crate) u32);

/// A cache line that can hold several words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineId(pub(crate) u32);

/// A lock, as statistics and deadlock reports know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockId(pub(crate) u32);

/// A counter that a design defines.
#[derive(Clone, Copy, Debug)]
pub struct Counter(pub(crate) usize);

/// What interrupts a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interrupt {
    /// A timer that the CPU set, with the tag it gave.
    Timer(u64),
    /// A message from another CPU.
    Ipi { from: usize, message: u64 },
}

/// An interrupt as the one value that an operation returns.
pub(crate) fn encode(interrupt: Interrupt) -> u64 {
    match interrupt {
        Interrupt::Timer(tag) => tag << 1,
        Interrupt::Ipi { from, message } => (message << 17 | from as u64) << 1 | 1,
    }
}

pub(crate) fn decode(value: u64) -> Interrupt {
    match value & 1 {
        0 => Interrupt::Timer(value >> 1),
        _ => Interrupt::Ipi { from: (value >> 1 & 0x1_ffff) as usize, message: value >> 18 },
    }
}

/// A context: twice the CPU's number for its program, one more for its interrupt handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextId(pub u32);

impl ContextId {
    pub fn program(cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32)
    }

    pub fn handler(cpu: usize) -> ContextId {
        ContextId(2 * cpu as u32 + 1)
    }

    #[inline]
    pub fn cpu(self) -> usize {
        self.0 as usize / 2
    }

    #[inline]
    pub fn is_handler(self) -> bool {
        self.0 % 2 == 1
    }
}

//! Locks, built of cache lines as the kernel has them. One file a lock.

mod cna;
mod fifo;
mod mcs;
mod mutex;
mod percpu_rwsem;
mod powerpc;
mod qspinlock;
mod queue_nodes;
mod rwlock;
mod rwsem;
mod seqlock;
mod spinlock;
mod test_and_set;
mod ticket;

use std::future::Future;

pub use cna::Cna;
pub use fifo::Fifo;
pub use mcs::Mcs;
pub use mutex::Mutex;
pub use percpu_rwsem::PercpuRwSem;
pub use powerpc::PowerpcQSpinlock;
pub use qspinlock::QSpinlock;
pub use queue_nodes::QueueNodes;
pub use rwlock::RwLock;
pub use rwsem::RwSem;
pub use seqlock::SeqLock;
pub use spinlock::{SpinKind, Spinlock};
pub use test_and_set::TestAndSet;
pub use ticket::Ticket;

use crate::cpu::Cpu;
use crate::engine::{LockId, Simulation};

/// A lock that one CPU holds at a time. Programs take it with `cpu.lock(&lock)`.
pub trait Lock {
    /// Under which name it is reported.
    fn id(&self) -> LockId;
    /// Returns when the CPU has the lock.
    fn acquire(&self, cpu: &Cpu) -> impl Future<Output = ()>;
    /// Returns when the CPU can go on; the lock is free then, or another's.
    fn release(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

/// A lock that can be taken without waiting for it. Programs try to with `cpu.try_lock(&lock)`.
pub trait TryLock: Lock {
    /// Whether the CPU has the lock now.
    fn try_acquire(&self, cpu: &Cpu) -> impl Future<Output = bool>;
}

/// A lock that many can hold to read. Programs take it with `cpu.read_lock(&lock)`.
pub trait ReadLock: Lock {
    /// Returns when the CPU may read.
    fn acquire_read(&self, cpu: &Cpu) -> impl Future<Output = ()>;
    /// Returns when the CPU can go on.
    fn release_read(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

/// A lock that can be taken to read without waiting for it. Programs try to with `cpu.try_read_lock(&lock)`.
pub trait TryReadLock: ReadLock {
    /// Whether the CPU may read now.
    fn try_acquire_read(&self, cpu: &Cpu) -> impl Future<Output = bool>;
}

/// A lock that who holds it alone can keep to read. Programs do so with `cpu.downgrade(&lock)`.
pub trait DowngradeLock: ReadLock {
    /// Returns when the CPU can go on; others may read then.
    fn downgrade(&self, cpu: &Cpu) -> impl Future<Output = ()>;
}

macro_rules! any_lock {
    ($($name:literal $kind:ident $why:literal),+ $(,)?) => {
        /// A lock of a kind chosen by name, as parameters choose it.
        pub enum AnyLock { $(#[doc = $why] $kind($kind)),+ }

        impl AnyLock {
            /// The kinds, and what each is.
            pub const KINDS: &[(&str, &str)] = &[$(($name, $why)),+];

            /// A lock of that kind, its lines in a node's memory; None for an unknown kind.
            pub fn new(kind: &str, sim: &mut Simulation, name: &str, node: usize) -> Option<AnyLock> {
                match kind {
                    $($name => Some(AnyLock::$kind($kind::new(sim, name, node))),)+
                    _ => None,
                }
            }
        }

        impl Lock for AnyLock {
            fn id(&self) -> LockId {
                match self { $(AnyLock::$kind(lock) => lock.id()),+ }
            }

            async fn acquire(&self, cpu: &Cpu) {
                match self { $(AnyLock::$kind(lock) => lock.acquire(cpu).await),+ }
            }

            async fn release(&self, cpu: &Cpu) {
                match self { $(AnyLock::$kind(lock) => lock.release(cpu).await),+ }
            }
        }
    };
}

any_lock! {
    "fifo" Fifo "ideal: first come, first served, and costs nothing",
    "test-and-set" TestAndSet "one word; who waits reads it until it is free, then tries",
    "ticket" Ticket "first come, first served; all wait on one word (Linux 2.6.25 to 4.1)",
    "mcs" Mcs "a queue: each waits on a word of its own",
    "qspinlock" QSpinlock "the kernel's since 4.2: a word for the first two, a queue behind it",
    "powerpc" PowerpcQSpinlock "POWER's own since 6.2: stolen by who comes, for a while, and a queue behind it",
    "cna" Cna "a qspinlock that prefers waiters of the same node",
    "rwlock" RwLock "the kernel's queueing rwlock, taken to write",
    "seqlock" SeqLock "a sequence number and a qspinlock, taken to write",
    "mutex" Mutex "the kernel's: spins while the owner runs, sleeps when it sleeps",
    "rwsem" RwSem "the kernel's sleeping reader-writer lock, taken to write",
    "percpu-rwsem" PercpuRwSem "readers count per CPU; taken to write, after a grace period",
}

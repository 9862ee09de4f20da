//! The kernel's locks, built from cache lines as the kernel builds them. Each lock is one file.

mod cna;
mod fifo;
mod mcs;
mod mutex;
mod osq;
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

pub use cna::Cna;
pub use fifo::Fifo;
pub use mcs::Mcs;
pub use mutex::Mutex;
pub use percpu_rwsem::PercpuRwSem;
pub use powerpc::PowerpcQSpinlock;
pub use qspinlock::QSpinlock;
pub use rwlock::RwLock;
pub use rwsem::RwSem;
pub use seqlock::SeqLock;
pub use spinlock::Spinlock;
pub use test_and_set::TestAndSet;
pub use ticket::Ticket;

pub use crate::spin_kind::SpinKind;

use crate::cpu::Cpu;
use crate::engine::LockId;
use crate::lock::Lock;
use crate::simulation::Simulation;

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

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId};
use crate::lock::{Lock, TryLock};
use crate::locks::cna::Cna;
use crate::locks::powerpc::PowerpcQSpinlock;
use crate::locks::qspinlock::QSpinlock;
use crate::simulation::Simulation;
use crate::spin_kind::SpinKind;

/// The kernel's spinlock, of the kind that the simulation uses.
pub enum Spinlock {
    Qspinlock(QSpinlock),
    Cna(Cna),
    Powerpc(PowerpcQSpinlock),
}

impl Spinlock {
    /// A free lock in a node's memory.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> Spinlock {
        let line = sim.line(name, node);
        Spinlock::on(sim, name, line)
    }

    /// A free lock on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> Spinlock {
        match sim.spinlocks() {
            SpinKind::Qspinlock => Spinlock::Qspinlock(QSpinlock::on(sim, name, line)),
            SpinKind::Cna => Spinlock::Cna(Cna::on(sim, name, line)),
            SpinKind::Powerpc => Spinlock::Powerpc(PowerpcQSpinlock::on(sim, name, line)),
        }
    }

    /// Whether it is held or waited for, as seen when another word of its cache line was read.
    pub(crate) fn is_busy(&self, cpu: &Cpu) -> bool {
        match self {
            Spinlock::Qspinlock(lock) => lock.is_busy(cpu),
            Spinlock::Cna(lock) => lock.is_busy(cpu),
            Spinlock::Powerpc(lock) => lock.is_busy(cpu),
        }
    }
}

impl TryLock for Spinlock {
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        match self {
            Spinlock::Qspinlock(lock) => lock.try_acquire(cpu).await,
            Spinlock::Cna(lock) => lock.try_acquire(cpu).await,
            Spinlock::Powerpc(lock) => lock.try_acquire(cpu).await,
        }
    }
}

impl Lock for Spinlock {
    fn id(&self) -> LockId {
        match self {
            Spinlock::Qspinlock(lock) => lock.id(),
            Spinlock::Cna(lock) => lock.id(),
            Spinlock::Powerpc(lock) => lock.id(),
        }
    }

    async fn acquire(&self, cpu: &Cpu) {
        match self {
            Spinlock::Qspinlock(lock) => lock.acquire(cpu).await,
            Spinlock::Cna(lock) => lock.acquire(cpu).await,
            Spinlock::Powerpc(lock) => lock.acquire(cpu).await,
        }
    }

    async fn release(&self, cpu: &Cpu) {
        match self {
            Spinlock::Qspinlock(lock) => lock.release(cpu).await,
            Spinlock::Cna(lock) => lock.release(cpu).await,
            Spinlock::Powerpc(lock) => lock.release(cpu).await,
        }
    }
}

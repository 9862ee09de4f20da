use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Simulation, Word};
use crate::locks::queue_nodes::{Node, QueueNodes};
use crate::locks::{DowngradeLock, Lock, QSpinlock, ReadLock};
use crate::time::{Time, ms, ns, us};

/// The kernel's rw_semaphore: readers add themselves to a count, writers spin as long as the owner runs, and both
/// sleep in a queue if that does not help. Who has slept for 4 ms gets it handed over.
///
/// Follows `kernel/locking/rwsem.c` of 6.12, in which readers do not spin (up to 5.10 they do). Left out: the deadlines
/// of the scheduler, and that a writer to whom it is handed over spins.
pub struct RwSem {
    id: LockId,
    /// The bits WRITER, WAITERS and HANDOFF, and the number of readers.
    count: Word,
    /// The writer that has it, as the number of its CPU plus one; READERS while readers have it, and UNSPINNABLE.
    owner: Word,
    osq: Word,
    wait_lock: QSpinlock,
    nodes: Rc<QueueNodes>,
    /// Who sleeps. Guarded by wait_lock, and on its line.
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    cpu: usize,
    writes: bool,
    since: Time,
    granted: Cell<bool>,
}

const WRITER: u64 = 1;
const WAITERS: u64 = 2;
const HANDOFF: u64 = 4;
const READER: u64 = 1 << 8;
/// Whoever has it: a writer, or readers.
const HELD: u64 = WRITER | !(READER - 1);

/// Of `owner`: readers have it.
const READERS: u64 = 1 << 63;
/// Of `owner`: readers have it for so long that writers do not spin.
const UNSPINNABLE: u64 = 1 << 62;
/// `MAX_READERS_WAKEUP`.
const MOST_WOKEN: usize = 256;
/// What waking one costs the waker, besides the time until the woken one runs: estimated, `try_to_wake_up` of some
/// hundred instructions and the other CPU's runqueue.
const WAKER: f64 = 300.0;

/// `enum rwsem_wake_type`: who of those that sleep is to have it.
#[derive(Clone, Copy, PartialEq)]
enum Wake {
    /// The first one, and all readers if it is one.
    Any,
    /// The readers, if the first one is.
    Readers,
    /// The same, where the waker has it to read itself.
    ReadOwned,
}

impl RwSem {
    /// A free semaphore in a node's memory: all its words are on one line, as most are in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> RwSem {
        let line = sim.line(name, node);
        RwSem::on(sim, name, line)
    }

    /// A free semaphore on a line that has other words too.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> RwSem {
        RwSem {
            id: sim.lock_id(name),
            count: sim.word_on(line),
            owner: sim.word_on(line),
            osq: sim.word_on(line),
            wait_lock: QSpinlock::on(sim, name, line),
            nodes: sim.queue_nodes(),
            waiters: RefCell::default(),
        }
    }

    async fn try_write(&self, cpu: &Cpu) -> bool {
        let mut count = cpu.read(self.count).await;
        while count & (HELD | HANDOFF) == 0 {
            let before = cpu.compare_exchange(self.count, count, count | WRITER).await;
            if before == count {
                cpu.write(self.owner, cpu.id() as u64 + 1).await;
                return true;
            }
            count = before;
        }
        false
    }

    /// `rwsem_can_spin_on_owner`, without the deadlines.
    async fn may_spin(&self, cpu: &Cpu) -> bool {
        let owner = cpu.read(self.owner).await;
        owner & UNSPINNABLE == 0 && (owner == 0 || owner & READERS != 0 || cpu.runs(owner as usize - 1))
    }

    /// `rwsem_optimistic_spin`. False if it makes no sense to go on.
    async fn spin(&self, cpu: &Cpu) -> bool {
        let node = self.osq_lock(cpu).await;
        let mut until = None;
        let got = loop {
            if self.try_write(cpu).await {
                break true;
            }
            let owner = cpu.read(self.owner).await;
            if owner & READERS == 0 {
                until = None;
            }
            if owner & UNSPINNABLE != 0 {
                break false;
            } else if owner & READERS != 0 {
                // `rwsem_rspin_threshold`: 10 us and half a microsecond a reader, 25 us at most.
                let readers = (cpu.read(self.count).await / READER).min(30);
                let until = *until.get_or_insert(cpu.now() + us(10) + ns(500) * readers);
                if cpu.now() > until {
                    cpu.compare_exchange(self.owner, owner, owner | UNSPINNABLE).await;
                    break false;
                }
            } else if owner != 0 && !cpu.runs(owner as usize - 1) {
                break false;
            }
            if cpu.read(self.count).await & HANDOFF != 0 {
                break false;
            }
            cpu.relax(ns(50)).await;
        };
        self.osq_unlock(cpu, node).await;
        got
    }

    async fn osq_lock(&self, cpu: &Cpu) -> Node {
        let node = self.nodes.take(cpu.id());
        cpu.write(node.locked, 0).await;
        cpu.write(node.next, 0).await;
        let ahead = cpu.swap(self.osq, node.name).await;
        if ahead != 0 {
            cpu.write(self.nodes.node(ahead).next, node.name).await;
            cpu.spin_while(node.locked, |locked| locked == 0).await;
        }
        node
    }

    async fn osq_unlock(&self, cpu: &Cpu, node: Node) {
        if cpu.compare_exchange(self.osq, node.name, 0).await != node.name {
            let next = cpu.spin_while(node.next, |next| next == 0).await;
            cpu.write(self.nodes.node(next).locked, 1).await;
        }
        self.nodes.free(node);
    }

    fn queue(&self, cpu: &Cpu, writes: bool) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter { cpu: cpu.id(), writes, since: cpu.now(), granted: Cell::new(false) });
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        waiter
    }

    fn is_first(&self, waiter: &Rc<Waiter>) -> bool {
        self.waiters.borrow().front().is_some_and(|first| Rc::ptr_eq(first, waiter))
    }

    /// `rwsem_set_reader_owned`.
    async fn set_readers(&self, cpu: &Cpu) {
        let owner = cpu.read(self.owner).await;
        let new = READERS | owner & UNSPINNABLE;
        if owner != new {
            cpu.write(self.owner, new).await;
        }
    }

    /// `clear_nonspinnable`.
    async fn let_spin(&self, cpu: &Cpu) {
        if cpu.read(self.owner).await & UNSPINNABLE != 0 {
            cpu.fetch_and(self.owner, !UNSPINNABLE).await;
        }
    }

    /// `rwsem_mark_wake`, with wait_lock: who is to be woken. Readers have it then; a writer tries for itself.
    async fn mark_wake(&self, cpu: &Cpu, wake: Wake) -> Vec<usize> {
        let first = self.waiters.borrow().front().cloned();
        let Some(first) = first else { return Vec::new() };
        if first.writes {
            return if wake == Wake::Any { vec![first.cpu] } else { Vec::new() };
        }
        let mut granted = 0;
        if wake != Wake::ReadOwned {
            granted = READER;
            let before = cpu.fetch_add(self.count, READER).await;
            if before & WRITER != 0 {
                // A writer was faster; who has waited for too long has the next ones stand back.
                let late = before & HANDOFF == 0 && cpu.now() >= first.since + ms(4);
                let handoff = if late { HANDOFF } else { 0 };
                cpu.fetch_add(self.count, handoff.wrapping_sub(READER)).await;
                return Vec::new();
            }
            self.set_readers(cpu).await;
        }
        let (woken, is_empty) = {
            let mut waiters = self.waiters.borrow_mut();
            let woken: Vec<_> =
                waiters.iter().filter(|waiter| !waiter.writes).take(MOST_WOKEN).cloned().collect();
            waiters.retain(|waiter| !woken.iter().any(|other| Rc::ptr_eq(other, waiter)));
            (woken, waiters.is_empty())
        };
        let mut more = (READER * woken.len() as u64).wrapping_sub(granted);
        if is_empty {
            more = more.wrapping_sub(WAITERS);
        }
        more = more.wrapping_sub(cpu.read(self.count).await & HANDOFF);
        if more != 0 {
            cpu.fetch_add(self.count, more).await;
        }
        woken.iter().for_each(|waiter| waiter.granted.set(true));
        woken.iter().map(|waiter| waiter.cpu).collect()
    }

    /// `rwsem_cond_wake_waiter`, with wait_lock.
    async fn mark_wake_if_free(&self, cpu: &Cpu, count: u64) -> Vec<usize> {
        if count & WRITER != 0 {
            return Vec::new();
        }
        if count & HELD != 0 {
            return self.mark_wake(cpu, Wake::Readers).await;
        }
        self.let_spin(cpu).await;
        self.mark_wake(cpu, Wake::Any).await
    }

    async fn wake(&self, cpu: &Cpu, wake: Wake) {
        self.wait_lock.acquire(cpu).await;
        let woken = self.mark_wake(cpu, wake).await;
        self.wait_lock.release(cpu).await;
        self.wake_up(cpu, woken).await;
    }

    async fn wake_up(&self, cpu: &Cpu, woken: Vec<usize>) {
        for other in woken {
            cpu.work(ns(WAKER)).await;
            cpu.wake(other);
        }
    }

    async fn sleep_to_write(&self, cpu: &Cpu) {
        self.wait_lock.acquire(cpu).await;
        let waiter = self.queue(cpu, true);
        if self.is_first(&waiter) {
            cpu.fetch_or(self.count, WAITERS).await;
        } else {
            let count = cpu.read(self.count).await;
            let woken = self.mark_wake_if_free(cpu, count).await;
            if !woken.is_empty() {
                self.wait_lock.release(cpu).await;
                self.wake_up(cpu, woken).await;
                self.wait_lock.acquire(cpu).await;
            }
        }
        while !self.try_write_first(cpu, &waiter).await {
            self.wait_lock.release(cpu).await;
            cpu.sleep_until(cpu.now() + ms(4)).await;
            self.wait_lock.acquire(cpu).await;
        }
        self.wait_lock.release(cpu).await;
    }

    /// `rwsem_try_write_lock`: as a waiter, and with wait_lock.
    async fn try_write_first(&self, cpu: &Cpu, waiter: &Rc<Waiter>) -> bool {
        if !self.is_first(waiter) {
            return false;
        }
        let mut count = cpu.read(self.count).await;
        loop {
            let new = if count & HELD != 0 {
                if count & HANDOFF != 0 || cpu.now() < waiter.since + ms(4) {
                    return false;
                }
                count | HANDOFF
            } else {
                let rest = if self.waiters.borrow().len() == 1 { !(WAITERS | HANDOFF) } else { !HANDOFF };
                count & rest | WRITER
            };
            let before = cpu.compare_exchange(self.count, count, new).await;
            if before != count {
                count = before;
                continue;
            }
            if new & WRITER != 0 && count & WRITER == 0 {
                self.waiters.borrow_mut().pop_front();
                cpu.write(self.owner, cpu.id() as u64 + 1).await;
                return true;
            }
            return false;
        }
    }
}

impl DowngradeLock for RwSem {
    async fn downgrade(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, READER.wrapping_sub(WRITER)).await;
        self.set_readers(cpu).await;
        if count & WAITERS != 0 {
            self.wake(cpu, Wake::ReadOwned).await;
        }
    }
}

impl Lock for RwSem {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if cpu.compare_exchange(self.count, 0, WRITER).await == 0 {
            return cpu.write(self.owner, cpu.id() as u64 + 1).await;
        }
        if !(self.may_spin(cpu).await && self.spin(cpu).await) {
            self.sleep_to_write(cpu).await;
        }
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.owner, 0).await;
        if cpu.fetch_add(self.count, WRITER.wrapping_neg()).await & WAITERS != 0 {
            self.wake(cpu, Wake::Any).await;
        }
    }
}

impl ReadLock for RwSem {
    async fn acquire_read(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, READER).await + READER;
        if count & (WRITER | WAITERS | HANDOFF) == 0 {
            return self.set_readers(cpu).await;
        }
        // Readers that come one after the other must not starve a writer that sleeps.
        let readers = count / READER;
        let likely_read = count & WRITER == 0 && readers > 1 && cpu.read(self.owner).await & READERS != 0;
        if !likely_read && count & (WRITER | HANDOFF) == 0 {
            self.set_readers(cpu).await;
            if readers == 1 {
                self.wake(cpu, Wake::ReadOwned).await;
            }
            return;
        }
        self.wait_lock.acquire(cpu).await;
        let nobody_waits = self.waiters.borrow().is_empty();
        if nobody_waits && cpu.read(self.count).await & (WRITER | HANDOFF) == 0 {
            self.set_readers(cpu).await;
            return self.wait_lock.release(cpu).await;
        }
        let waiter = self.queue(cpu, false);
        let mut more = READER.wrapping_neg();
        if nobody_waits {
            more = more.wrapping_add(WAITERS);
        }
        let count = cpu.fetch_add(self.count, more).await.wrapping_add(more);
        let woken = self.mark_wake_if_free(cpu, count).await;
        self.wait_lock.release(cpu).await;
        self.wake_up(cpu, woken).await;
        while !waiter.granted.get() {
            cpu.sleep_until(cpu.now() + ms(4)).await;
        }
    }

    async fn release_read(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, READER.wrapping_neg()).await - READER;
        if count & (HELD | WAITERS) == WAITERS {
            self.let_spin(cpu).await;
            self.wake(cpu, Wake::Any).await;
        }
    }
}

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::engine::{LineId, LockId, Word};
use crate::lock::{DowngradeLock, Lock, ReadLock, TryLock, TryReadLock};
use crate::locks::osq::Osq;
use crate::locks::spinlock::Spinlock;
use crate::simulation::Simulation;
use crate::time::{Time, ms, ns, us};

/// The kernel's rw_semaphore. Readers add themselves to a count, and writers spin while the owner runs. Otherwise
/// both sleep in a queue. After 4 ms the first waiter requests the hand-off.
///
/// Follows `rwsem_down_read_slowpath`, `rwsem_down_write_slowpath`, `rwsem_optimistic_spin`, `rwsem_try_write_lock`
/// and `rwsem_mark_wake` in `kernel/locking/rwsem.c` of 6.12, in which readers do not spin (up to 5.10 they do). Left
/// out: the deadlines of the scheduler (`need_resched`), real-time tasks, and signals.
pub struct RwSem {
    id: LockId,
    /// The bits RWSEM_WRITER_LOCKED, RWSEM_FLAG_WAITERS and RWSEM_FLAG_HANDOFF, and the number of readers.
    count: Word,
    /// The writer that holds it, as the number of its CPU plus one; or RWSEM_READER_OWNED. And RWSEM_NONSPINNABLE.
    owner: Word,
    osq: Osq,
    wait_lock: Spinlock,
    /// The tasks that sleep. Protected by wait_lock, and on its cache line.
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    cpu: usize,
    writes: bool,
    since: Time,
    /// The semaphore was granted to this reader.
    granted: Cell<bool>,
    /// It has requested the hand-off: while it is first, no writer behind it acquires the semaphore.
    handoff_set: Cell<bool>,
}

impl Waiter {
    fn has_waited_for_long(&self, cpu: &Cpu) -> bool {
        cpu.now() > self.since + ms(RWSEM_WAIT_TIMEOUT_MS)
    }
}

const RWSEM_WRITER_LOCKED: u64 = 1;
const RWSEM_FLAG_WAITERS: u64 = 2;
const RWSEM_FLAG_HANDOFF: u64 = 4;
const RWSEM_READER_BIAS: u64 = 1 << 8;
/// `RWSEM_READ_FAILED_MASK`.
const RWSEM_READ_FAILED_MASK: u64 = RWSEM_WRITER_LOCKED | RWSEM_FLAG_WAITERS | RWSEM_FLAG_HANDOFF;
/// A writer or readers hold it.
const RWSEM_LOCK_MASK: u64 = RWSEM_WRITER_LOCKED | !(RWSEM_READER_BIAS - 1);

/// In `owner`: readers hold it.
const RWSEM_READER_OWNED: u64 = 1 << 63;
/// In `owner`: readers have held it for so long that writers do not spin.
const RWSEM_NONSPINNABLE: u64 = 1 << 62;
/// `RWSEM_WAIT_TIMEOUT`.
const RWSEM_WAIT_TIMEOUT_MS: f64 = 4.0;
const MAX_READERS_WAKEUP: usize = 256;
/// Nanoseconds that a wakeup costs the waker. An estimate: some hundred instructions of `try_to_wake_up`, and the
/// runqueue of the other CPU.
const WAKER_NS: f64 = 300.0;

/// Nanoseconds between two reads of a spinning CPU.
const RELAX_NS: f64 = 50.0;

/// `enum rwsem_wake_type`: which waiters are woken.
#[derive(Clone, Copy, PartialEq)]
enum Wake {
    /// The first waiter, and all readers if it is a reader.
    Any,
    /// The readers, if the first waiter is a reader.
    Readers,
    /// The same, if the waker holds it as a reader.
    ReadOwned,
}

/// `enum owner_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Free,
    Writer,
    Readers,
    NonSpinnable,
}

impl OwnerState {
    fn of(owner: u64) -> OwnerState {
        match owner {
            0 => OwnerState::Free,
            _ if owner & RWSEM_NONSPINNABLE != 0 => OwnerState::NonSpinnable,
            _ if owner & RWSEM_READER_OWNED != 0 => OwnerState::Readers,
            _ => OwnerState::Writer,
        }
    }
}

impl RwSem {
    /// A free semaphore in a node's memory. All its words are on one cache line, as most are in the kernel.
    pub fn new(sim: &mut Simulation, name: &str, node: usize) -> RwSem {
        let line = sim.line(name, node);
        RwSem::on(sim, name, line)
    }

    /// A free semaphore on a cache line with other words.
    pub fn on(sim: &mut Simulation, name: &str, line: LineId) -> RwSem {
        RwSem {
            id: sim.lock_id(name),
            count: sim.word_on(line),
            owner: sim.word_on(line),
            osq: Osq::on(sim, line),
            wait_lock: Spinlock::on(sim, name, line),
            waiters: RefCell::default(),
        }
    }

    /// `rwsem_try_write_lock_unqueued`.
    async fn try_write_unqueued(&self, cpu: &Cpu) -> bool {
        let mut count = cpu.read(self.count).await;
        while count & (RWSEM_LOCK_MASK | RWSEM_FLAG_HANDOFF) == 0 {
            let before = cpu.compare_exchange(self.count, count, count | RWSEM_WRITER_LOCKED).await;
            if before == count {
                cpu.write(self.owner, cpu.id() as u64 + 1).await;
                return true;
            }
            count = before;
        }
        false
    }

    /// `rwsem_can_spin_on_owner`.
    async fn can_spin(&self, cpu: &Cpu) -> bool {
        let owner = cpu.read(self.owner).await;
        match OwnerState::of(owner) {
            OwnerState::Writer => cpu.runs(owner as usize - 1),
            state => state != OwnerState::NonSpinnable,
        }
    }

    /// `rwsem_spin_on_owner`: waits while the same writer holds it and runs.
    async fn spin_on_owner(&self, cpu: &Cpu) -> OwnerState {
        let owner = cpu.read(self.owner).await;
        if OwnerState::of(owner) != OwnerState::Writer {
            return OwnerState::of(owner);
        }
        loop {
            // RWSEM_FLAG_HANDOFF does not end spinning: the writer that requested it is another owner to spin on.
            let now = cpu.read(self.owner).await;
            if now != owner {
                return OwnerState::of(now);
            }
            if !cpu.runs(owner as usize - 1) {
                return OwnerState::NonSpinnable;
            }
            cpu.relax(ns(RELAX_NS)).await;
        }
    }

    /// `rwsem_optimistic_spin`. Returns whether it has acquired the semaphore.
    async fn spin(&self, cpu: &Cpu) -> bool {
        let node = self.osq.lock(cpu).await;
        let mut until = None;
        let got = loop {
            let state = self.spin_on_owner(cpu).await;
            if state == OwnerState::NonSpinnable {
                break false;
            }
            if self.try_write_unqueued(cpu).await {
                break true;
            }
            match until {
                _ if state != OwnerState::Readers => until = None,
                None => until = Some(cpu.now() + self.reader_spin_threshold(cpu).await),
                Some(until) if cpu.now() > until => {
                    self.set_nonspinnable(cpu).await;
                    break false;
                }
                Some(_) => {}
            }
            cpu.relax(ns(RELAX_NS)).await;
        };
        self.osq.unlock(cpu, node).await;
        got
    }

    /// `rwsem_rspin_threshold`: 10 us, and half a microsecond per reader, up to 25 us.
    async fn reader_spin_threshold(&self, cpu: &Cpu) -> Time {
        let readers = (cpu.read(self.count).await / RWSEM_READER_BIAS).min(30);
        us(10) + ns(500) * readers
    }

    async fn set_nonspinnable(&self, cpu: &Cpu) {
        let mut owner = cpu.read(self.owner).await;
        while OwnerState::of(owner) == OwnerState::Readers {
            let before = cpu.compare_exchange(self.owner, owner, owner | RWSEM_NONSPINNABLE).await;
            if before == owner {
                break;
            }
            owner = before;
        }
    }

    fn queue(&self, cpu: &Cpu, writes: bool) -> Rc<Waiter> {
        let (granted, handoff_set) = (Cell::new(false), Cell::new(false));
        let waiter = Rc::new(Waiter { cpu: cpu.id(), writes, since: cpu.now(), granted, handoff_set });
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        waiter
    }

    fn is_first(&self, waiter: &Rc<Waiter>) -> bool {
        self.waiters.borrow().front().is_some_and(|first| Rc::ptr_eq(first, waiter))
    }

    /// `rwsem_set_reader_owned`.
    async fn set_readers(&self, cpu: &Cpu) {
        let owner = cpu.read(self.owner).await;
        cpu.write(self.owner, RWSEM_READER_OWNED | owner & RWSEM_NONSPINNABLE).await;
    }

    /// `clear_nonspinnable`.
    async fn clear_nonspinnable(&self, cpu: &Cpu) {
        if cpu.read(self.owner).await & RWSEM_NONSPINNABLE != 0 {
            cpu.fetch_and(self.owner, !RWSEM_NONSPINNABLE).await;
        }
    }

    /// `rwsem_mark_wake`, with wait_lock. Returns the CPUs to wake. Readers hold the semaphore by then; a writer has
    /// yet to acquire it.
    async fn mark_wake(&self, cpu: &Cpu, wake: Wake) -> Vec<usize> {
        let first = self.waiters.borrow().front().cloned();
        let Some(first) = first else { return Vec::new() };
        if first.writes {
            return if wake == Wake::Any { vec![first.cpu] } else { Vec::new() };
        }
        let mut granted = 0;
        if wake != Wake::ReadOwned {
            granted = RWSEM_READER_BIAS;
            let before = cpu.fetch_add(self.count, RWSEM_READER_BIAS).await;
            if before & RWSEM_WRITER_LOCKED != 0 {
                // A writer was faster.
                let late = first.has_waited_for_long(cpu);
                let requests = late && before & RWSEM_FLAG_HANDOFF == 0;
                first.handoff_set.set(first.handoff_set.get() || late);
                cpu.fetch_add(
                    self.count,
                    if requests { RWSEM_FLAG_HANDOFF } else { 0 }.wrapping_sub(RWSEM_READER_BIAS),
                )
                .await;
                return Vec::new();
            }
            self.set_readers(cpu).await;
        }
        let (woken, is_empty) = {
            let mut waiters = self.waiters.borrow_mut();
            let woken: Vec<_> =
                waiters.iter().filter(|waiter| !waiter.writes).take(MAX_READERS_WAKEUP).cloned().collect();
            waiters.retain(|waiter| !woken.iter().any(|other| Rc::ptr_eq(other, waiter)));
            (woken, waiters.is_empty())
        };
        let mut more = (RWSEM_READER_BIAS * woken.len() as u64).wrapping_sub(granted);
        if is_empty {
            more = more.wrapping_sub(RWSEM_FLAG_WAITERS);
        }
        more = more.wrapping_sub(cpu.read(self.count).await & RWSEM_FLAG_HANDOFF);
        if more != 0 {
            cpu.fetch_add(self.count, more).await;
        }
        woken.iter().for_each(|waiter| waiter.granted.set(true));
        woken.iter().map(|waiter| waiter.cpu).collect()
    }

    /// `rwsem_cond_wake_waiter`, with wait_lock.
    async fn mark_wake_if_free(&self, cpu: &Cpu, count: u64) -> Vec<usize> {
        if count & RWSEM_WRITER_LOCKED != 0 {
            return Vec::new();
        }
        if count & RWSEM_LOCK_MASK != 0 {
            return self.mark_wake(cpu, Wake::Readers).await;
        }
        self.clear_nonspinnable(cpu).await;
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
            cpu.work(ns(WAKER_NS)).await;
            cpu.wake(other);
        }
    }

    async fn down_write_slowpath(&self, cpu: &Cpu) {
        self.wait_lock.acquire(cpu).await;
        let waiter = self.queue(cpu, true);
        if self.is_first(&waiter) {
            cpu.fetch_or(self.count, RWSEM_FLAG_WAITERS).await;
        } else {
            let count = cpu.read(self.count).await;
            let woken = self.mark_wake_if_free(cpu, count).await;
            if !woken.is_empty() {
                self.wait_lock.release(cpu).await;
                self.wake_up(cpu, woken).await;
                self.wait_lock.acquire(cpu).await;
            }
        }
        while !self.try_write(cpu, &waiter).await {
            self.wait_lock.release(cpu).await;
            // A waiter that requested the hand-off spins first: the writer may release it right then.
            if !(waiter.handoff_set.get() && self.spin_on_owner(cpu).await == OwnerState::Free) {
                cpu.sleep().await;
            }
            self.wait_lock.acquire(cpu).await;
        }
        self.wait_lock.release(cpu).await;
    }

    /// `rwsem_try_write_lock`, with wait_lock.
    async fn try_write(&self, cpu: &Cpu, waiter: &Rc<Waiter>) -> bool {
        let first = Rc::clone(self.waiters.borrow().front().expect("this task is a waiter"));
        let mut count = cpu.read(self.count).await;
        loop {
            if count & RWSEM_FLAG_HANDOFF != 0 && first.handoff_set.get() && !Rc::ptr_eq(&first, waiter) {
                return false;
            }
            let new = if count & RWSEM_LOCK_MASK != 0 {
                if count & RWSEM_FLAG_HANDOFF != 0 || !waiter.has_waited_for_long(cpu) {
                    return false;
                }
                count | RWSEM_FLAG_HANDOFF
            } else {
                let rest = if self.waiters.borrow().len() == 1 {
                    !(RWSEM_FLAG_WAITERS | RWSEM_FLAG_HANDOFF)
                } else {
                    !RWSEM_FLAG_HANDOFF
                };
                count & rest | RWSEM_WRITER_LOCKED
            };
            let before = cpu.compare_exchange(self.count, count, new).await;
            if before != count {
                count = before;
            } else if new & RWSEM_FLAG_HANDOFF != 0 {
                first.handoff_set.set(true);
                return false;
            } else {
                self.waiters.borrow_mut().retain(|other| !Rc::ptr_eq(other, waiter));
                cpu.write(self.owner, cpu.id() as u64 + 1).await;
                return true;
            }
        }
    }
}

impl TryLock for RwSem {
    /// `rwsem_write_trylock`: succeeds only without holders and waiters.
    async fn try_acquire(&self, cpu: &Cpu) -> bool {
        let free = cpu.compare_exchange(self.count, 0, RWSEM_WRITER_LOCKED).await == 0;
        if free {
            cpu.write(self.owner, cpu.id() as u64 + 1).await;
        }
        free
    }
}

impl TryReadLock for RwSem {
    /// `__down_read_trylock`. Its cache line is transferred once, for writing, as page faults prefetch it that way.
    async fn try_acquire_read(&self, cpu: &Cpu) -> bool {
        let mut count = cpu.peek_same_line(self.count);
        if count & RWSEM_READ_FAILED_MASK != 0 {
            count = cpu.read(self.count).await;
        }
        while count & RWSEM_READ_FAILED_MASK == 0 {
            let before = cpu.compare_exchange(self.count, count, count + RWSEM_READER_BIAS).await;
            if before == count {
                self.set_readers(cpu).await;
                return true;
            }
            count = before;
        }
        false
    }
}

impl DowngradeLock for RwSem {
    async fn downgrade(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, RWSEM_READER_BIAS.wrapping_sub(RWSEM_WRITER_LOCKED)).await;
        self.set_readers(cpu).await;
        if count & RWSEM_FLAG_WAITERS != 0 {
            self.wake(cpu, Wake::ReadOwned).await;
        }
    }
}

impl Lock for RwSem {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        if self.try_acquire(cpu).await || self.can_spin(cpu).await && self.spin(cpu).await {
            return;
        }
        self.down_write_slowpath(cpu).await;
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.write(self.owner, 0).await;
        if cpu.fetch_add(self.count, RWSEM_WRITER_LOCKED.wrapping_neg()).await & RWSEM_FLAG_WAITERS != 0 {
            self.wake(cpu, Wake::Any).await;
        }
    }
}

impl ReadLock for RwSem {
    async fn acquire_read(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, RWSEM_READER_BIAS).await + RWSEM_READER_BIAS;
        if count & RWSEM_READ_FAILED_MASK == 0 {
            return self.set_readers(cpu).await;
        }
        // A stream of readers must not starve a writer that sleeps.
        let readers = count / RWSEM_READER_BIAS;
        let likely_read = count & RWSEM_WRITER_LOCKED == 0
            && readers > 1
            && cpu.read(self.owner).await & RWSEM_READER_OWNED != 0;
        if !likely_read && count & (RWSEM_WRITER_LOCKED | RWSEM_FLAG_HANDOFF) == 0 {
            self.set_readers(cpu).await;
            if readers == 1 && count & RWSEM_FLAG_WAITERS != 0 {
                self.wake(cpu, Wake::ReadOwned).await;
            }
            return;
        }
        self.wait_lock.acquire(cpu).await;
        let no_waiters = self.waiters.borrow().is_empty();
        if no_waiters && cpu.read(self.count).await & RWSEM_WRITER_LOCKED == 0 {
            self.wait_lock.release(cpu).await;
            return self.set_readers(cpu).await;
        }
        let waiter = self.queue(cpu, false);
        let mut more = RWSEM_READER_BIAS.wrapping_neg();
        if no_waiters {
            more = more.wrapping_add(RWSEM_FLAG_WAITERS);
        }
        let count = cpu.fetch_add(self.count, more).await.wrapping_add(more);
        let woken = self.mark_wake_if_free(cpu, count).await;
        self.wait_lock.release(cpu).await;
        self.wake_up(cpu, woken).await;
        while !waiter.granted.get() {
            cpu.sleep().await;
        }
    }

    async fn release_read(&self, cpu: &Cpu) {
        let count = cpu.fetch_add(self.count, RWSEM_READER_BIAS.wrapping_neg()).await - RWSEM_READER_BIAS;
        if count & (RWSEM_LOCK_MASK | RWSEM_FLAG_WAITERS) == RWSEM_FLAG_WAITERS {
            self.clear_nonspinnable(cpu).await;
            self.wake(cpu, Wake::Any).await;
        }
    }
}

//! Locks exclude, on any machine and in any order of events; a lock with a bug does not, and that shows.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use bigiron_sim::locks::{
    AnyLock, Fifo, Mutex, PercpuRwSem, PowerpcQSpinlock, QSpinlock, RwLock, RwSem, SeqLock,
};
use bigiron_sim::{
    Cpu, Failure, Interrupt, Lock, LockId, Machine, ReadLock, Report, Run, Simulation, Time, Word, ns, us,
};
use proptest::prelude::*;

/// A machine of one to three sockets of one to four nodes of one to four CPUs, at random distances.
fn machines() -> impl Strategy<Value = String> {
    let latencies = proptest::collection::vec(0u32..2000, 6);
    (1usize..=3, 1usize..=4, 1usize..=4, latencies).prop_map(|(sockets, nodes, cpus, latency)| {
        let [hit, memory, far, far_memory, middle, near] = latency[..] else { unreachable!() };
        format!(
            r#"
            name = "random"
            description = "a random machine"
            node = "node"
            hit_ns = {hit}
            memory_ns = {memory}
            wakeup_ns = {far}
            ipi_ns = {middle}
            [[level]]
            name = "socket"
            count = {sockets}
            transfer_ns = {far}
            memory_ns = {far_memory}
            [[level]]
            name = "node"
            count = {nodes}
            transfer_ns = {middle}
            memory_ns = {memory}
            [[level]]
            name = "cpu"
            count = {cpus}
            transfer_ns = {near}
            "#
        )
    })
}

const ROUNDS: u64 = 8;

/// Every CPU takes the lock some times. What it guards is read, and written only after a while.
fn contend<L: Lock + 'static>(
    machine: Machine,
    seed: u64,
    make: impl FnOnce(&mut Simulation) -> L,
) -> Result<u64, Failure> {
    let mut sim = Simulation::new(machine, seed);
    let lock = Rc::new(make(&mut sim));
    let guarded = Rc::new(Cell::new(0));
    for cpu in 0..sim.cpus() {
        sim.handler(cpu, |cpu| async move {
            cpu.set_timer(us(3), 0);
            loop {
                assert_eq!(cpu.interrupt().await, Interrupt::Timer(0));
                cpu.work(ns(300)).await;
                if cpu.now() < us(30) {
                    cpu.set_timer(cpu.now() + us(3), 0);
                }
            }
        });
        let (lock, guarded) = (Rc::clone(&lock), Rc::clone(&guarded));
        sim.program(cpu, |cpu| async move {
            for _ in 0..ROUNDS {
                cpu.user(cpu.exponential(ns(500))).await;
                cpu.lock(&*lock).await;
                let before = guarded.get();
                cpu.work(cpu.exponential(ns(100))).await;
                if cpu.below(4) == 0 {
                    cpu.sleep_until(cpu.now() + us(2)).await;
                }
                guarded.set(before + 1);
                cpu.unlock(&*lock).await;
            }
        });
    }
    let mut run = Run::to_the_end();
    run.event_budget = 10_000_000;
    sim.run(run)?;
    Ok(guarded.get())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_lock_excludes(file in machines(), seed: u64) {
        let machine = Machine::from_toml(&file).expect("a possible machine");
        let expected = machine.cpus() as u64 * ROUNDS;
        for (kind, _) in AnyLock::KINDS {
            let make = |sim: &mut Simulation| AnyLock::new(kind, sim, "lock", 0).expect("known");
            prop_assert_eq!((kind, contend(machine.clone(), seed, make)), (kind, Ok(expected)));
        }
    }

    #[test]
    fn readers_see_no_half_written_pair(file in machines(), seed: u64) {
        let machine = Machine::from_toml(&file).expect("a possible machine");
        prop_assert_eq!(read_and_write(machine.clone(), seed, |sim| RwLock::new(sim, "lock", 0)), Ok(()));
        prop_assert_eq!(read_and_write(machine.clone(), seed, |sim| RwSem::new(sim, "lock", 0)), Ok(()));
        let percpu = |sim: &mut Simulation| PercpuRwSem::new(sim, "lock", 0).with_grace_period(us(5));
        prop_assert_eq!(read_and_write(machine, seed, percpu), Ok(()));
    }

    #[test]
    fn no_writer_comes_after_a_downgrade(file in machines(), seed: u64) {
        let mut sim = Simulation::new(Machine::from_toml(&file).expect("a possible machine"), seed);
        let lock = Rc::new(RwSem::new(&mut sim, "lock", 0));
        let pair = [sim.word("pair", 0), sim.word("pair", 0)];
        for cpu in 0..sim.cpus() {
            let lock = Rc::clone(&lock);
            sim.program(cpu, move |cpu| async move {
                for round in 0..ROUNDS {
                    cpu.user(cpu.exponential(us(3))).await;
                    let value = cpu.id() as u64 * ROUNDS + round;
                    let writes = cpu.below(2) == 0;
                    if writes {
                        cpu.lock(&*lock).await;
                        write(&cpu, pair, value).await;
                        cpu.downgrade(&*lock).await;
                        cpu.work(cpu.exponential(us(5))).await;
                    } else {
                        cpu.read_lock(&*lock).await;
                    }
                    let (first, second) = (cpu.read(pair[0]).await, cpu.read(pair[1]).await);
                    cpu.check(first == second, || format!("read {first} and {second}"));
                    cpu.check(!writes || first == value, || format!("read {first}, wrote {value}"));
                    cpu.read_unlock(&*lock).await;
                }
            });
        }
        let mut run = Run::to_the_end();
        run.event_budget = 10_000_000;
        prop_assert!(sim.run(run).is_ok());
    }

    #[test]
    fn readers_of_a_seqlock_see_no_half_written_pair(file in machines(), seed: u64) {
        let machine = Machine::from_toml(&file).expect("a possible machine");
        let mut sim = Simulation::new(machine, seed);
        let lock = Rc::new(SeqLock::new(&mut sim, "lock", 0));
        let pair = [sim.word("pair", 0), sim.word("pair", 0)];
        for cpu in 0..sim.cpus() {
            let lock = Rc::clone(&lock);
            sim.program(cpu, move |cpu| async move {
                for round in 0..ROUNDS {
                    if cpu.id() % 3 == 0 {
                        cpu.lock(&*lock).await;
                        write(&cpu, pair, cpu.id() as u64 * ROUNDS + round).await;
                        cpu.unlock(&*lock).await;
                        cpu.work(cpu.exponential(us(20))).await;
                    } else {
                        let (first, second) = loop {
                            let sequence = lock.read_begin(&cpu).await;
                            let values = (cpu.read(pair[0]).await, cpu.read(pair[1]).await);
                            if !lock.read_retry(&cpu, sequence).await {
                                break values;
                            }
                        };
                        cpu.check(first == second, || format!("read {first} and {second}"));
                    }
                }
            });
        }
        prop_assert!(sim.run(Run::to_the_end()).is_ok());
    }
}

async fn write(cpu: &Cpu, pair: [Word; 2], value: u64) {
    cpu.write(pair[0], value).await;
    cpu.work(cpu.exponential(ns(200))).await;
    cpu.write(pair[1], value).await;
}

fn read_and_write<L: ReadLock + 'static>(
    machine: Machine,
    seed: u64,
    make: impl FnOnce(&mut Simulation) -> L,
) -> Result<(), Failure> {
    let mut sim = Simulation::new(machine, seed);
    let lock = Rc::new(make(&mut sim));
    let pair = [sim.word("pair", 0), sim.word("pair", 0)];
    for cpu in 0..sim.cpus() {
        let lock = Rc::clone(&lock);
        sim.program(cpu, move |cpu| async move {
            for round in 0..ROUNDS {
                cpu.user(cpu.exponential(ns(500))).await;
                if cpu.below(3) == 0 {
                    cpu.lock(&*lock).await;
                    write(&cpu, pair, cpu.id() as u64 * ROUNDS + round).await;
                    cpu.unlock(&*lock).await;
                } else {
                    cpu.read_lock(&*lock).await;
                    let (first, second) = (cpu.read(pair[0]).await, cpu.read(pair[1]).await);
                    cpu.check(first == second, || format!("read {first} and {second}"));
                    cpu.read_unlock(&*lock).await;
                }
            }
        });
    }
    let mut run = Run::to_the_end();
    run.event_budget = 10_000_000;
    sim.run(run).map(|_| ())
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let mut sim = Simulation::new(Machine::uniform(3, ns(1), ns(100)), 1);
    let lock = Rc::new(RwSem::new(&mut sim, "lock", 0));
    let took = Rc::new(Cell::new([0.0; 3]));
    for cpu in 0..3 {
        let (lock, took) = (Rc::clone(&lock), Rc::clone(&took));
        sim.program(cpu, move |cpu| async move {
            cpu.user(us(10) * cpu.id() as u64).await;
            if cpu.id() == 1 {
                cpu.read_lock(&*lock).await;
            } else {
                cpu.lock(&*lock).await;
            }
            let mut all = took.get();
            all[cpu.id()] = cpu.now().as_ns();
            took.set(all);
            match cpu.id() {
                0 => {
                    cpu.downgrade(&*lock).await;
                    cpu.work(us(100)).await;
                    cpu.read_unlock(&*lock).await;
                }
                1 => cpu.read_unlock(&*lock).await,
                _ => cpu.unlock(&*lock).await,
            }
        });
    }
    sim.run(Run::to_the_end()).unwrap();
    let [_, reader, writer] = took.get();
    assert!(reader < 11_000.0 && writer > 100_000.0, "{:?}", took.get());
}

/// Writers that spin take it from a reader that is woken, until it has slept for 4 ms.
#[test]
fn writers_do_not_starve_a_reader() {
    let mut sim = Simulation::new(Machine::uniform(31, ns(1), ns(100)), 1);
    let lock = Rc::new(RwSem::new(&mut sim, "lock", 0));
    let longest = Rc::new(Cell::new(0.0_f64));
    for cpu in 0..31 {
        let (lock, longest) = (Rc::clone(&lock), Rc::clone(&longest));
        sim.program(cpu, move |cpu| async move {
            while cpu.now() < us(20_000) {
                let began = cpu.now();
                if cpu.id() == 0 {
                    cpu.read_lock(&*lock).await;
                    longest.set(longest.get().max((cpu.now() - began).as_ns()));
                    cpu.read_unlock(&*lock).await;
                } else {
                    cpu.lock(&*lock).await;
                    cpu.work(us(1)).await;
                    cpu.unlock(&*lock).await;
                }
                cpu.user(ns(10)).await;
            }
        });
    }
    sim.run(Run::to_the_end()).unwrap();
    assert!(longest.get() < 6e6, "{}", longest.get());
}

/// Who noted what, and when.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<Noted>>>);

#[derive(Clone, Copy)]
struct Noted {
    cpu: usize,
    what: &'static str,
    when: Time,
}

impl Notes {
    fn add(&self, cpu: &Cpu, what: &'static str) {
        self.0.borrow_mut().push(Noted { cpu: cpu.id(), what, when: cpu.now() });
    }

    /// When a CPU first noted that, in nanoseconds.
    fn when(&self, cpu: usize, what: &str) -> f64 {
        let noted = self.0.borrow();
        let found = noted.iter().find(|noted| noted.cpu == cpu && noted.what == what);
        found.unwrap_or_else(|| panic!("CPU {cpu} has not noted {what}")).when.as_ns()
    }

    /// The CPUs that had the lock, in that order.
    fn holders(&self) -> Vec<usize> {
        let noted = self.0.borrow();
        noted.iter().filter(|noted| noted.what == "has it").map(|noted| noted.cpu).collect()
    }
}

/// CPUs that each do something from some time on.
struct Actors {
    sim: Simulation,
    notes: Notes,
}

impl Actors {
    /// On a machine where a line takes 100 ns, and waking a sleeper 2 us.
    fn new() -> Actors {
        let machine = Machine::named("uniform").and_then(|machine| machine.with_cpus(16)).expect("it has");
        Actors { sim: Simulation::new(machine, 1), notes: Notes::default() }
    }

    fn at<F: Future<Output = ()> + 'static>(
        &mut self,
        cpu: usize,
        at: Time,
        does: impl FnOnce(Cpu, Notes) -> F + 'static,
    ) {
        let notes = self.notes.clone();
        self.sim.program(cpu, move |cpu| async move {
            cpu.work(at).await;
            does(cpu, notes).await;
        });
    }

    fn run(self) -> (Notes, Report) {
        (self.notes, self.sim.run(Run::to_the_end()).expect("it ends"))
    }
}

/// Takes a lock at once or later, has it until a time or for some time, and notes both.
async fn has<L: Lock>(cpu: Cpu, notes: Notes, lock: Rc<L>, until: impl Fn(&Cpu) -> Time) {
    cpu.lock(&*lock).await;
    notes.add(&cpu, "has it");
    cpu.work(until(&cpu).since(cpu.now())).await;
    cpu.unlock(&*lock).await;
    notes.add(&cpu, "gave it back");
}

/// Has a lock, and sleeps meanwhile: nobody spins for it.
async fn sleeps<L: Lock>(cpu: Cpu, lock: Rc<L>, until: Time, works: Time) {
    cpu.lock(&*lock).await;
    cpu.sleep_until(until).await;
    cpu.work(works).await;
    cpu.unlock(&*lock).await;
}

#[test]
fn spinners_of_a_semaphore_go_on_when_a_sleeper_asks_for_the_hand_off_and_it_spins_too() {
    let mut actors = Actors::new();
    let lock = Rc::new(RwSem::new(&mut actors.sim, "lock", 0));
    let all = [(); 5].map(|()| Rc::clone(&lock));
    let [first, sleeper, thief, spinner, late] = all;
    // CPU 1 sleeps for it. CPU 2 takes it from CPU 0, and keeps it for so long that CPU 1 asks for the hand-off when CPU 3
    // has taken it, for whom CPU 4 spins then.
    actors.at(0, us(0), move |cpu, _| sleeps(cpu, first, us(1000), us(100)));
    actors.at(1, us(10), move |cpu, notes| has(cpu, notes, sleeper, |cpu| cpu.now() + us(50)));
    actors.at(2, us(1020), move |cpu, notes| has(cpu, notes, thief, |_| us(6000)));
    actors.at(3, us(2000), move |cpu, notes| has(cpu, notes, spinner, |_| us(7000)));
    actors.at(4, us(3000), move |cpu, notes| has(cpu, notes, late, |cpu| cpu.now() + us(1)));
    let (notes, _) = actors.run();
    let takes = notes.holders();
    assert_eq!(takes, [2, 3, 1, 4]);
    let handed_over = notes.when(1, "has it") - notes.when(3, "gave it back");
    assert!(handed_over < 1000.0, "CPU 1 spins, and need not be woken: {handed_over} ns");
    let went_on = notes.when(4, "has it") - notes.when(1, "gave it back");
    assert!(went_on < 1000.0, "CPU 4 spins on: {went_on} ns");
}

#[test]
fn a_writer_that_is_not_the_first_sleeper_may_take_a_free_semaphore() {
    let mut actors = Actors::new();
    let lock = Rc::new(RwSem::new(&mut actors.sim, "lock", 0));
    let [first, sleeper, second] = [(); 3].map(|()| Rc::clone(&lock));
    actors.at(0, us(0), move |cpu, _| sleeps(cpu, first, us(100), us(10)));
    actors.at(1, us(10), move |cpu, notes| has(cpu, notes, sleeper, |cpu| cpu.now() + us(1)));
    actors.at(2, us(20), move |cpu, notes| has(cpu, notes, second, |cpu| cpu.now() + us(1)));
    // CPU 2 happens to be woken just before CPU 1, which is the first, wakes up.
    actors.at(3, us(109), |cpu, _| async move { cpu.wake(2) });
    let (notes, _) = actors.run();
    let takes = notes.holders();
    assert_eq!(takes, [2, 1]);
}

#[test]
fn sleepers_of_a_semaphore_sleep_until_they_are_woken() {
    let mut actors = Actors::new();
    let lock = Rc::new(RwSem::new(&mut actors.sim, "lock", 0));
    let [owner, writer, reader] = [(); 3].map(|()| Rc::clone(&lock));
    actors.at(0, us(0), move |cpu, _| sleeps(cpu, owner, us(50_000), us(1)));
    actors.at(1, us(10), move |cpu, notes| has(cpu, notes, writer, |cpu| cpu.now()));
    actors.at(2, us(20), move |cpu, _| async move {
        cpu.read_lock(&*reader).await;
        cpu.read_unlock(&*reader).await;
    });
    let (_, report) = actors.run();
    let accesses: u64 =
        report.lines.iter().filter(|line| line.name == "lock").map(|line| line.accesses).sum();
    assert!(accesses < 60, "{accesses}: who looks every 4 ms needs more than twelve times two");
}

#[test]
fn who_comes_steals_a_mutex_that_others_sleep_for_without_queueing() {
    let mut actors = Actors::new();
    let lock = Rc::new(Mutex::new(&mut actors.sim, "lock", 0));
    let [owner, sleeper, thief] = [(); 3].map(|()| Rc::clone(&lock));
    actors.at(0, us(0), move |cpu, _| sleeps(cpu, owner, us(100), us(1)));
    actors.at(1, us(10), move |cpu, notes| has(cpu, notes, sleeper, |cpu| cpu.now()));
    // Free, and CPU 1 is being woken.
    actors.at(2, us(102), move |cpu, notes| has(cpu, notes, thief, |cpu| cpu.now()));
    let (notes, _) = actors.run();
    assert_eq!(notes.holders(), [2, 1]);
    let took = notes.when(2, "has it") - 102_000.0;
    assert!(took < 150.0, "the lock's line, and no queue node: {took} ns");
}

#[test]
fn a_percpu_semaphore_is_given_to_sleepers_in_their_order_readers_up_to_a_writer() {
    let mut actors = Actors::new();
    let make = |sim: &mut Simulation| PercpuRwSem::new(sim, "lock", 0).with_grace_period(us(1));
    let lock = Rc::new(make(&mut actors.sim));
    let owner = Rc::clone(&lock);
    actors.at(0, us(0), move |cpu, notes| has(cpu, notes, owner, |_| us(100)));
    for (number, (cpu, writes)) in
        [(6, true), (3, false), (2, false), (5, true), (1, false), (4, true)].into_iter().enumerate()
    {
        let lock = Rc::clone(&lock);
        actors.at(cpu, us(10) * (number as u64 + 1), move |cpu, notes| async move {
            if writes {
                return has(cpu, notes, lock, |cpu| cpu.now() + us(10)).await;
            }
            cpu.read_lock(&*lock).await;
            notes.add(&cpu, "has it");
            cpu.work(us(10)).await;
            cpu.read_unlock(&*lock).await;
            notes.add(&cpu, "gave it back");
        });
    }
    let (notes, _) = actors.run();
    let takes = notes.holders();
    assert_eq!([takes[0], takes[1]], [0, 6]);
    assert_eq!(takes[4..], [5, 1, 4]);
    // Two readers at once, for whom the writer behind them waits; and one reader after it.
    assert!((notes.when(3, "has it") - notes.when(2, "has it")).abs() < 2000.0);
    assert!(notes.when(5, "has it") > notes.when(3, "gave it back"));
    assert!(notes.when(1, "has it") > notes.when(5, "gave it back"));
}

#[test]
fn the_head_of_a_queue_prefetches_the_next_ones_node() {
    let moved = |waiters: usize| {
        let mut actors = Actors::new();
        let lock = Rc::new(QSpinlock::new(&mut actors.sim, "lock", 0));
        for cpu in 0..=waiters {
            let lock = Rc::clone(&lock);
            // CPU 0 has it, CPU 1 is pending, CPU 2 the queue's head, and so on; each has it for ten times as long as
            // their lines take to move.
            actors.at(cpu, us(0.2) * cpu as u64, move |cpu, notes| {
                has(cpu, notes, lock, |cpu| cpu.now() + us(5))
            });
        }
        let (_, report) = actors.run();
        let nodes = report.lines.iter().filter(|line| line.name == "queue node");
        nodes.map(|line| line.transfers).sum::<u64>()
    };
    // CPU 4's node is written by CPU 5, which queues, and read by CPU 4. CPU 5's comes from memory; is prefetched by CPU
    // 4, now the head, and read again; and is written by CPU 4 as it has the lock, and read.
    assert_eq!(moved(5) - moved(4), 7);
}

#[test]
fn a_lock_of_power_is_stolen_until_the_head_of_its_queue_has_waited_for_long() {
    let takers = |holds: Time| {
        let mut actors = Actors::new();
        let lock = Rc::new(PowerpcQSpinlock::new(&mut actors.sim, "lock", 0));
        let waiting = Rc::clone(&lock);
        actors.at(0, us(0), move |cpu, notes| async move {
            for _ in 0..2 {
                cpu.lock(&*lock).await;
                notes.add(&cpu, "has it");
                cpu.work(holds).await;
                cpu.unlock(&*lock).await;
            }
        });
        actors.at(1, us(0.5), move |cpu, notes| has(cpu, notes, waiting, |cpu| cpu.now()));
        let (notes, _) = actors.run();
        notes.holders()
    };
    assert_eq!(takers(us(3)), [0, 0, 1]);
    assert_eq!(takers(us(30)), [0, 1, 0]);
}

/// A ticket lock whose author forgot that drawing a ticket must be atomic.
struct TornTicket {
    id: LockId,
    next: Word,
    called: Word,
}

impl Lock for TornTicket {
    fn id(&self) -> LockId {
        self.id
    }

    async fn acquire(&self, cpu: &Cpu) {
        let ticket = cpu.read(self.next).await;
        cpu.write(self.next, ticket + 1).await;
        cpu.spin_while(self.called, |called| called != ticket).await;
    }

    async fn release(&self, cpu: &Cpu) {
        cpu.fetch_add(self.called, 1).await;
    }
}

/// A lock that gives itself to a second CPU after it has waited for long.
struct Impatient(Fifo);

impl Lock for Impatient {
    fn id(&self) -> LockId {
        self.0.id()
    }

    fn acquire(&self, cpu: &Cpu) -> impl Future<Output = ()> {
        cpu.work(us(1))
    }

    async fn release(&self, _: &Cpu) {}
}

#[test]
fn a_lock_that_does_not_exclude_is_caught() {
    let machine = Machine::uniform(4, ns(1), ns(100));
    let torn = |sim: &mut Simulation| TornTicket {
        id: sim.lock_id("torn"),
        next: sim.word("torn", 0),
        called: sim.word("torn", 0),
    };
    let failure = contend(machine.clone(), 1, torn).unwrap_err();
    assert!(matches!(failure, Failure::Broken(_) | Failure::Deadlock(_)), "{failure}");

    let failure = contend(machine, 1, |sim| Impatient(Fifo::new(sim, "impatient", 0))).unwrap_err();
    let line = failure.to_string();
    assert!(line.contains("takes lock impatient, which CPU"), "{line}");
}

#[test]
fn giving_back_what_one_does_not_hold_is_caught() {
    let mut sim = Simulation::new(Machine::uniform(2, ns(1), ns(100)), 1);
    let lock = Rc::new(Fifo::new(&mut sim, "inode lock", 0));
    sim.program(1, |cpu| async move { cpu.unlock(&*lock).await });
    let failure = sim.run(Run::to_the_end()).err().expect("it fails");
    assert_eq!(failure.to_string(), "at 0 ps, CPU 1 gives lock inode lock back, and does not hold it");
}

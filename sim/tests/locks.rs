//! Locks exclude, on any machine and in any order of events; a lock with a bug does not, and that shows.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use bigiron_sim::locks::{AnyLock, Fifo, PercpuRwSem, RwLock, RwSem, SeqLock};
use bigiron_sim::{Cpu, Failure, Interrupt, Lock, LockId, Machine, ReadLock, Run, Simulation, Word, ns, us};
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

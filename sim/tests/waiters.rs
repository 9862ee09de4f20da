//! How CPUs wait for the kernel's locks: hand-off, stealing, spinning and sleeping.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use bigiron_sim::locks::{Mutex, PercpuRwSem, PowerpcQSpinlock, QSpinlock, RwSem};
use bigiron_sim::{Cpu, Lock, Machine, Report, Run, Simulation, Time, us};

/// Notes of all CPUs, in order of time.
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

    /// When a CPU first took this note, in nanoseconds.
    fn when(&self, cpu: usize, what: &str) -> f64 {
        let noted = self.0.borrow();
        let found = noted.iter().find(|noted| noted.cpu == cpu && noted.what == what);
        found.unwrap_or_else(|| panic!("CPU {cpu} has not noted {what}")).when.as_ns()
    }

    /// The CPUs that held the lock, in order.
    fn holders(&self) -> Vec<usize> {
        let noted = self.0.borrow();
        noted.iter().filter(|noted| noted.what == "has it").map(|noted| noted.cpu).collect()
    }
}

/// CPUs that each begin to do something at a time of their own.
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

/// Acquires a lock, holds it until a time, releases it, and notes both.
async fn has<L: Lock>(cpu: Cpu, notes: Notes, lock: Rc<L>, until: impl Fn(&Cpu) -> Time) {
    cpu.lock(&*lock).await;
    notes.add(&cpu, "has it");
    cpu.work(until(&cpu).since(cpu.now())).await;
    cpu.unlock(&*lock).await;
    notes.add(&cpu, "gave it back");
}

/// Holds a lock and sleeps meanwhile, so that waiters do not spin.
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

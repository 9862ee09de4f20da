//! Replay is checked against what is known of it: rates in closed form, bounds, and failures.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::replay::enough::MAX_EVENTS;
use crate::replay::program::{Event, Kind, Program, ProgramLine, ProgramLock, Scope, Targets, Touch};
use crate::replay::run::{self, ReplayResult};
use crate::replay::setting::Setting;
use crate::replay::shared::{DEFAULT_COSTS_NS, FIXED_CATEGORIES, INTERRUPTS, MEMORY};
use crate::spin_kind::SpinKind;
use crate::time::ns;

fn replay(machine: &Machine, program: &Rc<Program>, setting: Setting) -> Result<ReplayResult, Failure> {
    run::replay(machine, program, setting, &Arc::default())
}

fn machine() -> Machine {
    Machine::uniform(8, ns(1), ns(100))
}

fn of(operation: Vec<Event>) -> Rc<Program> {
    let line = ProgramLine { name: "line".into(), scope: Scope::Shared };
    let lock = |kind| ProgramLock { name: format!("{kind:?}"), kind, line: 0 };
    let kinds = [Kind::Spinlock, Kind::RwLock, Kind::Mutex, Kind::RwSem];
    let program = Program { lines: vec![line], locks: kinds.map(lock).into(), operations: vec![operation] };
    program.check().unwrap();
    Rc::new(program)
}

#[test]
fn what_has_more_events_than_are_simulated_is_replayed_from_all_of_its_places() {
    let machine = Machine::named("xeon-5418y-x2").unwrap();
    let per_s = |events: usize| {
        let operation = (0..events).map(|event| Event::Work(if event < events / 2 { 10.0 } else { 1000.0 }));
        let line = ProgramLine { name: "line".into(), scope: Scope::Shared };
        let program = Program { lines: vec![line], locks: vec![], operations: vec![operation.collect()] };
        let found = replay(&machine, &Rc::new(program), Setting::plain(32)).unwrap();
        found.throughput * events as f64
    };
    let (few, many) = (per_s(100), per_s(4 * MAX_EVENTS as usize / 32));
    assert!((many / few - 1.0).abs() < 0.2, "{many} and {few} events per second");
}

#[test]
fn tasks_visit_pages_of_their_own_node() {
    let rate = |scope| {
        let visit = Event::Access { line: 0, touch: Touch::Write, others: true };
        let mut program = (*of(vec![Event::Work(200.0), visit, visit, visit])).clone();
        program.lines[0].scope = scope;
        let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
        let setting = Setting { spread: true, ..Setting::plain(8) }; // two a socket
        replay(&machine, &Rc::new(program), setting).unwrap().throughput
    };
    assert!(rate(Scope::TaskOfNode) > 1.5 * rate(Scope::Task));
}

#[test]
fn private_work_scales() {
    let program = of(vec![Event::Work(2000.0)]);
    let rates = [1, 8].map(|tasks| replay(&machine(), &program, Setting::plain(tasks)).unwrap().throughput);
    assert!((rates[1] / rates[0] - 8.0).abs() < 0.2, "{rates:?}");
}

#[test]
fn a_shared_line_is_transferred_once_an_operation() {
    let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
    let program = of(vec![Event::Work(200.0), access]);
    let replayed = replay(&machine(), &program, Setting::plain(8)).unwrap();
    assert!((replayed.throughput / 1e7 - 1.0).abs() < 0.02, "{replayed:?}"); // one in 100 ns
    assert!(replayed.shares[FIXED_CATEGORIES] > 0.8, "{replayed:?}");
}

#[test]
fn a_line_serves_both_threads_of_a_core_at_once() {
    let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
    let program = of(vec![Event::Work(200.0), access]);
    let mut machine = Machine::named("i7-4770").unwrap();
    machine.crossing = 0.5;
    let rates = [4, 8].map(|tasks| replay(&machine, &program, Setting::plain(tasks)).unwrap().throughput);
    assert!(rates[1] > 1.3 * rates[0], "{rates:?}"); // 21 ns, and for the second thread 8
}

#[test]
fn a_thread_that_waits_leaves_its_core_to_the_other() {
    let machine = Machine::named("i7-4770").unwrap();
    let rate = |operation, tasks| replay(&machine, &of(operation), Setting::plain(tasks)).unwrap().throughput;
    let work = Event::Work(20_000.0);
    let both = rate(vec![work], 8) / rate(vec![work], 4);
    assert!((both - 1.25).abs() < 0.02, "{both}"); // its file's smt_speedup
    // All but one wait for the lock, whose holder has a core to itself, as if there were four.
    let held = vec![
        Event::Lock { lock: 0, shared: false, tries: false },
        work,
        Event::Unlock { lock: 0, shared: false },
    ];
    let waiting = rate(held.clone(), 8) / rate(held, 4);
    assert!((waiting - 1.0).abs() < 0.02, "{waiting}");
}

#[test]
fn an_operation_that_comes_seldom_weighs_what_it_should() {
    let mut operations = vec![vec![Event::Work(1000.0)]; 63];
    operations.push(vec![Event::Work(1000.0); 100]);
    let program = Rc::new(Program { operations, ..(*of(vec![Event::Work(1.0)])).clone() });
    let per_task = |tasks, seed| {
        let setting = Setting { seed, ..Setting::plain(tasks) };
        replay(&machine(), &program, setting).unwrap().throughput / tasks as f64
    };
    let rates: Vec<f64> = (1..=8).flat_map(|seed| [per_task(1, seed), per_task(8, seed)]).collect();
    let of_all = 1e9 * 64.0 / (163_000.0 * DEFAULT_COSTS_NS.0);
    assert!(rates.iter().all(|rate| (rate / of_all - 1.0).abs() < 0.03), "{of_all} {rates:?}");
}

#[test]
fn whole_cycles_of_operations_that_differ_much_come_to_an_end() {
    let (take, give) =
        (Event::Lock { lock: 0, shared: false, tries: false }, Event::Unlock { lock: 0, shared: false });
    let held = |instructions| vec![take, Event::Work(instructions), give];
    let mut operations = vec![held(500_000.0); 254];
    operations.extend(vec![held(50_000_000.0); 2]);
    let program = Rc::new(Program { operations, ..(*of(vec![Event::Work(1.0)])).clone() });
    let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
    let rate = |tasks, spinlocks| {
        replay(&machine, &program, Setting { spinlocks, ..Setting::plain(tasks) }).unwrap().throughput
    };
    let alone = rate(1, SpinKind::Qspinlock);
    for spinlocks in [SpinKind::Qspinlock, SpinKind::Cna] {
        let all = rate(144, spinlocks) / alone; // one at a time, at the clock of a socket that is busy
        assert!(all > 0.7 && all < 1.0, "{all}");
    }
}

#[test]
fn an_operation_of_many_events_counts_to_its_end() {
    let access = Event::Access { line: 0, touch: Touch::Atomic, others: false };
    let mut operation = vec![access; 50_000];
    operation.push(Event::Fill(1e6));
    let machine = Machine::named("i7-4770").unwrap();
    let replayed = replay(&machine, &of(operation), Setting::plain(8)).unwrap();
    assert!(replayed.shares[MEMORY] > 0.0, "{replayed:?}");
}

#[test]
fn memory_is_shared_as_by_machines_that_wait_for_a_repairman() {
    let machine = Machine::named("xeon-e7-8895v3-x4").unwrap();
    let program = of(vec![Event::Fill(4096.0); 1000]);
    let (alone, served) = machine.processor().unwrap().ns_of_bytes(4096.0);
    for tasks in [1, 4, 8, 18] {
        let replayed = replay(&machine, &program, Setting::plain(tasks)).unwrap();
        // M/M/1//N: the probability of each number of tasks in the queue, relative to that of none.
        let load = served / (alone - served);
        let likely: Vec<f64> = (0..=tasks)
            .scan(1.0, |now, there| Some(std::mem::replace(now, *now * (tasks - there) as f64 * load)))
            .collect();
        let expected = (1.0 - 1.0 / likely.iter().sum::<f64>()) / served * 1e6;
        assert!((replayed.throughput / expected - 1.0).abs() < 0.03, "{tasks}: {replayed:?}, {expected}");
    }
}

#[test]
fn every_kind_of_lock_is_exclusive() {
    for lock in 0..4 {
        let operation = vec![
            Event::Work(400.0),
            Event::Lock { lock, shared: false, tries: false },
            Event::Work(400.0),
            Event::Unlock { lock, shared: false },
        ];
        let replayed = replay(&machine(), &of(operation), Setting::plain(8)).unwrap();
        assert!(replayed.throughput < 5e6, "{lock}: {replayed:?}"); // 200 ns of work under the lock
        assert!(replayed.throughput > 1e6, "{lock}: {replayed:?}");
    }
}

#[test]
fn readers_share_a_semaphore() {
    let operation = vec![
        Event::Lock { lock: 3, shared: true, tries: false },
        Event::Work(8000.0),
        Event::Unlock { lock: 3, shared: true },
    ];
    let rates =
        [1, 8].map(|tasks| replay(&machine(), &of(operation.clone()), Setting::plain(tasks)).unwrap());
    assert!(rates[1].throughput > 6.0 * rates[0].throughput);
}

/// Of the operations that tasks alternate between, one is `rare`, and fifteen are `common`.
fn mixed(rare: Vec<Event>, common: &[Event]) -> f64 {
    let mut program = (*of(rare)).clone();
    program.operations.extend(vec![common.to_vec(); 15]);
    program.check().unwrap();
    let setting = Setting { min_residency: ns(50), ..Setting::plain(8) };
    replay(&machine(), &Rc::new(program), setting).unwrap().throughput
}

#[test]
fn a_downgrade_lets_readers_in() {
    let read = [
        Event::Lock { lock: 3, shared: true, tries: false },
        Event::Work(400.0),
        Event::Unlock { lock: 3, shared: true },
        Event::Work(40_000.0),
    ];
    let rate = |downgrades| {
        let mut write = vec![
            Event::Lock { lock: 3, shared: false, tries: false },
            Event::Work(40_000.0),
            Event::Unlock { lock: 3, shared: downgrades },
        ];
        if downgrades {
            write.insert(1, Event::Downgrade { lock: 3 });
        }
        mixed(write, &read)
    };
    let (kept, downgraded) = (rate(false), rate(true));
    assert!(downgraded > 1.05 * kept, "{downgraded} {kept}");
}

#[test]
fn who_counts_in_a_lockref_waits_for_who_has_its_lock() {
    let (take, give) =
        (Event::Lock { lock: 0, shared: false, tries: false }, Event::Unlock { lock: 0, shared: false });
    let count = [Event::Lockref { lock: 0 }, Event::Work(2000.0)];
    let exchange = Event::Access { line: 0, touch: Touch::Exchange, others: false };
    let same = [exchange, Event::Work(2000.0)];
    let (free, like) = (mixed(count.into(), &count), mixed(same.into(), &same));
    assert!((free / like - 1.0).abs() < 0.02, "{free} {like}");
    // 20 us in each 16th operation, in which no other task can count.
    let held = mixed(vec![take, Event::Work(40_000.0), give], &count);
    assert!(held < 16.0 / 20e-6 && held > 8.0 / 20e-6, "{held}");
    let beside = mixed(vec![take, Event::Work(40_000.0), give], &same);
    assert!(beside > 1.2 * held, "{beside} {held}"); // what a mere count would do
}

#[test]
fn programs_downgrade_what_they_have_alone_and_count_in_lockrefs_of_spinlocks() {
    let wrong = |operation| {
        let mut program = (*of(vec![Event::Work(1.0)])).clone();
        program.operations = vec![operation];
        program.check().unwrap_err().to_string()
    };
    let reads = Event::Lock { lock: 3, shared: true, tries: false };
    let takes = Event::Lock { lock: 0, shared: false, tries: false };
    for (operation, what) in [
        (vec![Event::Downgrade { lock: 3 }], "downgrades RwSem without having it alone"),
        (vec![reads, Event::Downgrade { lock: 3 }], "downgrades RwSem without having it alone"),
        (vec![takes, Event::Downgrade { lock: 0 }], "downgrades Spinlock, which is no semaphore"),
        (vec![Event::Lockref { lock: 3 }], "counts in the lockref of RwSem, which is no spinlock"),
        (vec![takes, Event::Lockref { lock: 0 }], "counts in the lockref of Spinlock, which it has"),
        (vec![Event::Downgrade { lock: 9 }], "lock 9 is none"),
    ] {
        assert_eq!(wrong(operation), format!("operation 0: {what}"));
    }
}

#[test]
fn interrupts_are_answered() {
    let program =
        of(vec![Event::Work(10_000.0), Event::Interrupt { targets: Targets::Share(1.0), recorded: 7 }]);
    let replayed = replay(&machine(), &program, Setting::plain(8)).unwrap();
    assert!(replayed.shares[INTERRUPTS] > 0.0 && replayed.throughput > 0.0);
}

#[test]
fn as_many_are_interrupted_as_an_event_says() {
    let rate = |targets| {
        let program = of(vec![Event::Work(2000.0), Event::Interrupt { targets, recorded: 7 }]);
        replay(&machine(), &program, Setting::plain(8)).unwrap().throughput
    };
    let [one, half, all] = [Targets::Number(1), Targets::Share(0.5), Targets::Share(1.0)].map(rate);
    assert!(one > 1.5 * half && half > 1.25 * all, "{one} {half} {all}");
    assert_eq!(all, rate(Targets::Number(7)));
    assert_eq!(all, rate(Targets::Number(99)));
}

#[test]
fn who_interrupts_more_cpus_than_were_recorded_executes_more() {
    let takes_ns = |recorded| {
        let program =
            of(vec![Event::Work(2000.0), Event::Interrupt { targets: Targets::Number(7), recorded }]);
        8e9 / replay(&machine(), &program, Setting::plain(8)).unwrap().throughput
    };
    let [none, some, more] = [0, 7, 9].map(takes_ns);
    assert!(none > some + 100.0 && some == more, "{none} {some} {more}"); // 280 instructions, 140 ns
}

#[test]
fn a_broadcast_waits_for_the_farthest_cpu_of_the_machine() {
    let of_one_task = |events| replay(&machine(), &of(events), Setting::plain(1)).unwrap();
    let without = of_one_task(vec![Event::Work(20.0)]);
    let with = of_one_task(vec![Event::Work(20.0), Event::Broadcast]);
    let farthest =
        (0..machine().cpus()).map(|other| machine().transfer(0, other).as_ns()).fold(0.0, f64::max);
    let waits = 1e9 / with.throughput - 1e9 / without.throughput;
    assert!((waits / farthest - 1.0).abs() < 0.01, "{waits} {farthest}");
    assert!(with.shares[INTERRUPTS] > 0.0);
}

/// Of two locks, half of the operations take one first, and half the other.
fn in_both_orders(tries: bool) -> Result<ReplayResult, Failure> {
    let mut program = (*of(vec![Event::Work(1.0)])).clone();
    program.locks.push(ProgramLock { name: "other".into(), kind: Kind::Spinlock, line: 0 });
    let operation = |[first, second]: [usize; 2], tries| {
        let take = |lock, tries| Event::Lock { lock, shared: false, tries };
        let give = |lock| Event::Unlock { lock, shared: false };
        let work = Event::Work(200.0);
        vec![work, take(first, false), work, take(second, tries), work, give(second), give(first)]
    };
    program.operations = vec![operation([0, 4], false), operation([4, 0], tries)];
    program.check().unwrap();
    replay(&machine(), &Rc::new(program), Setting::plain(8))
}

#[test]
fn a_trylock_takes_locks_against_their_order() {
    assert!(matches!(in_both_orders(false), Err(Failure::Deadlock(_))));
    assert!(in_both_orders(true).unwrap().throughput > 1e5);
}

#[test]
fn what_a_trylock_has_done_again_is_no_progress() {
    let (lock, shared) = (0, false);
    let operation = |tries, besides: usize| {
        let mut events = vec![Event::Lock { lock: 1, shared, tries: false }];
        events.extend(vec![Event::Work(400.0 / besides as f64); besides]);
        events.push(Event::Lock { lock, shared, tries });
        events.extend([Event::Work(400.0), Event::Unlock { lock, shared }]);
        events.extend([Event::Unlock { lock: 1, shared }, Event::Work(6000.0)]);
        events
    };
    let rate = |besides| {
        mixed(
            operation(true, besides),
            &[
                Event::Lock { lock, shared, tries: false },
                Event::Work(400.0),
                Event::Unlock { lock, shared },
                Event::Work(6000.0),
            ],
        )
    };
    let (few, many) = (rate(1), rate(40));
    assert!((many / few - 1.0).abs() < 0.05, "{few} {many}");
}

#[test]
fn every_kind_of_lock_can_be_tried() {
    for lock in 0..4 {
        let take = |tries| {
            vec![
                Event::Lock { lock, shared: false, tries },
                Event::Work(400.0),
                Event::Unlock { lock, shared: false },
                Event::Work(2000.0),
            ]
        };
        let [waits, tries] = [false, true]
            .map(|tries| replay(&machine(), &of(take(tries)), Setting::plain(4)).unwrap().throughput);
        assert!(tries > 0.6 * waits && tries < 1.5 * waits, "{lock}: {waits} {tries}");
    }
}

#[test]
fn a_replay_ends_when_it_is_stopped() {
    let program =
        of(vec![Event::Work(100.0), Event::Access { line: 0, touch: Touch::Atomic, others: false }]);
    let stop = Arc::new(AtomicBool::new(true));
    let stopped = run::replay(&machine(), &program, Setting::plain(8), &stop);
    assert!(matches!(stopped, Err(Failure::Stopped)));
}

#[test]
fn operations_that_take_next_to_no_time_end_with_the_event_budget() {
    let program = of(vec![Event::Work(1e-9)]);
    let failure = replay(&machine(), &program, Setting::plain(2)).unwrap_err();
    assert!(matches!(failure, Failure::Livelock(_)), "{failure}");
}

#[test]
fn operations_that_take_no_time_are_refused() {
    let read = Event::Access { line: 0, touch: Touch::Read, others: false };
    for operation in [vec![], vec![Event::Work(0.0)], vec![read, Event::Fill(0.0)], vec![read]] {
        let mut program = (*of(vec![Event::Work(1.0)])).clone();
        program.operations.push(operation);
        assert_eq!(program.check().unwrap_err().to_string(), "operation 1: it takes no time");
    }
}

#[test]
fn a_program_that_keeps_a_lock_is_refused() {
    let lock = ProgramLock { name: "lock".into(), kind: Kind::Mutex, line: 0 };
    let line = ProgramLine { name: "line".into(), scope: Scope::Shared };
    let operations = vec![vec![Event::Lock { lock: 0, shared: false, tries: false }]];
    let program = Program { lines: vec![line], locks: vec![lock], operations };
    assert_eq!(program.check().unwrap_err().to_string(), "operation 0: keeps lock");
}

#[test]
fn a_queue_that_a_timer_has_made_feeds_itself_or_drains() {
    let machine = Machine::named("sapphire-rapids-48c-x2").unwrap();
    let lock = Event::Lock { lock: 0, shared: false, tries: false };
    let unlock = Event::Unlock { lock: 0, shared: false };
    let program = of(vec![Event::Work(2000.0), lock, Event::Work(10.0), unlock, Event::Work(2000.0)]);
    let rate = |tasks| {
        let setting = Setting { min_residency: ns(20), ..Setting::plain(tasks) };
        replay(&machine, &program, setting).unwrap().throughput
    };
    let transfer_ns = machine.transfer(0, 2).as_ns();
    assert!(rate(2) > 1.6 * rate(1)); // it drains
    // Without a queue, an operation takes one transfer of the cache line: the next CPU finds the lock free.
    assert!(rate(16) * transfer_ns < 0.5e9, "{} operations per second", rate(16));
}

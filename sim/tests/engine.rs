//! What the engine promises: when things happen, how time is accounted for, how a run fails.

use std::cell::RefCell;
use std::rc::Rc;

use bigiron_sim::designs::{self, Values};
use bigiron_sim::locks::{AnyLock, Fifo, TestAndSet};
use bigiron_sim::{Cpu, Failure, Interrupt, Machine, Run, Simulation, Time, ms, ns, us};

fn uniform(cpus: usize) -> Simulation {
    Simulation::new(Machine::uniform(cpus, ns(1), ns(100)), 1)
}

/// Runs a program on one CPU and gives what it notes, with the times.
fn noted<F: Future<Output = ()> + 'static>(
    mut sim: Simulation,
    program: impl FnOnce(Cpu, Notes) -> F,
) -> Vec<(&'static str, Time)> {
    let notes = Notes::default();
    let copy = notes.clone();
    sim.program(0, |cpu| program(cpu, copy));
    sim.run(Run::to_the_end()).expect("it ends");
    notes.0.take()
}

#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<(&'static str, Time)>>>);

impl Notes {
    fn add(&self, what: &'static str, cpu: &Cpu) {
        self.0.borrow_mut().push((what, cpu.now()));
    }
}

#[test]
fn a_line_is_fetched_once_and_then_hit() {
    let mut sim = uniform(1);
    let word = sim.word("word", 0);
    let notes = noted(sim, |cpu, notes| async move {
        assert_eq!(cpu.fetch_add(word, 5).await, 0);
        notes.add("fetched", &cpu);
        assert_eq!(cpu.fetch_or(word, 2).await, 5);
        assert_eq!(cpu.compare_exchange(word, 1, 9).await, 7);
        assert_eq!(cpu.compare_exchange(word, 7, 9).await, 7);
        assert_eq!(cpu.swap_bits(word, 0b11, 0b10).await, 9);
        assert_eq!(cpu.read(word).await, 10);
        notes.add("hit five times", &cpu);
    });
    assert_eq!(notes, [("fetched", ns(100)), ("hit five times", ns(105))]);
}

#[test]
fn words_of_one_line_move_together() {
    let elapsed = |one_line: bool| {
        let mut sim = uniform(2);
        let line = sim.line("line", 0);
        let words = [sim.word_on(line), if one_line { sim.word_on(line) } else { sim.word("other", 0) }];
        for (cpu, word) in words.into_iter().enumerate() {
            sim.program(cpu, move |cpu| async move {
                for _ in 0..10 {
                    cpu.fetch_add(word, 1).await;
                }
            });
        }
        sim.run(Run::to_the_end()).expect("it ends").elapsed
    };
    assert_eq!(elapsed(true), ns(20 * 100), "false sharing: every addition waits for the line");
    assert_eq!(elapsed(false), ns(100 + 9));
}

#[test]
fn an_interrupt_makes_work_longer_and_not_an_access() {
    let mut sim = uniform(1);
    let word = sim.word("word", 0);
    let notes = Notes::default();
    let handled = notes.clone();
    sim.handler(0, |cpu| async move {
        cpu.set_timer(ns(50), 7);
        cpu.set_timer(ns(500), 8);
        cpu.set_timer(ns(510), 9);
        loop {
            let interrupt = cpu.interrupt().await;
            assert!(matches!(interrupt, Interrupt::Timer(7..=9)));
            handled.add("interrupt", &cpu);
            cpu.work(ns(30)).await;
        }
    });
    let copy = notes.clone();
    sim.program(0, move |cpu| async move {
        cpu.read(word).await;
        copy.add("read", &cpu);
        cpu.user(ns(900)).await;
        copy.add("worked", &cpu);
    });
    let report = sim.run(Run::to_the_end()).expect("it ends");
    let expected = [
        ("interrupt", ns(100)), // it came at 50, during the access
        ("read", ns(130)),
        ("interrupt", ns(500)),
        ("interrupt", ns(530)), // it came at 510, during the one before
        ("worked", ns(130 + 900 + 60)),
    ];
    assert_eq!(notes.0.take(), expected);
    let spent = report.total();
    assert_eq!((spent.user, spent.work, spent.transfer), (ns(900), ns(90), ns(100)));
    assert_eq!(report.interrupts, [(ns(90), 3)]);
}

#[test]
fn masked_interrupts_wait() {
    let mut sim = uniform(2);
    let notes = Notes::default();
    let handled = notes.clone();
    sim.handler(0, |cpu| async move {
        loop {
            let Interrupt::Ipi { from: 1, message: 42 } = cpu.interrupt().await else {
                panic!("another interrupt")
            };
            handled.add("ipi", &cpu);
        }
    });
    sim.program(1, |cpu| async move {
        cpu.work(ns(10)).await;
        cpu.send_ipi(0, 42);
    });
    let noted = noted(sim, |cpu, _| async move {
        cpu.disable_interrupts();
        cpu.work(ns(300)).await;
        cpu.enable_interrupts();
        cpu.work(ns(1)).await;
    });
    assert!(noted.is_empty());
    assert_eq!(notes.0.take(), [("ipi", ns(300))]);
}

#[test]
fn sleepers_are_woken_in_time_and_no_wakeup_is_lost() {
    let mut sim =
        Simulation::new(Machine::named("uniform").expect("built in").with_cpus(2).expect("it has"), 1);
    sim.program(1, |cpu| async move {
        cpu.work(us(1)).await;
        cpu.wake(0);
        cpu.work(us(9)).await;
        cpu.wake(0);
    });
    let notes = noted(sim, |cpu, notes| async move {
        cpu.sleep().await;
        notes.add("woken", &cpu);
        cpu.work(us(20)).await;
        cpu.sleep().await;
        notes.add("not asleep", &cpu);
        cpu.sleep_until(us(100)).await;
        notes.add("slept", &cpu);
    });
    assert_eq!(notes, [("woken", us(3)), ("not asleep", us(23)), ("slept", us(100))]);
}

#[test]
fn every_picosecond_of_every_cpu_is_accounted_for() {
    for (kind, _) in AnyLock::KINDS {
        let given = [("lock", *kind), ("refcounts", "1")].map(|(name, value)| (name.into(), value.into()));
        let values = Values::new(designs::find("lock-bound").expect("known"), &given).expect("right");
        let machine = Machine::named("x86-2s").expect("built in").with_cpus(40).expect("it has");
        let (report, _) =
            designs::simulate(machine, &values, 3, Run::measuring(us(50), ms(15))).expect("it ends");
        for spent in &report.cpus {
            assert_eq!(spent.user + spent.kernel() + spent.idle, report.elapsed, "{kind}: {spent:?}");
        }
        assert!(report.locks[0].acquired > 0);
    }
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    let mut sim = uniform(2);
    let locks = [TestAndSet::new(&mut sim, "a", 0), TestAndSet::new(&mut sim, "b", 0)];
    let locks = Rc::new(locks);
    for cpu in 0..2 {
        let locks = Rc::clone(&locks);
        sim.handler(cpu, |cpu| async move {
            loop {
                cpu.set_timer(cpu.now() + us(1), 0);
                cpu.interrupt().await; // a tick goes on even then
            }
        });
        sim.program(cpu, |cpu| async move {
            cpu.lock(&locks[cpu.id()]).await;
            cpu.work(us(1)).await;
            cpu.lock(&locks[1 - cpu.id()]).await;
        });
    }
    let failure = sim.run(Run::to_the_end()).err().expect("it fails");
    let line =
        "deadlock at 1.1 us: CPU 0 waits for lock b, held by CPU 1, CPU 1 waits for lock a, held by CPU 0";
    assert_eq!(failure.to_string(), line);
}

#[test]
fn an_interrupt_that_wants_the_lock_it_interrupted_deadlocks() {
    let mut sim = uniform(1);
    let lock = Rc::new(TestAndSet::new(&mut sim, "timer base", 0));
    let same = Rc::clone(&lock);
    sim.handler(0, |cpu| async move {
        cpu.set_timer(ns(500), 0);
        loop {
            cpu.interrupt().await;
            cpu.lock(&*same).await;
            cpu.unlock(&*same).await;
        }
    });
    sim.program(0, |cpu| async move {
        cpu.lock(&*lock).await;
        cpu.work(us(1)).await;
        cpu.unlock(&*lock).await;
    });
    let failure = sim.run(Run::to_the_end()).err().expect("it fails");
    assert_eq!(failure.to_string(), "deadlock at 500 ns: CPU 0 waits for lock timer base, held by CPU 0");
}

#[test]
fn waiting_for_what_never_comes_is_a_deadlock() {
    let mut sim = uniform(6);
    let word = sim.word("completion", 0);
    for cpu in 0..6 {
        sim.program(cpu, move |cpu| async move {
            if cpu.id() == 5 {
                cpu.sleep().await;
            }
            cpu.spin_while(word, |done| done == 0).await;
        });
    }
    let failure = sim.run(Run::measuring(us(1), ms(1))).err().expect("it fails");
    let line = "deadlock at 500 ns: CPU 0 waits for a write of completion, CPU 1 waits for a write of completion, \
                CPU 2 waits for a write of completion, CPU 3 waits for a write of completion, and 2 more";
    assert_eq!(failure.to_string(), line);
}

#[test]
fn spinning_for_ever_ends_with_the_event_budget() {
    let mut sim = uniform(2);
    let lock = Rc::new(Fifo::new(&mut sim, "held for ever", 0));
    let waiting = Rc::clone(&lock);
    sim.program(0, |cpu| async move {
        cpu.lock(&*lock).await;
        loop {
            cpu.relax(ns(10)).await;
        }
    });
    sim.program(1, |cpu| async move { cpu.lock(&*waiting).await });
    let run = Run { event_budget: 1000, ..Run::to_the_end() };
    let failure = sim.run(run).err().expect("it fails");
    assert!(matches!(failure, Failure::Livelock(_)));
    let line =
        "livelock at 10.01 us: 1000 events, and no end: CPU 1 waits for lock held for ever, held by CPU 0";
    assert_eq!(failure.to_string(), line);
}

#[test]
fn a_broken_invariant_is_reported() {
    let mut sim = uniform(1);
    sim.program(0, |cpu| async move {
        cpu.work(ns(7)).await;
        cpu.check(1 + 1 == 3, || "the grace period ended before the reader".into());
    });
    let failure = sim.run(Run::to_the_end()).err().expect("it fails");
    assert_eq!(failure.to_string(), "at 7 ns, CPU 0: the grace period ended before the reader");
}

#[test]
fn the_timeline_shows_the_window_asked_for() {
    let mut sim = uniform(2);
    let word = sim.word("a \"counter\"", 0);
    for cpu in 0..2 {
        sim.program(cpu, move |cpu| async move {
            for _ in 0..3 {
                cpu.user(ns(50)).await;
                cpu.fetch_add(word, 1).await;
            }
        });
    }
    let run = Run { timeline: Some((ns(0), ns(250))), ..Run::to_the_end() };
    let json = sim.run(run).expect("it ends").timeline.expect("asked for").to_json();
    assert!(json.contains(
        r#"{"name":"user","cat":"program","ph":"X","ts":0.000000,"dur":0.050000,"pid":0,"tid":0}"#
    ));
    let queue = r#"{"name":"queue a \"counter\"","cat":"program","ph":"X","ts":0.050000,"dur":0.100000,"pid":0,"tid":1}"#;
    assert!(json.contains(queue), "{json}");
    assert!(json.contains(
        r#""name":"transfer a \"counter\"","cat":"program","ph":"X","ts":0.150000,"dur":0.100000"#
    ));
    assert!(!json.contains(r#""ts":0.3"#));
}

#[test]
fn a_store_waits_in_the_buffer_and_an_atomic_access_for_it() {
    let mut sim = uniform(2);
    let word = sim.word("word", 0);
    sim.program(1, move |cpu| async move { assert_eq!(cpu.fetch_add(word, 1).await, 0) });
    let notes = noted(sim, |cpu, notes| async move {
        cpu.work(ns(200)).await;
        cpu.write(word, 5).await;
        notes.add("in the buffer", &cpu);
        assert_eq!(cpu.read(word).await, 5);
        notes.add("read from it", &cpu);
        assert_eq!(cpu.fetch_add(word, 1).await, 5);
        notes.add("atomic, after it", &cpu);
    });
    assert_eq!(notes, [("in the buffer", ns(201)), ("read from it", ns(202)), ("atomic, after it", ns(301))]);
}

#[test]
fn stores_arrive_in_order() {
    let mut sim = Simulation::new(Machine::named("x86-8s").expect("built in"), 1);
    // The data's line is far away, the flag's is near.
    let (data, flag) = (sim.word("data", 7), sim.word("flag", 0));
    sim.program(400, move |cpu| async move { assert_eq!(cpu.fetch_add(data, 0).await, 0) });
    sim.program(0, move |cpu| async move {
        cpu.work(us(1)).await;
        cpu.write(data, 42).await;
        cpu.write(flag, 1).await;
    });
    let notes = Notes::default();
    let copy = notes.clone();
    sim.program(1, move |cpu| async move {
        cpu.spin_while(flag, |flag| flag == 0).await;
        let data = cpu.read(data).await;
        cpu.check(data == 42, || format!("the flag is set, and the data is {data}"));
        copy.add("both seen", &cpu);
    });
    sim.run(Run::to_the_end()).expect("it ends");
    assert_eq!(notes.0.take().len(), 1);
}

const TWO_NODES: &str = r#"
    name = "two nodes"
    description = "with far memory, and a small store buffer"
    node = "node"
    hit_ns = 1
    memory_ns = 100
    wakeup_ns = 0
    ipi_ns = 0
    store_buffer = 2
    [[level]]
    name = "node"
    count = 2
    transfer_ns = 1000
    memory_ns = 1000
    [[level]]
    name = "cpu"
    count = 4
    transfer_ns = 50
"#;

fn two_nodes() -> Simulation {
    Simulation::new(Machine::from_toml(TWO_NODES).expect("right"), 1)
}

#[test]
fn an_atomic_access_asks_for_its_line_when_the_stores_before_it_have_arrived() {
    let mut sim = two_nodes();
    let (far, word) = (sim.word("far", 1), sim.word("word", 0));
    let notes = Notes::default();
    let copy = notes.clone();
    sim.program(1, move |cpu| async move {
        cpu.work(ns(10)).await;
        cpu.fetch_add(word, 1).await;
        copy.add("another CPU has it meanwhile", &cpu);
    });
    let noted = noted(sim, |cpu, notes| async move {
        cpu.write(far, 1).await;
        cpu.fetch_add(word, 1).await;
        notes.add("added", &cpu);
    });
    assert_eq!(notes.0.take(), [("another CPU has it meanwhile", ns(110))]);
    assert_eq!(noted, [("added", ns(1000 + 50))]);
}

#[test]
fn an_atomic_access_to_the_line_of_a_store_before_it_comes_with_it() {
    let mut sim = two_nodes();
    let word = sim.word("word", 0);
    sim.program(1, move |cpu| async move {
        cpu.work(ns(50)).await;
        cpu.fetch_add(word, 1).await;
    });
    let noted = noted(sim, |cpu, notes| async move {
        cpu.write(word, 1).await;
        assert_eq!(cpu.fetch_add(word, 1).await, 1);
        notes.add("added", &cpu);
    });
    assert_eq!(noted, [("added", ns(101))]);
}

#[test]
fn a_full_store_buffer_waits_for_one_place() {
    let mut sim = two_nodes();
    let (near, far, more) = (sim.word("near", 0), sim.word("far", 1), sim.word("more", 0));
    let noted = noted(sim, |cpu, notes| async move {
        cpu.write(near, 1).await;
        cpu.write(far, 1).await;
        notes.add("two are on their way", &cpu);
        cpu.write(more, 1).await;
        notes.add("the first has arrived", &cpu);
        cpu.fence().await;
        notes.add("all have", &cpu);
    });
    let expected =
        [("two are on their way", ns(2)), ("the first has arrived", ns(101)), ("all have", ns(1001))];
    assert_eq!(noted, expected);
}

#[test]
fn a_store_that_waits_for_others_loses_its_line_to_who_reads_it() {
    let mut sim = two_nodes();
    let (far, word) = (sim.word("far", 1), sim.word("word", 0));
    let notes = Notes::default();
    let copy = notes.clone();
    sim.program(1, move |cpu| async move {
        cpu.work(ns(500)).await;
        assert_eq!(cpu.read(word).await, 0);
        copy.add("read before", &cpu);
        cpu.sleep_until(ns(2000)).await;
        assert_eq!(cpu.read(word).await, 7);
        copy.add("read after", &cpu);
    });
    let noted = noted(sim, |cpu, notes| async move {
        cpu.write(far, 1).await;
        cpu.write(word, 7).await;
        cpu.fence().await;
        notes.add("written", &cpu);
    });
    assert_eq!(noted, [("written", ns(1050))]);
    assert_eq!(notes.0.take(), [("read before", ns(550)), ("read after", ns(2050))]);
}

#[test]
fn who_spins_on_a_line_that_another_prefetches_to_write_reads_it_again() {
    let mut sim = uniform(2);
    let word = sim.word("word", 0);
    sim.program(1, move |cpu| async move {
        cpu.work(us(1)).await;
        cpu.prefetch_to_write(word);
        cpu.work(us(1)).await;
        cpu.write(word, 1).await;
    });
    sim.program(0, move |cpu| async move {
        cpu.work(ns(1)).await;
        cpu.spin_while(word, |value| value == 0).await;
    });
    let report = sim.run(Run::to_the_end()).expect("it ends");
    // CPU 0 reads it, CPU 1 prefetches it, CPU 0 reads it again; then CPU 1 writes it, and CPU 0 reads that.
    assert_eq!(report.lines[0].transfers, 5);
}

#[test]
fn clean_lines_from_memory_use_no_link_of_who_has_them() {
    let text = TWO_NODES.replace("ipi_ns = 0", "ipi_ns = 0\nlink_ns = 60");
    let mut sim = Simulation::new(Machine::from_toml(&text).expect("right"), 1);
    let words: Vec<_> = (0..4).map(|_| sim.word("word", 0)).collect();
    for reader in [4, 5] {
        let words = words.clone();
        sim.program(reader, move |cpu| async move {
            for &word in &words {
                cpu.read(word).await;
            }
        });
    }
    let done = Rc::new(RefCell::new(Vec::new()));
    for (reader, &word) in words.iter().enumerate() {
        let done = Rc::clone(&done);
        sim.program(reader, move |cpu| async move {
            cpu.sleep_until(us(10)).await;
            cpu.read(word).await;
            done.borrow_mut().push(cpu.now());
        });
    }
    sim.run(Run::to_the_end()).expect("it ends");
    assert_eq!(*done.borrow(), [us(10) + ns(100); 4]);
}

#[test]
fn work_for_longer_than_there_is_time_is_no_deadlock() {
    let run = |run| {
        let mut sim = uniform(2);
        sim.program(0, |cpu| async move { cpu.user(ns(1e17)).await });
        sim.program(1, |cpu| async move { cpu.sleep().await });
        sim.run(run)
    };
    assert_eq!(run(Run::measuring(us(1), ms(1))).expect("it ends").elapsed, ms(1));
    let failure = run(Run::to_the_end()).err().expect("it fails").to_string();
    assert_eq!(failure, "livelock at 0 ps: a program works for longer than the simulator has time");
}

#[test]
fn links_carry_one_line_at_a_time() {
    let file = r#"
        name = "two nodes"
        description = "with a narrow link"
        node = "node"
        hit_ns = 1
        memory_ns = 100
        wakeup_ns = 0
        ipi_ns = 0
        link_ns = LINK
        [[level]]
        name = "node"
        count = 2
        transfer_ns = 200
        memory_ns = 200
        [[level]]
        name = "cpu"
        count = 4
        transfer_ns = 50
    "#;
    let elapsed = |link: &str| {
        let machine = Machine::from_toml(&file.replace("LINK", link)).expect("right");
        let mut sim = Simulation::new(machine, 1);
        for cpu in 4..8 {
            let word = sim.word("remote", 0);
            sim.program(cpu, move |cpu| async move {
                cpu.read(word).await;
            });
        }
        sim.run(Run::to_the_end()).expect("it ends").elapsed
    };
    assert_eq!(elapsed("0"), ns(200));
    assert_eq!(elapsed("60"), ns(200 + 3 * 60));
}

//! What the engine promises: when things happen, how time is accounted for, how a run fails.

mod notes;

use std::rc::Rc;

use bigiron_sim::designs::{self, Values};
use bigiron_sim::locks::{AnyLock, Fifo, TestAndSet};
use bigiron_sim::{Failure, Interrupt, Machine, Run, Simulation, ms, ns, us};
use notes::{Notes, noted, uniform};

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

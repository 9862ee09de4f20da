//! When memory accesses are done: cache lines, the store buffer, atomic accesses, links.

mod notes;

use std::cell::RefCell;
use std::rc::Rc;

use bigiron_sim::{Machine, Run, Simulation, ns, us};
use notes::{Notes, noted, uniform};

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
fn a_far_atomic_is_done_in_the_cache_that_the_line_still_stays_in() {
    let text = TWO_NODES.replace("ipi_ns = 0", "ipi_ns = 0\natomics = \"far\"\nfar_atomic_ns = 10");
    let took = |min_residency| {
        let mut sim = Simulation::new(Machine::from_toml(&text).expect("right"), 1);
        sim.set_min_residency(min_residency);
        let word = sim.word("word", 0);
        sim.program(1, move |cpu| async move {
            cpu.sleep_until(us(1) + ns(10)).await;
            cpu.add(word, 1).await;
        });
        let notes = noted(sim, |cpu, notes| async move {
            assert_eq!(cpu.compare_exchange(word, 0, 1).await, 0);
            cpu.sleep_until(us(1)).await;
            assert_eq!(cpu.fetch_add(word, 0).await, 1);
            cpu.sleep_until(us(1) + ns(90)).await;
            cpu.add(word, 1).await;
            cpu.fence().await;
            notes.add("the other has added at home", &cpu);
            assert_eq!(cpu.read(word).await, 3);
        });
        notes[0].1.since(us(1) + ns(90))
    };
    assert_eq!(took(us(1)), ns(1));
    assert_eq!(took(ns(0)), ns(50));
}

#[test]
fn only_additions_without_a_result_to_lines_of_others_are_far() {
    let text = TWO_NODES.replace("ipi_ns = 0", "ipi_ns = 0\natomics = \"far\"\nfar_atomic_ns = 10");
    let mut sim = Simulation::new(Machine::from_toml(&text).expect("right"), 1);
    let word = sim.word("word", 0);
    sim.program(1, move |cpu| async move {
        cpu.sleep_until(us(1)).await;
        cpu.add(word, 1).await;
    });
    let noted = noted(sim, |cpu, notes| async move {
        cpu.add(word, 1).await;
        cpu.fence().await;
        notes.add("from memory, as no CPU had it", &cpu);
        cpu.add(word, 1).await;
        notes.add("in the cache", &cpu);
        cpu.sleep_until(us(2)).await;
        cpu.add(word, 1).await;
        notes.add("at home, posted", &cpu);
        cpu.fence().await;
        notes.add("at home, done", &cpu);
        assert_eq!(cpu.fetch_or(word, 8).await, 4);
        notes.add("with a result", &cpu);
        cpu.add(word, 1).await;
        notes.add("in the cache again", &cpu);
        assert_eq!(cpu.read(word).await, 13);
    });
    let expected = [
        ("from memory, as no CPU had it", ns(100)),
        ("in the cache", ns(101)),
        ("at home, posted", us(2) + ns(1)),
        ("at home, done", us(2) + ns(50)),
        ("with a result", us(2) + ns(100)),
        ("in the cache again", us(2) + ns(101)),
    ];
    assert_eq!(noted, expected);
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

//! What a CPU costs: the memory that a machine with twice as many takes more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bigiron_sim::{Machine, Run, Simulation, ns, us};

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts what is allocated now.
struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated() -> usize {
    BYTES.load(Ordering::Relaxed)
}

/// What is allocated for CPUs whose programs do nothing, in the middle of the run, and what its report takes.
fn bytes_of(cpus: usize) -> usize {
    let before = allocated();
    let mut sim = Simulation::new(Machine::uniform(cpus, ns(1), ns(100)), 1);
    let during = Rc::new(Cell::new(0));
    let noted = Rc::clone(&during);
    sim.program(0, |cpu| async move {
        cpu.work(us(1)).await;
        noted.set(allocated() - before);
    });
    for cpu in 1..cpus {
        sim.program(cpu, |cpu| async move { cpu.idle().await });
    }
    let report = sim.run(Run::to_the_end()).expect("it ends");
    let reported = allocated() - before;
    drop(report);
    during.get() + reported
}

#[test]
fn a_cpu_costs_half_a_kibibyte_at_most() {
    const CPUS: usize = 4096;
    let each = (bytes_of(2 * CPUS) - bytes_of(CPUS)) as f64 / CPUS as f64;
    assert!(each <= 512.0, "{each} bytes");
}

//! Function calls on other CPUs, as `smp_call_function_many_cond()` of Linux 6.12 does them (kernel/smp.c).
//!
//! The caller locks a call of its own for each CPU, `struct call_single_data`, and adds it to that CPU's queue. It
//! interrupts only CPUs whose queue was empty, by a request to its interrupt controller for each CPU, on x86_64 for each
//! cluster of CPUs. Then it waits for each call to be unlocked. A handler takes its whole queue, executes the calls and
//! unlocks them, so that calls that meet share one interrupt.

use std::cell::RefCell;
use std::mem::take;

use crate::cpu::Cpu;
use crate::engine::Word;
use crate::machine::Machine;
use crate::simulation::Simulation;
use crate::time::{Time, ns};

/// An interrupt's entry and acknowledgement.
const INTERRUPT_NS: f64 = 200.0;
/// How long a CPU is busy with a request to its interrupt controller, relative to the machine's `ipi_ns`. No public
/// measurement of it alone was found; with the ranges of `ipi_ns` it is from 57 to 214 ns.
const REQUEST: f64 = 1.0 / 7.0;
/// The CPUs of a cluster: arch/x86/kernel/apic/x2apic_cluster.c.
const CLUSTER: usize = 16;
/// The call of one function.
const CALL_NS: f64 = 100.0;
/// With more tasks, calls of one task share cache lines: they would take gigabytes.
const CALLS: usize = 256;

pub(super) struct Calls {
    cpus: Vec<usize>,
    request: Time,
    /// The CPUs, of consecutive numbers, that one request can interrupt.
    at_once: usize,
    /// `call_single_queue` of each task's CPU.
    queues: Vec<Word>,
    /// The callers in each queue.
    waiting: RefCell<Vec<Vec<usize>>>,
    /// By the task that calls and by the one that is called: how many were executed.
    executed: Vec<Vec<Word>>,
}

impl Calls {
    /// Of a program without calls, `are_made` is false.
    pub fn new(sim: &mut Simulation, machine: &Machine, cpus: &[usize], are_made: bool) -> Calls {
        let cpus = if are_made { cpus.to_vec() } else { Vec::new() };
        let queues = cpus.iter().map(|&cpu| sim.word("call_single_queue", machine.node_of(cpu))).collect();
        let of_each = cpus.len().min(CALLS);
        let executed = cpus
            .iter()
            .map(|&cpu| (0..of_each).map(|_| sim.word("call_single_data", machine.node_of(cpu))).collect())
            .collect();
        Calls {
            waiting: RefCell::new(vec![Vec::new(); cpus.len()]),
            cpus,
            request: ns(machine.ipi.as_ns() * REQUEST),
            at_once: if machine.architecture == "x86_64" { CLUSTER } else { 1 },
            queues,
            executed,
        }
    }

    /// Task `caller` calls a function on the CPUs of other tasks, and waits until all have executed it.
    pub async fn call(&self, cpu: &Cpu, caller: usize, tasks: &[usize]) {
        let mut number = [0; CALLS];
        let mut to_interrupt = Vec::new();
        for &task in tasks {
            if number[task % CALLS] == 0 {
                cpu.write(self.call_of(caller, task), 0).await;
            }
            number[task % CALLS] += 1;
            cpu.fetch_add(self.queues[task], 1).await;
            let queue = &mut self.waiting.borrow_mut()[task];
            queue.push(caller);
            if queue.len() == 1 {
                to_interrupt.push(self.cpus[task]);
            }
        }
        to_interrupt.sort_unstable();
        for cluster in to_interrupt.chunk_by(|one, next| one / self.at_once == next / self.at_once) {
            cpu.work(self.request).await;
            cluster.iter().for_each(|&other| cpu.send_ipi(other, 0));
        }
        for &task in tasks {
            cpu.spin_while(self.call_of(caller, task), |done| done < number[task % CALLS]).await;
        }
    }

    /// The handler of a task's CPU: executes what is in its queue.
    pub async fn execute(&self, cpu: &Cpu, task: usize) {
        cpu.work(ns(INTERRUPT_NS)).await;
        cpu.swap(self.queues[task], 0).await;
        let callers = take(&mut self.waiting.borrow_mut()[task]);
        for caller in callers {
            let call = self.call_of(caller, task);
            let done = cpu.read(call).await;
            cpu.work(ns(CALL_NS)).await;
            if self.cpus.len() <= CALLS {
                cpu.write(call, done + 1).await;
            } else {
                cpu.fetch_add(call, 1).await;
            }
        }
    }

    fn call_of(&self, caller: usize, task: usize) -> Word {
        self.executed[caller][task % CALLS]
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::engine::Interrupt;
    use crate::simulation::Run;

    /// So many CPUs call a function on the first one at once; how many interrupts it handles.
    fn interrupts_of(callers: usize) -> u64 {
        let machine = Machine::uniform(callers + 1, ns(1), ns(100));
        let mut sim = Simulation::new(machine.clone(), 1);
        let cpus: Vec<_> = (0..=callers).collect();
        let calls = Rc::new(Calls::new(&mut sim, &machine, &cpus, true));
        for task in cpus {
            let (in_program, in_handler) = (Rc::clone(&calls), Rc::clone(&calls));
            sim.program(task, move |cpu| async move {
                if task > 0 {
                    in_program.call(&cpu, task, &[0]).await;
                } else {
                    cpu.work(ns(1_000_000)).await;
                }
            });
            sim.handler(task, move |cpu| async move {
                loop {
                    if let Interrupt::Ipi { .. } = cpu.interrupt().await {
                        in_handler.execute(&cpu, task).await;
                    }
                }
            });
        }
        sim.run(Run::to_the_end()).unwrap().interrupts[0].1
    }

    #[test]
    fn calls_that_meet_share_an_interrupt() {
        assert_eq!(interrupts_of(1), 1);
        let of_many = interrupts_of(30);
        assert!(of_many < 15, "{of_many} interrupts for 30 calls");
    }

    /// How long a call on 32 idle CPUs takes.
    fn takes(architecture: &str) -> Time {
        let text = format!(
            "name = \"m\"\ndescription = \"m\"\narchitecture = \"{architecture}\"\nnode = \"node\"\nhit_ns = 1\n\
             memory_ns = 100\nwakeup_ns = 0\nipi_ns = 700\n[[level]]\nname = \"node\"\ncount = 1\n\
             [[level]]\nname = \"cpu\"\ncount = 33\ntransfer_ns = 1\n"
        );
        let machine = Machine::from_toml(&text).unwrap();
        let mut sim = Simulation::new(machine.clone(), 1);
        let cpus: Vec<_> = (0..33).collect();
        let calls = Rc::new(Calls::new(&mut sim, &machine, &cpus, true));
        for task in 1..33 {
            let calls = Rc::clone(&calls);
            sim.program(task, move |cpu| async move { cpu.work(ns(1_000_000)).await });
            sim.handler(task, move |cpu| async move {
                loop {
                    if let Interrupt::Ipi { .. } = cpu.interrupt().await {
                        calls.execute(&cpu, task).await;
                    }
                }
            });
        }
        let took = Rc::new(Cell::new(Time::ZERO));
        let seen = Rc::clone(&took);
        sim.program(0, move |cpu| async move {
            calls.call(&cpu, 0, &cpus[1..]).await;
            seen.set(cpu.now());
        });
        sim.run(Run::to_the_end()).unwrap();
        took.get()
    }

    #[test]
    fn a_caller_is_busy_with_each_request_for_interrupts() {
        // CPUs 1 to 15, 16 to 31 and 32 on x86_64; each alone elsewhere. A request takes 100 ns.
        let more = takes("aarch64").since(takes("x86_64")).as_ns();
        assert!((more / 2900.0 - 1.0).abs() < 0.05, "{more}");
    }

    #[test]
    fn all_are_executed_where_calls_of_a_task_share_cache_lines() {
        assert!(interrupts_of(CALLS + 40) > 0);
    }
}

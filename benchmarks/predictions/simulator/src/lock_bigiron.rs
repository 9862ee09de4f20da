use std::cell::RefCell;
use std::rc::Rc;

use bigiron_sim::locks::Fifo;
use bigiron_sim::{Machine, Run, Simulation, Time};

use crate::random::Thinking;
use crate::{HOLD, History};

pub fn simulate(tasks: usize, until: u64) -> History {
    let mut sim = Simulation::new(Machine::uniform(tasks, Time::ZERO, Time::ZERO), 1);
    let lock = Rc::new(Fifo::new(&mut sim, "lock", 0));
    let history = Rc::new(RefCell::new(History::default()));
    for task in 0..tasks {
        let (lock, history) = (Rc::clone(&lock), Rc::clone(&history));
        sim.program(task, |cpu| async move {
            let mut thinking = Thinking::of(cpu.id());
            loop {
                cpu.user(Time::of_ps(thinking.next())).await;
                cpu.lock(&*lock).await;
                cpu.work(Time::of_ps(HOLD)).await;
                cpu.unlock(&*lock).await;
                history.borrow_mut().add(cpu.id(), cpu.now().ps());
            }
        });
    }
    sim.run(Run::measuring(Time::ZERO, Time::of_ps(until))).expect("it ends");
    history.take()
}

//! One component for all tasks, and an event for each end of thinking and of holding: the fastest way there is in it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use simrs::{Component, ComponentId, Executor, Key, Scheduler, Simulation, State};

use crate::random::Thinking;
use crate::{HOLD, History};

#[derive(Debug)]
enum Event {
    Thought(usize),
    Held(usize),
}

struct Tasks {
    state: Key<Model>,
}

struct Model {
    thinking: Vec<Thinking>,
    held: bool,
    waiting: VecDeque<usize>,
    history: Rc<RefCell<History>>,
    until: u64,
}

impl Component for Tasks {
    type Event = Event;

    fn process_event(
        &self,
        own: ComponentId<Event>,
        event: &Event,
        scheduler: &mut Scheduler,
        state: &mut State,
    ) {
        let now = scheduler.time().as_nanos() as u64;
        let model = state.get_mut(self.state).expect("it is there");
        match *event {
            Event::Thought(task) if model.held => model.waiting.push_back(task),
            Event::Thought(task) => {
                model.held = true;
                scheduler.schedule(Duration::from_nanos(HOLD), own, Event::Held(task));
            }
            Event::Held(task) => {
                if now < model.until {
                    model.history.borrow_mut().add(task, now); // its executor goes one event too far
                }
                match model.waiting.pop_front() {
                    Some(next) => scheduler.schedule(Duration::from_nanos(HOLD), own, Event::Held(next)),
                    None => model.held = false,
                }
                let thinks = Duration::from_nanos(model.thinking[task].next());
                scheduler.schedule(thinks, own, Event::Thought(task));
            }
        }
    }
}

/// Its clock counts nanoseconds at the finest; they stand for picoseconds here.
pub fn simulate(tasks: usize, until: u64) -> History {
    let history = Rc::new(RefCell::new(History::default()));
    let mut simulation = Simulation::default();
    let mut thinking: Vec<Thinking> = (0..tasks).map(Thinking::of).collect();
    let first: Vec<u64> = thinking.iter_mut().map(Thinking::next).collect();
    let model =
        Model { thinking, held: false, waiting: VecDeque::new(), history: Rc::clone(&history), until };
    let state = simulation.state.insert(model);
    let component = simulation.add_component(Tasks { state });
    for (task, thinks) in first.into_iter().enumerate() {
        simulation.schedule(Duration::from_nanos(thinks), component, Event::Thought(task));
    }
    simulation.execute(Executor::timed(Duration::from_nanos(until)));
    drop(simulation);
    Rc::into_inner(history).expect("the only one").into_inner()
}

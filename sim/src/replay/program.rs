//! What a task does in an operation, as it was recorded: a program for the simulator.

use std::fmt;

/// Of which there is one in all, one a node, or one a task; or one a task that only tasks of its node visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Shared,
    Node,
    Task,
    TaskOfNode,
}

/// A cache line, or as many as its scope says.
#[derive(Clone, Debug)]
pub struct LineOf {
    pub name: String,
    pub scope: Scope,
}

/// A lock, on one of the lines.
#[derive(Clone, Debug)]
pub struct LockOf {
    pub name: String,
    pub kind: Kind,
    pub line: usize,
}

/// The kernel's kinds of locks, all of which are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Spinlock,
    RwLock,
    Mutex,
    RwSem,
    /// A seqlock: its readers do again what they did in between if a writer came.
    SeqLock,
}

/// What an instruction does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
    Atomic,
    /// A read, and a compare-and-exchange that is tried again until nobody came in between, as `lockref` does it.
    Exchange,
}

/// One thing that a task does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// So many instructions that touch nothing shared.
    Work(f64),
    /// Entering the kernel and leaving it again, so many times.
    SystemCall(f64),
    /// Writes so many bytes of memory.
    Fill(f64),
    Access {
        line: usize,
        touch: Touch,
        others: bool,
    },
    /// Takes a lock. One that `tries` does not wait for it while it has others: it gives those back then, and starts
    /// again from the first of them, as the kernel does where it takes locks against their order.
    Lock {
        lock: usize,
        shared: bool,
        tries: bool,
    },
    Unlock {
        lock: usize,
        shared: bool,
    },
    /// Keeps a lock that it has alone, to read with others from there on: `downgrade_write`.
    Downgrade {
        lock: usize,
    },
    /// Counts in the lockref of which this spinlock is the lock: by a compare-and-exchange as long as nobody has it.
    Lockref {
        lock: usize,
    },
    /// Interrupts CPUs of other tasks, and waits until they have answered.
    Interrupt(Targets),
}

/// Which of the other tasks' CPUs are interrupted; chance decides which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets {
    /// So many of them, or all if they are fewer.
    Number(usize),
    /// So large a share of them: 1 is all.
    Share(f64),
}

impl Targets {
    /// How many of the others that is.
    pub fn of(self, others: usize) -> usize {
        match self {
            Targets::Number(number) => number.min(others),
            Targets::Share(share) => (share * others as f64).round() as usize,
        }
    }
}

impl Event {
    /// Whether time passes while it is done. A read may cost none, as cores execute other instructions meanwhile.
    fn takes_time(&self) -> bool {
        match *self {
            Event::Work(amount) | Event::SystemCall(amount) | Event::Fill(amount) => amount > 0.0,
            Event::Access { touch, .. } => touch != Touch::Read,
            Event::Interrupt(_) => false,
            _ => true,
        }
    }
}

/// What tasks do: each does all operations again and again, in an order of its own that chance decides.
#[derive(Clone, Debug)]
pub struct Program {
    pub lines: Vec<LineOf>,
    pub locks: Vec<LockOf>,
    pub operations: Vec<Vec<Event>>,
}

/// What is wrong with a program, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError(pub String);

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

impl Program {
    /// Everything it names exists, each operation takes time, and gives back exactly what it took.
    pub fn check(&self) -> Result<(), ProgramError> {
        if let Some(lock) = self.locks.iter().find(|lock| lock.line >= self.lines.len()) {
            return Err(ProgramError(format!("lock {} is on line {}, which is none", lock.name, lock.line)));
        }
        if self.operations.is_empty() {
            return Err(ProgramError("no operation".into()));
        }
        for (number, operation) in self.operations.iter().enumerate() {
            let wrong = |why: String| Err(ProgramError(format!("operation {number}: {why}")));
            let mut held = Vec::new();
            for event in operation {
                match *event {
                    Event::Work(amount) | Event::SystemCall(amount) | Event::Fill(amount)
                        if !(amount.is_finite() && amount >= 0.0) =>
                    {
                        return wrong(format!("{event:?}: use zero or more"));
                    }
                    Event::Interrupt(Targets::Share(share)) if !(0.0..=1.0).contains(&share) => {
                        return wrong(format!("interrupts a share of {share} of the others: use 0 to 1"));
                    }
                    Event::Access { line, .. } if line >= self.lines.len() => {
                        return wrong(format!("line {line} is none"));
                    }
                    Event::Lock { lock, shared, tries } if lock < self.locks.len() => {
                        if tries && self.locks[lock].kind == Kind::SeqLock {
                            return wrong(format!("tries to take {}, a seqlock", self.locks[lock].name));
                        }
                        if held.iter().any(|&(other, _)| other == lock) {
                            return wrong(format!("takes {} twice", self.locks[lock].name));
                        }
                        held.push((lock, shared));
                    }
                    Event::Unlock { lock, shared } if lock < self.locks.len() => {
                        let Some(at) = held.iter().position(|&taken| taken == (lock, shared)) else {
                            return wrong(format!("gives {} back without having it", self.locks[lock].name));
                        };
                        held.remove(at);
                    }
                    Event::Downgrade { lock } if lock < self.locks.len() => {
                        let name = &self.locks[lock].name;
                        if self.locks[lock].kind != Kind::RwSem {
                            return wrong(format!("downgrades {name}, which is no semaphore"));
                        }
                        let Some(taken) = held.iter_mut().find(|taken| **taken == (lock, false)) else {
                            return wrong(format!("downgrades {name} without having it alone"));
                        };
                        taken.1 = true;
                    }
                    Event::Lockref { lock } if lock < self.locks.len() => {
                        let name = &self.locks[lock].name;
                        if self.locks[lock].kind != Kind::Spinlock {
                            return wrong(format!("counts in the lockref of {name}, which is no spinlock"));
                        }
                        if held.iter().any(|&(other, _)| other == lock) {
                            return wrong(format!("counts in the lockref of {name}, which it has"));
                        }
                    }
                    Event::Lock { lock, .. }
                    | Event::Unlock { lock, .. }
                    | Event::Downgrade { lock }
                    | Event::Lockref { lock } => {
                        return wrong(format!("lock {lock} is none"));
                    }
                    _ => {}
                }
            }
            if !operation.iter().any(Event::takes_time) {
                return wrong("it takes no time".into());
            }
            if let Some((lock, _)) = held.first() {
                return wrong(format!("keeps {}", self.locks[*lock].name));
            }
        }
        Ok(())
    }
}

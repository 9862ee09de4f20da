//! A program: what a task does in an operation, as it was recorded.

use std::fmt;

/// How many instances of a cache line there are: one in total, one per node, or one per task. Other tasks visit a
/// `Task` line from every node, and a `TaskOfNode` line from its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Shared,
    Node,
    Task,
    TaskOfNode,
}

/// A cache line, with an instance for each member of its scope.
#[derive(Clone, Debug)]
pub struct ProgramLine {
    pub name: String,
    pub scope: Scope,
}

/// A lock, on one of the cache lines.
#[derive(Clone, Debug)]
pub struct ProgramLock {
    pub name: String,
    pub kind: Kind,
    pub line: usize,
}

/// The kernel's kinds of locks. All of them are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Spinlock,
    RwLock,
    Mutex,
    RwSem,
}

/// What an instruction does to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
    Atomic,
    /// A read, and a compare-and-exchange that is repeated until it succeeds, as `lockref` does it.
    Exchange,
}

/// One step of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A number of instructions that access nothing shared.
    Work(f64),
    /// A number of system calls: entering the kernel and leaving it.
    SystemCall(f64),
    /// Writes a number of bytes of memory.
    Fill(f64),
    Access {
        line: usize,
        touch: Touch,
        others: bool,
    },
    /// Acquires a lock. If it `tries`, it does not wait for the lock while it holds others: it releases those, and
    /// starts again from the first of them, as the kernel does where it acquires locks against their order.
    Lock {
        lock: usize,
        shared: bool,
        tries: bool,
    },
    Unlock {
        lock: usize,
        shared: bool,
    },
    /// Turns the exclusive holder of a lock into a reader: `downgrade_write`.
    Downgrade {
        lock: usize,
    },
    /// Counts in the lockref that this spinlock belongs to: by a compare-and-exchange while the spinlock is free.
    Lockref {
        lock: usize,
    },
    /// Interrupts CPUs of other tasks, and waits for their answers. The operation's instructions are those for as many
    /// CPUs as were interrupted when it was recorded.
    Interrupt {
        targets: Targets,
        recorded: usize,
    },
    /// Waits until all CPUs of the machine have done what it asked of all at once: to invalidate what their TLBs have.
    Broadcast,
}

/// How many of the other tasks' CPUs are interrupted. They are chosen at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets {
    /// A number, or all if there are fewer.
    Number(usize),
    /// A share of them, 0 to 1.
    Share(f64),
}

impl Targets {
    /// The number of targets among `others` tasks.
    pub fn of(self, others: usize) -> usize {
        match self {
            Targets::Number(number) => number.min(others),
            Targets::Share(share) => (share * others as f64).round() as usize,
        }
    }
}

impl Event {
    /// Whether it always takes time. A read may take none, as cores execute other instructions meanwhile.
    fn takes_time(&self) -> bool {
        match *self {
            Event::Work(amount) | Event::SystemCall(amount) | Event::Fill(amount) => amount > 0.0,
            Event::Access { touch, .. } => touch != Touch::Read,
            Event::Interrupt { .. } => false,
            _ => true,
        }
    }
}

/// What tasks do. Each task repeats all operations, in a random order of its own.
#[derive(Clone, Debug)]
pub struct Program {
    pub lines: Vec<ProgramLine>,
    pub locks: Vec<ProgramLock>,
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
    /// Checks that everything it names exists, that each operation takes time, and that it releases exactly the locks
    /// that it acquires.
    pub fn check(&self) -> Result<(), ProgramError> {
        if let Some(lock) = self.locks.iter().find(|lock| lock.line >= self.lines.len()) {
            return Err(ProgramError(format!("lock {} is on line {}, which is none", lock.name, lock.line)));
        }
        if self.operations.is_empty() {
            return Err(ProgramError("no operation".into()));
        }
        for (number, operation) in self.operations.iter().enumerate() {
            self.check_operation(operation)
                .map_err(|why| ProgramError(format!("operation {number}: {why}")))?;
        }
        Ok(())
    }

    fn check_operation(&self, operation: &[Event]) -> Result<(), String> {
        let mut held = Vec::new();
        for event in operation {
            self.check_event(event, &mut held)?;
        }
        if !operation.iter().any(Event::takes_time) {
            return Err("it takes no time".into());
        }
        match held.first() {
            Some((lock, _)) => Err(format!("keeps {}", self.locks[*lock].name)),
            None => Ok(()),
        }
    }

    /// `held` has the locks that are held before the event, and whether as a reader.
    fn check_event(&self, event: &Event, held: &mut Vec<(usize, bool)>) -> Result<(), String> {
        match *event {
            Event::Work(amount) | Event::SystemCall(amount) | Event::Fill(amount)
                if !(amount.is_finite() && amount >= 0.0) =>
            {
                Err(format!("{event:?}: use zero or more"))
            }
            Event::Interrupt { targets: Targets::Share(share), .. } if !(0.0..=1.0).contains(&share) => {
                Err(format!("interrupts a share of {share} of the others: use 0 to 1"))
            }
            Event::Access { line, .. } if line >= self.lines.len() => Err(format!("line {line} is none")),
            Event::Lock { lock, .. }
            | Event::Unlock { lock, .. }
            | Event::Downgrade { lock }
            | Event::Lockref { lock } => match self.locks.get(lock) {
                None => Err(format!("lock {lock} is none")),
                Some(known) => known.check_event(event, lock, held),
            },
            _ => Ok(()),
        }
    }
}

impl ProgramLock {
    /// Checks an event of this lock, whose number is `lock`.
    fn check_event(&self, event: &Event, lock: usize, held: &mut Vec<(usize, bool)>) -> Result<(), String> {
        let (name, kind) = (&self.name, self.kind);
        match *event {
            Event::Lock { shared, .. } => {
                if held.iter().any(|&(other, _)| other == lock) {
                    return Err(format!("takes {name} twice"));
                }
                held.push((lock, shared));
            }
            Event::Unlock { shared, .. } => {
                let Some(at) = held.iter().position(|&taken| taken == (lock, shared)) else {
                    return Err(format!("gives {name} back without having it"));
                };
                held.remove(at);
            }
            Event::Downgrade { .. } => {
                if kind != Kind::RwSem {
                    return Err(format!("downgrades {name}, which is no semaphore"));
                }
                let Some(taken) = held.iter_mut().find(|taken| **taken == (lock, false)) else {
                    return Err(format!("downgrades {name} without having it alone"));
                };
                taken.1 = true;
            }
            Event::Lockref { .. } => {
                if kind != Kind::Spinlock {
                    return Err(format!("counts in the lockref of {name}, which is no spinlock"));
                }
                if held.iter().any(|&(other, _)| other == lock) {
                    return Err(format!("counts in the lockref of {name}, which it has"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

//! The designs that come with the simulator. Each design is one file, or one folder, with a [`Design`] that [`ALL`]
//! lists.

pub mod cpu_hotplug;
mod design;
pub mod lock_bound;
pub mod percpu_counter;
pub mod rcu;
pub mod rcu_flat;
pub mod rcu_tree;
pub mod slub;
mod sweep;

pub use design::{Design, Figure, InputError, Parameter, Values};
pub use sweep::{Error, Outcome, Point, simulate, sweep, sweep_until};

/// Every design.
pub const ALL: &[&Design] = &[
    &lock_bound::DESIGN,
    &rcu_flat::DESIGN,
    &rcu_tree::DESIGN,
    &slub::DESIGN,
    &percpu_counter::DESIGN,
    &cpu_hotplug::DESIGN,
];

/// The design of that name.
pub fn find(name: &str) -> Result<&'static Design, InputError> {
    ALL.iter().copied().find(|design| design.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|design| design.name).collect();
        InputError(format!("no design {name:?}: there are {}", names.join(", ")))
    })
}

//! Which spinlock a kernel has. It depends on the architecture, so machine files name it.

/// The kind of the kernel's spinlocks, including those inside its other locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinKind {
    #[default]
    Qspinlock,
    /// NUMA-aware, and not in the mainline kernel.
    Cna,
    /// POWER's own.
    Powerpc,
}

impl SpinKind {
    /// All kinds, with the names that machine files and options use.
    pub const ALL: [(&str, SpinKind); 3] =
        [("qspinlock", SpinKind::Qspinlock), ("cna", SpinKind::Cna), ("powerpc", SpinKind::Powerpc)];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<SpinKind> {
        SpinKind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        SpinKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

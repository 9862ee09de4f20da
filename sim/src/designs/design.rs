//! What a design is: its name, its parameters, and a function that adds it to a simulation.

use std::fmt;

use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::{Time, ns};

/// A design that can be simulated on any machine.
pub struct Design {
    pub name: &'static str,
    /// Its description, in one line.
    pub description: &'static str,
    pub parameters: &'static [Parameter],
    /// Adds the design to a simulation: cache lines, locks, programs, handlers.
    pub build: fn(&mut Simulation, &Values) -> Result<(), InputError>,
    /// Computes the design's figures from the report of a run.
    pub figures: fn(&Report, &Values) -> Vec<Figure>,
}

/// A parameter of a design.
pub struct Parameter {
    pub name: &'static str,
    pub default: &'static str,
    /// Its meaning, with the unit.
    pub meaning: &'static str,
}

/// A number that a design reports, with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

/// An error in a user's input, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(pub String);

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

/// The values of a design's parameters.
#[derive(Clone)]
pub struct Values {
    pub(super) design: &'static Design,
    given: Vec<(String, String)>,
}

impl Values {
    /// The given values, and the defaults of the other parameters.
    pub fn new(design: &'static Design, given: &[(String, String)]) -> Result<Values, InputError> {
        for (name, _) in given {
            if !design.parameters.iter().any(|parameter| parameter.name == name) {
                let known: Vec<&str> = design.parameters.iter().map(|parameter| parameter.name).collect();
                return Err(InputError(format!(
                    "{} has no parameter {name}: it has {}",
                    design.name,
                    known.join(", ")
                )));
            }
        }
        Ok(Values { design, given: given.to_vec() })
    }

    /// A value as text.
    pub fn text(&self, name: &str) -> &str {
        let given = self.given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        given.unwrap_or_else(|| {
            let parameter = self.design.parameters.iter().find(|parameter| parameter.name == name);
            parameter.unwrap_or_else(|| panic!("{} has no parameter {name}", self.design.name)).default
        })
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Result<u64, InputError> {
        let text = self.text(name);
        text.parse().map_err(|_| InputError(format!("{name}={text}: use a whole number, zero or more")))
    }

    /// The number of tasks, one per CPU: the parameter `tasks`, where 0 means all CPUs.
    pub fn tasks(&self, cpus: usize) -> Result<usize, InputError> {
        match self.count("tasks")? as usize {
            0 => Ok(cpus),
            tasks if tasks <= cpus => Ok(tasks),
            tasks => Err(InputError(format!("tasks={tasks}: there are {cpus} CPUs"))),
        }
    }

    /// A number, zero or more.
    pub fn number(&self, name: &str) -> Result<f64, InputError> {
        let text = self.text(name);
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(InputError(format!("{name}={text}: use a number, zero or more"))),
        }
    }

    /// A time, given in nanoseconds.
    pub fn time(&self, name: &str) -> Result<Time, InputError> {
        Ok(ns(self.number(name)?))
    }

    /// A word that is one of the choices.
    pub fn choice<'a>(&'a self, name: &str, choices: &[&str]) -> Result<&'a str, InputError> {
        let text = self.text(name);
        if choices.contains(&text) {
            return Ok(text);
        }
        Err(InputError(format!("{name}={text}: use one of {}", choices.join(", "))))
    }
}

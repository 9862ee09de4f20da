//! What is not known of a machine: each figure of its file can have a range, with its source.

use serde::Deserialize;

use crate::machine::{File, MachineError, error};

/// How far a figure of a machine may be off.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Which figure: `hit`, `socket transfer`, `instructions per cycle`.
    pub of: String,
    pub low: f64,
    pub high: f64,
    /// Where the range comes from.
    pub source: String,
}

/// That every range is of a figure that the file has, and around it.
pub(crate) fn check(file: &File) -> Result<(), MachineError> {
    let mut file = file.clone();
    for Range { of, low, high, source } in file.range.clone() {
        if !(low.is_finite() && high.is_finite() && 0.0 < low && low <= high) {
            return error(format!("range of {of}: low = {low} and high = {high}: use 0 < low <= high"));
        }
        if source.trim().is_empty() {
            return error(format!("range of {of}: no source: say where it comes from"));
        }
        let Some(figures) = file.figure(&of) else {
            return error(format!("range of {of}: the file has no such figure"));
        };
        let figure = *figures[0];
        if !(low..=high).contains(&figure) {
            return error(format!("range of {of}: {figure}, the figure itself, is not in {low} to {high}"));
        }
    }
    for (number, range) in file.range.iter().enumerate() {
        if file.range[..number].iter().any(|other| other.of == range.of) {
            return error(format!("range of {}: it is given twice", range.of));
        }
    }
    Ok(())
}

/// Puts each figure at its place of its range, on a logarithmic scale: the figure itself is in the middle.
pub(crate) fn apply(file: &mut File, places: &[f64]) -> Result<(), MachineError> {
    let ranges = file.range.clone();
    if ranges.len() != places.len() {
        return error(format!("{} places for {} ranges", places.len(), ranges.len()));
    }
    for (range, &place) in ranges.iter().zip(places) {
        if !(0.0..=1.0).contains(&place) {
            return error(format!("place {place} of the range of {}: use 0 to 1", range.of));
        }
        let Some(figures) = file.figure(&range.of) else {
            return error(format!("range of {}: the file has no such figure", range.of));
        };
        let figure = *figures[0];
        let (from, to, share) = match place < 0.5 {
            true => (range.low, figure, 2.0 * place),
            false => (figure, range.high, 2.0 * place - 1.0),
        };
        let factor = from * libm::pow(to / from, share) / figure;
        figures.into_iter().for_each(|value| *value *= factor);
    }
    Ok(())
}

//! The uncertainty of a machine: each figure of its file can have a range.

use crate::machine::file::{EITHER, FAR, File, MachineError, NEAR, Range, error};

/// Checks that every range is around a figure of the file.
pub(super) fn check(file: &File) -> Result<(), MachineError> {
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

/// All that is uncertain: the figures with a range, and where atomic accesses are done if that is not known.
pub(super) fn unknowns(file: &File) -> Vec<Range> {
    let mut found = file.range.clone();
    if file.atomics.as_deref() == Some(EITHER) {
        let source = file.atomics_source.clone().unwrap_or_default();
        found.push(Range { of: "atomics".into(), low: 0.0, high: 1.0, source });
    }
    found
}

/// Sets each figure to a quantile of its range, on a logarithmic scale. The figure itself is the quantile 0.5. Atomic
/// accesses are near up to there.
pub(super) fn apply(file: &mut File, quantiles: &[f64]) -> Result<(), MachineError> {
    let ranges = unknowns(file);
    if ranges.len() != quantiles.len() {
        return error(format!("{} places for {} ranges", quantiles.len(), ranges.len()));
    }
    for (range, &quantile) in ranges.iter().zip(quantiles) {
        if !(0.0..=1.0).contains(&quantile) {
            return error(format!("place {quantile} of the range of {}: use 0 to 1", range.of));
        }
        if range.of == "atomics" {
            let is_near = quantile <= 0.5;
            file.atomics = Some(if is_near { NEAR } else { FAR }.into());
            file.far_atomic_ns = file.far_atomic_ns.filter(|_| !is_near);
            continue;
        }
        let Some(figures) = file.figure(&range.of) else {
            return error(format!("range of {}: the file has no such figure", range.of));
        };
        let figure = *figures[0];
        let (from, to, share) = match quantile < 0.5 {
            true => (range.low, figure, 2.0 * quantile),
            false => (figure, range.high, 2.0 * quantile - 1.0),
        };
        let factor = from * libm::pow(to / from, share) / figure;
        figures.into_iter().for_each(|value| *value *= factor);
    }
    Ok(())
}

//! A timeline of a part of a run, for <https://ui.perfetto.dev> and chrome://tracing.

use std::fmt::Write;

use crate::time::Time;

pub(crate) struct Span {
    pub cpu: usize,
    pub what: &'static str,
    pub line: String,
    pub start: Time,
    pub end: Time,
    pub interrupt: bool,
}

/// A timeline: what each CPU did when.
pub struct Trace {
    from: Time,
    to: Time,
    spans: Vec<Span>,
}

impl Trace {
    pub(crate) fn new(from: Time, to: Time) -> Trace {
        Trace { from, to, spans: Vec::new() }
    }

    pub(crate) fn add(&mut self, span: Span) {
        if span.start < self.to && span.end > self.from && span.end > span.start {
            self.spans.push(span);
        }
    }

    /// A JSON object in Chrome's trace event format, with times in microseconds.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for (number, span) in self.spans.iter().enumerate() {
            let separator = if number == 0 { "\n" } else { ",\n" };
            let start = span.start.max(self.from);
            let took = span.end.min(self.to) - start;
            let name =
                if span.line.is_empty() { span.what.into() } else { format!("{} {}", span.what, span.line) };
            let category = if span.interrupt { "interrupt" } else { "program" };
            write!(
                json,
                "{separator}{{\"name\":{},\"cat\":\"{category}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":0,\"tid\":{}}}",
                quoted(&name),
                micros(start),
                micros(took),
                span.cpu
            )
            .expect("a string takes all");
        }
        json.push_str("\n]}\n");
        json
    }
}

fn micros(time: Time) -> String {
    format!("{}.{:06}", time.ps() / 1_000_000, time.ps() % 1_000_000)
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => write!(out, "\\u{:04x}", control as u32).expect("a string takes all"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

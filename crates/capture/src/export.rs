//! Export of a traced operation for waveform and trace viewers.

use floatgate_device::{Resource, Span};
use serde_json::json;
use std::collections::BTreeMap;

/// Display name of a resource.
fn name(resource: Resource) -> String {
    match resource {
        Resource::Cpu => "cpu".to_owned(),
        Resource::Controller => "controller".to_owned(),
        Resource::Ecc => "ecc".to_owned(),
        Resource::Bus => "bus".to_owned(),
        Resource::Die(number) => format!("die_{number}"),
    }
}

/// Resources of a trace in the order of their first activity.
fn resources(spans: &[Span]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for span in spans {
        let name = name(span.resource);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Value change dump for GTKWave and Surfer. Each resource has a wire that is 1 while the resource is busy, and a
/// string with its activity.
pub fn vcd(spans: &[Span]) -> String {
    let names = resources(spans);
    let code = |at: usize, text: bool| format!("{}{}", if text { 't' } else { 'w' }, at);
    let mut out = "$timescale 1 ns $end\n$scope module floatgate $end\n".to_owned();
    for (at, name) in names.iter().enumerate() {
        out += &format!(
            "$var wire 1 {} {name} $end\n$var string 1 {} {name}_activity $end\n",
            code(at, false),
            code(at, true)
        );
    }
    out += "$upscope $end\n$enddefinitions $end\n#0\n";
    // Ends are sorted before starts, so that an activity that follows immediately stays visible.
    let mut changes: BTreeMap<(u64, bool), Vec<(usize, &Span)>> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.end > span.start) {
        let at = names.iter().position(|of| *of == name(span.resource)).unwrap_or(0);
        changes.entry((span.start.as_ns(), true)).or_default().push((at, span));
        changes.entry((span.end.as_ns(), false)).or_default().push((at, span));
    }
    for at in 0..names.len() {
        out += &format!("0{}\ns- {}\n", code(at, false), code(at, true));
    }
    let mut now_ns = 0;
    for ((ns, is_start), changed) in changes {
        if std::mem::replace(&mut now_ns, ns) != ns {
            out += &format!("#{ns}\n");
        }
        for (at, span) in changed {
            let (level, text) = if is_start { (1, span.what.replace(' ', "_")) } else { (0, "-".to_owned()) };
            out += &format!("{level}{}\ns{text} {}\n", code(at, false), code(at, true));
        }
    }
    out
}

/// Trace events in Chrome's format for Perfetto and speedscope, with one thread for each resource.
pub fn perfetto(spans: &[Span], title: &str) -> String {
    let names = resources(spans);
    let us = |ns: u64| ns as f64 / 1e3;
    let mut events = vec![json!({ "ph": "M", "name": "process_name", "pid": 1, "args": { "name": title } })];
    events.extend(names.iter().enumerate().map(|(at, name)| {
        json!({ "ph": "M", "name": "thread_name", "pid": 1, "tid": at + 1, "args": { "name": name } })
    }));
    events.extend(spans.iter().map(|span| {
        let at = names.iter().position(|of| *of == name(span.resource)).unwrap_or(0);
        let (start, end) = (span.start.as_ns(), span.end.as_ns());
        json!({
            "ph": "X", "name": span.what, "cat": span.phase.name(), "pid": 1, "tid": at + 1,
            "ts": us(start), "dur": us(end.saturating_sub(start)),
        })
    }));
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
}

//! The modules of the crate depend on each other in one direction: the graph of their uses has no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The source of each module, by its path: `engine::memory`. The crate itself is the empty path.
fn sources(folder: &Path, path: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let file = entry.expect("it can be read").path();
        let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let inner = if path.is_empty() { stem.clone() } else { format!("{path}::{stem}") };
        if file.is_dir() {
            sources(&file, &inner, found);
        } else {
            let module = if stem == "mod" || stem == "lib" { path.into() } else { inner };
            found.insert(module, fs::read_to_string(&file).expect("it can be read"));
        }
    }
}

/// Without comments and unit tests.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that follow `prefix`: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn paths(code: &str, prefix: &str) -> Vec<String> {
    let is_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let mut found = Vec::new();
    for rest in code.split(prefix).skip(1) {
        let end = rest.find(|char| !is_path(char)).unwrap_or(rest.len());
        let (path, rest) = rest.split_at(end);
        found.push(path.trim_end_matches("::").to_owned());
        let Some(list) = rest.strip_prefix('{') else { continue };
        let (mut depth, mut outer, mut item) = (1, vec![path.to_owned()], String::new());
        for char in list.chars() {
            match char {
                '{' => {
                    depth += 1;
                    outer.push(std::mem::take(&mut item));
                }
                ',' | '}' => found.push(outer.concat() + &std::mem::take(&mut item)),
                char if is_path(char) => item.push(char),
                _ => {}
            }
            if char == '}' {
                depth -= 1;
                outer.pop();
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// A module uses the modules that it names by `crate::`, and those that it declares.
fn graph(sources: &BTreeMap<String, String>) -> Graph {
    let module_of = |path: &str| {
        let mut path = path;
        while !path.is_empty() && !sources.contains_key(path) {
            path = path.rsplit_once("::").map_or("", |(outer, _)| outer);
        }
        path.to_owned()
    };
    let edges = sources.iter().map(|(module, source)| {
        let code = code(source);
        let mut used: BTreeSet<_> = paths(&code, "crate::").iter().map(|path| module_of(path)).collect();
        let declared = code.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod "));
        for (_, name) in declared.filter(|(before, _)| ["", "pub "].contains(before)) {
            let inner = if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
            used.extend((name != "tests").then_some(inner));
        }
        assert!(!code.contains("super::"), "{module}: name modules by crate::, which this test follows");
        (module.clone(), used)
    });
    edges.collect()
}

/// Modules that use each other, in order; empty if there is no circle.
fn circle(graph: &Graph) -> Vec<String> {
    fn visit(graph: &Graph, module: &str, open: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(first) = open.iter().position(|other| other == module) {
            open.drain(..first);
            return true;
        }
        open.push(module.into());
        let is_new = !done.contains(module);
        if is_new && graph[module].iter().any(|used| visit(graph, used, open, done)) {
            return true;
        }
        open.pop();
        done.insert(module.into());
        false
    }
    let (mut open, mut done) = (Vec::new(), BTreeSet::new());
    graph.keys().any(|module| visit(graph, module, &mut open, &mut done));
    open
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    found.retain(|module, _| !module.ends_with("::tests"));
    let graph = graph(&found);
    assert!(graph["locks::qspinlock"].contains("cpu") && graph["engine"].contains("engine::memory"));
    let circle = circle(&graph);
    assert!(circle.is_empty(), "these modules use each other: {}", circle.join(" -> "));
}

#[test]
fn a_circle_is_found() {
    let found = [
        ("", "mod a;\nmod b;"),
        ("a", "use crate::{b::{B, c}, A};"),
        ("b", "pub mod c;"),
        ("b::c", "use crate::a::A; // use crate::b;\n#[cfg(test)]\nmod tests {\n use crate::b; }"),
    ];
    let found = found.map(|(module, source)| (module.to_owned(), source.to_owned())).into();
    let graph = graph(&found);
    assert_eq!(graph["a"], ["", "b", "b::c"].map(String::from).into());
    assert_eq!(circle(&graph), ["", "a"]);
    let inner = Graph::from([("b", "c"), ("c", "b")].map(|(a, b)| (a.into(), [b.into()].into())));
    assert_eq!(circle(&inner), ["b", "c"]);
}

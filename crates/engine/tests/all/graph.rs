//! The arrows between the files of a crate, read from its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Module = Vec<String>;

/// For each file, the files that it uses.
pub(crate) type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The files' code, without comments and tests, by module.
fn files(folder: &Path, module: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut its = module.clone();
        if path.is_dir() {
            its.push(name);
            files(&path, &its, found);
        } else if !name.ends_with("tests") && name != "models" {
            if !["mod", "lib"].contains(&name.as_str()) {
                its.push(name);
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            // `pub(in folder)` is no use of the folder.
            found
                .insert(its, code.collect::<Vec<_>>().join("\n").replace("pub(in crate::", "pub("));
        }
    }
}

/// The paths that `text` begins with; braces are expanded.
fn paths(text: &str) -> Vec<Vec<String>> {
    let end = text.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(text.len());
    let segments = text[..end].split("::").filter(|segment| !segment.is_empty());
    let head: Vec<String> = segments.map(str::to_owned).collect();
    if !(text[..end].ends_with("::") && text[end..].starts_with('{')) {
        return vec![head];
    }
    let (mut depth, mut start, mut all) = (0, end + 1, Vec::new());
    for (at, c) in text[end..].char_indices().map(|(at, c)| (at + end, c)) {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 1 => {
                let tails = paths(text[start..at].trim_start());
                // Behind a last comma there is none.
                for tail in tails.into_iter().filter(|tail| !tail.is_empty()) {
                    all.push(head.iter().cloned().chain(tail).collect());
                }
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    all
}

/// The paths in `text` that lead to modules of this crate, from its root.
fn uses(text: &str, module: &Module, is_mod: bool, modules: &BTreeSet<&Module>) -> Vec<Module> {
    let parent = if is_mod { &module[..] } else { &module[..module.len() - 1] };
    let mut all = Vec::new();
    let child = |name: &str| modules.contains(&[module, &[name.to_owned()][..]].concat());
    for (at, _) in text.match_indices(|c: char| c.is_alphabetic() || c == '_') {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c)) {
            continue;
        }
        for path in paths(&text[at..]).into_iter().filter(|path| path.len() > 1) {
            let up = path.iter().take_while(|segment| *segment == "super").count();
            let from = match path[0].as_str() {
                "crate" => path[1..].to_vec(),
                "self" => [module, &path[1..]].concat(),
                // In a file, `super` is the folder; in a folder's own file, the folder above.
                "super" if is_mod => [&parent[..parent.len() - up], &path[up..]].concat(),
                "super" => [&parent[..parent.len() + 1 - up], &path[up..]].concat(),
                name if is_mod && child(name) => [module, &path[..]].concat(),
                _ => continue,
            };
            all.push(from);
        }
    }
    all
}

/// The arrows between the files in `source`.
pub(crate) fn arrows(source: &Path) -> Graph {
    let mut texts = BTreeMap::new();
    files(source, &Vec::new(), &mut texts);
    let modules: BTreeSet<&Module> = texts.keys().collect();
    let is_mod = |module: &Module| source.join(module.join("/")).is_dir();
    // The re-exports of folders' files, by name.
    let mut handed_on: BTreeMap<Module, Module> = BTreeMap::new();
    for (module, text) in texts.iter().filter(|(module, _)| is_mod(module)) {
        for line in text.split(';').map(str::trim) {
            let Some(at) = line.find("use ").filter(|_| line.starts_with("pub")) else { continue };
            for path in paths(&line[at + 4..]) {
                if let Some(name) = path.last() {
                    let target = match path[0].as_str() {
                        "crate" => path[1..].to_vec(),
                        _ => [module, &path[..]].concat(),
                    };
                    handed_on.insert([module, &[name.clone()][..]].concat(), target);
                }
            }
        }
    }
    let file_of = |mut path: Module| {
        let handed = |path: &Module| {
            let mut prefixes = (1..=path.len()).rev().map(|len| path.split_at(len));
            prefixes.find_map(|(prefix, rest)| {
                let target = handed_on.get(prefix).filter(|target| *target != prefix)?;
                Some([target, rest].concat())
            })
        };
        // A name may be re-exported a few times, but not in a cycle.
        for _ in 0..4 {
            path = handed(&path).unwrap_or(path);
        }
        (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|it| modules.contains(it))
    };
    let mut below: Graph = BTreeMap::new();
    for (module, text) in &texts {
        let paths = uses(text, module, is_mod(module), &modules).into_iter();
        let used = paths.filter_map(file_of).filter(|used| used != module);
        below.insert(module.clone(), used.filter(|used| !used.is_empty()).collect());
    }
    below
}

/// The files that use themselves by way of others: each circle's files, ascending.
pub(crate) fn circles(below: &Graph) -> Vec<Vec<String>> {
    let mut reached: Graph = below.clone();
    // A file reaches what the files that it uses reach.
    for middle in below.keys() {
        let beyond = reached[middle].clone();
        for all in reached.values_mut().filter(|all| all.contains(middle)) {
            all.extend(beyond.iter().cloned());
        }
    }
    let mut circles = BTreeSet::new();
    for (file, all) in reached.iter().filter(|(file, all)| all.contains(*file)) {
        let back = all.iter().filter(|other| reached[*other].contains(file));
        circles.insert(back.map(|other| other.join("/")).collect());
    }
    circles.into_iter().collect()
}

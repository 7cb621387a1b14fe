//! The files of results/: each is listed in its index and cited by the documents named there, and each cited file is
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const INDEX: &str = "README.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of a folder's files, except its index.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).expect(folder);
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    names.map(|name| name.expect("text")).filter(|name| name != INDEX).collect()
}

/// The files of results/ that a text names, except the index.
fn cited(text: &str) -> BTreeSet<String> {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let after = text.split("results/").skip(1);
    let names = after.map(|rest| rest.split(|c| !part_of_name(c)).next().unwrap_or_default());
    let names = names.map(|name| name.trim_end_matches('.'));
    names.filter(|name| name.contains('.') && *name != INDEX).map(str::to_owned).collect()
}

/// For each file that documents cite, the documents, by their path from the root.
fn citations() -> BTreeMap<String, BTreeSet<String>> {
    let documents = names("docs").into_iter().filter(|name| name.ends_with(".md"));
    let documents = documents.map(|name| format!("docs/{name}"));
    let mut by_file: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for document in documents.chain(["README.md".to_owned()]) {
        let text = fs::read_to_string(root().join(&document)).expect(&document);
        for file in cited(&text) {
            by_file.entry(file).or_default().insert(document.clone());
        }
    }
    by_file
}

/// A row of the index, `| [file](file) | figure | command | [document](../path), .. |`: its file, its command and its
/// documents.
fn row(line: &str) -> Option<(String, &str, BTreeSet<String>)> {
    let mut cells = line.strip_prefix("| [")?.strip_suffix(" |")?.split(" | ");
    let (name, link) = cells.next()?.strip_suffix(')')?.split_once("](")?;
    assert_eq!(name, link, "a row's link");
    let command = cells.nth(1)?;
    let links = cells.next()?.split(", ").map(|link| link.split_once("](../"));
    let paths = links.map(|link| link.and_then(|(_, path)| path.strip_suffix(')')));
    Some((name.to_owned(), command, paths.map(|path| path.expect("a link").to_owned()).collect()))
}

#[test]
fn index_has_each_file_and_its_citations() {
    let index = fs::read_to_string(root().join("results/README.md")).expect("the index");
    let files = names("results");
    let citations = citations();
    let mut listed = BTreeSet::new();
    for (file, command, documents) in index.lines().filter_map(row) {
        assert!(command.starts_with('`') && command.len() > 9, "{file}: no command");
        assert_eq!(Some(&documents), citations.get(&file), "the documents that cite {file}");
        assert!(files.contains(&file), "{file} is listed, and not there");
        assert!(listed.insert(file.clone()), "{file} is listed twice");
    }
    let missing: Vec<_> = files.difference(&listed).collect();
    assert!(missing.is_empty(), "the index does not list {missing:?}");
    assert!(files.len() > 20, "{} files", files.len());
}

#[test]
fn every_cited_file_is_there() {
    let files = names("results");
    for (file, documents) in citations() {
        assert!(files.contains(&file), "{documents:?} cite results/{file}, which is not there");
    }
}

#[test]
fn citations_are_found() {
    let text = "[results](results/a-1.txt), (results/b.txt.), results/README.md, results/c.json;";
    assert_eq!(cited(text), ["a-1.txt", "b.txt", "c.json"].map(str::to_owned).into());
}

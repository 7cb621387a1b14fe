//! README's figures are in the files of results/ that it names beside them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The figures in a text: numbers with a point or a comma in them, or of three digits and more. Small whole numbers
/// count clients and the like.
fn figures(text: &str) -> BTreeSet<&str> {
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let numbers = numbers.map(|number| number.trim_matches(['.', ',']));
    numbers
        .filter(|number| number.len() > 2 && number.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Fails unless each figure of `text` is one of a file's in `files`.
fn check(text: &str, files: &[String]) -> usize {
    let known: Vec<_> = files.iter().map(|file| figures(file)).collect();
    // Links and dates are no figures.
    let mut bare = String::new();
    for part in text.split("](") {
        bare += part.split_once(')').filter(|_| !bare.is_empty()).map_or(part, |(_, rest)| rest);
        bare.push(' ');
    }
    let of_text = figures(&bare);
    for figure in &of_text {
        let found = known.iter().any(|known| known.contains(figure));
        assert!(found, "{figure} is not in the named files:\n{text}");
    }
    of_text.len()
}

#[test]
fn each_table_is_in_its_file() {
    let readme = read("README.md");
    let (mut tables, mut count) = (0, 0);
    for part in readme.split(BEGIN).skip(1) {
        let (names, rest) = part.split_once(" -->").expect("the mark names files");
        let (table, _) = rest.split_once(END).expect("the table ends with a mark");
        let files: Vec<_> = names.split_whitespace().map(read).collect();
        count += check(table, &files);
        tables += 1;
    }
    assert!(tables >= 4 && count > 60, "{tables} tables, {count} figures");
}

/// A row about a crash test names its file itself.
#[test]
fn each_crash_test_is_in_its_file() {
    let readme = read("README.md");
    let rows = readme.lines().filter(|line| line.starts_with('|') && line.contains("crash-"));
    let mut count = 0;
    for row in rows.filter(|row| row.contains("](results/")) {
        let (_, link) = row.split_once("](").expect("a link");
        let (name, _) = link.split_once(')').expect("the link's end");
        let files = [read(name)];
        assert_eq!(check(row, &files), 3, "{row}");
        count += 1;
    }
    assert!(count >= 5, "{count} rows");
}

#[test]
#[should_panic(expected = "9,999 is not in the named files")]
fn a_wrong_figure_is_found() {
    check("| a | 9,999 | 1.25 |", &["| a | 9,998 | 1.25 |".to_owned()]);
}

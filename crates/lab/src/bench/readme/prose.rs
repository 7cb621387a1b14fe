//! Figures in README's sentences, which no run stands behind: each has a reason.

use crate::failure::{Failure, Outcome};

/// Units: a number with one of these is a figure.
const UNITS: [&str; 22] = [
    "ns", "us", "µs", "ms", "s", "second", "seconds", "minutes", "hours", "%", "percent", "times",
    "x", "B", "bytes", "KiB", "MiB", "GiB", "MB", "GB", "images", "lines",
];

/// Figures that are no measurements, and why they may stand there.
const ALLOWED: [(&str, &str); 4] = [
    ("116 lines", "the length of an example in this repository, which whoever changes it sees"),
    ("1.95", "the version of Rust in Cargo.toml"),
    ("81 MiB", "a new pool's size, which its format determines"),
    ("60 lines", "the length of an example in this repository"),
];

/// Fails if the text has a figure without a reason, or a reason without its figure.
pub(crate) fn check(text: &str) -> Outcome {
    let found = figures(text);
    let known = |figure: &&String| !ALLOWED.iter().any(|(allowed, _)| allowed == figure);
    if let Some(figure) = found.iter().find(known) {
        return Err(Failure::new(format!(
            "README's sentences have the figure '{figure}': move it into a table's marks, or say in prose.rs why it \
             needs no run"
        )));
    }
    let gone = ALLOWED.iter().find(|(allowed, _)| !found.iter().any(|figure| figure == allowed));
    match gone {
        Some((figure, _)) => {
            Err(Failure::new(format!("README has no '{figure}' any more, prose.rs has")))
        }
        None => Ok(()),
    }
}

/// Numbers with a unit, and numbers with a fraction or with groups of digits, in the text's sentences: code and the
/// targets of links are left out.
fn figures(text: &str) -> Vec<String> {
    let sentences = sentences(text);
    let words: Vec<&str> =
        sentences.split_whitespace().map(|word| word.trim_matches(OUTSIDE)).collect();
    let mut figures = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
        let (number, unit) = word.split_at(end.unwrap_or(word.len()));
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let next = words.get(index + 1).copied().unwrap_or_default();
        let version = number.matches('.').count() > 1;
        if unit.is_empty() && UNITS.contains(&next) {
            figures.push(format!("{number} {next}"));
        } else if UNITS.contains(&unit)
            || unit.is_empty() && !version && number.contains(['.', ','])
        {
            figures.push((*word).to_owned());
        }
    }
    figures
}

/// The characters around a word.
const OUTSIDE: [char; 11] = ['(', ')', '[', ']', '.', ',', ';', ':', '*', '"', '|'];

/// The text without blocks of code, quoted code and links' targets.
fn sentences(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") && !line.starts_with("<!--") {
            prose += line;
            prose.push('\n');
        }
    }
    let outside: Vec<&str> = prose.split('`').step_by(2).collect();
    let mut bare = String::new();
    for (index, part) in outside.join(" code ").split("](").enumerate() {
        let rest = part.split_once(')').filter(|_| index > 0).map_or(part, |(_, rest)| rest);
        bare += rest;
        bare.push(' ');
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_sentences() {
        let text = "It took 1.2 µs, 3.5x as long; see [5 ms](results/2026-11-24.txt), 7.0.15 and `9 ns`.\n\n    12 ns\n\n\
                    ```\n13 ns\n```\nOf 2,000 pages 12% were (40 bytes) free on 2 cores.";
        assert_eq!(
            figures(text),
            ["1.2 µs", "3.5x", "5 ms", "2,000", "12%", "40 bytes"].map(str::to_owned)
        );
    }

    #[test]
    fn a_figure_without_a_reason_is_found() {
        let Err(Failure::Message(why)) = check("It takes 17 ns.") else { panic!("not found") };
        assert!(why.contains("'17 ns'"), "{why}");
        let Err(Failure::Message(why)) = check("It takes a while.") else { panic!("not found") };
        assert!(why.contains("any more"), "{why}");
    }
}

//! Graphs in files: lists of edges as SNAP publishes them, and Matrix Market's coordinate format.
//!
//! - A list has two vertex numbers on each line, separated by blanks; lines that begin with `#` are comments.
//! - A Matrix Market file begins with `%%MatrixMarket matrix coordinate`, a kind of values (`pattern`, `real` or
//!   `integer`; they are left out) and `general` or `symmetric`, where each entry stands for both directions. Comments
//!   begin with `%`. Entry `i j` is an edge from `i` to `j`.
//!
//! Vertices get new numbers without gaps, in the order of their own; so a vertex without edges is not there. Edges that
//! begin where they end are left out. Memory grows with the bytes read, never with sizes that a file announces.

use super::edges::{Edge, Edges, MOST_EDGES, MOST_VERTICES};
use std::io::{self, BufRead, Read};

/// The maximum length of a line.
const LONGEST_LINE: u64 = 4096;

/// Why a file is no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A line is not in the format.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong, and what should be there.
        what: String,
    },
    /// The file as a whole is not.
    #[error("{0}")]
    Whole(String),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

type Result<T> = std::result::Result<T, FileError>;

/// What a Matrix Market file says about its entries.
#[derive(Clone, Copy, Debug)]
struct Header {
    has_values: bool,
    is_symmetric: bool,
    /// Rows, which are as many as columns.
    rows: u64,
    entries: u64,
}

/// Reads lines, and counts them.
struct Lines<R> {
    from: R,
    line: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn wrong(&self, what: impl Into<String>) -> FileError {
        FileError::Line { line: self.line, what: what.into() }
    }

    /// The next line without blanks around it, or `None` at the end.
    fn next(&mut self) -> Result<Option<&str>> {
        self.bytes.clear();
        self.line += 1;
        let read = (&mut self.from).take(LONGEST_LINE).read_until(b'\n', &mut self.bytes)?;
        if read as u64 == LONGEST_LINE && self.bytes.last() != Some(&b'\n') {
            let what = format!("longer than {LONGEST_LINE} bytes: a line has two vertex numbers");
            return Err(self.wrong(what));
        }
        if read == 0 {
            return Ok(None);
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(FileError::Line {
                line: self.line,
                what: "no text: a graph is a text file, unpacked, of two vertex numbers a line"
                    .to_owned(),
            }),
        }
    }

    /// The next line that is neither empty nor a comment, in fields.
    fn fields(&mut self, comment: char) -> Result<Option<Fields>> {
        loop {
            match self.next()? {
                None => return Ok(None),
                Some(text) if text.is_empty() || text.starts_with(comment) => {}
                Some(text) => {
                    let fields = Fields::of(text);
                    return fields.map(Some).map_err(|what| self.wrong(what));
                }
            }
        }
    }
}

/// The two numbers at the start of a line, and the word after them.
struct Fields {
    first: u64,
    second: u64,
    third: Option<String>,
    has_more: bool,
}

impl Fields {
    fn of(text: &str) -> std::result::Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let mut number = || match words.next() {
            None => Err("one number is missing: write two, separated by a blank".to_owned()),
            Some(word) => word.parse().map_err(|_| {
                let word: String = word.chars().take(40).collect();
                format!(
                    "'{word}' is not a number of a vertex: write whole numbers, at most {}",
                    u64::MAX
                )
            }),
        };
        let (first, second) = (number()?, number()?);
        let third = words.next().map(str::to_owned);
        Ok(Fields { first, second, third, has_more: words.next().is_some() })
    }
}

/// Reads a graph in either format.
///
/// # Errors
/// Where the file is not in the format, or has no edge or too many.
pub fn read(from: impl BufRead) -> Result<Edges> {
    let mut lines = Lines { from, line: 0, bytes: Vec::new() };
    // A list without a first line is an empty file, and refused below.
    let first = lines.next()?.unwrap_or_default().to_owned();
    let pairs = if first.to_ascii_lowercase().starts_with("%%matrixmarket") {
        market(&mut lines, &first)?
    } else {
        list(&mut lines, &first)?
    };
    numbered(pairs)
}

fn list<R: BufRead>(lines: &mut Lines<R>, first: &str) -> Result<Vec<(u64, u64)>> {
    let mut pairs = Vec::new();
    let mut fields = match first {
        text if text.is_empty() || text.starts_with('#') => lines.fields('#')?,
        text => Some(Fields::of(text).map_err(|what| lines.wrong(what))?),
    };
    while let Some(Fields { first, second, third, .. }) = fields {
        if third.is_some() {
            return Err(lines.wrong("more than two numbers: write the edge's ends only"));
        }
        add(&mut pairs, (first, second), false);
        fields = lines.fields('#')?;
    }
    Ok(pairs)
}

/// Adds an edge, and the one back.
fn add(pairs: &mut Vec<(u64, u64)>, (source, target): (u64, u64), both_ways: bool) {
    if source != target {
        pairs.push((source, target));
        if both_ways {
            pairs.push((target, source));
        }
    }
}

fn market<R: BufRead>(lines: &mut Lines<R>, first: &str) -> Result<Vec<(u64, u64)>> {
    let header = header(lines, first)?;
    let mut pairs = Vec::new();
    for entry in 0..header.entries {
        let Some(fields) = lines.fields('%')? else {
            let what =
                format!("the file ends after {entry} of {} entries: get all of it", header.entries);
            return Err(lines.wrong(what));
        };
        let range = 1..=header.rows;
        if !range.contains(&fields.first) || !range.contains(&fields.second) {
            let what =
                format!("row and column are 1 to {}, as the matrix has no more", header.rows);
            return Err(lines.wrong(what));
        }
        let is_value = |word: &String| word.parse::<f64>().is_ok();
        match (&fields.third, header.has_values) {
            (None, false) => {}
            (Some(value), true) if is_value(value) && !fields.has_more => {}
            (_, false) => return Err(lines.wrong("a pattern has a row and a column, and no more")),
            (_, true) => return Err(lines.wrong("an entry has a row, a column and a number")),
        }
        add(&mut pairs, (fields.first, fields.second), header.is_symmetric);
    }
    match lines.fields('%')? {
        None => Ok(pairs),
        Some(_) => {
            Err(lines.wrong(format!("more entries than {}: correct their number", header.entries)))
        }
    }
}

fn header<R: BufRead>(lines: &mut Lines<R>, first: &str) -> Result<Header> {
    let lower = first.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_ascii_whitespace().collect();
    let (has_values, is_symmetric) = match words[..] {
        ["%%matrixmarket", "matrix", "coordinate", values, symmetry] => {
            let has_values = match values {
                "pattern" => Some(false),
                "real" | "integer" => Some(true),
                _ => None,
            };
            let is_symmetric = match symmetry {
                "general" => Some(false),
                "symmetric" => Some(true),
                _ => None,
            };
            has_values.zip(is_symmetric)
        }
        _ => None,
    }
    .ok_or_else(|| {
        lines.wrong(
            "only matrices in the format 'coordinate', of 'pattern', 'real' or 'integer', 'general' or \
             'symmetric' are graphs: convert it",
        )
    })?;
    let sizes = lines.fields('%')?;
    let missing = "rows, columns and entries are missing: three numbers";
    let Fields { first: rows, second: columns, third, has_more } =
        sizes.ok_or_else(|| lines.wrong(missing))?;
    let entries = third.filter(|_| !has_more).and_then(|word| word.parse().ok());
    let entries = entries.ok_or_else(|| lines.wrong(missing))?;
    if rows != columns {
        let what = format!("{rows} rows and {columns} columns: a graph has as many of both");
        return Err(lines.wrong(what));
    }
    Ok(Header { has_values, is_symmetric, rows, entries })
}

/// Gives vertices new numbers, without gaps.
fn numbered(pairs: Vec<(u64, u64)>) -> Result<Edges> {
    let mut known: Vec<u64> =
        pairs.iter().flat_map(|(source, target)| [*source, *target]).collect();
    known.sort_unstable();
    known.dedup();
    if pairs.is_empty() {
        return Err(FileError::Whole(
            "it has no edge between two vertices: choose another graph".to_owned(),
        ));
    }
    if pairs.len() as u64 > MOST_EDGES || known.len() as u64 > MOST_VERTICES {
        let what = format!(
            "it has more than {MOST_EDGES} edges or {MOST_VERTICES} vertices: choose a smaller graph"
        );
        return Err(FileError::Whole(what));
    }
    let number = |vertex: u64| known.partition_point(|own| *own < vertex) as u32;
    let edge = |(source, target): (u64, u64)| -> Edge { (number(source), number(target)) };
    Ok(Edges { vertices: known.len() as u32, edges: pairs.into_iter().map(edge).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(text: &str) -> Vec<Edge> {
        read(text.as_bytes()).expect("a graph").edges
    }

    #[test]
    fn lists_of_edges() {
        let text = "# Directed graph: web\n#  FromNodeId\tToNodeId\n 4000000000000\t7\n7 7\n\n9 4000000000000\r\n7   9";
        assert_eq!(edges(text), [(2, 0), (1, 2), (0, 1)]);
        assert_eq!(read(text.as_bytes()).expect("a graph").vertices, 3);
        assert_eq!(edges("1 2\n2 1\n1 2"), [(0, 1), (1, 0), (0, 1)], "parallel edges are kept");
    }

    #[test]
    fn matrix_market() {
        let header = "%%MatrixMarket matrix coordinate pattern general\n% a comment\n";
        assert_eq!(edges(&format!("{header}4 4 3\n1 2\n3 3\n%\n4 1\n")), [(0, 1), (2, 0)]);
        let header = "%%matrixmarket MATRIX coordinate real symmetric\n";
        assert_eq!(
            edges(&format!("{header}3 3 2\n2 1 -1.5e3\n3 2 nan")),
            [(1, 0), (0, 1), (2, 1), (1, 2)]
        );
    }

    /// Each is refused, with its line and with what to do.
    #[test]
    fn refuses_garbage() {
        let pattern = "%%MatrixMarket matrix coordinate pattern general\n";
        let market = |rest: &str| format!("{pattern}{rest}");
        for (text, line, what) in [
            ("1 2\n3\n".to_owned(), 2, "one number is missing"),
            ("1 2\n\n#\nx 3".to_owned(), 4, "'x' is not a number"),
            ("1 -2".to_owned(), 1, "'-2' is not a number"),
            ("1 2 3".to_owned(), 1, "more than two numbers"),
            (format!("1 2\n{}", "9".repeat(5000)), 2, "longer than 4096 bytes"),
            ("1 18446744073709551616".to_owned(), 1, "whole numbers, at most"),
            (market("3 3 2\n1 2\n"), 4, "ends after 1 of 2"),
            (market("3 3 1\n1 2\n2 3\n"), 4, "more entries than 1"),
            (market("3 3 1\n0 2\n"), 3, "1 to 3"),
            (market("3 3 1\n1 4\n"), 3, "1 to 3"),
            (market("3 3 1\n1 2 5\n"), 3, "and no more"),
            (market("3 4 1\n1 2\n"), 2, "as many of both"),
            (market("3 3\n"), 2, "three numbers"),
            (market(""), 2, "three numbers"),
            (market("9 9 99999999999999\n1 2\n"), 4, "ends after 1 of"),
            ("%%MatrixMarket matrix array real general\n".to_owned(), 1, "convert it"),
            ("%%MatrixMarket matrix coordinate complex general\n".to_owned(), 1, "convert it"),
            ("%%MatrixMarket matrix coordinate real hermitian\n".to_owned(), 1, "convert it"),
            (
                "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2\n".to_owned(),
                3,
                "and a number",
            ),
            (
                "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 x\n".to_owned(),
                3,
                "and a number",
            ),
        ] {
            let error = read(text.as_bytes()).expect_err(&text).to_string();
            assert!(
                error.starts_with(&format!("line {line}: ")) && error.contains(what),
                "{error}"
            );
        }
        assert!(
            read(&[0x1F, 0x8B, 8, 0xFF][..])
                .is_err_and(|error| error.to_string().contains("unpacked"))
        );
        for text in ["", "#\n", "5 5\n"] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains("no edge between two vertices"), "{error}");
        }
    }
}

//! README's marks: `<!-- figures: TABLE FILE -->`, the rendering, `<!-- end -->`.
//!
//! FILE is relative to README's folder. A table that was never measured has `-` in its place.

use super::render::NOT_MEASURED;
use super::results::{Results, TableResults};
use super::spec::Spec;
use super::tables::{self, PROGRAM, TABLES};
use crate::failure::{Failure, Outcome};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- figures: ";
const CLOSE: &str = " -->\n";
const END: &str = "\n<!-- end -->";
/// In place of a file.
const NONE: &str = "-";

/// A file with marks.
pub(crate) struct Readme {
    path: PathBuf,
    text: String,
    marks: Vec<Mark>,
}

/// The result of a check that found no fault.
#[derive(Default)]
pub(crate) struct Checked {
    /// The files that tables are from.
    pub(crate) files: BTreeSet<String>,
    /// Tables that were never measured.
    pub(crate) unmeasured: Vec<&'static str>,
    /// Tables with figures of older runs.
    pub(crate) copied: Vec<&'static str>,
}

/// A table in it.
struct Mark {
    spec: &'static Spec,
    file: Option<String>,
    /// The text of the first mark.
    head: Range<usize>,
    /// The rendering.
    body: Range<usize>,
}

impl Readme {
    /// Reads it.
    ///
    /// # Errors
    /// If it cannot be read, or its marks are not those of the tables, each once.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
        let marks = marks(&text).map_err(|why| Failure::at(path, why))?;
        for spec in &TABLES {
            match marks.iter().filter(|mark| mark.spec.name == spec.name).count() {
                1 => {}
                count => {
                    let why = format!("{count} marks of the table '{}', not one", spec.name);
                    return Err(Failure::at(path, why));
                }
            }
        }
        Ok(Readme { path: path.to_owned(), text, marks })
    }

    /// The text outside of the marks.
    pub(crate) fn prose(&self) -> String {
        let mut prose = String::new();
        let mut from = 0;
        for mark in &self.marks {
            prose += &self.text[from..mark.head.start];
            from = mark.body.end;
        }
        prose + &self.text[from..]
    }

    /// Renders all tables again, those that `new` has from it, which lies at `path`. Returns the names of the changed
    /// ones.
    pub(crate) fn update(&self, new: Option<(&Path, &Results)>) -> Outcome<Vec<&'static str>> {
        let (mut text, mut from, mut changed) = (String::new(), 0, Vec::new());
        for mark in &self.marks {
            let is_new = |(_, results): &(&Path, &Results)| results.table(mark.spec.name).is_some();
            let file = match new.filter(is_new) {
                Some((path, _)) => Some(self.link(path)?),
                None => mark.file.clone(),
            };
            let body = self.rendering(mark.spec, file.as_deref())?;
            text += &self.text[from..mark.head.start];
            text += &format!("{} {}{CLOSE}{body}", mark.spec.name, file.as_deref().unwrap_or(NONE));
            from = mark.body.end;
            if file != mark.file || body != self.text[mark.body.clone()] {
                changed.push(mark.spec.name);
            }
        }
        text += &self.text[from..];
        fs::write(&self.path, text).map_err(|error| Failure::io(&self.path, &error))?;
        Ok(changed)
    }

    /// Compares each table with its file.
    ///
    /// # Errors
    /// If a table has another figure than its file, or the file's figures mean nothing.
    pub(crate) fn check(&self) -> Outcome<Checked> {
        let mut checked = Checked::default();
        for mark in &self.marks {
            let name = mark.spec.name;
            let wrong = |why: &str| Failure::at(&self.path, format!("table '{name}': {why}"));
            let Some(file) = &mark.file else {
                checked.unmeasured.push(name);
                if self.text[mark.body.clone()] != self.rendering(mark.spec, None)? {
                    return Err(wrong("it has figures, and names no file that they are from"));
                }
                continue;
            };
            let results = self.results(file)?;
            if let Some(why) = results.meaningless() {
                return Err(wrong(&format!("{file} has figures that mean nothing: {why}")));
            }
            let (is, should) =
                (&self.text[mark.body.clone()], self.rendering(mark.spec, Some(file))?);
            if *is != should {
                let lines = is.lines().chain(std::iter::repeat("")).zip(should.lines());
                let (is, should) =
                    lines.into_iter().find(|(is, should)| is != should).unwrap_or(("more", ""));
                return Err(wrong(&format!("it says '{is}', where {file} gives '{should}'")));
            }
            if results.table(name).is_some_and(|table| !copies(table).is_empty()) {
                checked.copied.push(name);
            }
            checked.files.insert(file.clone());
        }
        Ok(checked)
    }

    /// Path of a results file, from README's folder.
    fn link(&self, file: &Path) -> Outcome<String> {
        let absolute =
            |path: &Path| fs::canonicalize(path).map_err(|error| Failure::io(path, &error));
        let (file, own) = (absolute(file)?, absolute(&self.path)?);
        let within = own.parent().and_then(|folder| file.strip_prefix(folder).ok());
        let link = within.and_then(Path::to_str).filter(|link| !link.contains(char::is_whitespace));
        link.map(str::to_owned).ok_or_else(|| {
            Failure::at(
                &file,
                "README cannot name this file: it must be in README's folder, or a folder of that, without spaces",
            )
        })
    }

    fn results(&self, file: &str) -> Outcome<Results> {
        Results::read(&self.path.parent().unwrap_or(Path::new("")).join(file))
    }

    /// The text between the marks of a table.
    fn rendering(&self, spec: &Spec, file: Option<&str>) -> Outcome<String> {
        let again = format!("`{PROGRAM} bench readme --only {}`", spec.name);
        let Some(file) = file else {
            return Ok(format!("{again}: {NOT_MEASURED} yet."));
        };
        let results = self.results(file)?;
        let table = results.table(spec.name);
        let table = table.ok_or_else(|| {
            Failure::at(
                Path::new(file),
                format!("no table '{}': measure it with {again}", spec.name),
            )
        })?;
        let caption = match copies(table).as_slice() {
            [] => format!("{again}, {}: [results]({file})", circumstances(&results)),
            copies => format!(
                "[Figures]({file}) of older runs: {}; {again} has new ones",
                copies.join(", ")
            ),
        };
        Ok(format!("{}\n\n{caption}.", (spec.render)(table)?))
    }
}

/// When and where they were measured.
fn circumstances(results: &Results) -> String {
    let Results { machine, seed, .. } = results;
    let date = machine.date.split('T').next().unwrap_or_default();
    format!("{date}, {}, {} cores, seed {seed}", machine.processor, machine.cores)
}

/// Links to the older files that a table's figures were copied from, each once.
fn copies(table: &TableResults) -> Vec<String> {
    let mut links = Vec::new();
    for file in table.runs.iter().filter_map(|run| run.copied_from.as_ref()) {
        let name = Path::new(file).file_stem().and_then(OsStr::to_str).unwrap_or(file);
        let link = format!("[{name}]({file})");
        if !links.contains(&link) {
            links.push(link);
        }
    }
    links
}

fn marks(text: &str) -> Result<Vec<Mark>, String> {
    let mut marks = Vec::new();
    let mut from = 0;
    while let Some(begin) = text[from..].find(BEGIN) {
        let head = from + begin + BEGIN.len();
        let close = head + text[head..].find(CLOSE).ok_or("a mark has no end of its line")?;
        let words: Vec<&str> = text[head..close].split_whitespace().collect();
        let [name, file] = words[..] else {
            return Err(format!("a mark says '{}', not a table and a file", &text[head..close]));
        };
        let spec = tables::named(name)
            .map_err(|_| format!("a mark names the table '{name}', which there is not"))?;
        let start = close + CLOSE.len();
        let end =
            start + text[start..].find(END).ok_or(format!("table '{name}' has no end mark"))?;
        if text[start..end].contains(BEGIN) {
            return Err(format!("table '{name}' has no end mark before the next one begins"));
        }
        let file = (file != NONE).then(|| file.to_owned());
        marks.push(Mark { spec, file, head: head..close, body: start..end });
        from = end;
    }
    Ok(marks)
}

//! The file that README's tables are made of.

use crate::bench::spread::Spread;
use crate::failure::{Failure, Outcome};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// All tables that one command has measured, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// The seed of every child's random choices.
    pub(crate) seed: u64,
    /// Whether everything was made small: the figures then mean nothing.
    pub(crate) quick: bool,
    pub(crate) seconds: f64,
    pub(crate) tables: Vec<TableResults>,
}

/// The runs behind one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableResults {
    pub(crate) table: String,
    pub(crate) runs: Vec<Run>,
}

/// One child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Its meaning in the table, such as the place of the pools.
    pub(crate) name: String,
    /// Its arguments; DISK and OUT stand for folders.
    pub(crate) command: String,
    pub(crate) seconds: f64,
    /// Why there are no rows, if something that it needs is not on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_measured: Option<String>,
    /// The older file in which the rows were found, if this command did not measure them: that file has their date and
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copied_from: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// Figures of one program or engine for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Work, load or structure.
    pub(crate) what: String,
    /// Program, engine or mechanism.
    pub(crate) who: String,
    pub(crate) figures: BTreeMap<String, Figure>,
}

/// A count, or the spread of several repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    Number(f64),
    Spread(Spread),
}

impl Figure {
    /// The number, or the median.
    pub(crate) fn value(self) -> f64 {
        match self {
            Figure::Number(number) => number,
            Figure::Spread(spread) => spread.median,
        }
    }
}

impl Row {
    /// The figure with this name.
    pub(crate) fn figure(&self, name: &str) -> Outcome<Figure> {
        let figure = self.figures.get(name).copied();
        figure.ok_or_else(|| Failure::new(format!("{}, {}: no '{name}'", self.what, self.who)))
    }
}

impl Results {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::at(path, format!("{error}; this is no file of `bench readme`: name another"))
        })
    }

    /// Writes a new file: an older one is not replaced.
    pub(crate) fn write(&self, path: &Path) -> Outcome {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Failure::new(error.to_string()))? + "\n";
        let file = fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
        file.map_err(|error| Failure::io(path, &error))
    }

    /// The runs of a table, if it was measured.
    pub(crate) fn table(&self, name: &str) -> Option<&TableResults> {
        self.tables.iter().find(|table| table.table == name)
    }

    /// Why the figures say nothing about this program, if they don't.
    pub(crate) fn meaningless(&self) -> Option<&'static str> {
        match self.machine.is_release() {
            false => Some("they are of a debug build"),
            true if self.quick => Some("they are of a quick run"),
            true => None,
        }
    }
}

//! Figures as comma-separated values, a line for each row of a report.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// Prints a line for each element of the report's array `path[0]`, or of the arrays `path[1]` in these, and so on;
/// anything but an array is one element. Its columns are all that the report says of it and of the elements around it,
/// named by their path: `counters.fences`.
pub(crate) fn print(report: &impl Serialize, path: &[&str]) -> Outcome {
    let report = serde_json::to_value(report).map_err(|error| Failure::new(error.to_string()))?;
    let text = text(&report, path).map_err(|error| Failure::new(error.to_string()))?;
    let mut out = std::io::stdout().lock();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

fn text(report: &Value, path: &[&str]) -> Result<Vec<u8>, csv::Error> {
    let mut rows = Vec::new();
    gather(report, path, &[], &mut rows);
    // In the order in which they are met first.
    let mut columns = BTreeMap::new();
    for (name, _) in rows.iter().flatten() {
        let next = columns.len();
        columns.entry(name.as_str()).or_insert(next);
    }
    let mut header = vec![""; columns.len()];
    columns.iter().for_each(|(name, index)| header[*index] = name);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header)?;
    for row in &rows {
        let mut fields = vec![""; header.len()];
        row.iter().for_each(|(name, value)| fields[columns[name.as_str()]] = value);
        writer.write_record(&fields)?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

type Row = Vec<(String, String)>;

/// The rows of the elements of `value`, each of them after the columns of `outer`.
fn gather(value: &Value, path: &[&str], outer: &[(String, String)], rows: &mut Vec<Row>) {
    let mut row = outer.to_vec();
    flatten("", value, path.first().copied(), &mut row);
    match path {
        [] => rows.push(row),
        [inner, rest @ ..] => {
            let part = &value[inner];
            let each = part.as_array().map_or(std::slice::from_ref(part), Vec::as_slice);
            each.iter().for_each(|value| gather(value, rest, &row, rows));
        }
    }
}

/// All numbers and texts in `value`, but those in its part `without`.
fn flatten(name: &str, value: &Value, without: Option<&str>, row: &mut Row) {
    let inner =
        |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Object(parts) => {
            let parts = parts.iter().filter(|(part, _)| Some(part.as_str()) != without);
            parts.for_each(|(part, value)| flatten(&inner(part), value, None, row));
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered
                .for_each(|(index, value)| flatten(&inner(&index.to_string()), value, None, row));
        }
        Value::Null => {}
        Value::String(text) => row.push((name.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => row.push((name.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_has_what_it_is_in() {
        let report = json!({
            "seed": 7,
            "engines": [
                { "engine": "redo, quick", "runs": [{ "ns": 1.5, "lines": [3, 4] }, { "ns": 2 }] },
                { "engine": "undo", "runs": [{ "ns": 3, "counts": { "fences": 1 } }] },
            ],
        });
        let text =
            String::from_utf8(text(&report, &["engines", "runs"]).expect("rows")).expect("text");
        let rows = [
            "seed,engine,lines.0,lines.1,ns,counts.fences",
            "7,\"redo, quick\",3,4,1.5,",
            "7,\"redo, quick\",,,2,",
            "7,undo,,,3,1",
        ];
        assert_eq!(text.trim_end().lines().collect::<Vec<_>>(), rows);
    }
}

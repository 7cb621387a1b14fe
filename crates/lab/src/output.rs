//! Commands' output: tables for people, JSON for programs.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
pub(crate) use perdura_cli::output::{print, print_json};

/// A table in Markdown, so that it can be pasted; all columns but the first are numbers.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    table_of(header.map(str::to_owned).into(), rows.into_iter().map(Vec::from))
}

/// The same where the columns are only known when it runs.
pub(crate) fn table_of(header: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    // Where people look at it, it fits; elsewhere it can be pasted.
    if let Some((terminal_size::Width(width), _)) =
        terminal_size::terminal_size_of(std::io::stdout())
    {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Columns of text that nobody's terminal is expected to exceed.
const NARROW: u16 = 100;

/// A table of texts, wrapped so that it fits a terminal, and 100 columns elsewhere.
pub(crate) fn narrow<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header).add_rows(rows);
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    let width = terminal.map_or(NARROW, |(terminal_size::Width(width), _)| width);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

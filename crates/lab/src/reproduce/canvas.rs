//! The tools to draw bars and curves: a picture's areas, text and colours.

use super::chart::{PAPERS, Panel};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) const FONT: &str = "sans-serif";
/// Approximate width of a character, as a share of its font's size.
pub(super) const WIDE: f64 = 0.56;

/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(150, 140, 20),
    RGBColor(90, 70, 160),
];
const PAPER: RGBColor = RGBColor(110, 110, 110);

/// A part of the picture, in pixels.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The part of a panel within its axes, in groups and values.
pub(super) type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Writes a line whose left end, middle or right end (`side`) is at `at`, below it.
pub(super) fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, side: HPos) -> Drawn {
    let style = TextStyle::from((FONT, size).into_font()).pos(Pos::new(side, VPos::Top));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// The colour of a series; the paper's curve has that of ours.
pub(super) fn colour(panel: &Panel, series: usize) -> RGBColor {
    let own = panel.series[series].strip_suffix(PAPERS);
    let series = panel.series.iter().position(|name| Some(&**name) == own).unwrap_or(series);
    match (panel.paper, series) {
        (true, 0) => PAPER,
        (true, series) => COLOURS[(series - 1) % COLOURS.len()],
        (false, series) => COLOURS[series % COLOURS.len()],
    }
}

//! The picture of an experiment, as an SVG: its title, its panels below each other, each with bars or curves, and a
//! caption. Lengths are in pixels. Making it needs no fonts, only viewing it does.

use super::canvas::{Area, Chart, Drawn, FONT, WIDE, colour, write};
use super::chart::{Bar, Panel};
use super::curve;
use crate::failure::{Failure, Outcome};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Width of the picture.
const WIDTH: u32 = 1100;
/// Height of a panel.
const PANEL: u32 = 400;
/// Room in a panel above the bars, for its title and legend.
const TOP: u32 = 70;
/// Room left of the bars, for the axis of the values; `MARGIN` of it is empty.
const LEFT: u32 = 80;
const MARGIN: u32 = 16;
const RIGHT: u32 = 24;
/// Room below the bars, for the names of the groups and of their axis.
const BELOW: u32 = 84;
/// Room for a series' sample in the legend, before its name.
const KEY: i32 = 32;
/// As `WIDE`, for sentences, which have more narrow letters than names.
const WIDE_IN_PROSE: f64 = 0.48;
/// Font sizes of the title, and of the text below the panels.
const TITLE: u32 = 17;
const CAPTION: u32 = 11;

/// The whole picture, as the text of an SVG file.
pub(crate) fn svg(title: &[String], panels: &[Panel], caption: &[String]) -> Outcome<String> {
    let mut text = String::new();
    let (title, caption) = (wrapped(title, TITLE), wrapped(caption, CAPTION));
    let above = height(&title, TITLE);
    let all = PANEL * panels.len().max(1) as u32;
    let drawn = (|| {
        let size = (WIDTH, above + all + height(&caption, CAPTION));
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (top, below) = root.split_vertically(above);
        write_lines(&top, &title, TITLE)?;
        let (middle, bottom) = below.split_vertically(all);
        write_lines(&bottom, &caption, CAPTION)?;
        let areas = middle.split_evenly((panels.len().max(1), 1));
        areas.iter().zip(panels).try_for_each(|(area, panel)| draw_panel(area, panel))?;
        root.present()
    })();
    drawn.map_err(|error| Failure::new(format!("the plot cannot be drawn: {error}")))?;
    Ok(text)
}

/// Breaks text of a font's size into lines not wider than the picture.
fn wrapped(text: &[String], size: u32) -> Vec<String> {
    let fits = (f64::from(WIDTH - 2 * MARGIN) / (f64::from(size) * WIDE_IN_PROSE)) as usize;
    text.iter().flat_map(|line| lines(line, fits)).collect()
}

/// Height of the lines that `write_lines` writes, with the margin above and below them.
fn height(lines: &[String], size: u32) -> u32 {
    MARGIN + lines.len() as u32 * (size + 5)
}

fn write_lines(area: &Area<'_>, lines: &[String], size: u32) -> Drawn {
    (0..).zip(lines).try_for_each(|(row, line)| {
        let at = (MARGIN as i32, (MARGIN / 2) as i32 + row * (size as i32 + 5));
        write(area, line, at, size, HPos::Left)
    })
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Drawn {
    write(area, &panel.title, (LEFT as i32, 8), 16, HPos::Left)?;
    draw_legend(area, panel)?;
    let (low, high) = range(panel);
    let mut chart = ChartBuilder::on(area)
        .margin_top(TOP)
        .margin_left(MARGIN)
        .margin_right(RIGHT)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT - MARGIN)
        .build_cartesian_2d(0.0..panel.groups.len().max(1) as f64, low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_desc(panel.y.as_str())
        .y_labels(8)
        .y_label_formatter(&|value| axis_label(*value))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .bold_line_style(RGBColor(215, 215, 215))
        .light_line_style(TRANSPARENT)
        .draw()?;
    if panel.steps.is_empty() {
        panel.bars.iter().try_for_each(|bar| draw_bar(area, &mut chart, panel, bar))?;
    } else {
        curve::draw(area, &mut chart, panel)?;
    }
    let zero = [(0.0, 0.0), (panel.groups.len() as f64, 0.0)];
    chart.draw_series([PathElement::new(zero, BLACK)])?;
    write_groups(area, &chart, panel, low)
}

/// How far whiskers may extend the axis beyond the longest bar, as a share of that bar: one run that was held up must
/// not make all bars too short.
const REACH: f64 = 0.6;

/// The least and the greatest value on a panel's axis: zero, all bars and their labels lie between them.
fn range(panel: &Panel) -> (f64, f64) {
    let (mut low, mut high, mut longest) = (0f64, 0f64, 0f64);
    for Bar { spread, .. } in &panel.bars {
        longest = longest.max(spread.median.abs());
        low = low.min(spread.least);
        high = high.max(spread.most);
    }
    let medians = || panel.bars.iter().map(|bar| bar.spread.median);
    low = low.max(medians().fold(0.0, f64::min) - longest * REACH);
    high = high.min(medians().fold(0.0, f64::max) + longest * REACH);
    let room = ((high - low) * 0.12).max(1e-9);
    (if low < 0.0 { low - room } else { 0.0 }, if high > 0.0 { high + room } else { room })
}

fn axis_label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 10.0 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Draws each series' name after a sample of its bars or of its curve, in a row under the title.
fn draw_legend(area: &Area<'_>, panel: &Panel) -> Drawn {
    let mut x = LEFT as i32;
    for (series, name) in panel.series.iter().enumerate() {
        if panel.steps.is_empty() {
            let square = [(x, 38), (x + 12, 50)];
            area.draw(&Rectangle::new(square, colour(panel, series).filled()))?;
        } else {
            curve::draw_sample(area, panel, series, (x, 44))?;
        }
        write(area, name, (x + KEY, 36), 14, HPos::Left)?;
        x += KEY + (name.len() as f64 * 14.0 * WIDE) as i32 + 24;
    }
    Ok(())
}

/// Draws a bar, a whisker from its least to its greatest value, and its label at its end.
fn draw_bar(area: &Area<'_>, chart: &mut Chart<'_, '_>, panel: &Panel, bar: &Bar) -> Drawn {
    let wide = 0.8 / panel.series.len() as f64;
    let left = bar.group as f64 + 0.1 + bar.series as f64 * wide;
    let (right, middle) = (left + wide * 0.92, left + wide * 0.46);
    let value = bar.spread.median;
    let style = colour(panel, bar.series).filled();
    chart.draw_series([Rectangle::new([(left, 0.0), (right, value)], style)])?;
    if bar.spread.most > bar.spread.least {
        let (low, high) = range(panel);
        let end = |value: f64| (middle, value.clamp(low, high));
        let whisker = [end(bar.spread.least), end(bar.spread.most)];
        chart.draw_series([PathElement::new(whisker, BLACK)])?;
    }
    let Some(label) = &bar.label else { return Ok(()) };
    let pixels = f64::from(WIDTH - LEFT - RIGHT) / panel.groups.len() as f64 * wide;
    let size = (pixels / (label.len() as f64 * WIDE)).clamp(8.0, 13.0);
    let (base, at) = (area.get_base_pixel(), chart.backend_coord(&(middle, value)));
    let above = if value < 0.0 { -4 } else { size as i32 + 3 };
    write(area, label, (at.0 - base.0, at.1 - base.1 - above), size as u32, HPos::Center)
}

/// Writes the groups' names below the bars, broken into lines that fit, and the axis's name below them.
fn write_groups(area: &Area<'_>, chart: &Chart<'_, '_>, panel: &Panel, low: f64) -> Drawn {
    let base = area.get_base_pixel();
    let pixels = f64::from(WIDTH - LEFT - RIGHT) / panel.groups.len().max(1) as f64;
    // If there are many groups, long names have smaller letters, so that no line is wider than its group.
    let word = |name: &String| name.split(' ').map(str::len).max().unwrap_or(1);
    let longest = panel.groups.iter().map(word).max().unwrap_or(1);
    let size = (pixels * 0.94 / (longest as f64 * WIDE)).clamp(8.0, 13.0);
    let fits = (pixels * 0.96 / (size * WIDE)) as usize;
    let (mut bottom, step) = (0, (size + 2.0) as i32);
    for (group, name) in panel.groups.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(panel.middle(group), low));
        for (line, text) in lines(name, fits).iter().enumerate() {
            let at = (x - base.0, y - base.1 + 6 + line as i32 * step);
            write(area, text, at, size as u32, HPos::Center)?;
            bottom = bottom.max(at.1 + step);
        }
    }
    write(area, &panel.x, (((WIDTH + LEFT - RIGHT) / 2) as i32, bottom + 4), 14, HPos::Center)
}

/// Breaks `name` between words into lines of at most `fits` characters, where words allow.
fn lines(name: &str, fits: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= fits => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;

    fn bar(group: usize, series: usize, value: f64) -> Bar {
        let spread = Spread { median: value, least: value * 0.9, most: value * 1.1 };
        Bar { group, series, spread, label: Some(format!("{value:+.1} %")) }
    }

    #[test]
    fn everything_is_named_in_the_picture() {
        let panel = Panel {
            title: "Above & below".to_owned(),
            y: "percent".to_owned(),
            x: "workload".to_owned(),
            groups: vec!["first one".to_owned(), "second".to_owned()],
            series: vec!["paper".to_owned(), "ours".to_owned()],
            bars: vec![bar(0, 0, 22.0), bar(0, 1, -7.0), bar(1, 1, 0.0)],
            paper: true,
            steps: vec![],
        };
        let title = ["A title".to_owned(), "long ".repeat(60)];
        let text = svg(&title, &[panel.clone(), panel], &["seed 7".to_owned()]);
        let text = text.expect("a picture");
        for part in
            ["A title", "seed 7", "Above &amp; below", "percent", "second", "ours", "+22.0 %"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.trim_end().ends_with("</svg>"));
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn an_outlier_does_not_set_the_scale() {
        let mut panel = Panel { bars: vec![bar(0, 0, 10.0)], ..Panel::default() };
        panel.bars[0].spread.most = 4_000.0;
        let (low, high) = range(&panel);
        assert!(low == 0.0 && (16.0..20.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn nothing_is_no_fault() {
        assert!(svg(&[], &[], &[]).expect("a picture").contains("<svg"));
    }

    #[test]
    fn names_are_broken_between_words() {
        assert_eq!(lines("mean gain over undo", 10), ["mean gain", "over undo"]);
        assert_eq!(lines("word", 2), ["word"]);
    }
}

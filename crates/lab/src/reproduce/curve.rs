//! Draws a panel's curves: ours solid, the paper's dashed with hollow points, in the colour of ours.

use super::canvas::{Area, Chart, Drawn, WIDE, colour, write};
use super::chart::{Bar, PAPERS, Panel};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Half of a point's width, in pixels.
const POINT: i32 = 4;
/// Height of the letters at the points.
const LETTERS: i32 = 12;
/// Candidate places for a label: how far its upper edge is below its point.
const PLACES: [i32; 4] =
    [-LETTERS - POINT - 4, POINT + 3, -2 * LETTERS - POINT - 6, LETTERS + POINT + 5];

/// A rectangle: left, top, right, bottom.
type Space = (i32, i32, i32, i32);

/// Draws all curves, and the labels of their points.
pub(super) fn draw(area: &Area<'_>, chart: &mut Chart<'_, '_>, panel: &Panel) -> Drawn {
    (0..panel.series.len()).try_for_each(|series| draw_curve(chart, panel, series))?;
    let base = area.get_base_pixel();
    let place = |bar: &Bar| {
        let at = chart.backend_coord(&point(panel, bar));
        (at.0 - base.0, at.1 - base.1)
    };
    let points = panel.bars.iter().map(place);
    let mut taken: Vec<Space> =
        points.map(|(x, y)| (x - POINT, y - POINT, x + POINT, y + POINT)).collect();
    for bar in &panel.bars {
        if let Some(label) = &bar.label {
            draw_label(area, label, place(bar), &mut taken)?;
        }
    }
    Ok(())
}

/// Draws a series' sample in the legend: a piece of its curve that begins at `at`.
pub(super) fn draw_sample(area: &Area<'_>, panel: &Panel, series: usize, at: (i32, i32)) -> Drawn {
    let ends = [at, (at.0 + 24, at.1)];
    let (colour, middle) = (colour(panel, series), (at.0 + 12, at.1));
    if is_paper(panel, series) {
        area.draw(&DashedPathElement::new(ends, 4, 3, colour.stroke_width(2)))?;
        area.draw(&Circle::new(middle, POINT, WHITE.filled()))?;
        return area.draw(&Circle::new(middle, POINT, colour.stroke_width(2)));
    }
    area.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
    area.draw(&Circle::new(middle, POINT, colour.filled()))
}

fn is_paper(panel: &Panel, series: usize) -> bool {
    panel.series[series].ends_with(PAPERS)
}

fn point(panel: &Panel, bar: &Bar) -> (f64, f64) {
    (panel.middle(bar.group), bar.spread.median)
}

/// The points of a series, joined in the order of the groups.
fn draw_curve(chart: &mut Chart<'_, '_>, panel: &Panel, series: usize) -> Drawn {
    let mut bars: Vec<&Bar> = panel.bars.iter().filter(|bar| bar.series == series).collect();
    bars.sort_by_key(|bar| bar.group);
    let points: Vec<(f64, f64)> = bars.into_iter().map(|bar| point(panel, bar)).collect();
    let colour = colour(panel, series);
    let circles = |style: ShapeStyle| points.iter().map(move |at| Circle::new(*at, POINT, style));
    if is_paper(panel, series) {
        let curve = DashedPathElement::new(points.clone(), 6, 4, colour.stroke_width(2));
        chart.draw_series([curve])?;
        chart.draw_series(circles(WHITE.filled()))?;
        chart.draw_series(circles(colour.stroke_width(2)))?;
    } else {
        chart.draw_series([PathElement::new(points.clone(), colour.stroke_width(2))])?;
        chart.draw_series(circles(colour.filled()))?;
    }
    Ok(())
}

/// Writes a label near its point, where it covers no other point or label, if there is such a place.
fn draw_label(area: &Area<'_>, label: &str, (x, y): (i32, i32), taken: &mut Vec<Space>) -> Drawn {
    let half = (label.len() as f64 * f64::from(LETTERS) * WIDE / 2.0) as i32;
    let space = |below: i32| (x - half, y + below, x + half, y + below + LETTERS);
    let is_free = |below: &i32| !taken.iter().any(|other| overlap(*other, space(*below)));
    let below = PLACES.into_iter().find(is_free).unwrap_or(PLACES[0]);
    let (left, top, right, bottom) = space(below);
    taken.push((left, top, right, bottom));
    area.draw(&Rectangle::new([(left, top), (right, bottom)], WHITE.mix(0.8).filled()))?;
    write(area, label, (x, top), LETTERS as u32, HPos::Center)
}

fn overlap(one: Space, other: Space) -> bool {
    one.0 < other.2 && other.0 < one.2 && one.1 < other.3 && other.1 < one.3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;
    use crate::reproduce::plot;

    fn panel() -> Panel {
        let bars = [(0, 0), (2, 0), (1, 0), (0, 1), (2, 1)].map(|(group, series)| {
            let value = 1.0 + group as f64 + 0.02 * series as f64;
            let spread = Spread { median: value, least: value, most: value };
            Bar { group, series, spread, label: Some(format!("{value:.2}")) }
        });
        Panel {
            groups: ["1", "2", "32"].map(str::to_owned).to_vec(),
            steps: vec![1.0, 2.0, 32.0],
            series: vec!["ours".to_owned(), format!("ours{PAPERS}")],
            bars: bars.to_vec(),
            ..Panel::default()
        }
    }

    /// One point for each value and one in the legend, the paper's hollow and in the colour of ours.
    #[test]
    fn curves_have_their_points() {
        let panel = panel();
        assert_eq!(colour(&panel, 1), colour(&panel, 0));
        let text = plot::svg(&[], &[panel], &[]).expect("a picture");
        let circles: Vec<&str> = text.lines().filter(|line| line.contains("<circle")).collect();
        let hollow = circles.iter().filter(|line| line.contains("fill=\"none\"")).count();
        let white = circles.iter().filter(|line| line.contains("fill=\"#FFFFFF\"")).count();
        assert_eq!((circles.len(), hollow, white), (4 + 2 * 3, 3, 3), "{text}");
    }

    /// On the axis, doubling is the same distance everywhere.
    #[test]
    fn steps_are_on_a_logarithmic_axis() {
        let panel = panel();
        let [first, second, third] = [0, 1, 2].map(|group| panel.middle(group));
        assert_eq!((first, third), (0.5, 2.5));
        assert!((second - first - (third - first) / 5.0).abs() < 1e-9, "{second}");
    }

    #[test]
    fn values_that_lie_together_are_written_apart() {
        let text = plot::svg(&[], &[panel()], &[]).expect("a picture");
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let is_text = |node: &roxmltree::Node<'_, '_>| node.tag_name().name() == "text";
        let height = |label: &str| {
            let mut texts = document.descendants().filter(is_text);
            let found = texts.find(|node| node.text().is_some_and(|text| text.trim() == label));
            let y = found.and_then(|node| node.attribute("y")).expect("a place");
            y.parse::<i32>().expect("a number")
        };
        assert!((height("1.00") - height("1.02")).abs() >= LETTERS, "{text}");
    }
}

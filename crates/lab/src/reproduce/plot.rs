//! The picture of an experiment, as an SVG: its title, its panels below each other, each with bars or curves, and a
//! caption. Lengths are in pixels. Making it needs no fonts, only viewing it does.

use super::chart::{Bar, PAPERS, Panel, Picture};
use crate::failure::{Failure, Outcome};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{DashedPathElement, DynElement, IntoDynElement};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Width of the picture.
const WIDTH: u32 = 1100;
/// Height of a panel.
const PANEL: u32 = 400;
const MARGIN: u32 = 16;
/// Room left of the bars, for the axis of the values.
const LEFT: u32 = 64;
const INNER: f64 = (WIDTH - LEFT - 2 * MARGIN) as f64;
/// Room for a series' sample in the legend, and around its name.
const SAMPLE: f64 = 70.0;
/// Font sizes of the title, of names and of the text below the panels.
const TITLE: u32 = 17;
const NAMES: u32 = 13;
const CAPTION: u32 = 11;
/// Approximate width of a character as a share of its font's size; sentences have more narrow letters than names.
const WIDE: f64 = 0.56;
const WIDE_IN_PROSE: f64 = 0.48;

/// Colours that colour-blind readers can distinguish (Okabe and Ito), then darker and lighter ones.
const COLOURS: [RGBColor; 16] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(150, 140, 20),
    RGBColor(90, 70, 160),
    RGBColor(20, 20, 20),
    RGBColor(120, 200, 120),
    RGBColor(250, 190, 140),
    RGBColor(120, 60, 0),
    RGBColor(0, 80, 70),
    RGBColor(185, 180, 225),
    RGBColor(240, 228, 66),
    RGBColor(0, 50, 100),
];
const PAPER: RGBColor = RGBColor(110, 110, 110);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The part of a panel within its axes, in groups and values.
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The whole picture, as the text of an SVG file.
pub(crate) fn svg(Picture { title, panels, caption }: &Picture) -> Outcome<String> {
    let mut text = String::new();
    let (title, caption) = (wrapped(title, TITLE), wrapped(caption, CAPTION));
    let height = |lines: &[String], size| MARGIN + lines.len() as u32 * (size + 5);
    let (above, middle) = (height(&title, TITLE), PANEL * panels.len().max(1) as u32);
    let drawn = (|| {
        let size = (WIDTH, above + middle + height(&caption, CAPTION));
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (top, rest) = root.split_vertically(above);
        let (middle, bottom) = rest.split_vertically(middle);
        write_lines(&top, &title, TITLE)?;
        write_lines(&bottom, &caption, CAPTION)?;
        let areas = middle.split_evenly((panels.len().max(1), 1));
        areas.iter().zip(panels).try_for_each(|(area, panel)| draw_panel(area, panel))?;
        root.present()
    })();
    drawn.map_err(|error| Failure::new(format!("the picture cannot be drawn: {error}")))?;
    Ok(text)
}

fn style(size: u32, side: HPos, edge: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(side, edge))
}

/// Breaks text of a font's size into lines not wider than the picture.
fn wrapped(text: &[String], size: u32) -> Vec<String> {
    let fits = (f64::from(WIDTH - 2 * MARGIN) / (f64::from(size) * WIDE_IN_PROSE)) as usize;
    text.iter().flat_map(|line| lines(line, fits)).collect()
}

/// Breaks `name` between words into lines of at most `fits` characters, where words allow.
fn lines(name: &str, fits: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= fits => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn write_lines(area: &Area<'_>, lines: &[String], size: u32) -> Drawn {
    let style = style(size, HPos::Left, VPos::Top);
    (0..).zip(lines).try_for_each(|(row, line)| {
        let at = (MARGIN as i32, (MARGIN / 2) as i32 + row * (size as i32 + 5));
        area.draw_text(line, &style, at)
    })
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Drawn {
    let (low, high) = range(panel);
    let groups = panel.groups.len().max(1) as f64;
    let (heads, tails) = heads(&panel.groups);
    let (size, names) = group_names(panel, &tails);
    let rows = names.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let rows = rows + u32::from(!heads.is_empty());
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(MARGIN)
        .x_label_area_size(rows * (size + 2) + 26)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..INNER / pixels(panel), low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .y_labels(8)
        .y_label_formatter(&|value| axis_label(*value))
        .label_style(("sans-serif", NAMES))
        .axis_desc_style(("sans-serif", 14))
        .bold_line_style(RGBColor(215, 215, 215))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let draw_series = if panel.steps.is_empty() { draw_bars } else { draw_curve };
    (0..panel.series.len()).try_for_each(|series| draw_series(&mut chart, panel, series))?;
    if !panel.steps.is_empty() {
        label_points(&mut chart, panel)?;
    }
    chart.draw_series((low < 0.0).then(|| PathElement::new([(0.0, 0.0), (groups, 0.0)], BLACK)))?;
    let first = i32::from(!heads.is_empty());
    let line = size as i32 + 2;
    chart.draw_series(heads.into_iter().map(|(groups, name)| {
        let middle = (panel.middle(groups.start) + panel.middle(groups.end - 1)) / 2.0;
        let text = Text::new(name, (0, 6), style(size, HPos::Center, VPos::Top));
        EmptyElement::at((middle, low)) + text
    }))?;
    for (group, name) in names.into_iter().enumerate() {
        chart.draw_series((0..).zip(name).map(|(row, text)| {
            let at = (0, 6 + (first + row) * line);
            let text = Text::new(text, at, style(size, HPos::Center, VPos::Top));
            EmptyElement::at((panel.middle(group), low)) + text
        }))?;
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperRight).label_font(("sans-serif", NAMES));
    legend.background_style(WHITE).draw()
}

/// The width of a group. The legend is right of all groups.
fn pixels(panel: &Panel) -> f64 {
    let longest = panel.series.iter().map(String::len).max().unwrap_or(0).min(40) as f64;
    let legend = SAMPLE + longest * f64::from(NAMES) * WIDE;
    (INNER - legend) / panel.groups.len().max(1) as f64
}

/// The names that neighbouring groups have in common before their numbers of threads, with the range of these groups; and
/// each group's name without it.
fn heads(groups: &[String]) -> (Vec<(Range<usize>, String)>, Vec<String>) {
    let head = |name: &String| {
        let (head, threads) = name.rsplit_once(" x")?;
        threads.parse::<u32>().is_ok().then(|| head.to_owned())
    };
    let (mut heads, mut tails, mut start) = (Vec::new(), Vec::new(), 0);
    for same in groups.chunk_by(|left, right| head(left).is_some() && head(left) == head(right)) {
        let shared = head(&same[0]).filter(|_| same.len() > 1);
        let cut = shared.as_ref().map_or(0, |head| head.len() + 1);
        tails.extend(same.iter().map(|name| name[cut..].to_owned()));
        heads.extend(shared.map(|head| (start..start + same.len(), head)));
        start += same.len();
    }
    (heads, tails)
}

/// The groups' names, broken into lines that fit, and the size of their letters, smaller if there are many.
fn group_names(panel: &Panel, names: &[String]) -> (u32, Vec<Vec<String>>) {
    let words = names.iter().flat_map(|name| name.split(' '));
    let longest = words.map(str::len).max().unwrap_or(1).max(1) as f64;
    let size = (pixels(panel) * 0.94 / (longest * WIDE)).clamp(8.0, NAMES.into());
    let fits = (pixels(panel) * 0.96 / (size * WIDE)) as usize;
    (size as u32, names.iter().map(|name| lines(name, fits)).collect())
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

/// The colour of a series; the paper's curve has that of ours.
fn colour(panel: &Panel, series: usize) -> RGBColor {
    let own = panel.series[series].strip_suffix(PAPERS);
    let series = panel.series.iter().position(|name| Some(&**name) == own).unwrap_or(series);
    match (panel.paper, series) {
        (true, 0) => PAPER,
        (true, series) => COLOURS[(series - 1) % COLOURS.len()],
        (false, series) => COLOURS[series % COLOURS.len()],
    }
}

/// Draws a series' bars, whiskers from the least to the greatest values, and the labels at their ends.
fn draw_bars(chart: &mut Chart<'_>, panel: &Panel, series: usize) -> Drawn {
    let (low, high) = range(panel);
    let filled = colour(panel, series).filled();
    let wide = 0.8 / panel.series.len() as f64;
    let left = |bar: &Bar| bar.group as f64 + 0.1 + series as f64 * wide;
    let bars = || panel.bars.iter().filter(|bar| bar.series == series);
    let rectangles = bars().map(|bar| {
        let ends = [(left(bar), 0.0), (left(bar) + wide * 0.92, bar.spread.median)];
        Rectangle::new(ends, filled)
    });
    let sample = move |(x, y)| Rectangle::new([(x, y - 6), (x + 12, y + 6)], filled);
    chart.draw_series(rectangles)?.label(&panel.series[series]).legend(sample);
    let middle = |bar: &Bar| left(bar) + wide * 0.46;
    chart.draw_series(bars().filter(|bar| bar.spread.most > bar.spread.least).map(|bar| {
        let end = |value: f64| (middle(bar), value.clamp(low, high));
        PathElement::new([end(bar.spread.least), end(bar.spread.most)], BLACK)
    }))?;
    let pixels = pixels(panel) * wide;
    let labels = bars().filter_map(|bar| Some((bar, bar.label.clone()?)));
    chart.draw_series(labels.map(|(bar, label)| {
        let size = (pixels / (label.len() as f64 * WIDE)).clamp(8.0, NAMES.into()) as u32;
        let below = bar.spread.median < 0.0;
        let (edge, away) = if below { (VPos::Top, 4) } else { (VPos::Bottom, -3) };
        let text = Text::new(label, (0, away), style(size, HPos::Center, edge));
        EmptyElement::at((middle(bar), bar.spread.median)) + text
    }))?;
    Ok(())
}

/// Half of a point's width.
const POINT: i32 = 4;

/// Draws a series as a curve: ours solid, the paper's dashed with hollow points.
fn draw_curve(chart: &mut Chart<'_>, panel: &Panel, series: usize) -> Drawn {
    let (colour, name) = (colour(panel, series), &panel.series[series]);
    let paper = name.ends_with(PAPERS);
    let bars = panel.bars.iter().filter(|bar| bar.series == series);
    let mut points: Vec<(f64, f64)> = bars.map(|bar| panel.point(bar)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let sample = move |(x, y)| curve(vec![(x, y), (x + 24, y)], colour, paper);
    chart.draw_series([curve(points.clone(), colour, paper)])?.label(name).legend(sample);
    let fill = if paper { WHITE } else { colour };
    for style in [fill.filled(), colour.stroke_width(2)] {
        chart.draw_series(points.iter().map(|at| Circle::new(*at, POINT, style)))?;
    }
    Ok(())
}

fn curve<'e, B: DrawingBackend, C: Clone + 'e>(
    points: Vec<C>,
    colour: RGBColor,
    paper: bool,
) -> DynElement<'e, B, C> {
    let style = colour.stroke_width(2);
    match paper {
        true => DashedPathElement::new(points, 6, 4, style).into_dyn(),
        false => PathElement::new(points, style).into_dyn(),
    }
}

/// Candidate places for a point's label: how far its upper edge is below the point.
const PLACES: [i32; 4] = [-20, 7, -34, 21];

/// Writes the labels near their points, where they cover no other point or label, if there is such a place.
fn label_points(chart: &mut Chart<'_>, panel: &Panel) -> Drawn {
    let around = |(x, y): (i32, i32)| [x - POINT, y - POINT, x + POINT, y + POINT];
    let place = |chart: &Chart<'_>, bar| chart.backend_coord(&panel.point(bar));
    let mut taken: Vec<[i32; 4]> = panel.bars.iter().map(|bar| around(place(chart, bar))).collect();
    for (bar, label) in panel.bars.iter().filter_map(|bar| Some((bar, bar.label.clone()?))) {
        let (x, y) = place(chart, bar);
        let half = (label.len() as f64 * f64::from(NAMES) * WIDE / 2.0) as i32;
        let space = |below: &i32| [x - half, y + below, x + half, y + below + NAMES as i32];
        let is_free = |below: &&i32| {
            let [left, top, right, bottom] = space(below);
            let overlaps = |other: &[i32; 4]| {
                left < other[2] && other[0] < right && top < other[3] && other[1] < bottom
            };
            !taken.iter().any(overlaps)
        };
        let below = PLACES.iter().find(is_free).unwrap_or(&PLACES[0]);
        taken.push(space(below));
        let text = Text::new(label, (0, *below), style(NAMES, HPos::Center, VPos::Top));
        chart.draw_series([EmptyElement::at(panel.point(bar)) + text])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spread::Spread;

    fn bar(group: usize, series: usize, value: f64) -> Bar {
        let spread = Spread { median: value, least: value * 0.9, most: value * 1.1 };
        Bar { group, series, spread, label: Some(format!("{value:+.1} %")) }
    }

    fn panel() -> Panel {
        Panel {
            title: "Above & below".to_owned(),
            y: "percent".to_owned(),
            x: "workload".to_owned(),
            groups: vec!["first one".to_owned(), "second".to_owned()],
            series: vec!["paper".to_owned(), "ours".to_owned()],
            bars: vec![bar(0, 0, 22.0), bar(0, 1, -7.0), bar(1, 1, 0.0)],
            paper: true,
            steps: vec![],
        }
    }

    fn curves() -> Panel {
        let bars = [(0, 0), (2, 0), (1, 0), (0, 1), (2, 1)].map(|(group, series)| {
            let value = 1.0 + group as f64 + 0.02 * series as f64;
            Bar { label: Some(format!("{value:.2}")), ..bar(group, series, value) }
        });
        Panel {
            groups: ["1", "2", "32"].map(str::to_owned).to_vec(),
            steps: vec![1.0, 2.0, 32.0],
            series: vec!["ours".to_owned(), format!("ours{PAPERS}")],
            bars: bars.to_vec(),
            ..Panel::default()
        }
    }

    fn drawn(panels: &[Panel]) -> String {
        svg(&Picture { panels: panels.to_vec(), ..Picture::default() }).expect("a picture")
    }

    #[test]
    fn everything_is_named() {
        let title = vec!["A title".to_owned(), "long ".repeat(60)];
        let caption = vec!["seed 7".to_owned()];
        let picture = Picture { title, panels: vec![panel(), panel()], caption };
        let text = svg(&picture).expect("a picture");
        for part in [
            "A title",
            "seed 7",
            "Above &amp; below",
            "percent",
            "workload",
            "second",
            "ours",
            "+22.0 %",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.trim_end().ends_with("</svg>") && !text.contains("NaN"));
    }

    #[test]
    fn common_heads() {
        let names = ["A x1", "A x2", "B x1", "MEAN"].map(str::to_owned);
        let (heads, tails) = heads(&names);
        assert_eq!(heads, [(0..2, "A".to_owned())]);
        assert_eq!(tails, ["x1", "x2", "B x1", "MEAN"]);
    }

    #[test]
    fn outliers_do_not_set_the_scale() {
        let mut panel = Panel { bars: vec![bar(0, 0, 10.0)], ..Panel::default() };
        panel.bars[0].spread.most = 4_000.0;
        let (low, high) = range(&panel);
        assert!(low == 0.0 && (16.0..20.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn draws_nothing() {
        assert!(drawn(&[]).contains("<svg") && drawn(&[Panel::default()]).contains("<svg"));
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(lines("mean gain over undo", 10), ["mean gain", "over undo"]);
        assert_eq!(lines("word", 2), ["word"]);
    }

    /// Each point is filled and outlined, the paper's white within the colour of ours.
    #[test]
    fn curves_have_their_points() {
        assert_eq!(colour(&curves(), 1), colour(&curves(), 0));
        let text = drawn(&[curves()]);
        let circles: Vec<&str> = text.lines().filter(|line| line.contains("<circle")).collect();
        let white = circles.iter().filter(|line| line.contains("fill=\"#FFFFFF\"")).count();
        assert_eq!((circles.len(), white), (2 * 5, 2), "{text}");
    }

    #[test]
    fn labels_are_apart() {
        let text = drawn(&[curves()]);
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let height = |label: &str| {
            let mut nodes = document.descendants().filter(|node| node.has_tag_name("text"));
            let node = nodes.find(|node| node.text().is_some_and(|text| text.trim() == label));
            let y = node.and_then(|node| node.attribute("y")).expect("a place");
            y.parse::<i32>().expect("a number")
        };
        assert!((height("1.00") - height("1.02")).abs() >= NAMES as i32, "{text}");
    }

    /// On the axis, doubling is the same distance everywhere.
    #[test]
    fn steps_are_logarithmic() {
        let [first, second, third] = [0, 1, 2].map(|group| curves().middle(group));
        assert_eq!((first, third), (0.5, 2.5));
        assert!((second - first - (third - first) / 5.0).abs() < 1e-9, "{second}");
    }

    /// Panels that only a file could have are not drawn.
    #[test]
    fn unsound_panels() {
        assert!(panel().is_sound() && curves().is_sound() && Panel::default().is_sound());
        let steps = |steps: &[f64]| Panel { steps: steps.to_vec(), ..curves() };
        let bars = |bar: Bar| Panel { bars: vec![bar], ..panel() };
        for panel in [
            steps(&[1.0, 2.0]),
            steps(&[1.0, 1.0, 2.0]),
            steps(&[0.0, 1.0, 2.0]),
            bars(bar(2, 0, 1.0)),
            bars(bar(0, 2, 1.0)),
            bars(bar(0, 0, f64::MAX)),
        ] {
            assert!(!panel.is_sound(), "{panel:?}");
        }
    }
}

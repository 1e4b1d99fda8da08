//! Renders the curves as plain SVG, readable on light and dark pages.

use crate::closed_loop::score::CurvePoint;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
/// Left, top, right and bottom margins of the chart, for the axes and the legend.
const MARGINS: [f64; 4] = [48.0, 16.0, 190.0, 36.0];

/// One line of the chart.
struct Line {
    name: &'static str,
    colour: &'static str,
    value: fn(&CurvePoint) -> Option<f64>,
}

const LINES: &[Line] = &[
    Line { name: "precision", colour: "#2a78b5", value: |point| point.precision },
    Line { name: "precision, strict", colour: "#8fbfe0", value: |point| point.precision_strict },
    Line { name: "recall", colour: "#3a9a3a", value: |point| point.recall },
    Line { name: "success with memory", colour: "#d2691e", value: |point| Some(point.success) },
    Line { name: "success without", colour: "#a0a0a0", value: |point| Some(point.success_without) },
    Line { name: "runs harmed", colour: "#c03030", value: |point| Some(point.harmed) },
];

/// Renders a line chart of the shares over the retrospectives as SVG.
pub(crate) fn render_svg(points: &[CurvePoint]) -> String {
    let [left, top, right, bottom] = MARGINS;
    let (width, height) = (WIDTH - left - right, HEIGHT - top - bottom);
    let last = points.len().max(2);
    let x = |retrospective: usize| left + width * (retrospective - 1) as f64 / (last - 1) as f64;
    let y = |share: f64| top + height * (1.0 - share);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for tenth in [0, 2, 4, 6, 8, 10] {
        let (share, at) = (f64::from(tenth) / 10.0, y(f64::from(tenth) / 10.0));
        out.push_str(&format!(
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#e0e0e0\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{share:.1}</text>\n",
            left + width,
            left - 6.0,
            at + 4.0
        ));
    }
    for retrospective in (1..=last).filter(|one| *one == 1 || one % 5 == 0) {
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{retrospective}</text>\n",
            x(retrospective),
            HEIGHT - bottom + 16.0
        ));
    }
    out.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">retrospectives</text>\n",
        left + width / 2.0,
        HEIGHT - 4.0
    ));
    for (at, line) in LINES.iter().enumerate() {
        let places: Vec<String> = points
            .iter()
            .filter_map(|point| Some(format!("{:.1},{:.1}", x(point.retrospective), y((line.value)(point)?))))
            .collect();
        let (name, colour, key) = (line.name, line.colour, top + 14.0 + 20.0 * at as f64);
        out.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n<line x1=\"{:.1}\" y1=\"{key}\" x2=\"{:.1}\" \
             y2=\"{key}\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
            places.join(" "),
            left + width + 14.0,
            left + width + 34.0,
            left + width + 40.0,
            key + 4.0
        ));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_points_and_skips_unknown_values() {
        let point = |retrospective, precision| CurvePoint {
            retrospective,
            precision,
            success: 1.0,
            ..CurvePoint::default()
        };
        let svg = render_svg(&[point(1, None), point(2, Some(1.0)), point(3, Some(0.5))]);
        assert_eq!(svg.matches("<polyline").count(), LINES.len());
        let precision = svg.lines().find(|line| line.contains("<polyline")).unwrap();
        assert_eq!(precision.matches(',').count(), 2, "{precision}");
        assert!(svg.contains("48.0,16.0 "), "all succeeded: at the top left\n{svg}");
    }
}

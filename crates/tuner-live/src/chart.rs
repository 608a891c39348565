//! Charts of a cluster: the sector jumps over the window, on a logarithmic scale.

use std::fmt::Write;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The greatest jump forwards and backwards in each of `columns` equal pieces, on a logarithmic scale of 1 to 8; 0 where there is none.
fn steps(points: &[f64], columns: usize) -> Vec<(usize, usize)> {
    let piece = points.len().div_ceil(columns.max(1)).max(1);
    let step = |jump: f64| {
        // 2^36 sectors are 32 TiB.
        if jump <= 0.0 { 0 } else { (jump.max(1.0).log2() / 36.0 * 7.0).round().clamp(0.0, 7.0) as usize + 1 }
    };
    let greatest = |piece: &[f64], sign: f64| piece.iter().map(|jump| jump * sign).fold(0.0, f64::max);
    points.chunks(piece).map(|piece| (step(greatest(piece, 1.0)), step(greatest(piece, -1.0)))).collect()
}

/// Two lines of `columns` characters: jumps forwards above jumps backwards.
pub fn sparkline(points: &[f64], columns: usize) -> [String; 2] {
    let steps = steps(points, columns);
    [steps.iter().map(|(up, _)| BARS[*up]).collect(), steps.iter().map(|(_, down)| BARS[*down]).collect()]
}

/// An SVG drawing, for an HTML page or alone, in the colour of the surrounding text.
pub fn svg(points: &[f64], title: &str) -> String {
    const WIDTH: usize = 600;
    const HALF: f64 = 60.0;
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" stroke=\"currentColor\"><title>{title}</title><line x1=\"0\" y1=\"{HALF}\" x2=\"{WIDTH}\" y2=\"{HALF}\" opacity=\"0.3\"/>",
        HALF * 2.0
    );
    let wide = WIDTH as f64 / points.len().max(1) as f64;
    for (i, jump) in points.iter().enumerate().filter(|(_, jump)| **jump != 0.0) {
        let high = jump.abs().max(1.0).log2() / 36.0 * (HALF - 4.0) + 2.0;
        let (x, y) = ((i as f64 + 0.5) * wide, HALF - high.min(HALF) * jump.signum());
        let _ = write!(out, "<line x1=\"{x:.1}\" y1=\"{HALF}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/>");
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_above_and_backwards_below() {
        let [up, down] = sparkline(&[8.0, 0.0, -1e10, 0.0], 4);
        assert_eq!((up.as_str(), down.as_str()), ("▂   ", "  ▇ "));
        assert_eq!(sparkline(&[], 4), [String::new(), String::new()]);
        assert_eq!(sparkline(&[1.0; 1000], 60)[0].chars().count(), 59, "pieces of 17");
    }

    #[test]
    fn a_drawing_has_one_line_for_each_jump() {
        let drawing = svg(&[8.0, 0.0, -4.0], "a < b");
        assert_eq!(drawing.matches("<line").count(), 3, "with the axis");
        assert!(drawing.contains("a &lt; b"));
    }
}

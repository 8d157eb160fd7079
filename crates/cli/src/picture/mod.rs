//! Pictures of pixels: draws the SVG files that flamelet writes as PNG, without a browser, Graphviz or fonts.

mod canvas;
mod font;
mod png;
mod svg;

use crate::error::{Failure, Result};
use canvas::Canvas;

/// How many pixels wide a unit of the drawing is, so that text is sharp.
const SCALE: f32 = 2.0;
/// The most pixels of a picture.
const MOST_PIXELS: f64 = 64e6;

/// Returns an SVG file of flamelet's own as PNG.
pub(crate) fn png(svg: &str) -> Result<Vec<u8>> {
    let drawing = svg::Drawing::read(svg)
        .ok_or_else(|| Failure::new("the picture has no size; write it as .svg instead"))?;
    let pixels = f64::from(drawing.width) * f64::from(drawing.height);
    let scale = if pixels * f64::from(SCALE * SCALE) <= MOST_PIXELS { SCALE } else { 1.0 };
    if pixels * f64::from(scale * scale) > MOST_PIXELS {
        let (width, height) = (drawing.width, drawing.height);
        return Err(Failure::new(format!(
            "a picture of {width:.0} × {height:.0} is too large for PNG; show less (--nodecount), or write .svg"
        )));
    }
    let mut canvas = Canvas::new(drawing.width, drawing.height, scale);
    drawing.shapes.iter().for_each(|shape| canvas.draw(shape));
    Ok(png::encode(&canvas)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The colour at a place of the drawing, in a picture that is not compressed.
    fn colour(svg: &str, x: usize, y: usize) -> [u8; 3] {
        let drawing = svg::Drawing::read(svg).expect("a drawing");
        let mut canvas = Canvas::new(drawing.width, drawing.height, 1.0);
        drawing.shapes.iter().for_each(|shape| canvas.draw(shape));
        let at = (y * canvas.width + x) * 3;
        [canvas.pixels[at], canvas.pixels[at + 1], canvas.pixels[at + 2]]
    }

    #[test]
    fn boxes_have_their_colours_and_places() {
        let svg = "<svg width=\"40\" height=\"30\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
                   <g transform=\"translate(10 5)\"><title>a</title>\
                   <rect x=\"2\" y=\"3\" width=\"10\" height=\"4\" fill=\"#ff0000\"/></g></svg>";
        assert_eq!(colour(svg, 5, 5), [255, 255, 255]);
        assert_eq!(colour(svg, 13, 9), [255, 0, 0]);
        assert_eq!(colour(svg, 23, 9), [255, 255, 255]);
    }

    #[test]
    fn half_transparent_boxes_and_texts_are_mixed_in() {
        let svg = "<svg width=\"20\" height=\"20\"><rect width=\"20\" height=\"20\" fill=\"#000000\" fill-opacity=\".5\"/></svg>";
        assert!((126..=129).contains(&colour(svg, 3, 3)[0]), "{:?}", colour(svg, 3, 3));
        let text = "<svg width=\"20\" height=\"20\"><text x=\"4\" y=\"12\" font-size=\"11\">I</text></svg>";
        let dark =
            (0..20).flat_map(|y| (0..20).map(move |x| (x, y))).filter(|&(x, y)| colour(text, x, y)[0] < 99);
        assert!(dark.count() > 5, "a letter is drawn");
    }

    #[test]
    fn lines_are_drawn_along_their_curves() {
        let svg = "<svg width=\"40\" height=\"40\"><path d=\"M10.0 5.0C10.0 20.0 30.0 20.0 30.0 35.0\" fill=\"none\" \
                   stroke=\"#00ff00\" stroke-width=\"3\"/></svg>";
        assert_eq!(colour(svg, 10, 6), [0, 255, 0]);
        assert_eq!(colour(svg, 20, 20), [0, 255, 0], "the middle of the curve");
        assert_eq!(colour(svg, 10, 33), [255, 255, 255]);
    }

    #[test]
    fn the_file_is_png_and_what_is_too_large_is_refused() {
        let png = png("<svg width=\"10\" height=\"7\"></svg>").expect("a picture");
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(&png[16..24], [0, 0, 0, 20, 0, 0, 0, 14]);
        let error = super::png("<svg width=\"100000\" height=\"90000\"></svg>").expect_err("too large");
        assert!(error.to_string().contains("too large for PNG"));
        assert!(super::png("<svg><rect").is_err());
    }
}

//! Draws shapes into pixels.

use super::font::{self, ADVANCE, HEIGHT, WIDTH};

/// Red, green, blue.
pub(super) type Colour = [u8; 3];

/// Something to draw, in units of the drawing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Rect { x: f32, y: f32, width: f32, height: f32, fill: Option<Colour>, opacity: f32, line: Option<Colour> },
    Line { points: Vec<(f32, f32)>, colour: Colour, width: f32, is_dashed: bool, has_tip: bool },
    Text { x: f32, y: f32, text: String, size: f32, colour: Colour, anchor: Anchor, has_halo: bool },
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Three bytes a pixel, row by row.
    pub(super) pixels: Vec<u8>,
    scale: f32,
}

impl Canvas {
    /// Returns a white canvas for a drawing of this size.
    pub(super) fn new(width: f32, height: f32, scale: f32) -> Self {
        let pixels = |length: f32| (length * scale).ceil().max(1.0) as usize;
        let (width, height) = (pixels(width), pixels(height));
        Self { width, height, pixels: vec![255; width * height * 3], scale }
    }

    pub(super) fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect { x, y, width, height, fill, opacity, line } => {
                let [x, y, width, height] = [x, y, width, height].map(|length| length * self.scale);
                if let Some(fill) = fill {
                    self.fill(x, y, width, height, *fill, *opacity);
                }
                if let Some(line) = line {
                    let thick = self.scale.max(1.0);
                    self.fill(x, y, width, thick, *line, 1.0);
                    self.fill(x, y + height - thick, width, thick, *line, 1.0);
                    self.fill(x, y, thick, height, *line, 1.0);
                    self.fill(x + width - thick, y, thick, height, *line, 1.0);
                }
            }
            Shape::Line { points, colour, width, is_dashed, has_tip } => {
                let points: Vec<_> = points.iter().map(|(x, y)| (x * self.scale, y * self.scale)).collect();
                self.line(&points, *colour, width * self.scale, *is_dashed);
                if *has_tip {
                    self.tip(&points, *colour);
                }
            }
            Shape::Text { x, y, text, size, colour, anchor, has_halo } => {
                self.text(
                    (x * self.scale, y * self.scale),
                    text,
                    size * self.scale,
                    *colour,
                    *anchor,
                    *has_halo,
                );
            }
        }
    }

    /// Mixes a colour into a pixel; `share` is how much of the pixel it covers.
    fn mix(&mut self, x: i64, y: i64, colour: Colour, share: f32) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width || y >= self.height || share <= 0.0 {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (pixel, colour) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            let mixed = f32::from(*pixel) + (f32::from(colour) - f32::from(*pixel)) * share.min(1.0);
            *pixel = mixed.round() as u8;
        }
    }

    /// Fills a rectangle given in pixels; its edges may cover parts of pixels.
    fn fill(&mut self, x: f32, y: f32, width: f32, height: f32, colour: Colour, opacity: f32) {
        let (right, bottom) = ((x + width).min(self.width as f32), (y + height).min(self.height as f32));
        let (x, y) = (x.max(0.0), y.max(0.0));
        let covered = |at: i64, from: f32, to: f32| (to.min(at as f32 + 1.0) - from.max(at as f32)).max(0.0);
        for row in y.floor() as i64..bottom.ceil() as i64 {
            for column in x.floor() as i64..right.ceil() as i64 {
                let share = covered(row, y, bottom) * covered(column, x, right);
                self.mix(column, row, colour, share * opacity);
            }
        }
    }

    /// Draws a line through points with a round brush.
    fn line(&mut self, points: &[(f32, f32)], colour: Colour, width: f32, is_dashed: bool) {
        let radius = (width / 2.0).max(0.6);
        let mut walked = 0.0;
        for pair in points.windows(2) {
            let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
            let length = (x2 - x1).hypot(y2 - y1);
            // A drawing's coordinates are bounded by its size, and so is the number of steps.
            let steps = (length.min(1e5) * 2.0).ceil() as u32;
            for step in 0..=steps {
                let part = if steps == 0 { 0.0 } else { step as f32 / steps as f32 };
                let is_gap = is_dashed && (walked + part * length) % 14.0 > 8.0;
                if !is_gap {
                    self.dot(x1 + (x2 - x1) * part, y1 + (y2 - y1) * part, radius, colour);
                }
            }
            walked += length;
        }
    }

    fn dot(&mut self, x: f32, y: f32, radius: f32, colour: Colour) {
        for row in (y - radius).floor() as i64..=(y + radius).ceil() as i64 {
            for column in (x - radius).floor() as i64..=(x + radius).ceil() as i64 {
                let distance = (column as f32 + 0.5 - x).hypot(row as f32 + 0.5 - y);
                if distance <= radius {
                    self.mix(column, row, colour, 1.0);
                }
            }
        }
    }

    /// Draws the tip of an arrow at the last point.
    fn tip(&mut self, points: &[(f32, f32)], colour: Colour) {
        let [.., (x1, y1), (x2, y2)] = points else { return };
        let length = (x2 - x1).hypot(y2 - y1).max(0.01);
        let (dx, dy) = ((x2 - x1) / length, (y2 - y1) / length);
        let size = 9.0 * self.scale;
        let mut back = 0.0;
        while back <= size {
            let half = back * 0.5;
            let (x, y) = (x2 - dx * back, y2 - dy * back);
            self.line(&[(x - dy * half, y + dx * half), (x + dy * half, y - dx * half)], colour, 1.0, false);
            back += 0.5;
        }
    }

    /// Writes a line of text, in pixels; `y` is the baseline of the letters.
    fn text(
        &mut self,
        (x, y): (f32, f32),
        text: &str,
        size: f32,
        colour: Colour,
        anchor: Anchor,
        has_halo: bool,
    ) {
        let dot = (size / 11.0).round().max(1.0);
        let width = text.chars().count() as f32 * ADVANCE as f32 * dot;
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let (left, top) = (left.round(), (y - HEIGHT as f32 * dot).round());
        if has_halo {
            self.fill(left - dot, top - dot, width + dot, (HEIGHT + 2) as f32 * dot, [255, 255, 255], 0.85);
        }
        for (number, letter) in text.chars().enumerate() {
            let start = left + (number * ADVANCE) as f32 * dot;
            if start > self.width as f32 {
                break;
            }
            for (row, bits) in font::glyph(letter).into_iter().enumerate() {
                for column in (0..WIDTH).filter(|column| bits >> (WIDTH - 1 - column) & 1 == 1) {
                    let (x, y) = (start + column as f32 * dot, top + row as f32 * dot);
                    self.fill(x, y, dot, dot, colour, 1.0);
                }
            }
        }
    }
}

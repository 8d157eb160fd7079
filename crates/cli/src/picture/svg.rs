//! Reads the SVG that flamelet itself writes: boxes, lines and texts, moved by groups.

use super::canvas::{Anchor, Colour, Shape};

/// The shapes of a drawing.
pub(super) struct Drawing {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) shapes: Vec<Shape>,
}

/// An element's start, and the text until the next one.
struct SvgElement<'s> {
    name: &'s str,
    attributes: &'s str,
    text: &'s str,
}

impl Drawing {
    /// Returns the drawing, or `None` if the file has no size.
    pub(super) fn read(svg: &str) -> Option<Self> {
        let mut reader = SvgReader { shapes: Vec::new(), moved: Vec::new(), hidden: 0, size: None };
        let mut rest = svg;
        while let Some(element) = next(&mut rest) {
            reader.take(&element);
        }
        let (width, height) = reader.size?;
        Some(Self { width, height, shapes: reader.shapes })
    }
}

/// Returns the next element, and moves `rest` past it.
fn next<'s>(rest: &mut &'s str) -> Option<SvgElement<'s>> {
    let start = rest.find('<')? + 1;
    let after = &rest[start..];
    let end = end_of_tag(after)?;
    let (tag, after) = (&after[..end], &after[end + 1..]);
    let name = tag.split([' ', '\n', '/']).find(|part| !part.is_empty()).unwrap_or_default();
    // The text of a script may contain anything.
    let text = match name == "script" && !tag.starts_with('/') {
        true => after.split("</script>").next().unwrap_or_default(),
        false => after.split('<').next().unwrap_or_default(),
    };
    *rest = &after[text.len()..];
    let name = if tag.starts_with('/') { &tag[..=name.len()] } else { name };
    Some(SvgElement { name, attributes: tag, text })
}

/// Returns where a tag ends: at the first `>` outside quotes.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'>' && !is_quoted
    })
}

struct SvgReader {
    shapes: Vec<Shape>,
    /// How far each open group moves what is inside.
    moved: Vec<(f32, f32)>,
    /// How many elements are open whose content is not drawn.
    hidden: usize,
    size: Option<(f32, f32)>,
}

impl SvgReader {
    fn take(&mut self, element: &SvgElement<'_>) {
        let is_closed = element.attributes.ends_with('/');
        match element.name {
            "svg" if self.size.is_none() => {
                self.size = element.number("width").zip(element.number("height"));
            }
            "g" if !is_closed => self.moved.push(element.translation()),
            "/g" => drop(self.moved.pop()),
            "defs" if !is_closed => self.hidden += 1,
            "/defs" => self.hidden = self.hidden.saturating_sub(1),
            _ if self.hidden > 0 => {}
            "rect" => self.rect(element),
            "path" => self.path(element),
            "text" => self.text(element),
            _ => {}
        }
    }

    fn offset(&self) -> (f32, f32) {
        self.moved.iter().fold((0.0, 0.0), |sum, moved| (sum.0 + moved.0, sum.1 + moved.1))
    }

    fn rect(&mut self, element: &SvgElement<'_>) {
        let (dx, dy) = self.offset();
        let (all_width, all_height) = self.size.unwrap_or_default();
        let length = |name: &str, all: f32| match element.attribute(name) {
            Some("100%") => all,
            _ => element.number(name).unwrap_or(0.0),
        };
        self.shapes.push(Shape::Rect {
            x: dx + length("x", 0.0),
            y: dy + length("y", 0.0),
            width: length("width", all_width),
            height: length("height", all_height),
            fill: element.colour("fill", Some([0, 0, 0])),
            opacity: element.number("fill-opacity").or(element.number("opacity")).unwrap_or(1.0),
            line: element.colour("stroke", None),
        });
    }

    fn path(&mut self, element: &SvgElement<'_>) {
        let Some(colour) = element.colour("stroke", None) else { return };
        let (dx, dy) = self.offset();
        let points = points(element.attribute("d").unwrap_or_default());
        self.shapes.push(Shape::Line {
            points: points.into_iter().map(|(x, y)| (x + dx, y + dy)).collect(),
            colour,
            width: element.number("stroke-width").unwrap_or(1.0),
            is_dashed: element.attribute("stroke-dasharray").is_some(),
            has_tip: element.attribute("marker-end").is_some(),
        });
    }

    fn text(&mut self, element: &SvgElement<'_>) {
        // What only a script can show, and what only a script can use.
        let is_hidden = element.attribute("visibility") == Some("hidden");
        let is_button = element.attribute("class").is_some_and(|class| class.contains("button"));
        if element.text.is_empty() || is_hidden || is_button {
            return;
        }
        let (dx, dy) = self.offset();
        self.shapes.push(Shape::Text {
            x: dx + element.number("x").unwrap_or(0.0),
            y: dy + element.number("y").unwrap_or(0.0),
            text: unescaped(element.text),
            size: element.number("font-size").unwrap_or(11.0),
            colour: element.colour("fill", Some([27, 31, 36])).unwrap_or_default(),
            anchor: match element.attribute("text-anchor") {
                Some("middle") => Anchor::Middle,
                Some("end") => Anchor::End,
                _ => Anchor::Start,
            },
            has_halo: element.attribute("paint-order") == Some("stroke"),
        });
    }
}

impl<'s> SvgElement<'s> {
    fn attribute(&self, name: &str) -> Option<&'s str> {
        let mut rest = self.attributes;
        while let Some((before, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            if before.rsplit([' ', '\n']).next() == Some(name) {
                return Some(value);
            }
            rest = after;
        }
        None
    }

    fn number(&self, name: &str) -> Option<f32> {
        let value: f32 = self.attribute(name)?.trim_end_matches("px").parse().ok()?;
        value.is_finite().then_some(value)
    }

    fn colour(&self, name: &str, usual: Option<Colour>) -> Option<Colour> {
        match self.attribute(name) {
            None => usual,
            Some(text) => colour(text),
        }
    }

    fn translation(&self) -> (f32, f32) {
        let inside = self.attribute("transform").and_then(|text| text.strip_prefix("translate("));
        let numbers = inside.and_then(|text| text.strip_suffix(')')).unwrap_or_default();
        let mut numbers = numbers.split([' ', ',']).filter_map(|number| number.parse().ok());
        (numbers.next().unwrap_or(0.0), numbers.next().unwrap_or(0.0))
    }
}

/// Reads `#fff` or `#12ab34`; anything else (`none`) is no colour. A pattern is shown as the grey that it is drawn on.
fn colour(text: &str) -> Option<Colour> {
    if text.starts_with("url(") {
        return Some([214, 217, 222]);
    }
    let digits = text.strip_prefix('#')?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    let short = |shift: u32| ((value >> shift) & 15) as u8 * 17;
    match digits.len() {
        3 => Some([short(8), short(4), short(0)]),
        6 => Some([(value >> 16) as u8, (value >> 8) as u8, value as u8]),
        _ => None,
    }
}

/// Returns the points of a path of `M`, `L` and `C`; curves are cut into short lines.
fn points(path: &str) -> Vec<(f32, f32)> {
    const PIECES: u32 = 24;
    let mut points: Vec<(f32, f32)> = Vec::new();
    let commands =
        ["C", "L", "M"].iter().fold(path.to_owned(), |path, kind| path.replace(kind, &format!("\n{kind}")));
    for command in commands.lines() {
        let (kind, numbers) = command.split_at(command.len().min(1));
        let numbers: Vec<f32> = numbers.split([' ', ',']).filter_map(|number| number.parse().ok()).collect();
        match (kind, numbers.as_slice(), points.last().copied()) {
            ("M" | "L", [x, y], _) => points.push((*x, *y)),
            ("C", [x1, y1, x2, y2, x, y], Some((x0, y0))) => {
                for piece in 1..=PIECES {
                    let t = piece as f32 / PIECES as f32;
                    let at = |a: f32, b: f32, c: f32, d: f32| {
                        let u = 1.0 - t;
                        u * u * u * a + 3.0 * u * u * t * b + 3.0 * u * t * t * c + t * t * t * d
                    };
                    points.push((at(x0, *x1, *x2, *x), at(y0, *y1, *y2, *y)));
                }
            }
            _ => {}
        }
    }
    points
}

fn unescaped(text: &str) -> String {
    let known =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    known.iter().fold(text.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

//! Query strings.

use std::ops::Range;

use flamelet_report::flame::Folding;
use flamelet_report::profile::HeapView;

use crate::Error;
use crate::source::{LIVE_HEAP, LiveView, WaitKind};

/// A filter, shown on the page as a chip.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chip {
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// Which part of which profile: everything that determines the samples in view, except the sample type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ShapeKey {
    pub(crate) profile: String,
    pub(crate) base: String,
    /// Compare with this time range of the same profile instead.
    pub(crate) base_time: Option<Range<u64>>,
    pub(crate) chips: Vec<Chip>,
    /// How names are grouped: `generics`, `crates`.
    pub(crate) fold: String,
    /// An expression for code that is yours; `None` for what the viewer was started with.
    pub(crate) mine: Option<String>,
    pub(crate) time: Option<Range<u64>>,
}

/// A parsed query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewQuery {
    pub(crate) shape: ShapeKey,
    pub(crate) sample_type: String,
    pub(crate) is_callers: bool,
    pub(crate) function: String,
    pub(crate) zoom: Vec<u32>,
    /// Every frame is a box.
    pub(crate) is_unfolded: bool,
    /// The paths of chains of frames that are open.
    pub(crate) opened: Vec<Vec<u32>>,
    pub(crate) width: f64,
    pub(crate) search: String,
    pub(crate) sort: String,
    pub(crate) buckets: usize,
    /// A lane for each task instead of each thread.
    pub(crate) by_task: bool,
    pub(crate) seconds: u32,
    /// What to take of a live service.
    pub(crate) wanted: LiveView,
    /// A time range of the past, in milliseconds since 1970.
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    /// Which series of the past, by their labels; empty for all.
    pub(crate) select: String,
    /// Whose past; empty for the service that is shown first.
    pub(crate) service: String,
}

const MAX_CHIPS: usize = 50;
const MAX_ZOOM: usize = 4096;
const MAX_OPENED: usize = 200;

impl ViewQuery {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut query = Self { width: 1600.0, buckets: 400, seconds: 10, ..Self::default() };
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            query.set(&key, &value)?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        match key {
            "p" => self.shape.profile = value.to_owned(),
            "base" => match value.strip_prefix('@') {
                Some(span) => self.shape.base_time = Some(time_span(span)?),
                None => self.shape.base = value.to_owned(),
            },
            "f" => self.add_chip(value)?,
            "fold" => self.set_folding(value),
            "open" => self.open(value)?,
            "mine" => self.shape.mine = Some(value.to_owned()),
            "t" => self.shape.time = Some(time_span(value)?),
            "type" => self.sample_type = value.to_owned(),
            "dir" => self.is_callers = value == "callers",
            "fn" => self.function = value.to_owned(),
            "z" => self.zoom = zoom_path(value)?,
            "w" => self.width = number::<f64>(key, value)?.clamp(50.0, 200_000.0),
            "q" => self.search = value.to_owned(),
            "sort" => self.sort = value.to_owned(),
            "heap" => self.wanted = LiveView::Heap(heap_view(value)?),
            "wait" => self.wanted = LiveView::Wait(wait_kind(value)?),
            "s" => self.service = value.to_owned(),
            "sel" => self.select = value.to_owned(),
            "from" => self.from = Some(number(key, value)?),
            "to" => self.to = Some(number(key, value)?),
            "lanes" => self.by_task = value == "task",
            "buckets" => self.buckets = number(key, value)?,
            "seconds" => self.seconds = seconds(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads what is folded. Chains of frames are, unless `all` are to be shown.
    fn set_folding(&mut self, value: &str) {
        let (all, rest): (Vec<&str>, Vec<&str>) = value.split(',').partition(|part| *part == "all");
        self.is_unfolded = !all.is_empty();
        self.shape.fold = rest.join(",");
    }

    fn open(&mut self, value: &str) -> Result<(), Error> {
        if self.opened.len() >= MAX_OPENED {
            return Err(Error::invalid("too many chains of frames are open: show everything instead"));
        }
        self.opened.push(zoom_path(value)?);
        Ok(())
    }

    /// Returns which chains of frames are one box.
    pub(crate) fn folding(&self) -> Folding {
        if self.is_unfolded {
            return Folding::off();
        }
        let mut folding = Folding::default();
        self.opened.iter().for_each(|path| folding.open(path.iter().copied()));
        folding
    }

    fn add_chip(&mut self, value: &str) -> Result<(), Error> {
        let (kind, text) =
            value.split_once(':').ok_or_else(|| Error::invalid("invalid filter; expected kind:text"))?;
        if self.shape.chips.len() >= MAX_CHIPS {
            return Err(Error::invalid("too many filters; remove some"));
        }
        self.shape.chips.push(Chip { kind: kind.to_owned(), text: text.to_owned() });
        Ok(())
    }
}

/// Reads a number of seconds, at least one; whatever takes the profile sets the maximum.
fn seconds(value: &str) -> Result<u32, Error> {
    match number("seconds", value)? {
        0 => Err(Error::invalid("seconds must be 1 or more")),
        seconds => Ok(seconds),
    }
}

fn heap_view(value: &str) -> Result<HeapView, Error> {
    let found = LIVE_HEAP.into_iter().find(|view| view.endpoint() == value);
    found.ok_or_else(|| Error::invalid(format!("unknown heap profile '{value}'")))
}

fn wait_kind(value: &str) -> Result<WaitKind, Error> {
    let found = WaitKind::ALL.into_iter().find(|kind| kind.endpoint() == value);
    found.ok_or_else(|| Error::invalid(format!("unknown profile of waiting '{value}'")))
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|_| Error::invalid(format!("{key}: '{value}' is not a number")))
}

fn time_span(value: &str) -> Result<Range<u64>, Error> {
    let span = value.split_once('-').and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    span.filter(|span| span.start < span.end)
        .ok_or_else(|| Error::invalid("invalid time range; expected from-to, in nanoseconds"))
}

fn zoom_path(value: &str) -> Result<Vec<u32>, Error> {
    let keys = value.split('.').filter(|key| !key.is_empty()).take(MAX_ZOOM);
    let keys: Result<_, _> = keys.map(|key| u32::from_str_radix(key, 36)).collect();
    keys.map_err(|_| Error::invalid("the zoom in this URL is invalid; zoom out to continue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_an_address_is_read() {
        let query =
            ViewQuery::parse("p=a.pb&f=focus:x%3A%3Ay&f=hide:z&t=5-10&z=1z.a&w=1e9&dir=callers").unwrap();
        assert_eq!(query.shape.profile, "a.pb");
        assert_eq!(query.shape.chips[0], Chip { kind: "focus".into(), text: "x::y".into() });
        assert_eq!(query.shape.chips[1].kind, "hide");
        assert_eq!(query.shape.time, Some(5..10));
        assert_eq!(query.zoom, [71, 10]);
        assert_eq!(ViewQuery::parse("base=@1-2").unwrap().shape.base_time, Some(1..2));
        assert!(query.is_callers && query.width == 200_000.0);
        let query = ViewQuery::parse("fold=generics,all&open=1.a&open=2&mine=^shop").unwrap();
        assert_eq!((query.is_unfolded, query.shape.fold.as_str()), (true, "generics"));
        assert_eq!((query.opened, query.shape.mine.as_deref()), (vec![vec![1, 10], vec![2]], Some("^shop")));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (text, says) in
            [("t=10-5", "time range"), ("w=wide", "not a number"), ("z=!", "zoom"), ("f=focus", "kind:text")]
        {
            assert!(ViewQuery::parse(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }
}

//! A drawing of boxes, lines and text in px, written as SVG.

use super::palette::{FAINT, Marker, Rgb, Series, TEXT, WHITE, ink};
use super::text_width::{cut, cut_start, width, wrap};
use floatgate_mtd::Phase;

/// White space at the edges, px.
pub(crate) const MARGIN: i32 = 20;
/// Font size of labels, px.
pub(crate) const LABEL: i32 = 13;
/// Font size of small print, px.
pub(crate) const SMALL: i32 = 11;
const TITLE: i32 = 18;

/// Point of a text at its position. Vertically it is always the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Left,
    Middle,
    Right,
}

/// Style of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) size: i32,
    pub(crate) colour: Rgb,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

impl Type {
    /// Ordinary style.
    pub(crate) const fn new(size: i32, colour: Rgb, anchor: Anchor) -> Self {
        Self { size, colour, bold: false, anchor }
    }

    /// Bold variant of the style.
    pub(crate) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// Rectangle, px.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) w: i32,
    pub(crate) h: i32,
}

#[derive(Debug)]
enum Item {
    Box {
        area: Area,
        colour: Rgb,
        tip: String,
    },
    Line {
        from: (i32, i32),
        to: (i32, i32),
        colour: Rgb,
    },
    /// Line through points, 2 px wide.
    Path {
        points: Vec<(i32, i32)>,
        series: Series,
        tip: String,
    },
    Mark {
        at: (i32, i32),
        series: Series,
        tip: String,
    },
    Ring {
        at: (i32, i32),
        colour: Rgb,
        tip: String,
    },
    Text {
        at: (i32, i32),
        text: String,
        style: Type,
    },
}

/// Elements of a picture in drawing order, on white.
#[derive(Debug)]
pub(crate) struct Canvas {
    name: String,
    width: i32,
    items: Vec<Item>,
}

impl Canvas {
    /// Creates an empty drawing `width` px wide; screen readers read `name`.
    pub(crate) fn new(name: &str, width: i32) -> Self {
        Self { name: printable(name), width, items: Vec::new() }
    }

    /// Draws a filled rectangle. A viewer shows `tip`, if any, when the pointer rests on it.
    pub(crate) fn fill(&mut self, area: Area, colour: Rgb, tip: String) {
        self.items.push(Item::Box { area, colour, tip });
    }

    /// Draws a line, 1 px wide.
    pub(crate) fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: Rgb) {
        self.items.push(Item::Line { from, to, colour });
    }

    /// Draws a line through `points`, 2 px wide, in the colour and dash of a series.
    pub(crate) fn path(&mut self, points: Vec<(i32, i32)>, series: Series, tip: &str) {
        self.items.push(Item::Path { points, series, tip: tip.to_owned() });
    }

    /// Draws the marker of a series.
    pub(crate) fn mark(&mut self, at: (i32, i32), series: Series, tip: String) {
        self.items.push(Item::Mark { at, series, tip });
    }

    /// Draws a ring, through which lower elements are visible.
    pub(crate) fn ring(&mut self, at: (i32, i32), colour: Rgb, tip: String) {
        self.items.push(Item::Ring { at, colour, tip });
    }

    /// Draws a line of text.
    pub(crate) fn text(&mut self, at: (i32, i32), text: &str, style: Type) {
        self.items.push(Item::Text { at, text: printable(text), style });
    }

    /// Draws title and subtitle at the top. Returns the y below them.
    pub(crate) fn heading(&mut self, title: &str, subtitle: &str) -> i32 {
        let room = self.width - 2 * MARGIN;
        let mut y = MARGIN;
        // Bold text is up to a ninth wider than plain text.
        for line in wrap(&printable(title), TITLE + 2, room, 2) {
            self.text((MARGIN, y + 9), &line, Type::new(TITLE, TEXT, Anchor::Left).bold());
            y += 25;
        }
        for line in wrap(&printable(subtitle), LABEL, room, 4) {
            self.text((MARGIN, y + 8), &line, Type::new(LABEL, FAINT, Anchor::Left));
            y += 18;
        }
        y
    }

    /// Draws the names of `phases` next to their colours, from `y` down. Returns the y below them.
    pub(crate) fn legend(&mut self, y: i32, phases: impl Iterator<Item = Phase>) -> i32 {
        let (mut x, mut y) = (MARGIN, y + 8);
        let mut any = false;
        for phase in phases {
            let needs = 19 + width(phase.name(), LABEL);
            if x > MARGIN && x + needs > self.width - MARGIN {
                (x, y) = (MARGIN, y + 20);
            }
            self.fill(Area { x, y, w: 13, h: 13 }, ink(phase).rgb, String::new());
            self.text((x + 19, y + 7), phase.name(), Type::new(LABEL, TEXT, Anchor::Left));
            x += needs + 14;
            any = true;
        }
        if any { y + 24 } else { y - 8 }
    }

    /// Draws a text, cut to `room` px.
    pub(crate) fn text_within(&mut self, at: (i32, i32), text: &str, style: Type, room: i32) {
        let text = cut(&printable(text), style.size, room);
        self.text(at, &text, style);
    }

    /// Draws a text; if it is longer than `room` px, its start is cut.
    pub(crate) fn end_within(&mut self, at: (i32, i32), text: &str, style: Type, room: i32) {
        let text = cut_start(&printable(text), style.size, room);
        self.text(at, &text, style);
    }

    /// Text of the SVG document, `height` px high.
    pub(crate) fn finish(self, height: i32) -> String {
        let mut svg = Svg::new(&self.name, self.width, height);
        for item in &self.items {
            svg.item(item);
        }
        svg.end()
    }
}

/// SVG document (version 1.1) being written, with one element per line.
struct Svg(String);

impl Svg {
    fn new(name: &str, width: i32, height: i32) -> Self {
        let mut svg = Self(format!(
            "<svg role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n<title>{}</title>\n",
            escape(name)
        ));
        svg.rect(Area { x: 0, y: 0, w: width, h: height }, WHITE, "");
        svg
    }

    fn end(mut self) -> String {
        self.0 += "</svg>\n";
        self.0
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Box { area, colour, tip } => self.rect(*area, *colour, tip),
            Item::Line { from, to, colour } => {
                let ends = format!("x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", from.0, from.1, to.0, to.1);
                self.shape("line", &format!("{ends} stroke=\"{}\"", hex(*colour)), "");
            }
            Item::Path { points, series, tip } => self.path(points, *series, tip),
            Item::Mark { at, series, tip } => self.mark(*at, *series, tip),
            Item::Ring { at, colour, tip } => {
                let stroke = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"", hex(*colour));
                self.shape("circle", &format!("cx=\"{}\" cy=\"{}\" r=\"6\" {stroke}", at.0, at.1), tip);
            }
            Item::Text { at, text, style } => self.text(*at, text, *style),
        }
    }

    /// Writes an element without text. A viewer shows `tip`, if any, when the pointer rests on it.
    fn shape(&mut self, name: &str, attributes: &str, tip: &str) {
        self.0 += &match tip {
            "" => format!("<{name} {attributes}/>\n"),
            tip => format!("<{name} {attributes}><title>{}</title></{name}>\n", escape(&printable(tip))),
        };
    }

    fn rect(&mut self, area: Area, colour: Rgb, tip: &str) {
        let Area { x, y, w, h } = area;
        let fill = hex(colour);
        self.shape("rect", &format!("x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\""), tip);
    }

    fn path(&mut self, points: &[(i32, i32)], series: Series, tip: &str) {
        let dash = match series.dash {
            [] => String::new(),
            lengths => format!(" stroke-dasharray=\"{}\"", joined(lengths.iter().map(u8::to_string))),
        };
        let stroke = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{dash}", hex(series.colour));
        self.shape("polyline", &format!("{} {stroke}", corners(points)), tip);
    }

    fn mark(&mut self, (x, y): (i32, i32), series: Series, tip: &str) {
        let fill = hex(series.colour);
        let polygon = |points: &[(i32, i32)]| format!("{} fill=\"{fill}\"", corners(points));
        match series.marker {
            Marker::Square => self.rect(Area { x: x - 3, y: y - 3, w: 6, h: 6 }, series.colour, tip),
            Marker::Circle => {
                self.shape("circle", &format!("cx=\"{x}\" cy=\"{y}\" r=\"{MARK}\" fill=\"{fill}\""), tip);
            }
            Marker::Diamond => {
                let points = [(x, y - MARK - 1), (x + MARK + 1, y), (x, y + MARK + 1), (x - MARK - 1, y)];
                self.shape("polygon", &polygon(&points), tip);
            }
            Marker::Triangle => {
                let points = [(x, y - MARK - 1), (x + MARK + 1, y + MARK), (x - MARK - 1, y + MARK)];
                self.shape("polygon", &polygon(&points), tip);
            }
        }
    }

    fn text(&mut self, (x, y): (i32, i32), text: &str, style: Type) {
        let anchor = match style.anchor {
            Anchor::Left => "start",
            Anchor::Middle => "middle",
            Anchor::Right => "end",
        };
        let bold = if style.bold { " font-weight=\"bold\"" } else { "" };
        self.0 += &format!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-family=\"sans-serif\" \
             font-size=\"{}\" fill=\"{}\"{bold}>\n{}\n</text>\n",
            style.size,
            hex(style.colour),
            escape(text)
        );
    }
}

/// Half the height of a marker, px.
const MARK: i32 = 4;

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

fn corners(points: &[(i32, i32)]) -> String {
    format!("points=\"{}\"", joined(points.iter().map(|(x, y)| format!("{x},{y}"))))
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Text in which characters that XML 1.0 does not allow are replaced, and also line ends, which would break
/// lines of the document.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() => ' ',
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks that `svg` is well-formed XML (elements, attributes, entities, characters), for the errors that
    /// this module can make.
    pub(crate) fn assert_well_formed(svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = svg;
        assert!(svg.chars().all(|c| c == '\n' || !c.is_control()), "a control character");
        while let Some(at) = rest.find('<') {
            check_text(&rest[..at]);
            let end = rest[at..].find('>').expect("an unclosed tag") + at;
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<'), "< inside a tag: {tag}");
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                assert!(!open.is_empty() || rest.trim().is_empty(), "more than one root");
            } else {
                let body = tag.strip_suffix('/');
                check_attributes(body.unwrap_or(tag));
                if body.is_none() {
                    open.push(tag.split_whitespace().next().unwrap());
                }
            }
        }
        assert!(open.is_empty(), "unclosed {open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    fn check_text(text: &str) {
        for (i, _) in text.match_indices('&') {
            let known = ["&lt;", "&gt;", "&amp;", "&quot;", "&apos;"];
            assert!(known.iter().any(|e| text[i..].starts_with(e)), "bare & in {text}");
        }
        assert!(!text.contains('>'), "bare > in {text}");
    }

    fn check_attributes(tag: &str) {
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag}");
        let outside: String = tag.split('"').step_by(2).collect();
        let names: Vec<&str> = outside.split('=').map(|s| s.trim().rsplit(' ').next().unwrap()).collect();
        for (i, name) in names.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            assert!(!names[..i].contains(name), "{name} twice in {tag}");
        }
        tag.split('"').skip(1).step_by(2).for_each(check_text);
    }

    /// Checks that every text lies within the document, by the estimated width.
    pub(crate) fn assert_texts_inside(svg: &str) {
        let number = |line: &str, name: &str| -> f64 {
            let from = line.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
            line[from..].split('"').next().unwrap().parse().unwrap()
        };
        let root = svg.lines().next().unwrap();
        let (right, bottom) = (number(root, "width"), number(root, "height"));
        let mut lines = svg.lines();
        while let Some(line) = lines.next() {
            if !line.starts_with("<text") {
                continue;
            }
            let words = lines.next().unwrap().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            let words = words.replace("&quot;", "\"").replace("&apos;", "'");
            let size = number(line, "font-size").round() as i32;
            let wide = f64::from(width(&words, size));
            let x = number(line, "x");
            let left = match () {
                () if line.contains("\"start\"") => x,
                () if line.contains("\"end\"") => x - wide,
                () => x - wide / 2.0,
            };
            assert!(left >= -1.0 && left + wide <= right + 1.0, "{words} from {left} to {}", left + wide);
            let y = number(line, "y");
            assert!(y - 6.0 >= 0.0 && y + 6.0 <= bottom, "{words} at {y}");
        }
    }

    /// Checks that every shape and line lies within the document.
    pub(crate) fn assert_shapes_inside(svg: &str) {
        let numbers = |text: &str| -> Vec<f64> {
            text.split([' ', ',']).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect()
        };
        let value = |line: &str, name: &str| -> Vec<f64> {
            let from = line.find(&format!(" {name}=\"")).map(|at| at + name.len() + 3);
            from.map_or_else(Vec::new, |from| numbers(line[from..].split('"').next().unwrap()))
        };
        let root = svg.lines().next().unwrap();
        let (right, bottom) = (value(root, "width")[0], value(root, "height")[0]);
        for line in svg.lines().filter(|l| l.starts_with('<') && !l.starts_with("<svg")) {
            let points = value(line, "points");
            let xs = ["x", "x1", "x2", "cx"].into_iter().flat_map(|name| value(line, name));
            let ys = ["y", "y1", "y2", "cy"].into_iter().flat_map(|name| value(line, name));
            for x in xs.chain(points.iter().copied().step_by(2)) {
                assert!((0.0..=right).contains(&x), "{line}");
            }
            for y in ys.chain(points.iter().copied().skip(1).step_by(2)) {
                assert!((0.0..=bottom).contains(&y), "{line}");
            }
        }
    }

    #[test]
    fn dashes_and_tips_go_to_their_shapes() {
        let mut canvas = Canvas::new("t", 100);
        for i in 0..4 {
            canvas.path(vec![(5, 5), (50, 5 + 5 * i)], super::super::palette::series(i as usize), "a < b");
            canvas.mark((50, 5 + 5 * i), super::super::palette::series(i as usize), String::new());
        }
        canvas.ring((9, 9), TEXT, "ring".to_owned());
        let svg = canvas.finish(50);
        assert_well_formed(&svg);
        assert_shapes_inside(&svg);
        let lines: Vec<&str> = svg.lines().filter(|l| l.starts_with("<polyline")).collect();
        assert!(!lines[0].contains("dasharray") && lines[1].contains("stroke-dasharray=\"8 4\""), "{svg}");
        assert!(lines.iter().all(|l| l.ends_with("<title>a &lt; b</title></polyline>")), "{svg}");
        assert!(svg.contains("<title>ring</title></circle>"), "{svg}");
    }

    #[test]
    fn tips_go_to_their_boxes() {
        let mut canvas = Canvas::new("a & b", 100);
        canvas.text((5, 5), "<rect/>\n<rect ", Type::new(SMALL, TEXT, Anchor::Left));
        canvas.fill(Area { x: 1, y: 2, w: 3, h: 4 }, TEXT, String::new());
        canvas.fill(Area { x: 5, y: 2, w: 3, h: 4 }, FAINT, "5 < 6\u{0}".to_owned());
        let svg = canvas.finish(50);
        assert_well_formed(&svg);
        let tips: Vec<&str> = svg.lines().filter(|l| l.contains("<title>")).collect();
        assert_eq!(tips[0], "<title>a &amp; b</title>");
        assert!(
            tips[1].starts_with("<rect x=\"5\"") && tips[1].contains("<title>5 &lt; 6 </title>"),
            "{tips:?}"
        );
        assert_eq!(tips.len(), 2);
    }

    #[test]
    #[should_panic(expected = "unclosed")]
    fn the_checker_sees_what_is_wrong() {
        assert_well_formed("<svg><text>a</text>");
    }
}

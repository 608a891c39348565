//! A report: one HTML page that opens offline, with tables, and plots that are drawn when they come into sight.
//!
//! A browser keeps a dozen or so WebGL contexts alive and takes the oldest away from whoever asks for more, so a page of
//! many plots must not draw them all: a plot is data until it is seen, and again when its section is hidden.

use std::fmt::Write as _;

use plotly::Plot;

/// A page under way.
pub(crate) struct Page {
    html: String,
    plots: usize,
}

impl Page {
    /// An empty page of that title.
    pub(crate) fn new(title: &str) -> Self {
        // The first of the two scripts is the plotting library; the other one sets formulas, and we have none.
        let scripts = Plot::offline_js_sources();
        let library = scripts.find("</script>").map_or(&*scripts, |end| &scripts[..end + "</script>".len()]);
        let title = escape(title);
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style>\
             {library}</head><body><h1>{title}</h1>"
        );
        Self { html, plots: 0 }
    }

    /// A remark, in grey.
    pub(crate) fn note(&mut self, text: &str) {
        self.write(format_args!("<p class=note>{}</p>", escape(text)));
    }

    /// Markup, as it is.
    pub(crate) fn write(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.html.write_fmt(markup);
    }

    /// A table: heads, and rows with a class each.
    pub(crate) fn table<'a>(
        &mut self,
        heads: &[String],
        rows: impl IntoIterator<Item = (&'a str, Vec<String>)>,
    ) {
        self.html.push_str("<div class=scroll><table>");
        self.row("", "th", heads);
        for (class, cells) in rows {
            self.row(class, "td", &cells);
        }
        self.html.push_str("</table></div>");
    }

    fn row(&mut self, class: &str, cell: &str, cells: &[String]) {
        self.write(format_args!("<tr class=\"{class}\">"));
        for text in cells {
            self.write(format_args!("<{cell}>{}</{cell}>", escape(text)));
        }
        self.html.push_str("</tr>");
    }

    /// A plot, so many pixels high.
    pub(crate) fn plot(&mut self, height: u32, plot: &Plot) {
        // Within a script element only its end means anything.
        let data = plot.to_json().replace("</", "<\\/");
        let n = self.plots;
        self.plots += 1;
        self.write(format_args!(
            "<div class=plot id=\"plot-{n}\" style=\"height:{height}px\"></div><script type=\"application/json\" id=\"plot-{n}-data\">{data}</script>"
        ));
    }

    /// The whole page, with a last line.
    pub(crate) fn end(mut self, last: &str) -> String {
        self.write(format_args!(
            "<footer>dwell {}{}</footer><script>{SCRIPT}</script></body></html>",
            env!("CARGO_PKG_VERSION"),
            escape(last)
        ));
        self.html
    }
}

/// How a page looks.
const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1c1c1c;background:#fff}\
    h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2.2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%;font-size:.85rem}\
    th,td{padding:.22rem .5rem;text-align:right;border-bottom:1px solid #8884}td{white-space:nowrap}td:last-child{white-space:normal}\
    th:first-child,td:first-child{text-align:left}tr.limit{font-style:italic}tr.best td{font-weight:600}.note,footer{color:#666}\
    .scroll{overflow-x:auto}footer{margin-top:3rem;font-size:.8rem}select{font:inherit;padding:.2rem}";

/// Draws what comes into sight, and takes away what a section hides.
const SCRIPT: &str = "const seen=new IntersectionObserver(es=>es.forEach(e=>{const d=e.target;\
    if(e.isIntersecting&&!d.drawn){d.drawn=true;const p=JSON.parse(document.getElementById(d.id+'-data').textContent);\
    Plotly.newPlot(d,p.data,p.layout,{responsive:true})}\
    else if(d.drawn&&!d.offsetParent){d.drawn=false;Plotly.purge(d)}}),{rootMargin:'200px'});\
    document.querySelectorAll('.plot').forEach(d=>seen.observe(d));\
    const pick=document.getElementById('pick');function show(){document.querySelectorAll('section.choice').forEach((s,i)=>{s.hidden=i!=pick.value})}\
    if(pick){pick.addEventListener('change',show);show()}";

/// Text that is no markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

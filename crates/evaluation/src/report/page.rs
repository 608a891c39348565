//! An HTML report: one file that opens offline, in light and dark, on small screens and on paper. Charts are drawn by this program
//! (`chart`); a short script only hides series, selects the schedulers to show, and saves charts and tables as files. Without the
//! script, everything is visible.

use std::fmt::Write as _;

use super::chart::Chart;
use super::format::escape;

/// Marks a page of this program, in the first kilobyte of the file.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"dwell\">";

/// A page under construction.
pub struct Page {
    html: String,
}

impl Page {
    /// An empty page with this title.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{GENERATOR}<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        );
        Self { html }
    }

    /// Adds a remark.
    pub fn note(&mut self, text: &str) {
        self.write(format_args!("<p class=note>{}</p>", escape(text)));
    }

    /// Adds markup.
    pub fn write(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.html.write_fmt(markup);
    }

    /// Adds a table: headings, and rows with a CSS class each.
    pub fn table<'a>(&mut self, heads: &[String], rows: impl IntoIterator<Item = (&'a str, Vec<String>)>) {
        self.html.push_str("<figure><div class=scroll><table>");
        self.row("", "th", heads);
        for (class, cells) in rows {
            self.row(class, "td", &cells);
        }
        self.html.push_str("</table></div></figure>");
    }

    fn row(&mut self, class: &str, cell: &str, cells: &[String]) {
        self.write(format_args!("<tr class=\"{class}\">"));
        for text in cells {
            self.write(format_args!("<{cell}>{}</{cell}>", escape(text)));
        }
        self.html.push_str("</tr>");
    }

    /// Adds a table that the page saves with other values than it shows: of each cell, the text and the saved one.
    pub fn exact_table<'a>(
        &mut self,
        heads: &[(String, &str)],
        rows: impl IntoIterator<Item = (&'a str, Vec<(String, String)>)>,
    ) {
        self.html.push_str("<figure><div class=scroll><table><tr>");
        for (text, saved) in heads {
            self.write(format_args!("<th data-v=\"{}\">{}</th>", escape(saved), escape(text)));
        }
        for (class, cells) in rows {
            self.write(format_args!("</tr><tr class=\"{class}\">"));
            for (text, saved) in cells {
                match text == saved {
                    true => self.write(format_args!("<td>{}</td>", escape(&text))),
                    false => {
                        self.write(format_args!("<td data-v=\"{}\">{}</td>", escape(&saved), escape(&text)));
                    }
                }
            }
        }
        self.html.push_str("</tr></table></div></figure>");
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: &Chart) {
        self.svg(&chart.svg());
    }

    /// Adds an SVG element.
    pub fn svg(&mut self, svg: &str) {
        self.write(format_args!("<figure>{svg}</figure>"));
    }

    /// Starts the part in which the reader selects two of `names` to display side by side. Each name needs one [`Page::choice`].
    pub fn choices(&mut self, names: &[&str]) {
        self.html.push_str("<p class=pick>");
        for (n, of) in ["Show", "next to"].into_iter().enumerate() {
            self.write(format_args!("<label>{of} <select class=pick id=pick{n}>"));
            for (index, name) in names.iter().enumerate() {
                self.write(format_args!("<option value={index}>{}</option>", escape(name)));
            }
            self.html.push_str("</select></label> ");
        }
        self.html.push_str("</p><div class=choices>");
    }

    /// Starts the section of the next name.
    pub fn choice(&mut self, name: &str) {
        self.write(format_args!("<section class=choice><h3>{}</h3>", escape(name)));
    }

    /// Ends a [`Page::choice`].
    pub fn end_choice(&mut self) {
        self.html.push_str("</section>");
    }

    /// Ends the [`Page::choices`].
    pub fn end_choices(&mut self) {
        self.html.push_str("</div>");
    }

    /// The whole page; `last` is appended to the footer.
    pub fn end(mut self, last: &str) -> String {
        self.write(format_args!(
            "<footer>dwell {}{}</footer><script>{SCRIPT}</script></body></html>",
            env!("CARGO_PKG_VERSION"),
            escape(last)
        ));
        self.html
    }
}

const STYLE: &str = ":root{color-scheme:light dark;--fg:#1c1c1c;--bg:#fff;--dim:#666;--line:#8884}\
    @media(prefers-color-scheme:dark){:root{--fg:#e4e4e4;--bg:#16181c;--dim:#999}}\
    body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:84rem;padding:0 1rem;color:var(--fg);background:var(--bg)}\
    h1,h2,h3,p{overflow-wrap:anywhere}h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2.2rem}figure{margin:.6rem 0;position:relative}\
    table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%;font-size:.85rem}\
    th,td{padding:.22rem .5rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
    th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}\
    tr.limit{font-style:italic}tr.best td{font-weight:600}.note,footer{color:var(--dim);overflow-wrap:anywhere}.scroll{overflow-x:auto}\
    footer{margin-top:3rem;font-size:.8rem}select{font:inherit;padding:.2rem;max-width:100%}\
    svg.chart{width:100%;height:auto;color:var(--fg);overflow:visible}path.off,.keyed .key{display:none}\
    .legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;font-size:.85rem;padding-left:4%}.legend .off{opacity:.3}\
    .legend button{font:inherit;border:0;background:none;color:inherit;cursor:pointer;padding:.2rem 0;text-align:left;overflow-wrap:anywhere}\
    .legend i{display:inline-block;width:1rem;height:.3rem;margin-right:.35rem;vertical-align:middle;print-color-adjust:exact}\
    .save{position:absolute;right:0;top:-1.1rem;font-size:.75rem}.save button{font:inherit;border:0;background:none;color:var(--dim);cursor:pointer}\
    .choices{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:0 2rem}section.choice{min-width:0}\
    section.choice svg.chart{font-size:17px}section.choice .tx{translate:0 3px}section.choice .nx{translate:0 5px}section.choice .ny{translate:-10px}\
    @media(max-width:40rem){svg.chart,section.choice svg.chart{font-size:24px}svg.chart .grid{stroke-width:2}\
    .chart .tx,section.choice .tx{translate:0 8px}.chart .nx,section.choice .nx{translate:0 16px}.chart .ny,section.choice .ny{translate:-26px}}\
    @media print{@page{size:landscape;margin:1cm}body{max-width:none;margin:0;padding:0}.pick,.save{display:none}figure,tr{break-inside:avoid}\
    .scroll{overflow:visible}table{font-size:.6rem}th,td{padding:.1rem .2rem;white-space:normal;overflow-wrap:anywhere}\
    th:first-child,td:first-child{position:static}}";

const SCRIPT: &str = "const all=(q,e=document)=>[...e.querySelectorAll(q)];\
    all('svg.chart').forEach(c=>{const keys=all('.key',c),l=document.createElement('div');if(!keys.length)return;l.className='legend';c.classList.add('keyed');\
    keys.forEach(k=>{const b=document.createElement('button'),i=document.createElement('i');i.style.background=k.querySelector('path').getAttribute('stroke');\
    b.append(i,k.dataset.name);l.append(b);b.addEventListener('click',()=>{const off=b.classList.toggle('off');\
    all('path.series',c).filter(s=>s.dataset.name==k.dataset.name).forEach(s=>s.classList.toggle('off',off))})});c.after(l)});\
    const sections=all('section.choice'),picks=all('select.pick');\
    function show(){const at=picks.map(p=>+p.value);sections.forEach((s,i)=>{s.hidden=!at.includes(i);s.style.order=at.indexOf(i)})}\
    if(picks.length){picks[1].value=Math.max(0,sections.length-1);picks.forEach(p=>p.addEventListener('change',show));show();\
    addEventListener('beforeprint',()=>sections.forEach(s=>s.hidden=false));addEventListener('afterprint',show)}\
    function save(name,type,text){const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([text],{type}));a.download=name;a.click()}\
    const units={ns:[1,'ns'],us:[1e3,'ns'],ms:[1e6,'ns'],s:[1e9,'ns'],B:[1,'bytes'],kB:[1e3,'bytes'],MB:[1e6,'bytes'],GB:[1e9,'bytes'],TB:[1e12,'bytes'],PB:[1e15,'bytes'],'%':[.01,'share']};\
    const of=t=>{const m=/^(-?[\\d.]+) ?([a-zA-Z]+|%)$/.exec(t),u=m&&units[m[2]];return u&&[+(m[1]*u[0]).toPrecision(6),u[1]]};\
    function csv(t){const rows=all('tr',t).map(r=>all('th,td',r).map(c=>c.dataset.v??c.textContent));\
    rows[0].forEach((h,i)=>{const cells=rows.slice(1).map(r=>r[i]).filter(c=>c),got=cells.map(of);if(!cells.length||!got.every(g=>g&&g[1]==got[0][1]))return;\
    rows[0][i]=h+' ('+got[0][1]+')';rows.slice(1).forEach(r=>{if(r[i])r[i]=of(r[i])[0]})});\
    return rows.map(r=>r.map(c=>'\"'+String(c).replaceAll('\"','\"\"')+'\"').join(',')).join('\\n')+'\\n'}\
    all('figure').forEach((f,i)=>{const s=f.querySelector('svg'),t=f.querySelector('table'),d=document.createElement('div'),b=document.createElement('button');\
    d.className='save';b.textContent=s?'SVG':'CSV';b.title='save as a file';d.append(b);f.append(d);\
    b.addEventListener('click',()=>s?save('dwell-'+i+'.svg','image/svg+xml',s.outerHTML):save('dwell-'+i+'.csv','text/csv',csv(t)))})";

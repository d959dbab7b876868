//! The report as one self-contained page: no network, no fonts, readable without scripts.

use super::section::{self, Keep};
use super::svg::{esc, letter};
use super::verdict;
use crate::result::{Judge, Run};
use std::fmt::Write;

/// The page. The same run gives the same bytes.
pub fn render(run: &Run) -> String {
    telling_charts(run, &mut |_, _| {})
}

/// The page; `keep` gets each chart that is in it.
pub(super) fn telling_charts(run: &Run, keep: Keep<'_>) -> String {
    let m = &run.manifest;
    let mut out = head(&m.title);
    out.push_str(&navigation(run));
    out.push_str("<main>\n");
    out.push_str(&opening(run));
    out.push_str(&verdict::section(run, keep));
    for (n, drive) in m.drives.iter().enumerate() {
        section::drive(run, n, drive, &mut out, keep);
    }
    let judged = |judge| {
        run.cells.iter().any(|cell| {
            let same =
                |c: &&crate::result::Cell| (&c.drive, &c.workload) == (&cell.drive, &cell.workload);
            Judge::of(m, run.cells.iter().filter(same)) == judge
        })
    };
    out.push_str(READING_VERDICT);
    for (judge, text) in [
        (Judge::Latency, READING),
        (Judge::Share, READING_SHARES),
        (Judge::Throughput, READING_RATES),
        (Judge::Startup, READING_STARTS),
        (Judge::Count, READING_COUNTS),
    ] {
        if judged(judge) {
            out.push_str(text);
        }
    }
    out.push_str(&what_was_run(run));
    out.push_str(&trust(run));
    let _ = write!(
        out,
        "<footer>Made by hoistway {} from the records of the run.</footer>\n</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        esc(&m.version)
    );
    out
}

/// The page up to its body.
pub(super) fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"hoistway {}\">\n<title>{}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}{CHART}</style>\n</head>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        esc(title)
    )
}

fn navigation(run: &Run) -> String {
    let mut out = String::from(
        "<nav aria-label=\"Sections\"><div class=\"bar-in\"><a class=\"brand\" href=\"#top\">\
         hoistway</a><ul><li><a href=\"#verdict\">Verdict</a></li>",
    );
    for (n, drive) in run.manifest.drives.iter().enumerate() {
        let _ = write!(out, "<li><a href=\"#d{n}\">{}</a></li>", esc(&drive.name));
    }
    out.push_str(
        "<li><a href=\"#run\">What was run</a></li><li><a href=\"#trust\">How far to trust it</a>\
         </li></ul><button id=\"theme\" type=\"button\" hidden \
         aria-label=\"Switch between light and dark\"></button></div></nav>\n",
    );
    out
}

fn opening(run: &Run) -> String {
    let m = &run.manifest;
    let mut out = format!(
        "<header id=\"top\">\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<ul class=\"chips\">",
        esc(&m.title),
        esc(&m.about)
    );
    let count = |n: usize, what: &str| {
        format!("<li><b>{n}</b> {what}{}</li>", if n == 1 { "" } else { "s" })
    };
    out.push_str(&count(m.drives.len(), "drive"));
    out.push_str(&count(m.configs.len(), "configuration"));
    out.push_str(&count(m.workloads.len(), "workload"));
    out.push_str(&count(m.reps as usize, "repetition"));
    let last = m.seed.saturating_add(u64::from(m.reps.saturating_sub(1)));
    let seeds = if last == m.seed { format!("{last}") } else { format!("{} to {last}", m.seed) };
    let _ = writeln!(
        out,
        "<li>seed <b>{seeds}</b></li><li>world <b>{}</b></li><li>experiment <b>{}</b></li>\
         <li>hoistway <b>{}</b></li></ul>",
        esc(&m.world),
        esc(&m.experiment),
        esc(&m.version)
    );
    if m.quick {
        out.push_str(
            "<p class=\"warn\">Quick run: durations were cut. Good for a first look, not for \
             figures to quote.</p>\n",
        );
    }
    if let Some(text) = verdict::raising(run) {
        let _ = writeln!(out, "<p class=\"warn\">{}.</p>", esc(&text));
    }
    let known = |name: &str| {
        run.cells.iter().any(|c| name == format!("{}/{}/{}", c.drive, c.config, c.workload))
    };
    let rest: Vec<_> = run.flags.iter().filter(|f| !known(&f.0)).collect();
    if !rest.is_empty() {
        out.push_str("<ul class=\"warn\">");
        for (place, text) in rest {
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            let _ = write!(out, "<li>{}{}</li>", esc(&place), esc(text));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</header>\n");
    out
}

fn what_was_run(run: &Run) -> String {
    let m = &run.manifest;
    let simulated = m.world == "sim";
    let repeats = match simulated {
        true => "This command repeats it, to the digit.",
        false => "This command runs it again.",
    };
    let mut out = format!(
        "<section id=\"run\">\n<h2>What was run</h2>\n<p class=\"mute\">{repeats}</p>\n\
         <pre class=\"cmd\"><code>{}</code></pre>\n",
        esc(&m.command)
    );
    out.push_str("<details><summary>Workloads</summary><div>");
    for w in &m.workloads {
        let _ = write!(out, "<p><b>{}</b>: {}</p>", esc(&w.id), esc(&w.summary));
    }
    out.push_str("</div></details>\n<details><summary>Configurations and tunables</summary><div>");
    let rows = m.configs.iter().enumerate().map(|(key, c)| {
        let set: Vec<String> = c.tunables.iter().map(|(n, v)| format!("{n} = {v}")).collect();
        let set = if set.is_empty() { "none".into() } else { set.join(", ") };
        let name = format!("{} {}", letter(key), c.id);
        [name, c.scheduler.clone(), c.summary.clone(), set]
    });
    let heads = ["configuration", "scheduler", "what it is", "tunables in force"];
    out.push_str(&rows_table("Configurations and tunables", heads, rows));
    out.push_str("</div></details>\n<details><summary>Host parameters</summary><div>");
    let rows = m.host.iter().map(|(n, v)| [n.clone(), v.clone()]);
    out.push_str(&rows_table("Host parameters", ["parameter", "value"], rows));
    out.push_str("</div></details>\n");
    for d in &m.drives {
        let _ = writeln!(
            out,
            "<details><summary>Drive {}: parameters</summary><pre><code>{}</code></pre></details>",
            esc(&d.id),
            esc(&d.parameters)
        );
    }
    if simulated {
        out.push_str(&digests(run));
    }
    out.push_str("</section>\n");
    out
}

/// What a repetition must give again.
fn digests(run: &Run) -> String {
    let mut out = String::from("<details><summary>Trace digests</summary><div>");
    let rows = run.cells.iter().map(|c| {
        let name = format!("{} / {} / {}", c.drive, c.config, c.workload);
        let each: Vec<_> =
            c.reps.iter().map(|r| format!("{}: {:016x}", r.seed, r.trace_digest)).collect();
        [name, each.join("  ")]
    });
    out.push_str(&rows_table("Trace digests", ["cell", "seed: digest"], rows));
    out.push_str("</div></details>\n");
    out
}

/// A table of texts; the last column is set as code and wraps.
fn rows_table<const N: usize>(
    title: &str,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table><thead><tr>",
        esc(title)
    );
    for head in heads {
        let _ = write!(out, "<th scope=\"col\" class=\"l\">{}</th>", esc(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (i, text) in row.iter().enumerate() {
            let _ = match i {
                0 => write!(out, "<th scope=\"row\">{}</th>", esc(text)),
                i if i == N - 1 => write!(out, "<td class=\"code\">{}</td>", esc(text)),
                _ => write!(out, "<td class=\"l\">{}</td>", esc(text)),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    out
}

fn trust(run: &Run) -> String {
    let mut out =
        String::from("<section id=\"trust\">\n<h2>How far to trust it</h2>\n<ul class=\"trust\">");
    if run.manifest.world == "sim" {
        out.push_str(SIMULATED);
    } else {
        let _ = write!(
            out,
            "<li>World {}: measured on one machine; another drive, firmware or kernel gives other \
             figures.</li>",
            esc(&run.manifest.world)
        );
        for (name, value) in &run.manifest.machine {
            let _ = write!(out, "<li>{}: {}</li>", esc(name), esc(value));
        }
    }
    out.push_str(
        "<li>The intervals say how much the result moves from seed to seed, nothing about how \
         well the setting matches yours.</li></ul>\n</section>\n",
    );
    out
}

const STYLE: &str = include_str!("style.css");
/// The part of it that drawings need, also when they are saved.
pub(super) const CHART: &str = include_str!("chart.css");
pub(super) const SCRIPT: &str = include_str!("report.js");

const READING: &str = "<p class=\"note\">Reading the tables of latency. <b>mean</b>: \
mean over repetitions of each repetition's mean, ± half the 99 % Student interval. <b>shorter by</b>: \
the first configuration's latency over this one's, geometric mean over repetitions with the same seed; \
<i>same</i> when the 99 % interval of the ratio holds 1 or the ratio is within 3 %. <b>sd</b>, \
percentiles and <b>max</b>: of the I/Os of all repetitions together; a percentile needs ten I/Os above \
it, else a dash; ≥ marks a wait the end of the run cut off. <b>time-weighted</b>: what a random instant \
would wait through (Σx²/Σx). The target of an experiment issues its next I/O when the last one is done; a \
trace that is replayed in open loop issues each at its recorded time.</p>\n";

const READING_VERDICT: &str = "<p class=\"note\" style=\"margin-top:26px\">Reading the verdicts. \
<b>Throughput kept</b>: total throughput over that of the reference configuration (<code>none-none</code> if it \
takes part, else the first). <b>Frontier</b>: no other configuration is better by more than 3 % in one of the two \
and no worse in the other. The best is the best in what is judged; beside it stands the best that keeps at least \
80 % of the throughput. Intervals below a hundredth of their mean are printed as &lt;1 %: the models are not known \
more finely.</p>\n";

const READING_SHARES: &str = "<p class=\"note\">Reading the tables of shares. <b>received</b>: the target's part of \
the bytes of all processes. <b>entitled</b>: the part that its weight over the weights of all, or its guarantee, \
promises. <b>target has</b>: received over entitled. <b>worst served has</b>: the same of the process that has least \
of its part. <b>Jain's index</b> of bytes over weights: 1 when all get their part, 1/n when one of n gets everything. \
Shares are of bytes: a random reader among sequential ones stays below its part of the bytes even where it has its part \
of the drive's time. <b>Loss of control</b>: some process below half of its part, hardly better than under the \
reference, although another configuration at least doubles it.</p>\n";

const READING_STARTS: &str = "<p class=\"note\">Reading the tables of start-ups. A start that was given up has no time, \
only a bound, told with &gt;. <b>times the idle</b>: over the start without a load.</p>\n";

const READING_COUNTS: &str = "<p class=\"note\">Reading the tables of counts. What the target’s load counts in the measured \
window, mean over repetitions ± half the 99 % Student interval: frames that came too late, files that were compiled or \
replaced. <b>part</b>: of all that were due or to do. <b>better by</b>: times fewer of what is lost, times more of what is \
done, geometric mean over repetitions with the same seed that have both.</p>\n";

const READING_RATES: &str = "<p class=\"note\">Reading the tables of throughput. \
<b>all</b>, <b>read</b>, <b>written</b>: what the device moved in the measured window, mean over \
repetitions ± half the 99 % Student interval. <b>times the first</b>: over the first configuration's, \
geometric mean over repetitions with the same seed; <i>same</i> when the 99 % interval of the ratio holds \
1 or the ratio is within 3 %. <b>slowest</b>, <b>fastest</b>: bytes of single processes' calls; what they \
write may stay in the page cache. <b>Jain's index</b> of these: 1 when all get the same, 1/n when one of n \
gets everything.</p>\n";

const SIMULATED: &str = "<li>Simulated. The schedulers are the real subject and follow their \
specifications; drive and host are models with the parameters above.</li>\
<li>Trust ratios between configurations on one drive more than absolute times, and absolute times more \
than comparisons between drives.</li>\
<li>The drive models know no firmware secrets: error recovery, thermal throttling and background work \
appear only where a parameter says so. Processor time of the schedulers is not charged.</li>\
<li>Where a published measurement of the same setting exists, it stands beside ours.</li>";

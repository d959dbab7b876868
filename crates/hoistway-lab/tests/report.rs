//! Reports of a made-up run: stored page, escaping, balanced tags, size.

#[path = "common/sample.rs"]
mod sample;

use hoistway::Nanos;
use hoistway::target::Answer;
use hoistway_lab::report::{FORMATS, html, markdown};
use hoistway_run::TargetRecord;
use std::path::Path;
use std::sync::Arc;

/// `UPDATE=1` rewrites the stored text; the diff is reviewed like code.
fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).expect("a stored report; UPDATE=1 writes it");
    for (n, (w, g)) in want.lines().zip(got.lines()).enumerate() {
        assert_eq!(w, g, "{name}, line {}", n + 1);
    }
    assert_eq!(want.len(), got.len(), "{name}");
}

#[test]
fn the_pages_are_as_stored() {
    let run = sample::run(1, 3, 4, 1200);
    golden("sample.html", &html::render(&run));
    golden("sample.md", &markdown::render(&run));
}

/// What a scheduler says of a latency target stands in the page and in the Markdown, with its figures.
#[test]
fn answers_about_targets_are_in_every_format() {
    let mut run = sample::run(1, 2, 3, 100);
    assert!(!html::render(&run).contains("latency targets"), "nobody has one");
    let answer = |rep: u64| match rep {
        0 => Answer::Met,
        _ => Answer::Loss { best_p99: Nanos(1_200_000), cost_permille: Some(120) },
    };
    for (n, rep) in run.cells[1].reps.iter_mut().enumerate() {
        rep.targets.push(TargetRecord {
            group: "/gold<".into(),
            target: Some(Nanos::ms(1)),
            p99: Nanos::ms(1 + n as u64),
            mean: Nanos(700_000),
            share_permille: 31,
            answer: answer(n as u64),
        });
    }
    let words = "2 of 3: loss: the best p99 without loss is 1.2 ms; 1 ms would cost 12 % of the \
                 throughput; 1 of 3: met";
    for page in [html::render(&run), markdown::render(&run)] {
        assert!(page.contains(words), "{page}");
        assert!(page.contains("/gold&lt;") && !page.contains("/gold<"));
        assert!(page.contains("2 ms") && page.contains("3.1 %"), "mean p99 and share");
    }
}

#[test]
fn only_what_is_simulated_repeats_to_the_digit() {
    let mut run = sample::run(1, 2, 3, 100);
    let page = html::render(&run);
    assert!(page.contains("repeats it, to the digit") && page.contains("Trace digests"));
    run.manifest.world = "engine".into();
    run.manifest.machine = vec![("stolen".into(), "3.0 %".into())];
    let page = html::render(&run);
    assert!(!page.contains("digit") && !page.contains("Trace digests"));
    assert!(page.contains("<li>stolen: 3.0 %</li>"));
}

#[test]
fn every_format_renders_the_same_run_to_the_same_bytes() {
    for format in FORMATS {
        let (a, b) = (sample::run(2, 4, 3, 300), sample::run(2, 4, 3, 300));
        assert_eq!((format.render)(&a), (format.render)(&b), "{}", format.name);
    }
}

#[test]
fn names_of_users_stay_text() {
    let mut run = sample::run(1, 2, 3, 100);
    let evil = "<script>alert(1)</script>\"'&|`</title></svg>";
    let m = &mut run.manifest;
    for field in [&mut m.experiment, &mut m.title, &mut m.about, &mut m.version, &mut m.command] {
        *field = evil.into();
    }
    m.drives[0].name = evil.into();
    m.drives[0].parameters = evil.into();
    m.configs[1].id = evil.into();
    m.configs[1].summary = evil.into();
    m.configs[1].tunables[0].0 = evil.into();
    m.workloads[0].id = evil.into();
    m.workloads[0].summary = evil.into();
    m.host[0] = (evil.into(), evil.into());
    run.cells.iter_mut().filter(|c| c.config == "none-bfq").for_each(|c| c.config = evil.into());
    run.cells.iter_mut().filter(|c| c.workload == "readers").for_each(|c| c.workload = evil.into());
    for m in &mut run.metrics {
        Arc::make_mut(&mut m.place).source = evil.into();
    }
    run.flags.push((format!("{}/{evil}/{evil}", run.manifest.drives[0].id), evil.into()));
    run.flags.push(("elsewhere".into(), evil.into()));
    let page = html::render(&run);
    assert_eq!(page.matches("<script>").count(), 1, "only our own");
    assert!(!page.contains("alert(1)</"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    balanced(&page);
    let text = markdown::render(&run);
    let command = text.lines().last().unwrap();
    let rest = text.strip_suffix(&format!("{command}\n")).unwrap();
    assert!(!rest.contains("<script>"), "only the code block holds the command as it is");
}

#[test]
fn tags_balance_and_ids_are_unique() {
    for (drives, configs, reps, samples) in [(1, 1, 1, 0), (1, 2, 2, 5), (3, 12, 3, 400)] {
        balanced(&html::render(&sample::run(drives, configs, reps, samples)));
    }
    for (drives, configs, reps) in [(1, 1, 1), (2, 3, 2), (3, 12, 3)] {
        balanced(&html::render(&sample::free(drives, configs, reps)));
    }
    let mut run = sample::run(1, 2, 3, 10);
    run.cells.clear();
    balanced(&html::render(&run));
}

#[test]
fn three_drives_and_ten_configurations_stay_below_400_kb() {
    let page = html::render(&sample::run(3, 10, 10, 20_000));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn a_page_loads_nothing_from_elsewhere() {
    let page = html::render(&sample::run(2, 4, 3, 100));
    // The name space of drawings is a name, not an address.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "@import", "url(", " src=", "NaN", "inf "] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_ten_samples_rule_turns_percentiles_into_dashes() {
    let row = |samples| {
        let page = html::render(&sample::run(1, 1, 1, samples));
        let at = page.find("<th scope=\"row\">A none-none").unwrap();
        let row = page[at..].lines().next().unwrap().to_string();
        row.matches("<td>–</td>").count()
    };
    // The reference itself has no "shorter by".
    assert_eq!(row(10_000), 1);
    assert_eq!(row(9_999), 2);
    assert_eq!(row(999), 3);
    assert_eq!(row(199), 4);
    assert_eq!(row(19), 5);
}

#[test]
fn the_headline_follows_the_data() {
    let mut run = sample::run(1, 2, 5, 500);
    for (cell, bytes) in run.cells.iter_mut().zip([1000, 970]) {
        for rep in &mut cell.reps {
            sample::moves(rep, 0, bytes * 1_000_000);
        }
    }
    let mut run = sample::again(run);
    let text = markdown::render(&run);
    let words = "On Plextor PX-256M5S beside readers, **none-bfq** serves the target in **875 µs** (instead of \
                 37.7 ms under none-none) and keeps **97 %** of the throughput.";
    assert!(text.contains(words), "{text}");
    // As much in all, but most of it the target's: what the others lost is said.
    for rep in &mut run.cells[1].reps {
        sample::moves(rep, 900_000_000, 70_000_000);
    }
    let run = sample::again(run);
    let text = markdown::render(&run);
    assert!(
        text.contains("and keeps **97 %** of the throughput (the other processes 7.0 %)."),
        "{text}"
    );
    let mut run = sample::run(1, 2, 5, 500);
    let first = run.cells[0].reps.clone();
    run.cells[1].reps = first;
    let run = sample::again(run);
    let same = "no configuration does better beyond the spread of the repetitions.";
    assert!(markdown::render(&run).contains(same));
}

#[test]
fn a_dear_best_has_a_cheap_second_beside_it() {
    let mut run = sample::run(1, 4, 5, 500);
    // All but the reference pay; mq-deadline and deadline keep most.
    for (cell, mb) in run.cells.iter_mut().zip([500, 30, 480, 470]) {
        for rep in &mut cell.reps {
            sample::moves(rep, 0, mb * 10_000_000);
        }
    }
    let run = sample::again(run);
    let text = markdown::render(&run);
    let words = "and keeps **6.0 %** of the throughput; **deadline** serves the target in **";
    assert!(text.contains(words) && text.contains("** and keeps **94 %**."), "{text}");
    let page = html::render(&run);
    let plot = page.split("Trade-off: Plextor").nth(1).unwrap().split("</svg>").next().unwrap();
    assert_eq!(plot.matches("class=\"t lab").count(), 4, "every configuration has its name");
    // mq-deadline keeps 2 % more than deadline, which is no more than the same: deadline beats it.
    assert_eq!(plot.matches("on the frontier").count(), 2 * 3);
    assert!(plot.contains("C mq-deadline: ") && !plot.contains("96 % of the throughput, on the"));
    assert_eq!(plot.matches("class=\"dot open\"").count(), 1);
}

#[test]
fn shares_are_judged_by_the_worst_served() {
    let run = sample::shared(1, 3, 3);
    for page in [html::render(&run), markdown::render(&run)] {
        for word in ["leaves nobody below", "of its part", "entitled", "worst served", "Jain"] {
            assert!(page.contains(word), "{word}");
        }
        for word in ["The target waits", "shorter by", "beside readers"] {
            assert!(!page.contains(word), "{word}");
        }
    }
    let text = markdown::render(&run);
    let words = "with readers, **mq-deadline** leaves nobody below **";
    assert!(text.contains(words), "{text}");
    // Two of eight processes have nothing under the first, all the same under the third.
    assert!(text.contains("(instead of 0 % under none-none)"), "{text}");
    balanced(&html::render(&run));
}

#[test]
fn starts_are_judged_by_their_time_and_bounds_stay_bounds() {
    let run = sample::starting(1, 3, 3);
    let text = markdown::render(&run);
    let words = "**none-bfq** lets a start take **1.20 s** (instead of &gt;60 s under none-none)";
    assert!(text.contains(words), "{text}");
    let page = html::render(&run);
    assert!(page.contains(">start-up time") && !page.contains("mean latency of the target"));
    balanced(&page);
}

#[test]
fn every_chart_is_a_file_of_its_own() {
    for run in [sample::run(2, 3, 3, 100), sample::shared(1, 3, 3), sample::free(1, 2, 3)] {
        let page = html::render(&run);
        let files = hoistway_lab::report::export::svg(&run);
        assert_eq!(files.len(), page.matches("<figure data-name=").count());
        let names: std::collections::BTreeSet<&str> = files.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(names.len(), files.len(), "{names:?}");
        for (name, text) in &files {
            let svg = text.split_once("?>\n").expect("a declaration").1;
            assert!(
                !svg.contains("var(") && svg.contains(" xmlns=") && svg.contains(" width="),
                "{name}"
            );
            balanced(&svg.replace(" href=\"#", " data-was=\""));
        }
    }
}

#[test]
fn on_a_logarithmic_axis_there_are_dots_and_no_bars() {
    let page = html::render(&sample::run(1, 4, 3, 300));
    let chart =
        page.split("Latency of the target: ").nth(1).unwrap().split("</svg>").next().unwrap();
    assert!(chart.contains("mean latency of the target, log scale"));
    assert!(!chart.contains("class=\"bar\"") && chart.matches("class=\"dot\"").count() == 4);
}

#[test]
fn without_a_target_the_report_speaks_of_throughput_alone() {
    for page in [html::render(&sample::free(2, 4, 3)), markdown::render(&sample::free(2, 4, 3))] {
        for word in ["latency of the target", "Latency of the target", "p99", "waits", "shorter by"]
        {
            assert!(!page.contains(word), "{word}");
        }
        for word in ["the device moves", "MB/s", "Jain", "slowest", "written"] {
            assert!(page.contains(word), "{word}");
        }
    }
    // A run may hold both kinds.
    let (mut both, free) = (sample::run(1, 3, 3, 100), sample::free(1, 3, 3));
    for (cell, other) in both.cells.iter_mut().zip(free.cells).filter(|c| c.0.workload == "writers")
    {
        *cell = other;
    }
    let both = sample::again(both);
    let page = html::render(&both);
    balanced(&page);
    assert!(page.contains("the device moves") && page.contains("mean latency of the target"));
}

#[test]
fn the_headline_of_throughput_follows_the_data() {
    let mut run = sample::free(1, 3, 3);
    let mut set = |rates: [u64; 3]| {
        for (cell, mb) in run.cells.iter_mut().zip(rates) {
            for rep in &mut cell.reps {
                (rep.device.read_bytes, rep.device.written_bytes) = (mb * 10_000_000, 0);
            }
        }
        markdown::render(&sample::again(run.clone()))
    };
    let text = set([100, 100, 101]);
    assert!(text.contains("moves **100 MB/s** under none-none; no other"), "{text}");
    let text = set([100, 60, 150]);
    let all = "**100 MB/s** under none-none, **150 MB/s** under mq-deadline and **60.0 MB/s** under none-bfq.";
    assert!(text.contains(all), "{text}");
    let text = set([100, 60, 100]);
    assert!(
        text.contains("none moves more, and the least is **60.0 MB/s** under none-bfq."),
        "{text}"
    );
}

/// Every tag is closed in order, attributes are quoted, no id occurs twice.
fn balanced(page: &str) {
    const VOID: [&str; 5] = ["meta", "link", "br", "!doctype", "!--"];
    let (mut open, mut ids) = (Vec::new(), std::collections::BTreeSet::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
            continue;
        }
        if let Some((_, id)) = tag.split_once(" id=\"") {
            let id = id.split('"').next().unwrap();
            assert!(ids.insert(id.to_string()), "id {id} twice");
        }
        let name = tag.split([' ', '/']).next().unwrap();
        if VOID.contains(&name) || tag.ends_with('/') {
            continue;
        }
        open.push(name);
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("a script or style ends")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert!(ids.contains(id), "no place #{id}");
    }
}

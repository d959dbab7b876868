//! Renders a made-up run, to look at the layout of reports:
//! `cargo run -p hoistway-lab --example sample_report -- OUT.html [DRIVES CONFIGS REPS SAMPLES]`; without samples
//! nobody is the target.

#[path = "../tests/common/sample.rs"]
mod sample;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "sample-report.html".into());
    let mut number = |default| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (drives, configs) = (number(2).clamp(1, 3) as usize, number(4).clamp(1, 12) as usize);
    let reps = number(5) as u32;
    let run = match number(4000) {
        0 => sample::free(drives, configs, reps),
        samples => sample::run(drives, configs, reps, samples),
    };
    std::fs::write(&path, hoistway_lab::report::html::render(&run))?;
    println!("{path}");
    Ok(())
}

//! Two random readers under the scheduler, on a simulated disk: what each read, and the first decisions about one of
//! them. `cargo run -- 4` gives each turn four requests.

use hoistway::{IoPrio, Nanos};
use hoistway_lab::explain::{Subject, story};
use hoistway_run::{ControlSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{Job, run};
use outside_scheduler::ENTRY;
use std::borrow::Cow;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let quantum = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let drive = DriveFile::load("hitachi-hts727550a9e364")?;
    let reader = |name: &str, role| -> Result<ProcSpec, Box<dyn Error>> {
        Ok(ProcSpec {
            name: name.into(),
            role,
            group: None,
            prio: IoPrio::NONE,
            start: Nanos::ZERO,
            load: "reader".into(),
            params: "pattern = \"rand\"".parse()?,
        })
    };
    let job = Job {
        drive: Cow::Borrowed(&drive),
        host: HostConfig::profile("today")?,
        scheduler: SchedulerSpec {
            entry: &ENTRY,
            set: vec![("quantum".into(), quantum)],
            queue: vec![],
        },
        control: ControlSpec::default(),
        groups: vec![],
        procs: vec![reader("target", Role::Target)?, reader("other", Role::Interferer)?],
        window: Window {
            ramp: Nanos::ZERO,
            measured: Nanos::secs(2),
            grace: Nanos::secs(1),
            target_interval: Nanos::ms(500),
            device_interval: Nanos::ms(500),
        },
        seed: 1,
        trace: TraceMode::Keep(1 << 20),
    };
    let outcome = run(&job, &mut |_| true)?;
    for proc in &outcome.procs {
        println!("{}: {} reads, {} bytes", proc.name, proc.ios, proc.bytes);
    }
    let subject = Subject::of(&job, &outcome.made, "target").ok_or("it takes part")?;
    story(&outcome.trace, &subject, 12).lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

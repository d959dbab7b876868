//! Texts of users, mutated: whatever is written, the answer is a value or a message, never a panic.

use super::spec::{self, ExportSpec, ServeOptions};
use hoistway_sim::rng::{Rng, stream};

/// Makes texts from texts, always the same ones for a seed.
pub struct Mutator(Rng);

impl Mutator {
    pub fn new(seed: u64) -> Mutator {
        Mutator(stream(seed, "texts"))
    }

    /// One of the texts, with up to five changes: pieces of others, numbers at the edge, odd
    /// characters.
    pub fn text(&mut self, seeds: &[&str]) -> String {
        let mut text: Vec<char> = self.0.one_of(seeds).chars().collect();
        for _ in 0..self.0.below(6) {
            let at = self.0.below(text.len() as u64 + 1) as usize;
            let to = (at + self.0.below(6) as usize).min(text.len());
            match self.0.below(4) {
                0 => drop(text.drain(at..to)),
                1 => {
                    let odd = self.0.one_of(&[
                        '=', ',', ':', '{', '}', '"', '\\', '\n', '\0', '-', '.', 'é', '9',
                    ]);
                    text.splice(at..at, [odd]);
                }
                2 => {
                    let edge = self.0.one_of(NUMBERS);
                    text.splice(at..to, edge.chars());
                }
                _ => {
                    let other: Vec<char> = self.0.one_of(seeds).chars().collect();
                    let from = self.0.below(other.len() as u64 + 1) as usize;
                    let end = (from + self.0.below(24) as usize).min(other.len());
                    text.splice(at..to, other[from..end].iter().copied());
                }
            }
        }
        text.into_iter().collect()
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1e400",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999T",
    "16E",
    "0.0000001",
    "nan",
    "inf",
    "9223372036854775807s",
    "1_000",
    "٣",
];

const EXPORTS: &[&str] = &[
    "gold=ram:1G,weight=500,ro,offset=1M",
    "disk=file:/tmp/x,direct,way=threads,size=4G,prio=rt/3",
    "ram:1M",
    "slow=emulate:plextor-px-256m5s:24M,data=/tmp/d,seed=7",
    "a=null:1T,group=g,latency=10ms,rbps=10M,wbps=1G,riops=100,wiops=max",
    "c=file:/tmp/x,cow,base=a",
];

const TOML: &[&str] = &[
    "listen = [\"unix:/run/h.sock\", \"tcp:10809\"]\nscheduler = \"bfq{low_latency=0}\"\nconnections = 1000\n\
     stop-limit = \"10s\"\n[[export]]\nname = \"gold\"\ntarget = \"file:/srv/disk\"\nweight = 800\n",
    "control = \"/run/c\"\n[[client]]\nuid = 1000\nweight = 50\nprio = \"be/7\"\n[[export]]\nname = \"a\"\n\
     target = \"ram:8M\"\nread-only = true\noffset = \"1M\"\nsize = \"2M\"\n",
    "allow-plain-tcp = true\ntls = \"require\"\n[[export]]\nname = \"é\"\ntarget = \"null:1T\"\nlatency = \"5ms\"\n",
];

const CONFIGS: &[&str] = &[
    "bfq{slice_idle=0,low_latency=1}",
    "max-mq-deadline{fifo_batch=4}",
    "cost-none",
    "lat-bfq",
    "kyber{read_lat_nsec=5ms}",
    "none{nr_requests=8}",
];

fn all_of(export: &ExportSpec) {
    let _ = export.target();
    let _ = export.range();
    let _ = export.device_key();
    let _ = export.keys().limits();
    let _ = export.prio.as_deref().map(spec::prio);
    let _ = export.scheduler.as_deref().map(spec::device_options);
}

#[test]
fn any_text_is_an_export_or_a_message() {
    let (mut random, mut good) = (Mutator::new(1), 0);
    for _ in 0..20_000 {
        let text = random.text(EXPORTS);
        match ExportSpec::parse(&text) {
            Ok(export) => {
                good += 1;
                all_of(&export);
            }
            Err(message) => assert!(!message.is_empty(), "{text:?}"),
        }
    }
    assert!(good > 2000, "{good} were exports");
}

#[test]
fn any_file_is_a_configuration_or_a_message() {
    let (mut random, mut good) = (Mutator::new(2), 0);
    for _ in 0..6000 {
        let text = random.text(TOML);
        let Ok(file) = toml::from_str::<ServeOptions>(&text) else { continue };
        good += 1;
        file.export.iter().for_each(all_of);
        file.listen.iter().for_each(|l| drop(spec::listen(l)));
        for client in &file.client {
            let _ = (client.who(), client.group_name(), client.keys().limits());
        }
    }
    assert!(good > 500, "{good} were configurations");
}

#[test]
fn any_text_is_a_scheduler_an_address_a_priority_or_a_message() {
    let (mut random, mut good) = (Mutator::new(3), 0);
    for _ in 0..10_000 {
        good += u32::from(spec::device_options(&random.text(CONFIGS)).is_ok());
        let _ = spec::listen(&random.text(&[
            "tcp:10809",
            "unix:/run/x",
            "tcp:[::1]:99",
            "tcp:1.2.3.4:5",
        ]));
        let _ = spec::prio(&random.text(&["rt/0", "be/7", "idle", "none"]));
    }
    assert!(good > 500, "{good} were schedulers");
}

use flate2::read::GzDecoder;
use hoistway_replay::{Outcome, Recorded, replay};
use std::fs::File;
use std::io::Read;
use std::path::Path;

fn compare(name: &str) -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let name = format!("{name}.csv.gz");
    let file = File::open(path.join(&name)).unwrap();
    let mut recording = String::new();
    GzDecoder::new(file).read_to_string(&mut recording).unwrap();
    replay(&recording, &Recorded::named(&name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn overview() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut names: Vec<String> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for n in names.iter().filter(|n| n.ends_with(".gz")) {
        let n = n.strip_suffix(".csv.gz").unwrap();
        let r = std::panic::catch_unwind(|| compare(n));
        match r { Ok(o) => { println!("{n}: {:?} {:?} given_up {:?}", o.differences, o.counts, o.given_up);
          if let Some(d) = o.first { println!("   line {} recorded {} ours {}", d.line, d.recorded, d.ours); } }
          Err(_) => println!("{n}: PANIC") }
    }
}

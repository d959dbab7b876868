//! Builds a kernel that runs in virtual time, of any source tree.
//!
//! ```text
//!   source (package, tarball, folder) -> a tree of our own in the cache
//!     patches of the user             patch -p1
//!     our files                       arch/um/drivers/hoistway, a line in arch/um/drivers/Makefile
//!     with them, if asked, the module  arch/um/drivers/hoistway/module: linux/module and the core, built in
//!     changes of arch/um              EDITS: the clock to the nanosecond, random numbers by the seed, ...
//!     configuration                   tinyconfig and linux/config
//!   make linux                        -> image, configuration, log, manifest; the tree is removed
//! ```
//!
//! What is there already is reused: a kernel whose digest is that of the source, the patches, our files and our
//! configuration. A folder gets the kernel's name when all is in it, so that nobody finds half a kernel; the folder of
//! a build that was killed is taken away by the next.
//!
//! **Weaknesses.** A folder is digested by names, sizes and times of its files, not by their bytes. The compiler is not
//! part of the digest. Changes of arch/um are replacements of text: a version whose text is another one is refused, with
//! the place that was looked for.

use super::group::Group;
use super::kernels::{self, Contents, Kernel, by_release, name_is_good};
use crate::MachineError;
use crate::kernel::{Lack, MODULE};
use crate::{os, programs};
use edits::{EDITS, Edit, OF_MODULE, edited};
use hmac_sha256::Hash;
use hoistway::Nanos;
use hoistway_files::Dir;
use hoistway_serve::system::Clock;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use work::{Facts, Work};

mod edits;
mod work;

/// What is built.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A folder, a tarball, or the name of a package of the distribution; `None`: the newest of these packages.
    pub source: Option<String>,
    /// Patches, in the order in which they are applied.
    pub patches: Vec<PathBuf>,
    /// Files with options of its configuration, beside ours.
    pub configs: Vec<PathBuf>,
    /// The schedulers of the module are built in.
    pub with_module: bool,
    /// What the kernel is to be called; `None`: by its release, `6.1`, and `6.1-hoistway` with the module.
    pub name: Option<String>,
    /// The tree stays in the cache directory.
    pub keep_tree: bool,
}

/// A kernel, and whether it was there already.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernel.
    pub kernel: Kernel,
    /// Nothing had to be built.
    pub reused: bool,
    /// What our configuration asks for and this source does not have.
    pub missing: Vec<String>,
    /// How long it took.
    pub took: Nanos,
}

/// Builds it. `watch` hears what is going on, several times a second; `false`: the build is given up.
///
/// # Errors
///
/// The machine lacks a program; the source, a patch or its configuration does not fit; it does not compile.
pub fn build(
    options: &Options,
    watch: &mut dyn FnMut(&str) -> bool,
) -> Result<Built, MachineError> {
    let began = Clock::new();
    let cache = kernels::folder()?;
    if let Some(name) = options.name.as_ref().filter(|name| !name_is_good(name)) {
        return Err(MachineError::Refused(format!(
            "the name '{name}' cannot be a folder's; choose letters, digits, '.', '-', '_'"
        )));
    }
    let folder = Dir::make_all(&cache)?;
    if let Some(name) = &options.name {
        kernels::check_name(&cache, name)?;
    }
    let source = Source::find(options.source.as_deref(), Path::new(PACKAGES))?;
    watch(&format!("reading {}", source.path.display()));
    let module = match options.with_module {
        true => crate::module::built_in(has_kasan(&options.configs)?, &mut |what| {
            watch(what);
        })?,
        false => Vec::new(),
    };
    let digest = digest(&source, options, &module)?;
    if let Some(kernel) = reusable(&digest, options)? {
        let (missing, took) = (Vec::new(), Nanos::ZERO);
        return Ok(Built { kernel, reused: true, missing, took });
    }
    lacking(&source)?;
    let work = Work::begin(folder, options.keep_tree)?;
    let mut build = Build { tree: work.tree(), log: work.folder.path().join(LOG), options, watch };
    build.unpack(&source)?;
    build.patch()?;
    build.add_ours()?;
    if options.with_module {
        build.add_module(&module)?;
    }
    if options.name.is_none() {
        let (version, level) = build.series()?;
        let name = short_name(&format!("{version}.{level}"), options.with_module);
        kernels::check_name(&cache, &name)?;
    }
    let missing = build.configure()?;
    build.make(&["linux"], "compiling")?;
    let release = build.release()?;
    let name = options.name.clone().unwrap_or_else(|| short_name(&release, options.with_module));
    let kernel = work.finish(&source, options, Facts { name, release, digest })?;
    Ok(Built { kernel, reused: false, missing, took: began.now() - hoistway::Instant::ZERO })
}

/// Whether one of these files asks for KASAN.
fn has_kasan(configs: &[PathBuf]) -> Result<bool, MachineError> {
    for config in configs {
        let text = fs::read_to_string(config).map_err(os(config.display().to_string()))?;
        if text.lines().any(|line| line.trim() == "CONFIG_KASAN=y") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where packages of the distribution put their tarballs.
const PACKAGES: &str = "/usr/src";
const LOG: &str = "build.log";
/// What a build takes, in a folder's words.
const WORK: &str = ".building";
/// The kernel whose name a new one has just taken.
const OLD: &str = ".replaced";
/// The source, in a folder's words.
const TREE: &str = "tree";
/// How often `watch` is asked.
const LOOK: Duration = Duration::from_millis(200);

/// Our files, and what they are called in arch/um/drivers/hoistway.
const OURS: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../linux/driver/Makefile")),
    ("hoistway.h", include_str!("../../linux/driver/hoistway.h")),
    ("hoistway_drive.c", include_str!("../../linux/driver/hoistway_drive.c")),
    ("hoistway_host.c", include_str!("../../linux/driver/hoistway_host.c")),
    ("hoistway_record.c", include_str!("../../linux/driver/hoistway_record.c")),
    ("hoistway_record.h", include_str!("../../linux/driver/hoistway_record.h")),
    ("hoistway_kernel.h", include_str!("../../linux/driver/hoistway_kernel.h")),
    ("hoistway_control.c", include_str!("../../linux/driver/hoistway_control.c")),
    ("hoistway_flushes.c", include_str!("../../linux/driver/hoistway_flushes.c")),
];
const FRAGMENT: &str = include_str!("../../linux/config");
/// Without these nothing of what a kernel is built for would run.
const NEEDED: &[&str] = &["UML_TIME_TRAVEL_SUPPORT", "HOSTFS", "BLOCK", "BLK_CGROUP", "DEVTMPFS"];

/// A program that a build needs, and the package that has it.
const PROGRAMS: &[(&str, &str)] = &[
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("ld", "binutils"),
];

/// Whether a folder is a source tree of Linux, and a whole one.
fn check_tree(folder: &Path, name: &str) -> Result<(), MachineError> {
    let lacking =
        ["arch/um", "Makefile", "init/main.c"].into_iter().find(|part| !folder.join(part).exists());
    lacking.map_or(Ok(()), |part| {
        Err(MachineError::Refused(format!("{name}: is no source tree of Linux (it has no {part})")))
    })
}

/// What is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    path: PathBuf,
    folder: bool,
}

impl Source {
    fn find(asked: Option<&str>, packages: &Path) -> Result<Source, MachineError> {
        let Some(asked) = asked else {
            return newest_package(packages).ok_or_else(|| {
                let why = format!("there is no linux-source-*.tar.* in {}", packages.display());
                let remedy = "install the distribution's package (`./setup.sh linux`, or `apt install linux-source`), \
                              or give --source a folder or tarball";
                MachineError::Lack(Lack::new("the source of a kernel", why, remedy))
            });
        };
        let path = PathBuf::from(asked);
        if path.is_dir() {
            check_tree(&path, asked)?;
            let path = path.canonicalize().map_err(os(asked))?;
            return Ok(Source { path, folder: true });
        }
        if path.is_file() {
            return Ok(Source { path, folder: false });
        }
        let names = [asked.to_string(), format!("linux-source-{asked}")];
        let found = tarballs(packages).into_iter().find(|(stem, _)| names.contains(stem));
        found.map(|(_, path)| Source { path, folder: false }).ok_or_else(|| {
            let known: Vec<String> = tarballs(packages).into_iter().map(|(stem, _)| stem).collect();
            let known = match known.is_empty() {
                true => "none".into(),
                false => known.join(", "),
            };
            MachineError::Refused(format!(
                "--source {asked}: is no folder, no file, and no package in {} (there: {known})",
                packages.display()
            ))
        })
    }
}

/// Tarballs of packages, by their names without `.tar.*`, the newest last.
fn tarballs(packages: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(packages).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (stem, _) = name.split_once(".tar.")?;
            stem.starts_with("linux-source-").then(|| (stem.to_string(), entry.path()))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| by_release(version_in(a), version_in(b)).then(a.cmp(b)));
    found
}

fn version_in(stem: &str) -> &str {
    stem.trim_start_matches("linux-source-")
}

fn newest_package(packages: &Path) -> Option<Source> {
    tarballs(packages).pop().map(|(_, path)| Source { path, folder: false })
}

/// Of everything a kernel is made from; `module`: the files of the module that is built in.
fn digest(
    source: &Source,
    options: &Options,
    module: &[(String, Vec<u8>)],
) -> Result<String, MachineError> {
    let mut hash = Hash::new();
    match source.folder {
        false => hash_file(&mut hash, &source.path)?,
        true => hash_folder(&mut hash, &source.path)?,
    }
    for file in options.patches.iter().chain(&options.configs) {
        hash_file(&mut hash, file)?;
    }
    for (name, text) in OURS {
        hash.update(name);
        hash.update(text);
    }
    for (name, bytes) in module {
        hash.update(name);
        hash.update(bytes);
    }
    let edits = if module.is_empty() { &[] } else { OF_MODULE };
    for edit in EDITS.iter().chain(edits) {
        edit.texts.iter().for_each(|(old, new)| {
            hash.update(old);
            hash.update(new);
        });
    }
    hash.update(FRAGMENT);
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn hash_file(hash: &mut Hash, path: &Path) -> Result<(), MachineError> {
    let what = || path.display().to_string();
    let mut file = File::open(path).map_err(os(what()))?;
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part).map_err(os(what()))? {
            0 => return Ok(()),
            n => hash.update(&part[..n]),
        }
    }
}

/// Names, sizes and times of all files in the order of their names.
fn hash_folder(hash: &mut Hash, folder: &Path) -> Result<(), MachineError> {
    let what = || folder.display().to_string();
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(os(what()))?.collect();
    let mut entries = entries.map_err(os(what()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries.iter().filter(|entry| entry.file_name() != ".git") {
        let path = entry.path();
        let facts = fs::symlink_metadata(&path).map_err(os(path.display().to_string()))?;
        hash.update(path.as_os_str().as_encoded_bytes());
        if facts.is_dir() {
            hash_folder(hash, &path)?;
        } else {
            hash.update(format!("{} {} {}", facts.len(), facts.mtime(), facts.mtime_nsec()));
        }
    }
    Ok(())
}

/// A kernel made from the same.
fn reusable(digest: &str, options: &Options) -> Result<Option<Kernel>, MachineError> {
    let same = kernels::list()?.into_iter().filter(|k| k.digest == digest && k.image.exists());
    Ok(same.into_iter().find(|k| match &options.name {
        Some(name) => k.name == *name,
        None => k.name == short_name(&k.release, options.with_module),
    }))
}

/// `6.1.170` is called 6.1, and `6.13.0-rc2-mine` 6.13; with the module 6.1-hoistway.
fn short_name(release: &str, with_module: bool) -> String {
    let (numbers, _) = release.split_once('-').unwrap_or((release, ""));
    let name = numbers.split('.').take(2).collect::<Vec<_>>().join(".");
    if with_module { format!("{name}-{MODULE}") } else { name }
}

fn lacking(source: &Source) -> Result<(), MachineError> {
    let mut wanted = PROGRAMS.to_vec();
    wanted.push(("patch", "patch"));
    if !source.folder {
        wanted.push(("tar", "tar"));
        wanted.push(("xz", "xz-utils"));
    }
    let Some(list) = programs::lacking(&wanted) else { return Ok(()) };
    let remedy = format!("`./setup.sh linux`, or `apt install {list}`");
    Err(MachineError::Lack(Lack::new(list, "a kernel is not built without", remedy)))
}

/// A build under way.
struct Build<'a> {
    tree: PathBuf,
    log: PathBuf,
    options: &'a Options,
    watch: &'a mut dyn FnMut(&str) -> bool,
}

impl Build<'_> {
    fn unpack(&mut self, source: &Source) -> Result<(), MachineError> {
        fs::create_dir(&self.tree).map_err(os(self.tree.display().to_string()))?;
        let mut command;
        if source.folder {
            // A copy: the user's tree stays as it is.
            command = Command::new("cp");
            command.args(["-a", "--reflink=auto"]);
            let entries = fs::read_dir(&source.path);
            let entries = entries.map_err(os(source.path.display().to_string()))?.flatten();
            command.args(entries.filter(|e| e.file_name() != ".git").map(|e| e.path()));
            command.arg(&self.tree);
        } else {
            command = Command::new("tar");
            command.arg("-xf").arg(&source.path).args(["--strip-components=1", "-C"]);
            command.arg(&self.tree);
        }
        self.run(command, "unpacking")?;
        check_tree(&self.tree, &source.path.display().to_string())?;
        // What was built in a user's tree is for another architecture.
        if source.folder { self.make(&["mrproper"], "cleaning") } else { Ok(()) }
    }

    fn patch(&mut self) -> Result<(), MachineError> {
        for patch in &self.options.patches {
            let path = patch.canonicalize().map_err(os(patch.display().to_string()))?;
            let mut command = Command::new("patch");
            command.args(["-p1", "--batch", "--forward", "-i"]).arg(&path).current_dir(&self.tree);
            self.run(command, &format!("applying {}", patch.display()))?;
        }
        Ok(())
    }

    /// Our files, and what has to be another way in arch/um.
    fn add_ours(&mut self) -> Result<(), MachineError> {
        let folder = self.tree.join("arch/um/drivers/hoistway");
        fs::create_dir_all(&folder).map_err(os(folder.display().to_string()))?;
        for (name, text) in OURS {
            let path = folder.join(name);
            fs::write(&path, text).map_err(os(path.display().to_string()))?;
        }
        let path = self.tree.join("arch/um/drivers/Makefile");
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        let line = "obj-y += hoistway/\n";
        if !text.contains(line) {
            fs::write(&path, text + line).map_err(os(path.display().to_string()))?;
        }
        self.edit(EDITS)
    }

    /// The module, as a part of the kernel.
    fn add_module(&mut self, files: &[(String, Vec<u8>)]) -> Result<(), MachineError> {
        if self.series()? < (6, 1) {
            let what = "--with-module: the module is for Linux 6.1 and later; leave it out, or choose another source";
            return Err(MachineError::Refused(what.into()));
        }
        let folder = self.tree.join("arch/um/drivers/hoistway");
        let own = folder.join("module");
        fs::create_dir_all(&own).map_err(os(own.display().to_string()))?;
        for (name, bytes) in files {
            let path = own.join(name);
            fs::write(&path, bytes).map_err(os(path.display().to_string()))?;
        }
        let path = folder.join("Makefile");
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        fs::write(&path, text + "obj-y += module/\n").map_err(os(path.display().to_string()))?;
        self.edit(OF_MODULE)
    }

    /// Makes changes of the kernel's own files.
    fn edit(&mut self, edits: &[Edit]) -> Result<(), MachineError> {
        for edit in edits {
            let path = self.place(edit);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(_) if edit.optional => continue,
                Err(error) => return Err(os(path.display().to_string())(error)),
            };
            match edited(edit, &text) {
                Some(text) => fs::write(&path, text).map_err(os(path.display().to_string()))?,
                None if edit.optional => {}
                None => {
                    let (file, why, place) = (edit.files[0], edit.why, edit.texts[0].0);
                    return Err(MachineError::Refused(format!(
                        "{file}: has no `{place}`, which has to be changed ({why}); this version of Linux is not \
                         known to hoistway"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The file that an edit is of.
    fn place(&self, edit: &Edit) -> PathBuf {
        let names = edit.files.iter().map(|name| self.tree.join(name));
        names.clone().find(|path| path.exists()).unwrap_or_else(|| self.tree.join(edit.files[0]))
    }

    /// Makes the configuration; says what it should have and has not.
    fn configure(&mut self) -> Result<Vec<String>, MachineError> {
        self.make(&["tinyconfig"], "configuring")?;
        let path = self.tree.join(".config");
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        let mut fragment = FRAGMENT.to_string();
        for config in &self.options.configs {
            let name = || config.display().to_string();
            fragment += &fs::read_to_string(config).map_err(os(name()))?;
            fragment.push('\n');
        }
        fs::write(&path, text + &fragment).map_err(os(path.display().to_string()))?;
        self.make(&["olddefconfig"], "configuring")?;
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        let missing = missing(&fragment, &text);
        if let Some(option) = NEEDED.iter().find(|option| missing.iter().any(|m| m == *option)) {
            return Err(MachineError::Refused(format!(
                "this source cannot be configured with CONFIG_{option}, without which no run in virtual time is \
                 possible; choose another version"
            )));
        }
        if Contents::of(&text).schedulers.is_empty() {
            let what =
                "this source has no I/O scheduler that hoistway knows; choose another version";
            return Err(MachineError::Refused(what.into()));
        }
        Ok(missing)
    }

    fn make(&mut self, targets: &[&str], what: &str) -> Result<(), MachineError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new("make");
        command.args(["ARCH=um", &format!("-j{jobs}")]).args(targets);
        command.current_dir(&self.tree);
        self.run(command, what)
    }

    /// Version and patch level, by the head of its Makefile.
    fn series(&self) -> Result<(u32, u32), MachineError> {
        let path = self.tree.join("Makefile");
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        programs::series_of(&text).ok_or_else(|| {
            let path = path.display();
            MachineError::Refused(format!(
                "{path}: names no VERSION and PATCHLEVEL; give --name, and leave --with-module out"
            ))
        })
    }

    fn release(&self) -> Result<String, MachineError> {
        let path = self.tree.join("include/config/kernel.release");
        let text = fs::read_to_string(&path).map_err(os(path.display().to_string()))?;
        Ok(text.trim().to_string())
    }

    /// Runs a program to its end; its words go to the log.
    fn run(&mut self, mut command: Command, what: &str) -> Result<(), MachineError> {
        let name = || self.log.display().to_string();
        let log = File::options().append(true).create(true).open(&self.log).map_err(os(name()))?;
        let begins = log.metadata().map_err(os(name()))?.len();
        command.stdin(Stdio::null()).stderr(log.try_clone().map_err(os(name()))?).stdout(log);
        // A group of its own, which ends as a whole.
        let program = command.get_program().to_string_lossy().into_owned();
        let child = programs::for_this_machine(&mut command)
            .process_group(0)
            .spawn()
            .map_err(os(program))?;
        let mut running = Group::new(child);
        let clock = Clock::new();
        let mut compiled = Compiled::after(&self.log, begins);
        loop {
            let ended = running.try_wait().map_err(os(what))?;
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(MachineError::Program(self.failure(what, begins))),
                None => {}
            }
            let seconds = clock.now().as_nanos() / 1_000_000_000;
            let files = compiled.count();
            let files = if files > 0 { format!(", {files} files") } else { String::new() };
            if !(self.watch)(&format!("{what}{files}, {seconds} s")) {
                return Err(MachineError::Program(format!("given up while {what}")));
            }
            sleep(LOOK);
        }
    }

    /// What a program said that failed.
    fn failure(&self, what: &str, begins: u64) -> String {
        use std::io::Seek;
        let mut lines = Vec::new();
        if let Ok(mut log) = File::open(&self.log)
            && log.seek(std::io::SeekFrom::Start(begins)).is_ok()
        {
            let all = BufReader::new(log).lines().map_while(Result::ok);
            lines = all.filter(|line| telling(line)).collect::<Vec<_>>();
        }
        let said = programs::last_lines(&lines);
        format!("{what} failed; {} says:{said}", self.log.display())
    }
}

/// A line that is not a step that went well.
fn telling(line: &str) -> bool {
    let steps = ["  CC ", "  AR ", "  LD ", "  HOSTCC ", "  GEN ", "  UPD ", "  SYNC "];
    !line.trim().is_empty() && !steps.iter().any(|step| line.starts_with(step))
}

/// Options of the fragment, and lines by which newer sources say the same.
const SAME: &[(&str, &str)] = &[
    ("PROC_SYSCTL", "CONFIG_SYSCTL=y"),
    ("CRYPTO_MANAGER_DISABLE_TESTS", "# CONFIG_CRYPTO_SELFTESTS is not set"),
];

/// Options that the fragment sets and a configuration does not.
fn missing(fragment: &str, config: &str) -> Vec<String> {
    let wanted = fragment.lines().filter_map(|l| l.strip_prefix("CONFIG_")?.strip_suffix("=y"));
    let has = |wanted: &str| config.lines().any(|line| line == wanted);
    let same = |option: &str| {
        let unknown = !config.contains(&format!("CONFIG_{option} "));
        unknown && SAME.iter().any(|(name, line)| *name == option && has(line))
    };
    // Another file of options may have taken it back.
    let off = |option: &str| {
        let line = format!("# CONFIG_{option} is not set");
        fragment.lines().any(|l| l == line)
    };
    wanted
        .filter(|option| !has(&format!("CONFIG_{option}=y")) && !same(option) && !off(option))
        .map(str::to_string)
        .collect()
}

/// Files that a build has compiled, by the lines of its log.
struct Compiled {
    log: Option<BufReader<File>>,
    line: Vec<u8>,
    files: u64,
}

impl Compiled {
    fn after(log: &Path, begins: u64) -> Compiled {
        use std::io::Seek;
        let opened = File::open(log).and_then(|mut log| {
            log.seek(std::io::SeekFrom::Start(begins))?;
            Ok(BufReader::new(log))
        });
        Compiled { log: opened.ok(), line: Vec::new(), files: 0 }
    }

    /// Of the lines that are whole so far.
    fn count(&mut self) -> u64 {
        let Some(log) = &mut self.log else { return 0 };
        // What is cut off by the end of the file comes whole the next time.
        while log.read_until(b'\n', &mut self.line).is_ok_and(|n| n > 0)
            && self.line.ends_with(b"\n")
        {
            let compiles =
                [&b"CC"[..], b"AS"].iter().any(|how| self.line.trim_ascii_start().starts_with(how));
            self.files += u64::from(compiles);
            self.line.clear();
        }
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_files_are_counted_line_by_line() {
        let path = std::env::temp_dir().join(format!("hoistway-log-{}", std::process::id()));
        fs::write(&path, "  CC  old.o\n").unwrap();
        let begins = fs::metadata(&path).unwrap().len();
        let mut compiled = Compiled::after(&path, begins);
        let more = |text: &str| {
            use std::io::Write;
            File::options().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        more("  CC      a.o\n  LD      b.o\n  C");
        assert_eq!(compiled.count(), 1);
        more("C      c.o\n  AS      d.o\n");
        assert_eq!(compiled.count(), 3);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_kernel_is_called_by_the_first_two_numbers_of_its_release() {
        assert_eq!(short_name("6.1.170", false), "6.1");
        assert_eq!(short_name("6.13.0-rc2-mine", false), "6.13");
        assert_eq!(short_name("7", false), "7");
        assert_eq!(short_name("6.1.170", true), "6.1-hoistway");
    }

    #[test]
    fn a_source_is_a_folder_a_file_or_a_package() {
        let root = std::env::temp_dir().join(format!("hoistway-source-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("mine/arch/um")).unwrap();
        let find = |asked: Option<&str>| Source::find(asked, &root);
        let error = find(None).unwrap_err();
        assert!(matches!(error, MachineError::Lack(_)), "{error}");
        for name in ["linux-source-6.9.tar.xz", "linux-source-6.12.tar.xz", "linux-config.tar.xz"] {
            fs::write(root.join(name), name).unwrap();
        }
        let newest = root.join("linux-source-6.12.tar.xz");
        assert_eq!(find(None).unwrap(), Source { path: newest.clone(), folder: false });
        let asked = find(Some("linux-source-6.12")).unwrap();
        assert_eq!(
            (asked.path, find(Some("6.12")).unwrap().path),
            (newest.clone(), newest.clone())
        );
        assert_eq!(find(newest.to_str()).unwrap().path, newest);
        let folder = root.join("mine");
        let error = find(folder.to_str()).unwrap_err().to_string();
        assert!(error.ends_with("is no source tree of Linux (it has no Makefile)"), "{error}");
        fs::create_dir(folder.join("init")).unwrap();
        for name in ["Makefile", "init/main.c"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert!(find(folder.to_str()).unwrap().folder);
        let error = find(root.to_str()).unwrap_err().to_string();
        assert!(error.ends_with("is no source tree of Linux (it has no arch/um)"), "{error}");
        let error = find(Some("6.11")).unwrap_err().to_string();
        assert!(error.contains("(there: linux-source-6.9, linux-source-6.12)"), "{error}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_digest_is_of_the_source_and_the_patches() {
        let root = std::env::temp_dir().join(format!("hoistway-digest-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("tree/.git")).unwrap();
        let (file, patch) = (root.join("tree/Makefile"), root.join("a.patch"));
        fs::write(&file, "VERSION = 6").unwrap();
        fs::write(&patch, "-1\n+2").unwrap();
        let source = Source { path: root.join("tree"), folder: true };
        let plain = Options::default();
        let of = |options: &Options| digest(&source, options, &[]).unwrap();
        let first = of(&plain);
        fs::write(root.join("tree/.git/index"), "x").unwrap();
        assert_eq!(of(&plain), first, "what git keeps is not the source");
        assert_ne!(of(&Options { patches: vec![patch.clone()], ..plain.clone() }), first);
        assert_ne!(of(&Options { configs: vec![patch], ..plain.clone() }), first);
        let module = |core: u8| digest(&source, &plain, &[("core".into(), vec![core])]).unwrap();
        assert!(module(1) != first && module(1) != module(2));
        fs::write(&file, "VERSION = 7, another size").unwrap();
        assert_ne!(of(&plain), first);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_the_source_does_not_offer_is_told() {
        let fragment = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n";
        assert_eq!(missing(fragment, "CONFIG_A=y\n# CONFIG_C is not set\n"), ["C"]);
        let fragment = "CONFIG_XFS_FS=y\n# CONFIG_XFS_FS is not set\n";
        assert!(missing(fragment, "# CONFIG_XFS_FS is not set\n").is_empty());
        let fragment = "CONFIG_PROC_SYSCTL=y\n";
        assert!(missing(fragment, "CONFIG_SYSCTL=y\n").is_empty());
        let off = "# CONFIG_PROC_SYSCTL is not set\nCONFIG_SYSCTL=y\n";
        assert_eq!(missing(fragment, off), ["PROC_SYSCTL"]);
    }
}

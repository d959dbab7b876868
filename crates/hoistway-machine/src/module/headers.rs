//! The kernel a module is for: its headers, its configuration, and the internal headers of its block layer.

use super::tools::{read, run, wanted};
use crate::kernel::Lack;
use crate::programs::series_of;
use crate::{MachineError, os};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    pub folder: PathBuf,
    pub release: String,
    config: String,
}

/// Options a kernel must have, and why.
const NEEDED: &[(&[&str], &str)] = &[
    (&["X86_64"], "the module is for x86-64"),
    (&["MODULES"], "it loads no modules"),
    (&["BLK_CGROUP"], "it has no block cgroups, whose policies the module uses"),
    (
        &["RETPOLINE", "MITIGATION_RETPOLINE"],
        "it has no retpolines, which the core's indirect calls use",
    ),
    (&["RETHUNK", "MITIGATION_RETHUNK"], "it has no return thunks, which the core's returns use"),
];

impl Headers {
    /// Of a release's own folder, or of one that is named.
    pub fn find(named: Option<&Path>, running: &str) -> Result<Headers, MachineError> {
        let folder = match named {
            Some(folder) => folder.to_path_buf(),
            None => PathBuf::from(format!("/lib/modules/{running}/build")),
        };
        if named.is_none() && !folder.join("Makefile").is_file() {
            let why = format!("there is no {}", folder.display());
            let remedy = format!(
                "install them (Debian: `apt install linux-headers-{running}`), or give --kernel-dir"
            );
            return Err(MachineError::Lack(Lack::new(
                "the headers of the running kernel",
                why,
                remedy,
            )));
        }
        let config = fs::read_to_string(folder.join(".config"));
        let (Some(release), Ok(config)) = (release_of(&folder), config) else {
            let folder = folder.display();
            return Err(MachineError::Refused(format!(
                "--kernel-dir {folder}: is no folder that modules are built against (it has no .config and \
                 include/config/kernel.release); give the one of linux-headers-RELEASE or a tree that was built"
            )));
        };
        let folder = folder.canonicalize().map_err(os(folder.display().to_string()))?;
        let headers = Headers { folder, release, config };
        headers.fit()?;
        Ok(headers)
    }

    fn has(&self, option: &str) -> bool {
        self.config.lines().any(|line| line == format!("CONFIG_{option}=y"))
    }

    fn fit(&self) -> Result<(), MachineError> {
        let refused =
            |why: &str| Err(MachineError::Refused(format!("Linux {}: {why}", self.release)));
        if self.numbers().is_none_or(|numbers| numbers < (6, 1)) {
            return refused("the module is for Linux 6.1 and later");
        }
        if self.has("PREEMPT_RT") {
            return refused(
                "it is PREEMPT_RT; the module rests on spin locks that switch interrupts off",
            );
        }
        match NEEDED.iter().find(|(any, _)| !any.iter().any(|option| self.has(option))) {
            Some((any, why)) => refused(&format!("{why} (CONFIG_{})", any[0])),
            None => Ok(()),
        }
    }

    /// `6.1.0-56-amd64` is (6, 1).
    pub fn numbers(&self) -> Option<(u32, u32)> {
        series(&self.release)
    }

    /// Whether the kernel's own build checks the module as a whole.
    pub fn checks_whole(&self) -> bool {
        self.has("X86_KERNEL_IBT") || self.has("LTO_CLANG")
    }

    /// Programs that the kernel's own build of a module calls, and the packages of Debian that have them.
    pub fn programs(&self) -> Vec<(&'static str, &'static str)> {
        let mut list = vec![("make", "make"), ("gcc", "gcc")];
        if self.has("DEBUG_INFO_BTF_MODULES") && self.folder.join("vmlinux").exists() {
            list.push(("pahole", "pahole"));
        }
        list
    }

    /// What the kernel's tool is to write into the core, as its build would ask.
    pub fn objtool(&self) -> Option<Command> {
        let mut command = Command::new(self.folder.join("tools/objtool/objtool"));
        let flags = [
            (&["UNWINDER_ORC"][..], "--orc"),
            (&["RETPOLINE", "MITIGATION_RETPOLINE"], "--retpoline"),
            (&["RETHUNK", "MITIGATION_RETHUNK"], "--rethunk"),
            (&["SLS", "MITIGATION_SLS"], "--sls"),
        ];
        let on: Vec<&str> = flags
            .iter()
            .filter(|(any, _)| any.iter().any(|option| self.has(option)))
            .map(|&(_, flag)| flag)
            .collect();
        command.args(on).arg("--module");
        Path::new(command.get_program()).is_file().then_some(command)
    }

    /// Copies block/*.h of the kernel's source to `to`.
    pub fn block_headers(
        &self,
        source: Option<&Path>,
        to: &Path,
        log: &Path,
    ) -> Result<(), MachineError> {
        let source = self.source(source)?;
        fs::create_dir_all(to).map_err(os(to.display().to_string()))?;
        if source.is_dir() {
            self.check_series(&read(&source.join("Makefile"))?, &source)?;
            return copy_headers(&source.join("block"), to);
        }
        wanted(&[("tar", "tar"), ("xz", "xz-utils")], "the kernel's source")?;
        let unpacked = to.with_extension("source");
        fs::create_dir_all(&unpacked).map_err(os(unpacked.display().to_string()))?;
        let mut tar = Command::new("tar");
        tar.arg("-xf")
            .arg(&source)
            .args(["--wildcards", "--strip-components=1", "-C"])
            .arg(&unpacked);
        tar.args(["*/block/*.h", "*/Makefile"])
            .args(["--exclude=*/*/*/*", "--exclude=*/*/Makefile"]);
        run(tar, &format!("unpacking {}", source.display()), log)?;
        self.check_series(&read(&unpacked.join("Makefile"))?, &source)?;
        copy_headers(&unpacked.join("block"), to)
    }

    /// The kernel's source: what was named, the tree itself, or the distribution's package.
    fn source(&self, named: Option<&Path>) -> Result<PathBuf, MachineError> {
        if let Some(named) = named {
            let good = named.is_file() || named.join("block/elevator.h").is_file();
            return good.then(|| named.to_path_buf()).ok_or_else(|| {
                let named = named.display();
                MachineError::Refused(format!(
                    "--kernel-source {named}: is no tarball and no source tree of Linux (it has no block/elevator.h)"
                ))
            });
        }
        if self.folder.join("block/elevator.h").is_file() {
            return Ok(self.folder.clone());
        }
        let (major, minor) = self.numbers().unwrap_or_default();
        let package = format!("linux-source-{major}.{minor}");
        let tarball = PathBuf::from(format!("/usr/src/{package}.tar.xz"));
        if tarball.is_file() {
            return Ok(tarball);
        }
        let why = format!(
            "block/*.h are in no package of headers, and there is no {}",
            tarball.display()
        );
        let remedy = format!(
            "install the source (Debian: `apt install {package}`), or give --kernel-source a tarball or tree of it"
        );
        Err(MachineError::Lack(Lack::new("internal headers of the block layer", why, remedy)))
    }

    fn check_series(&self, makefile: &str, source: &Path) -> Result<(), MachineError> {
        let found = series_of(makefile);
        if found == self.numbers() {
            return Ok(());
        }
        let found = found.map_or("no".into(), |(a, b)| format!("{a}.{b}"));
        Err(MachineError::Refused(format!(
            "{}: is the source of Linux {found}, and the headers are of {}; give --kernel-source that of the same",
            source.display(),
            self.release
        )))
    }
}

/// The release that a kernel of these headers says it is, and its modules say they are for. Debian's packages have
/// another number in kernel.release, that of the source.
fn release_of(folder: &Path) -> Option<String> {
    let told = fs::read_to_string(folder.join("include/generated/utsrelease.h")).ok();
    let told = told.and_then(|text| {
        let rest = text.lines().find_map(|line| line.strip_prefix("#define UTS_RELEASE "))?;
        Some(rest.trim().trim_matches('"').to_string())
    });
    told.or_else(|| {
        let release = fs::read_to_string(folder.join("include/config/kernel.release")).ok()?;
        Some(release.trim().to_string())
    })
}

/// Version and patch level of a release.
fn series(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn copy_headers(from: &Path, to: &Path) -> Result<(), MachineError> {
    let name = || from.display().to_string();
    let mut any = false;
    for entry in fs::read_dir(from).map_err(os(name()))? {
        let path = entry.map_err(os(name()))?.path();
        let Some(file) = path.file_name().filter(|_| path.extension().is_some_and(|e| e == "h"))
        else {
            continue;
        };
        fs::copy(&path, to.join(file)).map_err(os(path.display().to_string()))?;
        any = true;
    }
    match any && to.join("elevator.h").is_file() {
        true => Ok(()),
        false => Err(MachineError::Refused(format!("{}: has no elevator.h", from.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(release: &str, config: &str) -> Headers {
        Headers { folder: PathBuf::new(), release: release.into(), config: config.into() }
    }

    const GOOD: &str = "CONFIG_X86_64=y\nCONFIG_MODULES=y\nCONFIG_BLK_CGROUP=y\nCONFIG_MITIGATION_RETPOLINE=y\nCONFIG_RETHUNK=y\n";

    #[test]
    fn kernels_that_do_not_fit_are_refused_with_the_reason() {
        assert!(of("6.1.0-56-amd64", GOOD).fit().is_ok());
        let why = |release: &str, config: &str| of(release, config).fit().unwrap_err().to_string();
        assert_eq!(
            why("5.10.0-9-amd64", GOOD),
            "Linux 5.10.0-9-amd64: the module is for Linux 6.1 and later"
        );
        assert!(why("6.1.0", &format!("{GOOD}CONFIG_PREEMPT_RT=y\n")).contains("PREEMPT_RT"));
        let error = why("6.12.1+deb", &GOOD.replace("CONFIG_RETHUNK", "CONFIG_OTHER"));
        assert!(error.ends_with("(CONFIG_RETHUNK)"), "{error}");
    }

    #[test]
    fn the_release_is_what_modules_are_marked_with() {
        let work = std::env::temp_dir().join(format!("hoistway-headers-{}", std::process::id()));
        let (generated, config) = (work.join("include/generated"), work.join("include/config"));
        fs::create_dir_all(&generated).unwrap();
        fs::create_dir_all(&config).unwrap();
        assert_eq!(release_of(&work), None);
        fs::write(config.join("kernel.release"), "6.1.192\n").unwrap();
        assert_eq!(release_of(&work).as_deref(), Some("6.1.192"));
        let text = "#define UTS_RELEASE \"6.1.0-56-amd64\"\n";
        fs::write(generated.join("utsrelease.h"), text).unwrap();
        assert_eq!(release_of(&work).as_deref(), Some("6.1.0-56-amd64"));
        fs::remove_dir_all(&work).unwrap();
    }

    #[test]
    fn a_source_of_another_series_is_refused() {
        let makefile = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 3\n";
        assert!(of("6.12.95+deb12-amd64", GOOD).check_series(makefile, Path::new("s")).is_ok());
        let error = of("6.1.0-56-amd64", GOOD)
            .check_series(makefile, Path::new("s"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "s: is the source of Linux 6.12, and the headers are of 6.1.0-56-amd64"
            ),
            "{error}"
        );
    }
}

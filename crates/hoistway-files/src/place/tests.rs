//! As root these run as root in folders of another user; as a user in the user's own.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// A folder of this test, away at its end.
struct Ground(PathBuf);

impl Ground {
    fn new(name: &str) -> Ground {
        let path =
            std::env::temp_dir().join(format!("hoistway-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Ground(path)
    }

    /// A folder of user 65534 in it; `None` without root.
    fn of_nobody(&self, name: &str) -> Option<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make a folder of another user");
            return None;
        }
        chown(&path, Some(65534), Some(65534)).unwrap();
        Some(path)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn only_what_hoistway_wrote_is_replaced() {
    let ground = Ground::new("replace");
    let path = ground.0.join("report.html");
    write(&path, b"<!-- Made by hoistway 1 -->", Kind::Marked).unwrap();
    write(&path, b"<!-- Made by hoistway 2 -->", Kind::Marked).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"<!-- Made by hoistway 2 -->");
    fs::write(&path, "a thesis").unwrap();
    let error = write(&path, b"<!-- Made by hoistway 3 -->", Kind::Marked).unwrap_err();
    assert!(error.to_string().contains("is a file that hoistway did not write"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"a thesis");
    fs::write(&path, "a thesis on hoistway").unwrap();
    assert!(may_write(&path, Kind::Marked).is_err());
    assert!(write(&path, b"<!-- Made by hoistway 3 -->", Kind::Marked).is_err());
    fs::write(&path, "").unwrap();
    may_write(&path, Kind::New).unwrap();
    write(&path, b"<!-- Made by hoistway 4 -->", Kind::New).unwrap();
    assert_eq!(names(&ground.0), ["report.html"], "nothing half-written is left");
}

#[test]
fn neither_a_link_nor_what_it_leads_to_is_replaced() {
    let ground = Ground::new("links");
    let file = ground.0.join("thesis");
    fs::write(&file, "Made by hoistway, a thesis").unwrap();
    let link = ground.0.join("link");
    symlink(&file, &link).unwrap();
    let error = write(&link, b"hoistway", Kind::Marked).unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"Made by hoistway, a thesis");
    assert_eq!(fs::read_link(&link).unwrap(), file);
    let nowhere = ground.0.join("nowhere");
    symlink(ground.0.join("not-yet"), &nowhere).unwrap();
    assert!(write(&nowhere, b"hoistway", Kind::Marked).is_err());
    assert!(Place::of(&nowhere).unwrap().create(0o600).is_err());
    assert_eq!(names(&ground.0), ["link", "nowhere", "thesis"]);
}

#[test]
fn a_folder_a_fifo_and_a_device_are_not_replaced() {
    let ground = Ground::new("kinds");
    fs::create_dir(ground.0.join("folder")).unwrap();
    let fifo = ground.0.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    for name in ["folder", "fifo"] {
        let place = Place::of(&ground.0.join(name)).unwrap();
        let error = place.replace(b"hoistway", Kind::Marked).unwrap_err().to_string();
        assert!(error.contains(&format!("is a {}", name.replace("fifo", "FIFO"))), "{error}");
        assert!(place.open().is_err());
    }
    write(Path::new("/dev/null"), b"hoistway", Kind::New).unwrap();
}

#[test]
fn a_link_is_followed_where_nobody_else_could_have_made_it() {
    let ground = Ground::new("trusted");
    fs::create_dir(ground.0.join("real")).unwrap();
    symlink("real", ground.0.join("short")).unwrap();
    symlink(ground.0.join("short"), ground.0.join("shorter")).unwrap();
    write(&ground.0.join("shorter/a"), b"hoistway", Kind::New).unwrap();
    assert_eq!(names(&ground.0.join("real")), ["a"]);
    write(&ground.0.join("real/../b"), b"hoistway", Kind::New).unwrap();
    assert!(ground.0.join("b").exists());
    symlink("round", ground.0.join("round")).unwrap();
    let error = write(&ground.0.join("round/a"), b"hoistway", Kind::New).unwrap_err();
    assert!(error.to_string().contains("symbolic links"), "{error}");
}

#[test]
fn what_a_link_leads_to_is_named_without_it() {
    let ground = Ground::new("followed");
    let (file, folder) = (ground.0.join("file"), ground.0.join("folder"));
    fs::write(&file, "").unwrap();
    fs::create_dir(&folder).unwrap();
    symlink("../file", folder.join("one")).unwrap();
    symlink(folder.join("one"), ground.0.join("two")).unwrap();
    let real = fs::canonicalize(&file).unwrap();
    for path in [&file, &ground.0.join("two"), &folder.join("../folder/one")] {
        assert_eq!(Place::followed(path).unwrap().path(), real);
    }
    symlink("round", ground.0.join("round")).unwrap();
    assert!(Place::followed(&ground.0.join("round")).is_err());
    let Some(theirs) = ground.of_nobody("theirs") else { return };
    symlink(&file, theirs.join("link")).unwrap();
    let error = Place::followed(&theirs.join("link")).unwrap_err();
    assert!(matches!(error, PlaceError::Unsafe { .. }), "{error}");
}

#[test]
fn root_follows_no_link_of_somebody_else() {
    let ground = Ground::new("untrusted");
    let Some(theirs) = ground.of_nobody("theirs") else { return };
    let root_only = ground.0.join("root-only");
    fs::create_dir(&root_only).unwrap();
    symlink(&root_only, theirs.join("out")).unwrap();
    for path in ["out/a", "out/b/c", "../root-only/a"] {
        let error = Place::make(&theirs.join(path)).unwrap_err();
        assert!(matches!(error, PlaceError::Unsafe { .. }), "{path}: {error}");
    }
    assert!(names(&root_only).is_empty());
    // What root has made there can be used again.
    Dir::make_all(&theirs.join("run/records")).unwrap();
    write(&theirs.join("run/records/a"), b"hoistway", Kind::New).unwrap();
    assert_eq!(names(&theirs.join("run/records")), ["a"]);
}

#[test]
fn a_folder_for_everybody_is_nobodys_but_for_what_is_sticky() {
    let ground = Ground::new("sticky");
    let open = ground.0.join("open");
    fs::create_dir(&open).unwrap();
    symlink(&ground.0, open.join("link")).unwrap();
    let opened = |mode| {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        Dir::open(&open.join("link")).is_ok()
    };
    assert!(opened(0o1777), "a link of our own under a sticky bit");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root distrusts links");
        return;
    }
    assert!(!opened(0o777));
    assert!(!opened(0o775) || rustix::process::getegid().is_root());
    rustix::fs::chownat(
        rustix::fs::CWD,
        open.join("link"),
        Some(rustix::fs::Uid::from_raw(65534)),
        None,
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .unwrap();
    assert!(!opened(0o1777), "a link of another user under a sticky bit");
}

#[test]
fn a_tree_that_was_exchanged_is_left_alone() {
    let ground = Ground::new("tree");
    let place = Place::of(&ground.0.join("scratch")).unwrap();
    let made = place.make_dir(0o700).unwrap();
    let identity = made.identity().unwrap();
    made.place("file").unwrap().create(0o600).unwrap();
    made.place("inner").unwrap().make_dir(0o700).unwrap();
    let other = ground.0.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "x").unwrap();
    symlink(&other, ground.0.join("scratch/inner/link")).unwrap();
    // Somebody moves it away, and puts a link or a folder in its place.
    fs::rename(ground.0.join("scratch"), ground.0.join("moved")).unwrap();
    symlink(&other, ground.0.join("scratch")).unwrap();
    assert!(matches!(place.remove_tree(identity), Err(PlaceError::Exchanged { .. })));
    fs::remove_file(ground.0.join("scratch")).unwrap();
    fs::rename(&other, ground.0.join("scratch")).unwrap();
    assert!(matches!(place.remove_tree(identity), Err(PlaceError::Exchanged { .. })));
    fs::rename(ground.0.join("scratch"), &other).unwrap();
    fs::rename(ground.0.join("moved"), ground.0.join("scratch")).unwrap();
    place.remove_tree(identity).unwrap();
    assert_eq!(names(&ground.0), ["other"]);
    assert_eq!(names(&other), ["kept"]);
    place.remove_tree(identity).unwrap();
}

#[test]
fn nothing_deeper_than_we_make_is_removed() {
    let ground = Ground::new("deep");
    let place = Place::of(&ground.0.join("scratch")).unwrap();
    let identity = place.make_dir(0o700).unwrap().identity().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 40).collect();
    fs::create_dir_all(ground.0.join("scratch").join(deep)).unwrap();
    let error = place.remove_tree(identity).unwrap_err();
    assert!(error.to_string().contains("deeper"), "{error}");
}

#[test]
fn what_is_ours_alone_is_made_so_and_told_from_the_rest() {
    let ground = Ground::new("own");
    let own = ground.0.join("a/b");
    let made = Dir::make_own(&own).unwrap();
    assert_eq!(made.owner_and_mode().unwrap().1 & 0o777, 0o700);
    assert_eq!(fs::metadata(ground.0.join("a")).unwrap().permissions().mode() & 0o777, 0o700);
    Dir::open_own(&own).unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, open) in [(&own, 0o770), (&own, 0o702), (&ground.0.join("a"), 0o777)] {
        mode(path, open);
        let error = Dir::open_own(&own).unwrap_err();
        assert!(matches!(&error, PlaceError::Shared { path: p, .. } if p == path), "{error}");
        assert!(error.to_string().contains(&format!("permissions {open:o}")), "{error}");
        mode(path, 0o755);
    }
    Dir::open_own(&own).unwrap();
    // Under a sticky bit nobody moves what is ours.
    mode(&ground.0.join("a"), 0o1777);
    Dir::open_own(&own).unwrap();
    Dir::make_own(&ground.0.join("a/c/d")).unwrap();
    let Some(theirs) = ground.of_nobody("theirs") else { return };
    for path in [theirs.clone(), theirs.join("new")] {
        let error = Dir::make_own(&path).unwrap_err();
        assert!(matches!(error, PlaceError::Shared { owner: 65534, .. }), "{error}");
    }
    assert!(names(&theirs).is_empty());
    fs::rename(&theirs, ground.0.join("a/theirs")).unwrap();
    let error = Dir::open_own(&ground.0.join("a/theirs")).unwrap_err();
    assert!(matches!(error, PlaceError::Shared { owner: 65534, .. }), "{error}");
    symlink(&own, ground.0.join("a/link")).unwrap();
    Dir::open_own(&ground.0.join("a/link")).unwrap();
    chown_link(&ground.0.join("a/link"));
    assert!(Dir::open_own(&ground.0.join("a/link")).is_err());
}

/// Gives a link to user 65534.
fn chown_link(path: &Path) {
    let nobody = Some(rustix::fs::Uid::from_raw(65534));
    rustix::fs::chownat(rustix::fs::CWD, path, nobody, None, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[test]
fn a_file_is_removed_only_if_it_is_the_one_that_was_made() {
    let ground = Ground::new("made");
    let place = Place::of(&ground.0.join("scratch")).unwrap();
    let made = Identity::of(place.create(0o600).unwrap()).unwrap();
    assert_eq!(place.identity().unwrap(), Some(made));
    fs::rename(ground.0.join("scratch"), ground.0.join("moved")).unwrap();
    symlink(ground.0.join("moved"), ground.0.join("scratch")).unwrap();
    assert!(matches!(place.remove_made(made), Err(PlaceError::Exchanged { .. })));
    fs::remove_file(ground.0.join("scratch")).unwrap();
    fs::write(ground.0.join("scratch"), "precious").unwrap();
    assert!(matches!(place.remove_made(made), Err(PlaceError::Exchanged { .. })));
    fs::rename(ground.0.join("moved"), ground.0.join("scratch")).unwrap();
    place.remove_made(made).unwrap();
    assert!(names(&ground.0).is_empty());
    place.remove_made(made).unwrap();
}

#[test]
fn an_inode_that_was_given_out_anew_is_another_file() {
    let at = |device, inode, born| Identity { device, inode, born };
    assert!(at(1, 5, Some(7)).is(&at(2, 5, Some(7))), "the disk has another number now");
    assert!(!at(1, 5, Some(7)).is(&at(1, 5, Some(8))));
    assert!(at(1, 5, None).is(&at(1, 5, Some(7))), "noted by somebody who could not see it");
    assert!(!at(1, 5, None).is(&at(2, 5, Some(7))));
    assert!(!at(1, 5, Some(7)).is(&at(1, 6, Some(7))));
}

#[test]
fn a_draft_appears_at_the_end_and_takes_no_name_that_is_taken() {
    let ground = Ground::new("draft");
    let path = ground.0.join("a");
    let part = ground.0.join(format!(".a.part-{}", std::process::id()));
    fs::write(&part, "of another process of this number").unwrap();
    fs::write(&path, "Made by hoistway 1").unwrap();
    let mut draft = Output::begin(&path, Kind::Marked).unwrap();
    draft.write_all(b"Made by ").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"Made by hoistway 1");
    draft.write_all(b"hoistway 2").unwrap();
    draft.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"Made by hoistway 2");
    let mut draft = Place::of(&path).unwrap().draft(Kind::Marked).unwrap();
    draft.write_all(b"half").unwrap();
    // Somebody puts a file of their own there meanwhile.
    fs::write(&path, "a thesis").unwrap();
    assert!(matches!(draft.finish(), Err(PlaceError::Foreign { .. })));
    drop(Place::of(&ground.0.join("b")).unwrap().draft(Kind::New).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"a thesis");
    assert_eq!(fs::read(&part).unwrap(), b"of another process of this number");
    assert_eq!(names(&ground.0), [part.file_name().unwrap().to_str().unwrap(), "a"]);
}

#[test]
fn a_new_name_is_taken_from_nobody() {
    let ground = Ground::new("new-name");
    let place = |name: &str| Place::of(&ground.0.join(name)).unwrap();
    for name in ["a", "b"] {
        fs::create_dir(ground.0.join(name)).unwrap();
    }
    let error = place("a").rename_new(&place("b")).unwrap_err();
    assert_eq!(error.kind(), Some(io::ErrorKind::AlreadyExists));
    assert!(error.to_string().contains("/b: "), "{error}");
    place("a").rename_new(&place("c")).unwrap();
    assert_eq!(names(&ground.0), ["b", "c"]);
}

#[test]
fn a_folder_of_output_is_new_empty_or_ours() {
    let ground = Ground::new("fill");
    let path = ground.0.join("out");
    let fill = |known: bool| Place::of(&path).unwrap().fill(|_| known);
    fill(false).unwrap().place("a").unwrap().replace(b"1", Kind::New).unwrap();
    assert_eq!(names(&path), [".hoistway", "a"]);
    fill(false).unwrap();
    fs::remove_file(path.join(".hoistway")).unwrap();
    let error = fill(false).unwrap_err().to_string();
    assert!(
        error.contains("/out: is a folder with something in it that hoistway did not"),
        "{error}"
    );
    assert_eq!(names(&path), ["a"]);
    fill(true).unwrap();
    assert_eq!(names(&path), [".hoistway", "a"], "of an earlier version");
    fs::write(path.join(".hoistway"), "mine").unwrap();
    assert!(fill(false).is_err());
    let place = Place::of(&ground.0.join("link")).unwrap();
    fs::create_dir(ground.0.join("empty")).unwrap();
    symlink("empty", ground.0.join("link")).unwrap();
    assert!(matches!(place.fill(|_| true), Err(PlaceError::Foreign { is: "a link", .. })));
    assert!(names(&ground.0.join("empty")).is_empty());
    fs::write(ground.0.join("file"), "").unwrap();
    assert!(Place::of(&ground.0.join("file")).unwrap().may_fill(|_| true).is_err());
}

#[test]
fn a_scratch_folder_is_of_this_user_alone_and_gone_at_the_end() {
    let ground = Ground::new("scratch");
    let planted = ground.0.join(format!("hoistway-x-{}", std::process::id()));
    symlink("/tmp", &planted).unwrap();
    let scratch = Scratch::below(&ground.0, "x").unwrap();
    assert_eq!(scratch.dir().owner_and_mode().unwrap().1 & 0o777, 0o700);
    let path = scratch.path().to_path_buf();
    assert_ne!(path, planted);
    fs::create_dir(path.join("in")).unwrap();
    fs::write(path.join("in/a"), "1").unwrap();
    drop(scratch);
    assert_eq!(names(&ground.0), [planted.file_name().unwrap().to_str().unwrap()]);
}

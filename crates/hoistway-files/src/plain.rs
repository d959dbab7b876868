//! Writing where there are no users to guard against, or none that this crate knows: by paths, with the same rules of what
//! is replaced.

use crate::input::what;
use crate::mark::{FOLDER, FOLDER_TEXT, Kind};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Why something was not written or removed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The system refused.
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something stands there that hoistway did not write.
    Foreign {
        /// Where.
        path: PathBuf,
        /// What it is.
        is: &'static str,
    },
}

impl PlaceError {
    /// What the system said, where it was the system.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            PlaceError::Io { error, .. } => Some(error.kind()),
            PlaceError::Foreign { .. } => None,
        }
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            PlaceError::Foreign { path, is } => write!(
                f,
                "{}: is {is} that hoistway did not write; choose another name, or remove it first",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PlaceError {}

impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> io::Error {
        match error {
            PlaceError::Io { error, .. } => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

/// What would tell a file from another; here nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity;

/// A folder.
#[derive(Debug)]
pub struct Dir(PathBuf);

/// A name in a folder.
#[derive(Debug)]
pub struct Place(PathBuf);

/// A file that appears under its name as a whole, by [`Draft::finish`]. Without that it is gone.
#[derive(Debug)]
pub struct Draft {
    place: Place,
    ours: Kind,
    part: PathBuf,
    /// Closed before it gets its name.
    file: Option<File>,
}

/// What a person has named to be written.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    draft: Draft,
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, PlaceError> {
    result.map_err(|error| PlaceError::Io { path: path.into(), error })
}

fn gone(path: &Path, result: io::Result<()>) -> Result<(), PlaceError> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => at(path, other),
    }
}

impl Dir {
    /// Opens a folder that exists.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn open(path: &Path) -> Result<Dir, PlaceError> {
        at(path, fs::read_dir(path)).map(|_| Dir(path.into()))
    }

    /// Opens a folder, and makes it and those above it where they are missing.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn make_all(path: &Path) -> Result<Dir, PlaceError> {
        at(path, fs::create_dir_all(path)).map(|()| Dir(path.into()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A name in it. `name` is one component.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn place(&self, name: impl AsRef<OsStr>) -> Result<Place, PlaceError> {
        Ok(Place(self.0.join(name.as_ref())))
    }

    /// Always the same.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn identity(&self) -> Result<Identity, PlaceError> {
        Ok(Identity)
    }

    /// The names in it.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn names(&self) -> Result<Vec<OsString>, PlaceError> {
        let entries = at(&self.0, fs::read_dir(&self.0))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = at(&self.0, names.collect::<io::Result<Vec<_>>>())?;
        names.sort();
        Ok(names)
    }

    /// Nothing is known here before it is tried.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn may_change(&self) -> Result<(), PlaceError> {
        Ok(())
    }

    /// Whether a file of that name is in it, and is ours.
    pub fn holds(&self, name: &str, ours: Kind) -> bool {
        let place = Place(self.0.join(name));
        place.there().is_some() && place.may_replace(ours).is_ok()
    }
}

impl Place {
    /// A name in a folder that exists.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn of(path: &Path) -> Result<Place, PlaceError> {
        let place = Place::named(path)?;
        at(place.parent(), fs::metadata(place.parent()))?;
        Ok(place)
    }

    /// The same, in a folder that is made where it is missing.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn make(path: &Path) -> Result<Place, PlaceError> {
        let place = Place::named(path)?;
        at(place.parent(), fs::create_dir_all(place.parent()))?;
        Ok(place)
    }

    fn named(path: &Path) -> Result<Place, PlaceError> {
        match path.file_name() {
            Some(_) => Ok(Place(path.into())),
            None => at(path, Err(io::Error::new(io::ErrorKind::InvalidInput, "names no file"))),
        }
    }

    fn parent(&self) -> &Path {
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn there(&self) -> Option<fs::Metadata> {
        fs::symlink_metadata(&self.0).ok()
    }

    /// The path.
    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }

    /// The folder.
    pub fn dir(&self) -> Dir {
        Dir(self.parent().into())
    }

    /// Whether something stands there.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn identity(&self) -> Result<Option<Identity>, PlaceError> {
        Ok(self.there().map(|_| Identity))
    }

    /// Makes a new file.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn create(&self, _mode: u32) -> Result<File, PlaceError> {
        at(&self.0, File::options().read(true).write(true).create_new(true).open(&self.0))
    }

    /// Opens a file for reading; never a folder or a link.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn open(&self) -> Result<File, PlaceError> {
        match self.there() {
            Some(meta) if !meta.is_file() => self.foreign(what(&meta.file_type())),
            _ => at(&self.0, File::open(&self.0)),
        }
    }

    /// Makes a new folder.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn make_dir(&self, _mode: u32) -> Result<Dir, PlaceError> {
        at(&self.0, fs::create_dir(&self.0)).map(|()| Dir(self.path()))
    }

    /// Opens the folder that stands there; a link is none.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn open_dir(&self) -> Result<Dir, PlaceError> {
        match self.there() {
            Some(meta) if meta.is_dir() => Ok(Dir(self.path())),
            Some(_) => at(&self.0, Err(io::ErrorKind::NotADirectory.into())),
            None => at(&self.0, Err(io::ErrorKind::NotFound.into())),
        }
    }

    /// Whether [`Place::replace`] would find its way free.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn may_replace(&self, ours: Kind) -> Result<(), PlaceError> {
        let Some(meta) = self.there() else { return Ok(()) };
        if !meta.is_file() {
            return self.foreign(what(&meta.file_type()));
        }
        let mut head = Vec::new();
        at(&self.0, self.open()?.take(HEAD).read_to_end(&mut head))?;
        if ours.is(&head) { Ok(()) } else { self.foreign("a file") }
    }

    fn foreign<T>(&self, is: &'static str) -> Result<T, PlaceError> {
        Err(PlaceError::Foreign { path: self.path(), is })
    }

    /// Writes a file as a whole. What stands there is replaced if hoistway wrote it.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn replace(&self, bytes: &[u8], ours: Kind) -> Result<(), PlaceError> {
        let mut draft = self.draft(ours)?;
        at(&self.0, draft.write_all(bytes))?;
        draft.finish()
    }

    /// Begins a file that is to stand here, beside what does so far.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn draft(&self, ours: Kind) -> Result<Draft, PlaceError> {
        self.may_replace(ours)?;
        let (part, file) = self.new_beside("part", |part| part.create(0o666))?;
        Ok(Draft { place: Place(self.path()), ours, part: part.0, file: Some(file) })
    }

    /// Makes something beside it, under a hidden name that nothing has.
    ///
    /// # Errors
    ///
    /// What `make` says, which is asked again where something stands already.
    pub fn new_beside<T>(
        &self,
        what: &str,
        make: impl Fn(&Place) -> Result<T, PlaceError>,
    ) -> Result<(Place, T), PlaceError> {
        let mut number = 0;
        loop {
            let mut name = OsString::from(".");
            name.push(self.0.file_name().unwrap_or_default());
            name.push(format!(".{what}-{}-{number}", std::process::id()));
            let place = Place(self.parent().join(name));
            match make(&place) {
                Ok(made) => return Ok((place, made)),
                Err(e) if e.kind() == Some(io::ErrorKind::AlreadyExists) && number < BESIDE => {
                    number += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Renames what stands here to another name, over what stands there.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn rename(&self, to: &Place) -> Result<(), PlaceError> {
        at(&self.0, fs::rename(&self.0, &to.0))
    }

    /// Renames what stands here to another name, under which nothing may stand.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn rename_new(&self, to: &Place) -> Result<(), PlaceError> {
        match to.there() {
            Some(_) => at(&to.0, Err(io::ErrorKind::AlreadyExists.into())),
            None => self.rename(to),
        }
    }

    /// Removes a file or a link. Where nothing stands, nothing is done.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn remove_file(&self) -> Result<(), PlaceError> {
        gone(&self.0, fs::remove_file(&self.0))
    }

    /// Removes an empty folder. Where nothing stands, nothing is done.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn remove_dir(&self) -> Result<(), PlaceError> {
        gone(&self.0, fs::remove_dir(&self.0))
    }

    /// Removes a folder and what is in it.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`].
    pub fn remove_tree(&self, _made: Identity) -> Result<(), PlaceError> {
        gone(&self.0, fs::remove_dir_all(&self.0))
    }

    /// Whether a folder may be put here: nothing stands here, or an empty folder, or one that is `ours`.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn may_hold(&self, ours: impl FnOnce(&Dir) -> bool) -> Result<(), PlaceError> {
        let Some(meta) = self.there() else { return Ok(()) };
        if !meta.is_dir() {
            return self.foreign(what(&meta.file_type()));
        }
        let dir = Dir(self.path());
        if dir.names()?.is_empty() || ours(&dir) {
            return Ok(());
        }
        self.foreign("a folder with something in it")
    }

    /// Whether a folder of output may stand here: as [`Place::may_hold`]. Ours is one that bears the file `.hoistway`, or
    /// that an earlier version wrote, of which `known` says so.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn may_fill(&self, known: impl FnOnce(&Dir) -> bool) -> Result<(), PlaceError> {
        self.may_hold(|dir| dir.holds(FOLDER, Kind::Marked) || known(dir))
    }

    /// Opens the folder of output that stands here, or makes it. From then on it is ours.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn fill(&self, known: impl FnOnce(&Dir) -> bool) -> Result<Dir, PlaceError> {
        self.may_fill(known)?;
        let dir = if self.there().is_some() { self.open_dir()? } else { self.make_dir(0)? };
        if !dir.holds(FOLDER, Kind::Marked) {
            dir.place(FOLDER)?.replace(FOLDER_TEXT.as_bytes(), Kind::Marked)?;
        }
        Ok(dir)
    }
}

impl Draft {
    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn finish(mut self) -> Result<(), PlaceError> {
        self.place.may_replace(self.ours)?;
        self.file = None;
        at(&self.place.0, fs::rename(&self.part, &self.place.0))
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().expect("it is open until the end").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().expect("it is open until the end").flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.file = None;
        // Where it was finished nothing stands under this name any more.
        let _ = fs::remove_file(&self.part);
    }
}

impl Output {
    /// Begins to write.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn begin(path: &Path, ours: Kind) -> Result<Output, PlaceError> {
        Ok(Output { path: path.into(), draft: Place::of(path)?.draft(ours)? })
    }

    /// Ends it: the file has its name.
    ///
    /// # Errors
    ///
    /// [`PlaceError`].
    pub fn finish(self) -> Result<(), PlaceError> {
        self.draft.finish()
    }

    /// What a person has named.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.draft.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.draft.flush()
    }
}

/// Writes a file. What stands there is replaced if hoistway wrote it.
///
/// # Errors
///
/// [`PlaceError`].
pub fn write(path: &Path, bytes: &[u8], ours: Kind) -> Result<(), PlaceError> {
    Place::of(path)?.replace(bytes, ours)
}

/// Whether [`write`] would find its way free.
///
/// # Errors
///
/// [`PlaceError`].
pub fn may_write(path: &Path, ours: Kind) -> Result<(), PlaceError> {
    Place::of(path)?.may_replace(ours)
}

/// How much of a file says who wrote it.
const HEAD: u64 = 4096;

/// Names that are tried beside a place.
const BESIDE: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_replaced_as_where_users_are_known() {
        let ground = std::env::temp_dir().join(format!("hoistway-plain-{}", std::process::id()));
        fs::create_dir(&ground).unwrap();
        let path = ground.join("a");
        write(&path, b"Made by hoistway 1", Kind::Marked).unwrap();
        write(&path, b"Made by hoistway 2", Kind::Marked).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"Made by hoistway 2");
        fs::write(&path, "a thesis").unwrap();
        assert!(matches!(
            write(&path, b"x", Kind::Marked),
            Err(PlaceError::Foreign { is: "a file", .. })
        ));
        let mut draft = Output::begin(&ground.join("b"), Kind::New).unwrap();
        draft.write_all(b"half").unwrap();
        drop(draft);
        let out = Place::make(&ground.join("deep/out")).unwrap();
        out.fill(|_| false).unwrap().place("c").unwrap().replace(b"1", Kind::New).unwrap();
        out.fill(|_| false).unwrap();
        assert_eq!(Dir::open(&ground).unwrap().names().unwrap(), ["a", "deep"]);
        assert!(Place::of(&ground.join("deep")).unwrap().may_fill(|_| false).is_err());
        let taken = Place::of(&ground).unwrap().new_beside("x", |place| place.make_dir(0)).unwrap();
        assert!(out.rename_new(&taken.0).is_err());
        taken.0.remove_tree(Identity).unwrap();
        fs::remove_dir_all(&ground).unwrap();
    }
}

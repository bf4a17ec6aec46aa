//! Names: directories, what they hold, and which of their changes a power loss may take back.
//!
//! Owned by the disk of one simulated machine. A change of names is one atomic effect (a rename moves a name, or does not); it is
//! durable once any directory it touches is synced, together with the earlier changes of the names it touches. Unsynced
//! changes survive a power loss each for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use base::Random;

use super::image::{Image, Loss, Seq};
use super::{EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, error};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Inode(pub u32);

pub const ROOT: Inode = Inode(0);

#[derive(Default)]
struct Dir {
    entries: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
}

enum Node {
    Dir(Dir),
    File(Box<Image>),
}

/// One atomic change of names.
struct Change {
    seq: Seq,
    effects: Vec<Effect>,
}

struct Effect {
    dir: Inode,
    name: String,
    to: Option<Inode>,
}

pub struct Tree {
    nodes: BTreeMap<Inode, Node>,
    next: u32,
    unsynced: Vec<Change>,
    /// Files that some process holds open, each as often as it does.
    open: BTreeMap<Inode, u32>,
    /// Something may have become unreachable.
    sweep_due: bool,
}

/// Where a path leads: its directory, its last name, and what stands there.
struct Place {
    dir: Inode,
    name: String,
    found: Option<Inode>,
}

impl Default for Tree {
    fn default() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::Dir(Dir::default()))]);
        Self { nodes, next: 1, unsynced: Vec::new(), open: BTreeMap::new(), sweep_due: false }
    }
}

impl Tree {
    pub fn image(&self, inode: Inode) -> &Image {
        match &self.nodes[&inode] {
            Node::File(image) => image,
            Node::Dir(_) => unreachable!("only files are opened"),
        }
    }

    pub fn image_mut(&mut self, inode: Inode) -> &mut Image {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(image)) => image,
            _ => unreachable!("only files are opened, and open files are never swept"),
        }
    }

    pub fn images_mut(&mut self) -> impl Iterator<Item = &mut Image> {
        self.nodes.values_mut().filter_map(|node| match node {
            Node::File(image) => Some(&mut **image),
            Node::Dir(_) => None,
        })
    }

    /// Every file that has a name, or is held open: these take space.
    pub fn blocks_in_use(&self) -> u64 {
        let mut live: BTreeSet<Inode> = self.open.keys().copied().collect();
        self.reach(&mut live, &[ROOT], |dir| &dir.entries);
        live.iter()
            .map(|inode| match &self.nodes[inode] {
                Node::File(image) => image.blocks_in_use(),
                Node::Dir(_) => 1,
            })
            .sum()
    }

    fn dir(&self, inode: Inode) -> io::Result<&Dir> {
        match self.nodes.get(&inode) {
            Some(Node::Dir(dir)) => Ok(dir),
            _ => Err(error(ENOTDIR)),
        }
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        let names = names(path)?;
        let (last, parents) = names.split_last().ok_or_else(|| error(EINVAL))?;
        let mut dir = ROOT;
        for name in parents {
            dir = *self.dir(dir)?.entries.get(*name).ok_or_else(|| error(ENOENT))?;
        }
        let found = self.dir(dir)?.entries.get(*last).copied();
        Ok(Place { dir, name: (*last).to_owned(), found })
    }

    /// What stands at `path`, the root included.
    pub fn find(&self, path: &Path) -> io::Result<Option<Inode>> {
        if names(path)?.is_empty() {
            return Ok(Some(ROOT));
        }
        match self.place(path) {
            Ok(place) => Ok(place.found),
            Err(e) if e.raw_os_error() == Some(ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub fn find_file(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.find(path)?.ok_or_else(|| error(ENOENT))?;
        if self.is_dir(inode) { Err(error(EISDIR)) } else { Ok(inode) }
    }

    pub fn is_dir(&self, inode: Inode) -> bool {
        matches!(self.nodes.get(&inode), Some(Node::Dir(_)))
    }

    /// Opens a file, creating it when asked to.
    pub fn open(&mut self, seq: Seq, path: &Path, create: bool, exclusive: bool) -> io::Result<Inode> {
        let place = self.place(path)?;
        let inode = match place.found {
            Some(_) if create && exclusive => return Err(error(EEXIST)),
            Some(inode) if self.is_dir(inode) => return Err(error(EISDIR)),
            Some(inode) => inode,
            None if create => {
                let inode = self.add(Node::File(Box::default()));
                self.change(seq, vec![Effect { dir: place.dir, name: place.name, to: Some(inode) }]);
                inode
            }
            None => return Err(error(ENOENT)),
        };
        self.hold(inode);
        Ok(inode)
    }

    pub fn hold(&mut self, inode: Inode) {
        *self.open.entry(inode).or_insert(0) += 1;
    }

    /// `true` when it was the last hold.
    pub fn close(&mut self, inode: Inode) -> bool {
        let count = self.open.get_mut(&inode).expect("closed as often as opened");
        *count -= 1;
        let last = *count == 0;
        if last {
            self.open.remove(&inode);
            self.sweep_due = true;
        }
        last
    }

    fn add(&mut self, node: Node) -> Inode {
        let inode = Inode(self.next);
        self.next += 1;
        self.nodes.insert(inode, node);
        inode
    }

    fn change(&mut self, seq: Seq, effects: Vec<Effect>) {
        for effect in &effects {
            if let Some(Node::Dir(dir)) = self.nodes.get_mut(&effect.dir) {
                apply(&mut dir.entries, effect);
            }
        }
        self.unsynced.push(Change { seq, effects });
    }

    /// Creates what is missing on the way to `path`; one change for each directory.
    pub fn create_dir_all(&mut self, mut seq: impl FnMut() -> Seq, path: &Path) -> io::Result<()> {
        let mut dir = ROOT;
        for name in names(path)? {
            let found = self.dir(dir)?.entries.get(name).copied();
            dir = match found {
                Some(inode) if self.is_dir(inode) => inode,
                Some(_) => return Err(error(EEXIST)),
                None => {
                    let inode = self.add(Node::Dir(Dir::default()));
                    self.change(seq(), vec![Effect { dir, name: name.to_owned(), to: Some(inode) }]);
                    inode
                }
            };
        }
        Ok(())
    }

    pub fn remove(&mut self, seq: Seq, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let inode = place.found.ok_or_else(|| error(ENOENT))?;
        if self.is_dir(inode) {
            return Err(error(EISDIR));
        }
        self.change(seq, vec![Effect { dir: place.dir, name: place.name, to: None }]);
        Ok(())
    }

    pub fn remove_dir(&mut self, seq: Seq, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let inode = place.found.ok_or_else(|| error(ENOENT))?;
        if !self.dir(inode)?.entries.is_empty() {
            return Err(error(ENOTEMPTY));
        }
        self.change(seq, vec![Effect { dir: place.dir, name: place.name, to: None }]);
        Ok(())
    }

    pub fn rename(&mut self, seq: Seq, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.place(from)?;
        let target = self.place(to)?;
        let inode = source.found.ok_or_else(|| error(ENOENT))?;
        if let Some(there) = target.found {
            if there == inode {
                return Ok(());
            }
            match (self.is_dir(inode), self.is_dir(there)) {
                (false, true) => return Err(error(EISDIR)),
                (true, false) => return Err(error(ENOTDIR)),
                (true, true) if !self.dir(there)?.entries.is_empty() => return Err(error(ENOTEMPTY)),
                _ => {}
            }
        }
        self.change(
            seq,
            vec![
                Effect { dir: source.dir, name: source.name, to: None },
                Effect { dir: target.dir, name: target.name, to: Some(inode) },
            ],
        );
        Ok(())
    }

    /// Name, is it a directory, length; in name order.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(String, bool, u64)>> {
        let inode = self.find(path)?.ok_or_else(|| error(ENOENT))?;
        let entries = self.dir(inode)?.entries.iter();
        Ok(entries
            .map(|(name, inode)| match &self.nodes[inode] {
                Node::Dir(_) => (name.clone(), true, 0),
                Node::File(image) => (name.clone(), false, image.len()),
            })
            .collect())
    }

    /// All files under the root with their paths, for tools and dumps.
    pub fn files(&self) -> Vec<(String, Inode)> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), ROOT)];
        while let Some((path, inode)) = open.pop() {
            match &self.nodes[&inode] {
                Node::File(_) => found.push((path, inode)),
                Node::Dir(dir) => {
                    open.extend(dir.entries.iter().rev().map(|(name, inode)| (format!("{path}/{name}"), *inode)));
                }
            }
        }
        found
    }

    /// Makes the changes of one directory up to `upto` durable, and the earlier ones of the names they touch.
    pub fn sync_dir(&mut self, upto: Seq, path: &Path) -> io::Result<()> {
        let dir = self.find(path)?.ok_or_else(|| error(ENOENT))?;
        self.dir(dir)?;
        let mut names = BTreeSet::new();
        let mut durable = vec![false; self.unsynced.len()];
        for (index, change) in self.unsynced.iter().enumerate().rev() {
            let touches = change.effects.iter().any(|e| names.contains(&(e.dir, e.name.as_str())));
            let covered = change.seq <= upto && change.effects.iter().any(|e| e.dir == dir);
            if covered || touches {
                durable[index] = true;
                names.extend(change.effects.iter().map(|e| (e.dir, e.name.as_str())));
            }
        }
        self.settle(&durable);
        Ok(())
    }

    pub fn sync_all(&mut self, upto: Seq) {
        let durable: Vec<bool> = self.unsynced.iter().map(|change| change.seq <= upto).collect();
        self.settle(&durable);
        for image in self.images_mut() {
            image.sync(upto);
        }
    }

    fn settle(&mut self, durable: &[bool]) {
        let mut index = 0;
        let nodes = &mut self.nodes;
        let sweep_due = &mut self.sweep_due;
        self.unsynced.retain(|change| {
            let keep = !durable[index];
            index += 1;
            if !keep {
                for effect in &change.effects {
                    *sweep_due |= effect.to.is_none();
                    if let Some(Node::Dir(dir)) = nodes.get_mut(&effect.dir) {
                        apply(&mut dir.durable, effect);
                    }
                }
            }
            keep
        });
        self.sweep();
    }

    /// The power goes: names and bytes become what the device happens to hold.
    pub fn lose_power(&mut self, random: &mut Random) -> Lost {
        let mut lost = Lost::default();
        let keep_in_a_hundred = [0, 50, 90, 100][random.below(4) as usize];
        let durable: Vec<bool> = self.unsynced.iter().map(|_| random.chance(keep_in_a_hundred, 100)).collect();
        lost.names_lost = durable.iter().filter(|kept| !**kept).count() as u64;
        self.settle(&durable);
        self.unsynced.clear();
        self.open.clear();
        for node in self.nodes.values_mut() {
            match node {
                Node::Dir(dir) => dir.entries = dir.durable.clone(),
                Node::File(image) if image.is_dirty() => lost.bytes.add(image.lose_power(random)),
                Node::File(_) => {}
            }
        }
        self.sweep_due = true;
        self.sweep();
        lost
    }

    /// The processes end, the kernel lives on.
    pub fn close_all(&mut self) {
        self.open.clear();
        self.sweep_due = true;
        self.sweep();
    }

    /// Frees what no name, durable or not, and no open handle leads to.
    pub fn sweep(&mut self) {
        if !std::mem::take(&mut self.sweep_due) {
            return;
        }
        let mut live: BTreeSet<Inode> = self.open.keys().copied().collect();
        self.reach(&mut live, &[ROOT], |dir| &dir.entries);
        let pending: Vec<Inode> = self.unsynced.iter().flat_map(|c| c.effects.iter().filter_map(|e| e.to)).collect();
        let mut roots = vec![ROOT];
        roots.extend(pending);
        let mut durable = BTreeSet::new();
        self.reach(&mut durable, &roots, |dir| &dir.durable);
        self.nodes.retain(|inode, _| live.contains(inode) || durable.contains(inode));
    }

    fn reach(&self, live: &mut BTreeSet<Inode>, roots: &[Inode], entries: fn(&Dir) -> &BTreeMap<String, Inode>) {
        let mut todo = roots.to_vec();
        while let Some(inode) = todo.pop() {
            if live.insert(inode)
                && let Some(Node::Dir(dir)) = self.nodes.get(&inode)
            {
                todo.extend(entries(dir).values());
            }
        }
    }
}

/// What a power loss took.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Lost {
    pub names_lost: u64,
    pub bytes: Loss,
}

fn apply(entries: &mut BTreeMap<String, Inode>, effect: &Effect) {
    match effect.to {
        Some(inode) => entries.insert(effect.name.clone(), inode),
        None => entries.remove(&effect.name),
    };
}

/// The names on the way from the root; a path of the simulated machine is absolute and has no `..`.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    path.components()
        .filter(|component| !matches!(component, Component::RootDir | Component::CurDir))
        .map(|component| match component {
            Component::Normal(name) => name.to_str().ok_or_else(|| error(EINVAL)),
            _ => Err(error(EINVAL)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(tree: &Tree, path: &str) -> Vec<String> {
        tree.list(Path::new(path)).map(|l| l.into_iter().map(|(name, ..)| name).collect()).unwrap_or_default()
    }

    fn tree_with_dir() -> Tree {
        let mut tree = Tree::default();
        tree.create_dir_all(|| 1, Path::new("/d")).unwrap();
        tree.sync_dir(1, Path::new("/")).unwrap();
        tree
    }

    fn create(tree: &mut Tree, seq: Seq, path: &str) -> Inode {
        let inode = tree.open(seq, Path::new(path), true, true).unwrap();
        tree.close(inode);
        inode
    }

    #[test]
    fn a_name_is_durable_once_its_directory_is_synced() {
        let mut kept = 0;
        for seed in 0..100 {
            let mut tree = tree_with_dir();
            create(&mut tree, 2, "/d/a");
            tree.sync_dir(2, Path::new("/d")).unwrap();
            create(&mut tree, 3, "/d/b");
            tree.lose_power(&mut Random::new(seed));
            let names = names_in(&tree, "/d");
            assert!(names.contains(&"a".to_owned()));
            kept += names.len() - 1;
        }
        assert!(kept > 20 && kept < 90, "{kept}");
    }

    #[test]
    fn a_rename_is_atomic_and_keeps_one_name() {
        for seed in 0..200 {
            let mut tree = tree_with_dir();
            tree.create_dir_all(|| 1, Path::new("/e")).unwrap();
            tree.sync_all(1);
            create(&mut tree, 2, "/d/a");
            if seed % 2 == 0 {
                tree.sync_dir(2, Path::new("/d")).unwrap();
            }
            tree.rename(3, Path::new("/d/a"), Path::new("/e/b")).unwrap();
            if seed % 3 == 0 {
                tree.sync_dir(3, Path::new("/e")).unwrap();
            }
            tree.lose_power(&mut Random::new(seed));
            let (d, e) = (names_in(&tree, "/d").len(), names_in(&tree, "/e").len());
            assert!(d + e <= 1);
            assert!(seed % 2 != 0 || d + e == 1);
            assert!(seed % 3 != 0 || e == 1);
        }
    }

    #[test]
    fn a_removed_file_lives_while_open_and_comes_back_only_when_the_removal_was_not_synced() {
        let mut tree = tree_with_dir();
        let inode = tree.open(2, Path::new("/d/a"), true, false).unwrap();
        tree.image_mut(inode).write(3, 0, std::iter::once(&b"hello"[..]));
        tree.sync_all(3);
        tree.remove(4, Path::new("/d/a")).unwrap();
        assert_eq!(tree.image(inode).len(), 5);
        tree.sync_dir(4, Path::new("/d")).unwrap();
        assert_eq!(tree.image(inode).len(), 5);
        assert_eq!(tree.blocks_in_use(), 3);
        tree.close(inode);
        tree.sweep();
        assert_eq!(tree.blocks_in_use(), 2);
        assert_eq!(tree.nodes.len(), 2);
    }

    #[test]
    fn errors_are_the_kernel_s() {
        let mut tree = tree_with_dir();
        create(&mut tree, 2, "/d/a");
        let code = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(code(tree.remove(3, Path::new("/d/x"))), Some(ENOENT));
        assert_eq!(code(tree.remove(3, Path::new("/d"))), Some(EISDIR));
        assert_eq!(code(tree.remove_dir(3, Path::new("/d"))), Some(ENOTEMPTY));
        assert_eq!(code(tree.open(3, Path::new("/d/a"), true, true).map(|_| ())), Some(EEXIST));
        assert_eq!(code(tree.open(3, Path::new("/x/a"), true, true).map(|_| ())), Some(ENOENT));
        assert_eq!(code(tree.rename(3, Path::new("/d/x"), Path::new("/d/y"))), Some(ENOENT));
    }
}

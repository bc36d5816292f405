//! Builds in a clean root, as mock, devtools and pbuilder do: a minimal Debian with what the build is declared to
//! need, the tree to build, and nothing else of this machine; no network.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Arguments: root, an empty directory, the tree, files and directories that are shown read-only; `--` and the command.
/// What is written outside of the tree is gone afterwards. All mounts go with the namespace.
const ENTER: &str = r#"
set -e
root=$1 place=$2 tree=$3
shift 3
mount -t tmpfs -o mode=755 tmpfs "$place"
mkdir "$place/up" "$place/work" "$place/root"
mount -t overlay -o "lowerdir=$root,upperdir=$place/up,workdir=$place/work" overlay "$place/root"
cd "$place/root"
mount -t proc proc proc
mount --rbind /dev dev
mkdir -p ".$tree"
mount --bind "$tree" ".$tree"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p ".$1"; else mkdir -p ".${1%/*}"; : >".$1"; fi
  mount --bind "$1" ".$1"
  mount -o remount,bind,ro ".$1"
  shift
done
shift
exec chroot . "$@"
"#;

/// Where programs are in a root.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a build sees.
pub(crate) struct Clean {
    pub(crate) root: PathBuf,
    /// Shown read-only, at their own paths.
    pub(crate) shown: Vec<PathBuf>,
    /// Directories of programs among them.
    pub(crate) programs: Vec<PathBuf>,
}

impl Clean {
    /// `make` in the tree, which it alone may write.
    pub(crate) fn make(&self, tree: &Path, args: &[String]) -> Result<()> {
        let place = tempfile::tempdir().context("no temporary directory")?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--net"]);
        command
            .args(["sh", "-c", ENTER, "sh"])
            .arg(&self.root)
            .arg(place.path())
            .arg(tree)
            .args(&self.shown)
            .arg("--");
        let programs = self.programs.iter().map(|dir| dir.display().to_string());
        let path: Vec<String> = programs.chain([PATH.to_owned()]).collect();
        command
            .env_clear()
            .env("PATH", path.join(":"))
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8");
        shell::output(command.args(["make", "-C"]).arg(tree).args(args)).map(|_| ())
    }
}

//! A host that is a virtual machine: firmware, systemd-boot, a kernel and an initrd of its own, below QEMU. Otherwise it
//! is a host of its bed as every other one; commands reach it by SSH.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host::{Host, Output};
use crate::{ground, shell, tools};

/// In MiB. The first is left to the table of partitions, the last to its copy.
const DISK: u64 = 4096;
const BOOT: u64 = 512;

/// Debian's variables of OVMF that a new machine has.
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// By what QEMU runs instructions: by the processor, or by translating every one.
const KVM: &str = "kvm";
const TCG: &str = "tcg";
/// Until the firmware has said which loader it starts, with KVM: a second, where it works.
const FIRMWARE_SPOKE: Duration = Duration::from_secs(30);

impl Host {
    pub(crate) fn is_machine(&self) -> bool {
        self.disk().exists()
    }

    fn disk(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// What the firmware, systemd-boot, kernel and systemd wrote to the serial line.
    pub fn console(&self) -> Result<String> {
        let text = fs::read(self.dir.join("console"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Makes the disk of the image, the host's own files and the programs that containers show their host; without any
    /// mount.
    pub(crate) fn assemble(&self, base: &Path) -> Result<()> {
        let (root, boot) = (self.dir.join("root"), self.dir.join("boot"));
        let key = self.dir.join("key");
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        shell::output(keygen.arg(&key))?;
        for (from, to) in [
            (base.join("."), root.clone()),
            (self.upper().join("."), root.clone()),
            (tools::runtime()?, root.join("opt/runtime")),
        ] {
            shell::output(Command::new("cp").arg("-a").arg(from).arg(to))?;
        }
        let ssh = root.join("root/.ssh");
        fs::create_dir_all(&ssh)?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700))?;
        fs::copy(key.with_extension("pub"), ssh.join("authorized_keys"))?;
        fs::rename(root.join("boot/efi"), &boot)?;
        fs::create_dir(root.join("boot/efi"))?;
        self.format(&root, &boot)?;
        fs::remove_dir_all(&root)?;
        fs::remove_dir_all(&boot)?;
        fs::copy(VARIABLES, self.dir.join("variables"))?;
        Ok(())
    }

    /// An EFI system partition of `boot` and a root of `root`.
    fn format(&self, root: &Path, boot: &Path) -> Result<()> {
        let part = self.dir.join("disk.part");
        fs::File::create(&part)?.set_len(DISK << 20)?;
        let mut table = Command::new("sgdisk");
        table.arg(format!("--new=1:1M:+{}M", BOOT - 1));
        table.args(["--typecode=1:ef00", "--new=2:0:0", "--typecode=2:8304"]);
        shell::output(table.arg(&part))?;
        let mut fat = Command::new("mkfs.vfat");
        // Sectors of 512 bytes, and blocks of 1024.
        fat.args(["-F", "32", "-n", "ESP", "--offset", "2048"]);
        shell::output(fat.arg(&part).arg(((BOOT - 1) << 10).to_string()))?;
        let files = fs::read_dir(boot)?.map(|entry| Ok(entry?.path()));
        let mut copy = Command::new("mcopy");
        copy.args(["-s", "-i"])
            .arg(format!("{}@@1M", part.display()));
        copy.args(files.collect::<Result<Vec<_>>>()?);
        shell::output(copy.arg("::"))?;
        let mut ext4 = Command::new("mke2fs");
        ext4.args(["-q", "-F", "-t", "ext4", "-L", "root", "-E"]);
        ext4.arg(format!("offset={}", BOOT << 20))
            .arg("-d")
            .arg(root);
        shell::output(ext4.arg(&part).arg(format!("{}M", DISK - BOOT - 1)))?;
        Ok(fs::rename(&part, self.disk())?)
    }

    /// Power is on: QEMU runs in the bed's network and in the host's cgroup, through every reboot. Where KVM cannot be
    /// used, or fails within the firmware, it does without.
    pub(crate) fn start_machine(&self) -> Result<()> {
        self.plug()?;
        if Path::new("/dev/kvm").exists() {
            self.qemu(KVM)?;
            let spoke = || anyhow::Ok(!self.console()?.is_empty());
            let running = self.bed.cgroup(&format!("host-{}/cgroup.procs", self.name));
            let ended = || Ok(spoke()? || fs::read_to_string(&running)?.is_empty());
            let _ = self.bed.wait_for("the firmware", FIRMWARE_SPOKE, ended);
            if spoke()? {
                return Ok(());
            }
            self.power_cut()?;
            let log = self.bed.log_tail(&format!("host-{}", self.name));
            eprintln!("bed: KVM does not run {} here, TCG does. {log}", self.name);
        }
        self.qemu(TCG)
    }

    /// Its end of the network card; after a power loss it is there still.
    fn plug(&self) -> Result<()> {
        let card = format!("vb-{}", self.name);
        let network = format!("kbed-{}", self.bed.name());
        let within = |args: &[&str]| shell::run("ip", &[&["-n", &network], args].concat());
        if within(&["link", "show", "dev", &card]).is_err() {
            within(&["tuntap", "add", "dev", &card, "mode", "tap"])?;
        }
        within(&["link", "set", &card, "master", "br0", "up"])?;
        Ok(())
    }

    fn qemu(&self, accel: &str) -> Result<()> {
        let cgroup = format!("host-{}", self.name);
        fs::create_dir_all(ground::cgroup(self.bed.name()).join(&cgroup))?;
        let card = format!("vb-{}", self.name);
        let file = |name: &str| self.dir.join(name).display().to_string();
        let mut qemu = self.bed.within(
            &cgroup,
            &tools::which("qemu-system-x86_64").context("no QEMU")?,
        );
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-cpu", "max", "-smp", "2", "-m", "2G"])
            .args(["-machine", &format!("q35,accel={accel}")])
            .args([
                "-drive",
                &format!("if=pflash,format=raw,readonly=on,file={}", tools::FIRMWARE),
            ])
            .args([
                "-drive",
                &format!("if=pflash,format=raw,file={}", file("variables")),
            ])
            .args([
                "-drive",
                &format!("if=virtio,format=raw,cache=unsafe,file={}", file("disk")),
            ])
            .args([
                "-netdev",
                &format!("tap,id=bed,ifname={card},script=no,downscript=no"),
            ])
            .args(["-device", "virtio-net-pci,netdev=bed,romfile="])
            .args(["-device", "virtio-rng-pci"])
            .args([
                "-chardev",
                &format!("file,id=console,append=on,path={}", file("console")),
            ])
            .args(["-serial", "chardev:console"]);
        self.bed.detached(&mut qemu, &cgroup)
    }

    /// Copies a file to the machine.
    pub fn send(&self, from: &Path, to: &str) -> Result<()> {
        let mut ssh = self.ssh(60)?;
        let out = ssh
            .arg(format!("cat >'{to}'"))
            .stdin(fs::File::open(from)?)
            .output()?;
        anyhow::ensure!(
            out.status.success(),
            "cannot send {}: {out:?}",
            from.display()
        );
        Ok(())
    }

    /// As [`Host::run_for`]: 255 is SSH's own end, for example while the host is off.
    pub(crate) fn over_ssh(&self, seconds: u32, args: &[&str]) -> Result<Output> {
        let quoted: Vec<String> = (args.iter())
            .map(|arg| format!("'{}'", arg.replace('\'', "'\\''")))
            .collect();
        let mut ssh = self.ssh(seconds)?;
        let out = ssh.stdin(Stdio::null()).arg(quoted.join(" ")).output()?;
        anyhow::ensure!(out.status.code() != Some(255), "{} is off", self.name);
        Ok(out.into())
    }

    fn ssh(&self, seconds: u32) -> Result<Command> {
        let network = ground::netns(self.bed.name());
        let mut ssh = Command::new("nsenter");
        ssh.arg(format!("--net={}", network.display())).args([
            "--",
            "timeout",
            "--kill-after=5",
            &seconds.to_string(),
        ]);
        ssh.args(["ssh", "-q", "-F", "none", "-o", "BatchMode=yes"])
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
            ])
            .args([
                "-o",
                "ConnectTimeout=5",
                "-o",
                "ServerAliveInterval=5",
                "-i",
            ])
            .arg(self.dir.join("key"))
            .arg(format!("root@{}", self.address()?));
        Ok(ssh)
    }
}

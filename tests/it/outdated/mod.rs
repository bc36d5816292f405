//! The built-in checks beside a script for kured with the real lsof: real processes, real files, each
//! case in namespaces of its own. The table says where the two differ, and why.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::fake_bus::FakeHostBus;

mod cases;

use cases::{CASES, Case, Says};

/// What was found: the script's exit code, and what the built-in checks said.
struct Found {
    script: i32,
    kernel: Value,
    libraries: Value,
    all: String,
}

/// The binary and the scripts where no case lays a file system over them: a checkout may be anywhere.
struct Kit(TempDir);

impl Kit {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/outdated");
        for script in ["prelude.sh", "script.sh", "map.pl"] {
            fs::copy(from.join(script), dir.path().join(script)).unwrap();
        }
        let binary = dir.path().join("kube-rebootd");
        fs::copy(env!("CARGO_BIN_EXE_kube-rebootd"), binary).unwrap();
        Self(dir)
    }
}

async fn run(kit: &Kit, case: &Case) -> Result<Found, String> {
    let bus = FakeHostBus::start().await;
    if case.inhibited {
        let row = ["shutdown", "apt", "installing", "block"].map(str::to_owned);
        let [what, who, why, mode] = row;
        bus.knobs().inhibitors = vec![(what, who, why, mode, 0, 1)];
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = format!(
        ". $KIT/prelude.sh\n{}\nset +e\nsh $KIT/script.sh; echo \"script $?\"\n\
         $KIT/kube-rebootd check --json --builtin kernel --builtin libraries\n",
        case.setup
    );
    // The script is the first process of its namespace: its end is that of all that it started.
    let output = tokio::process::Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--ipc",
            "--cgroup",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["timeout", "60", "sh", "-c", &script, "case"])
        .arg(scratch.path())
        .env("DBUS_SYSTEM_BUS_ADDRESS", bus.address())
        .env("KIT", kit.0.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("unshare runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    let all = format!("{}\n{out}{err}", case.name);
    let script = (out.lines())
        .find_map(|line| line.strip_prefix("script ")?.parse().ok())
        .ok_or_else(|| format!("the script did not end: {all}"))?;
    let json = out.lines().find(|line| line.starts_with('{'));
    let json = json.ok_or_else(|| format!("no answer: {all}"))?;
    let report: Value = serde_json::from_str(json).map_err(|err| format!("{err}: {all}"))?;
    Ok(Found {
        script,
        kernel: report["triggers"][0].clone(),
        libraries: report["triggers"][1].clone(),
        all,
    })
}

/// What two checks come to in the daemon: each may ask for a reboot.
fn both(kernel: &str, libraries: &str) -> Says {
    match (kernel, libraries) {
        ("reboot", _) | (_, "reboot") => Says::Reboot,
        ("unknown", _) | (_, "unknown") => Says::Unknown,
        _ => Says::No,
    }
}

async fn judge(kit: &Kit, case: &Case) -> Result<(), String> {
    let found = run(kit, case).await?;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let words = format!(
        "{} | {}",
        text(&found.kernel, "words"),
        text(&found.libraries, "words")
    );
    let builtin = both(
        &text(&found.kernel, "verdict"),
        &text(&found.libraries, "verdict"),
    );
    let script = match found.script {
        0 => Says::Reboot,
        1 => Says::No,
        _ => Says::Unknown,
    };
    let same = builtin == case.builtin
        && script == case.script.unwrap_or(case.builtin)
        && words.contains(case.words);
    if same {
        return Ok(());
    }
    Err(format!(
        "built-in {builtin:?}, script {script:?} ({}): {words}\n{}",
        found.script, found.all
    ))
}

/// One after another: each has the machine's processors to itself, and lsof reads a whole /proc.
#[tokio::test]
async fn built_in_checks_say_what_a_script_with_lsof_says_or_better() {
    let kit = Kit::new();
    let mut wrong = Vec::new();
    for case in CASES {
        if let Err(what) = judge(&kit, case).await {
            wrong.push(what);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let same = CASES.iter().filter(|case| case.script.is_none()).count();
    assert!(same >= 12, "only {same} cases are the same");
}

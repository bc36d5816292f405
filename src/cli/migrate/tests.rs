use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// As kured-ds.yaml has it, between other objects, and with a document without one.
const MANIFEST: &str = r"---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kured, namespace: kube-system}
---
# Source: kured/templates/daemonset.yaml
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: kured
  namespace: kube-system
spec:
  template:
    spec:
      containers:
        - name: kured
          image: ghcr.io/kubereboot/kured:1.23.0
          command:
            - /usr/bin/kured
            - --reboot-sentinel=/sentinel/reboot-required
            - --start-time=0:00
            - --drain-timeout=1h
          env:
            - name: KURED_NODE_ID
              valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
            - name: KURED_CONCURRENCY
              value: 2
          volumeMounts: [{mountPath: /sentinel, name: sentinel}]
      volumes:
        - name: sentinel
          hostPath: {path: /var/run, type: Directory}
---
";

fn found(text: &str) -> Found {
    Found::of(&documents(Path::new("manifest"), text).expect("YAML"))
}

#[test]
fn yaml_of_several_documents_and_json_are_read() {
    let yaml = found(MANIFEST);
    assert_eq!(yaml.others, ["ServiceAccount kube-system/kured"]);
    let migration = migrate::kured(&yaml.kured[0], "kube-rebootd");
    assert_eq!(migration.odd, Vec::<String>::new());
    assert!(
        migration.config.contains("\ntimeout = \"1h\"\n"),
        "{}",
        migration.config
    );
    assert!(migration.hand_over.contains("--slots 2"));
    let all = documents(Path::new("-"), MANIFEST).expect("YAML");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    assert_eq!(found(&list).kured, yaml.kured);
    assert_eq!(found(""), Found::default());
}

#[test]
fn what_is_no_manifest_is_named() {
    let error = |text| {
        documents(Path::new("-"), text)
            .expect_err("none")
            .to_string()
    };
    let template = error("{{- if .Values.x }}\nkind: DaemonSet\n{{ end }}\n");
    assert!(
        template.starts_with("standard input is neither YAML nor JSON: "),
        "{template}"
    );
    assert!(
        template.contains("helm template") && !template.contains('\n'),
        "{template}"
    );
    let values = none(&found("configuration:\n  period: 1h\n"), "values.yaml");
    assert!(
        values.contains("looks like values for kured's Helm chart"),
        "{values}"
    );
    let other = none(
        &found("kind: Deployment\nmetadata: {name: web}\n"),
        "x.yaml",
    );
    assert!(other.contains("there is Deployment web."), "{other}");
    assert!(none(&found(""), "x").contains("there is nothing."));
}

#[test]
fn what_the_api_server_answers_is_looked_at_as_a_manifest_is() {
    let set = documents(Path::new("-"), MANIFEST).expect("YAML").remove(1);
    let object: Object = serde_json::from_value(set.clone()).expect("a DaemonSet");
    assert_eq!(Found::of(&[document(&object)]), Found::of(&[set]));
}

#[test]
fn i7_a_manifest_that_grows_when_it_is_read_is_refused_in_bounded_time() {
    let mut bomb = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for n in 1..9 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(",");
        let _ = writeln!(bomb, "a{n}: &a{n} [{aliases}]");
    }
    let read = |text: String| {
        garble::soon(move || documents(Path::new("-"), &text).map(|all| Found::of(&all)))
    };
    assert!(read(bomb).is_err());
    for text in garble::deep(1 << 18) {
        // What is one long word, or many of them, is a document without a DaemonSet.
        if let Ok(found) = read(text) {
            assert_eq!(found.kured, []);
        }
    }
}

proptest! {
    #[test]
    fn a_damaged_manifest_is_refused_or_makes_a_valid_configuration(text in garble::text(MANIFEST)) {
        if let Ok(documents) = documents(Path::new("-"), &text) {
            for set in Found::of(&documents).kured {
                prop_assert!(migrate::kured(&set, "kube-rebootd").check().is_ok());
            }
        }
    }
}

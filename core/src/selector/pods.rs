//! Pods as the configuration names them: by their namespace, by their labels, or by both (I12).

use std::fmt;
use std::str::FromStr;

use super::{Selector, SelectorError};
use crate::label::is_dns_label;
use crate::pod::Pod;

/// `app=db`, `shop: app=db`, or `shop:` for all of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSelector {
    namespace: Option<String>,
    /// None: whatever its labels are.
    labels: Option<Selector>,
    given: String,
}

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPodSelector {
    #[error(transparent)]
    Labels(#[from] SelectorError),
    #[error(
        "{0:?} names no namespace before its colon; write \"app=db\", \"shop: app=db\" or \"shop:\""
    )]
    Namespace(String),
}

impl PodSelector {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        let namespace = self.namespace.as_ref();
        let labels = self.labels.as_ref();
        namespace.is_none_or(|namespace| *namespace == pod.namespace)
            && labels.is_none_or(|labels| labels.matches(&pod.labels))
    }
}

impl FromStr for PodSelector {
    type Err = BadPodSelector;

    fn from_str(text: &str) -> Result<Self, BadPodSelector> {
        // No label selector has a colon.
        let (namespace, labels) = match text.split_once(':') {
            None => (None, text),
            Some((namespace, labels)) => (Some(namespace.trim()), labels.trim()),
        };
        if namespace.is_some_and(|namespace| !is_dns_label(namespace)) {
            return Err(BadPodSelector::Namespace(text.to_owned()));
        }
        let all = namespace.is_some() && labels.is_empty();
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels: if all { None } else { Some(labels.parse()?) },
            given: text.to_owned(),
        })
    }
}

/// As it was written.
impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, app: &str) -> Pod {
        Pod {
            namespace: namespace.to_owned(),
            labels: [("example/app".to_owned(), app.to_owned())].into(),
            ..Pod::ready("a")
        }
    }

    #[test]
    fn pods_are_named_by_namespace_labels_or_both() {
        let pods = [pod("shop", "db"), pod("shop", "web"), pod("bank", "db")];
        for (text, selected) in [
            ("example/app=db", [true, false, true]),
            ("shop: example/app=db", [true, false, false]),
            ("shop:example/app in (db,web)", [true, true, false]),
            ("shop:", [true, true, false]),
            ("bank: !example/app", [false, false, false]),
        ] {
            let selector: PodSelector = text.parse().unwrap();
            let matches = [0, 1, 2].map(|pod| selector.matches(&pods[pod]));
            assert_eq!(matches, selected, "{text}");
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn i12_what_is_no_selector_of_pods_is_refused() {
        for text in [
            "",
            ":",
            ": app=db",
            "Shop: app=db",
            "shop: a b",
            "shop: a=b:c",
            "a.b: app=db",
        ] {
            assert!(text.parse::<PodSelector>().is_err(), "{text}");
        }
    }
}

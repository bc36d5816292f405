//! The text format of Prometheus, version 0.0.4: `node_exporter` reads no other.

use std::fmt;

use jiff::Timestamp;
use kube_rebootd_core::metrics::{Kind, Page, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What the text is, for HTTP.
pub(super) const TYPE: &str = prometheus_text::CONTENT_TYPE;

/// prometheus-client puts it behind the name of each counter.
const COUNTER: &str = "_total";

/// A page as it is at a time of the host.
#[derive(Debug)]
struct At(Page, Timestamp);

impl Collector for At {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Self(page, wall) = self;
        for (family, samples) in &page.families {
            let kind = match family.kind() {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
            };
            let name = match family.kind() {
                Kind::Gauge => family.name(),
                Kind::Counter => family.name().trim_end_matches(COUNTER),
            };
            let help = family.help();
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for sample in samples {
                let labels = family.labels().iter().copied();
                let labels: Vec<(&str, &str)> = labels
                    .zip(sample.labels.iter().map(String::as_str))
                    .collect();
                if labels.is_empty() {
                    value(&mut metric, sample.value, *wall)?;
                } else {
                    let mut labelled = metric.encode_family(&labels)?;
                    value(&mut labelled, sample.value, *wall)?;
                }
            }
        }
        Ok(())
    }
}

fn value(metric: &mut MetricEncoder<'_>, value: Value, wall: Timestamp) -> fmt::Result {
    match value {
        Value::Count(count) => metric.encode_counter::<NoLabelSet, u64, u64>(&count, None),
        Value::Number(_) | Value::Since(_) => metric.encode_gauge(&value.at(wall)),
    }
}

/// The page as Prometheus reads it.
pub fn text(page: &Page, wall: Timestamp) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(At(page.clone(), wall)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_rebootd_core::metrics::{Family, Sample};

    #[test]
    fn a_page_is_written_in_its_order_and_escaped() {
        let sample = |label: &[&str], value| Sample {
            labels: label.iter().map(|&label| label.to_owned()).collect(),
            value,
        };
        let then = Timestamp::from_second(100).unwrap();
        let page = Page {
            families: vec![
                (
                    Family::HoldingSeconds,
                    vec![sample(&[], Value::Since(then))],
                ),
                (
                    Family::TriggerAsks,
                    vec![
                        sample(&["b\"\\\n"], Value::Number(1.0)),
                        sample(&["a"], Value::Number(0.5)),
                    ],
                ),
                (Family::Reloads, vec![sample(&["success"], Value::Count(3))]),
            ],
        };
        let text = text(&page, Timestamp::from_second(160).unwrap());
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("# HELP"))
            .collect();
        assert_eq!(
            lines,
            [
                "# TYPE kube_rebootd_holding_seconds gauge",
                "kube_rebootd_holding_seconds 60.0",
                "# TYPE kube_rebootd_trigger_asks gauge",
                "kube_rebootd_trigger_asks{trigger=\"b\\\"\\\\\\n\"} 1.0",
                "kube_rebootd_trigger_asks{trigger=\"a\"} 0.5",
                "# TYPE kube_rebootd_configuration_reloads_total counter",
                "kube_rebootd_configuration_reloads_total{result=\"success\"} 3",
            ]
        );
        let help = format!(
            "# HELP {} {}\n",
            Family::Reloads.name(),
            Family::Reloads.help()
        );
        assert!(text.contains(&help), "{text}");
    }
}

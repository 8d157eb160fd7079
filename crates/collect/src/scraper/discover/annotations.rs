//! `profiles.grafana.com/*`: the annotations by which a pod says which of its profiles to take, as Alloy and
//! Pyroscope's chart read them.

use crate::scraper::labels::{LabelSet, get};

const POD: &str = "__meta_kubernetes_pod_";
const PREFIX: &str = "__meta_kubernetes_pod_annotation_profiles_grafana_com_";

/// The annotations' names of profiles, and ours.
const PROFILES: [(&str, &str); 5] =
    [("cpu", "cpu"), ("memory", "heap"), ("goroutine", "goroutine"), ("block", "block"), ("mutex", "mutex")];

/// A profile that a pod asks to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotated {
    pub(crate) profile: &'static str,
    /// If the annotations say it.
    pub(crate) scheme: Option<String>,
    /// The whole path, if the annotations say it.
    pub(crate) path: Option<String>,
}

/// Returns whether a target is a port of a pod.
pub(crate) fn is_pod(labels: &LabelSet) -> bool {
    labels.contains_key("__meta_kubernetes_pod_name")
}

/// Returns the profiles to take at a port of a pod.
pub(crate) fn wanted(labels: &LabelSet) -> Vec<Annotated> {
    let phase = get(labels, &format!("{POD}phase"));
    if ["Pending", "Succeeded", "Failed", "Completed"].contains(&phase) {
        return Vec::new();
    }
    PROFILES.iter().filter_map(|(name, profile)| of_profile(labels, name, profile)).collect()
}

fn of_profile(labels: &LabelSet, name: &str, profile: &'static str) -> Option<Annotated> {
    let annotation = |key: &str| get(labels, &format!("{PREFIX}{name}_{key}"));
    let port = |key: &str| get(labels, &format!("{POD}container_port_{key}"));
    let is_port = match annotation("port_name") {
        "" => annotation("port") == port("number"),
        port_name => port_name == port("name"),
    };
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    (annotation("scrape") == "true" && is_port).then(|| Annotated {
        profile,
        scheme: given(annotation("scheme")),
        path: given(annotation("path")),
    })
}

/// Returns the name of the service that a pod's annotations say, or `NAMESPACE/CONTAINER`, as Alloy calls it.
pub(crate) fn service(labels: &LabelSet) -> Option<String> {
    if !is_pod(labels) {
        return None;
    }
    let named = get(labels, &format!("{PREFIX}service_name"));
    let (namespace, container) =
        (get(labels, "__meta_kubernetes_namespace"), get(labels, &format!("{POD}container_name")));
    if !named.is_empty() {
        return Some(named.to_owned());
    }
    (!namespace.is_empty() && !container.is_empty()).then(|| format!("{namespace}/{container}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scraper::labels::set;

    fn pod(annotations: &[(&str, &str)]) -> LabelSet {
        let mut labels = LabelSet::new();
        for (name, value) in [
            ("name", "shop-1"),
            ("phase", "Running"),
            ("container_name", "web"),
            ("container_port_name", "http"),
            ("container_port_number", "3000"),
        ] {
            set(&mut labels, &format!("{POD}{name}"), value);
        }
        set(&mut labels, "__meta_kubernetes_namespace", "prod");
        for (name, value) in annotations {
            set(&mut labels, &format!("{PREFIX}{name}"), *value);
        }
        labels
    }

    fn profiles(annotations: &[(&str, &str)]) -> Vec<&'static str> {
        wanted(&pod(annotations)).into_iter().map(|annotated| annotated.profile).collect()
    }

    #[test]
    fn a_pod_says_what_to_take_and_where() {
        assert_eq!(profiles(&[]), [""; 0]);
        assert_eq!(profiles(&[("cpu_scrape", "true"), ("cpu_port", "3000")]), ["cpu"]);
        assert_eq!(profiles(&[("cpu_scrape", "false"), ("cpu_port", "3000")]), [""; 0]);
        assert_eq!(profiles(&[("cpu_scrape", "true"), ("cpu_port", "9000")]), [""; 0]);
        assert_eq!(
            profiles(&[("cpu_scrape", "true")]),
            [""; 0],
            "no port is named, and this one has a number"
        );
        let both = [
            ("cpu_scrape", "true"),
            ("cpu_port_name", "http"),
            ("memory_scrape", "true"),
            ("memory_port", "3000"),
        ];
        assert_eq!(profiles(&both), ["cpu", "heap"]);
        let all = [
            ("mutex_scrape", "true"),
            ("mutex_port_name", "http"),
            ("mutex_scheme", "https"),
            ("mutex_path", "/locks"),
        ];
        assert_eq!(
            wanted(&pod(&all)),
            [Annotated { profile: "mutex", scheme: Some("https".into()), path: Some("/locks".into()) }]
        );
        let mut over = pod(&both);
        set(&mut over, &format!("{POD}phase"), "Succeeded");
        assert_eq!(wanted(&over), []);
    }

    #[test]
    fn a_pod_names_its_service() {
        assert_eq!(service(&pod(&[("service_name", "shop")])).as_deref(), Some("shop"));
        assert_eq!(service(&pod(&[])).as_deref(), Some("prod/web"));
        assert_eq!(service(&LabelSet::new()), None);
    }
}

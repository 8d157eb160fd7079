//! `kubernetes_sd_configs` with the role pod: a target for each port of each container, with Prometheus' labels.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::found::FoundTargets;
use crate::outside::{Outside, Tls};
use crate::scraper::client::{Authorization, Client, Secret};
use crate::scraper::labels::{ADDRESS, LabelSet, set};
use crate::scraper::url::escaped;

/// How long to wait for a page of the list, and how long it may be.
const LIMITS: (Duration, usize) = (Duration::from_secs(30), 32 << 20);
/// The number of pods in a page, and the most pages of a list.
const PAGE: usize = 500;
const MAX_PAGES: usize = 100;
/// Where Kubernetes puts what a pod needs to ask the API.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The beginning of the names of all labels.
const META: &str = "__meta_kubernetes_";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubernetes {
    /// `None`: that of the cluster we run in.
    pub(crate) server: Option<ApiServer>,
    /// Empty: all of them.
    pub(crate) namespaces: Vec<String>,
    pub(crate) own_namespace: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiServer {
    pub(crate) url: String,
    pub(crate) client: Arc<Client>,
}

impl Kubernetes {
    pub(super) fn find(&self, outside: &dyn Outside) -> Result<Vec<LabelSet>, String> {
        let server = match &self.server {
            Some(server) => server.clone(),
            None => ApiServer::of_this_cluster(|name| std::env::var(name).ok(), Path::new(ACCOUNT))?,
        };
        let mut namespaces = self.namespaces.clone();
        if self.own_namespace {
            let path = Path::new(ACCOUNT).join("namespace");
            let own =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            namespaces.push(own.trim().to_owned());
        }
        let mut found = FoundTargets::new();
        if namespaces.is_empty() {
            self.add_all(&server, "/api/v1/pods", outside, &mut found)?;
        }
        for namespace in &namespaces {
            let path = format!("/api/v1/namespaces/{}/pods", escaped(namespace));
            self.add_all(&server, &path, outside, &mut found)?;
        }
        Ok(found.into_targets())
    }

    /// Adds the targets of all pages of a list.
    fn add_all(
        &self,
        server: &ApiServer,
        path: &str,
        outside: &dyn Outside,
        found: &mut FoundTargets,
    ) -> Result<(), String> {
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let url = self.url(&server.url, path, &next);
            let bytes = server.client.fetch(outside, &url, &[("Accept", "application/json")], LIMITS)?;
            next = pods(&bytes, found).map_err(|message| format!("{}{path}: {message}", server.url))?;
            if next.is_empty() {
                return Ok(());
            }
        }
        Err(format!("{}{path}: more than {} pods; select namespaces", server.url, MAX_PAGES * PAGE))
    }

    fn url(&self, server: &str, path: &str, next: &str) -> String {
        let mut url = format!("{server}{path}?limit={PAGE}");
        for (name, value) in [
            ("labelSelector", &*self.label_selector),
            ("fieldSelector", &self.field_selector),
            ("continue", next),
        ] {
            if !value.is_empty() {
                url.push_str(&format!("&{name}={}", escaped(value)));
            }
        }
        url
    }
}

impl ApiServer {
    /// Returns the API server of the cluster that this process runs in, with the rights of its service account.
    fn of_this_cluster(variable: impl Fn(&str) -> Option<String>, account: &Path) -> Result<Self, String> {
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
        let (Some(host), Some(port)) = (host, port) else {
            return Err("this process does not run in Kubernetes; write api_server".to_owned());
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let authorization = Authorization::Credentials {
            scheme: "Bearer".to_owned(),
            secret: Secret::File(account.join("token")),
        };
        let tls = Tls { ca_file: Some(account.join("ca.crt")), ..Tls::default() };
        let client = Client { authorization: Some(authorization), tls };
        Ok(Self { url: format!("https://{host}:{port}"), client: Arc::new(client) })
    }
}

#[derive(Deserialize)]
struct PodList {
    metadata: Option<ListMeta>,
    items: Option<Vec<Pod>>,
}

#[derive(Deserialize)]
struct ListMeta {
    r#continue: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod {
    metadata: PodMeta,
    spec: Spec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<PodOwner>>,
}

#[derive(Deserialize)]
struct PodOwner {
    kind: Option<String>,
    name: Option<String>,
    controller: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    image: Option<String>,
    ports: Option<Vec<Port>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: Option<String>,
    container_port: u16,
    protocol: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

#[derive(Deserialize)]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

/// Adds the targets of a page, and returns what to ask for the next one with.
fn pods(bytes: &[u8], found: &mut FoundTargets) -> Result<String, String> {
    let list: PodList = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    for pod in list.items.unwrap_or_default() {
        pod.add(found)?;
    }
    Ok(list.metadata.and_then(|meta| meta.r#continue).unwrap_or_default())
}

impl Pod {
    fn add(&self, found: &mut FoundTargets) -> Result<(), String> {
        // One that starts, or was evicted, has no address.
        let Some(ip) = self.status.pod_ip.as_deref().filter(|ip| !ip.is_empty()) else { return Ok(()) };
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let common = self.labels(ip);
        let of = |containers: &'_ Option<Vec<Container>>| containers.as_deref().unwrap_or_default().len();
        let usual = of(&self.spec.containers);
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers).flatten();
        for (at, container) in containers.enumerate() {
            let own = self.container_labels(container, at >= usual);
            let ports = container.ports.as_deref().unwrap_or_default();
            if ports.is_empty() {
                let mut own = own.clone();
                set(&mut own, ADDRESS, host.as_str());
                found.push(&common, own)?;
            }
            for port in ports {
                let mut own = own.clone();
                set(&mut own, ADDRESS, format!("{host}:{}", port.container_port));
                let mut meta =
                    |name: &str, value: &str| set(&mut own, &format!("{META}pod_container_{name}"), value);
                meta("port_number", &port.container_port.to_string());
                meta("port_name", port.name.as_deref().unwrap_or_default());
                meta("port_protocol", port.protocol.as_deref().unwrap_or_default());
                found.push(&common, own)?;
            }
        }
        Ok(())
    }

    fn labels(&self, ip: &str) -> LabelSet {
        let mut labels = LabelSet::new();
        let mut meta = |name: &str, value: &str| set(&mut labels, &format!("{META}{name}"), value);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (own, status) = (&self.metadata, &self.status);
        meta("namespace", &text(&own.namespace));
        meta("pod_name", &own.name);
        meta("pod_ip", ip);
        meta("pod_ready", &self.ready());
        meta("pod_phase", &text(&status.phase));
        meta("pod_node_name", &text(&self.spec.node_name));
        meta("pod_host_ip", &text(&status.host_ip));
        meta("pod_uid", &text(&own.uid));
        let mut owners = own.owner_references.iter().flatten();
        if let Some(owner) = owners.find(|owner| owner.controller == Some(true)) {
            meta("pod_controller_kind", &text(&owner.kind));
            meta("pod_controller_name", &text(&owner.name));
        }
        for (kind, pairs) in [("label", &own.labels), ("annotation", &own.annotations)] {
            for (name, value) in pairs.iter().flatten() {
                let name = sanitized(name);
                meta(&format!("pod_{kind}_{name}"), value);
                meta(&format!("pod_{kind}present_{name}"), "true");
            }
        }
        labels
    }

    fn ready(&self) -> String {
        let mut conditions = self.status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.r#type == "Ready");
        ready.map_or("unknown".to_owned(), |condition| condition.status.to_lowercase())
    }

    fn container_labels(&self, container: &Container, is_init: bool) -> LabelSet {
        let mut labels = LabelSet::new();
        let mut meta =
            |name: &str, value: &str| set(&mut labels, &format!("{META}pod_container_{name}"), value);
        meta("name", &container.name);
        meta("image", container.image.as_deref().unwrap_or_default());
        meta("init", if is_init { "true" } else { "false" });
        let statuses = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        let status = statuses.flatten().find(|status| status.name == container.name);
        meta("id", status.and_then(|status| status.container_id.as_deref()).unwrap_or_default());
        labels
    }
}

/// Makes a name of a label: each letter that labels cannot have becomes an underscore.
fn sanitized(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scraper::labels::get;

    const LIST: &str = r#"{"kind": "PodList", "metadata": {"continue": "more"}, "items": [
      {"metadata": {"name": "shop-1", "namespace": "prod", "uid": "u1",
          "labels": {"app.kubernetes.io/name": "shop"},
          "annotations": {"profiles.grafana.com/cpu.scrape": "true"},
          "ownerReferences": [{"kind": "ReplicaSet", "name": "shop", "controller": true}]},
       "spec": {"nodeName": "n1",
          "containers": [
            {"name": "web", "image": "shop:2", "ports": [
                {"name": "http", "containerPort": 3000, "protocol": "TCP"}, {"containerPort": 9000}]},
            {"name": "side"}],
          "initContainers": [{"name": "init", "image": "i"}]},
       "status": {"podIP": "10.1.0.1", "hostIP": "10.0.0.1", "phase": "Running",
          "conditions": [{"type": "Ready", "status": "True"}],
          "containerStatuses": [{"name": "web", "containerID": "containerd://1"}]}},
      {"metadata": {"name": "new"}, "spec": {"containers": [{"name": "web"}]}, "status": {}},
      {"metadata": {"name": "six"}, "spec": {"containers": [{"name": "web", "ports": [{"containerPort": 1}]}]},
       "status": {"podIP": "fd00::1"}}
    ]}"#;

    #[test]
    fn each_port_of_a_pod_is_a_target() {
        let mut found = FoundTargets::new();
        assert_eq!(pods(LIST.as_bytes(), &mut found).as_deref(), Ok("more"));
        let targets = found.into_targets();
        let addresses: Vec<&str> = targets.iter().map(|labels| get(labels, ADDRESS)).collect();
        assert_eq!(addresses, ["10.1.0.1:3000", "10.1.0.1:9000", "10.1.0.1", "10.1.0.1", "[fd00::1]:1"]);
        for (name, value) in [
            ("namespace", "prod"),
            ("pod_name", "shop-1"),
            ("pod_ip", "10.1.0.1"),
            ("pod_ready", "true"),
            ("pod_phase", "Running"),
            ("pod_node_name", "n1"),
            ("pod_host_ip", "10.0.0.1"),
            ("pod_uid", "u1"),
            ("pod_controller_kind", "ReplicaSet"),
            ("pod_controller_name", "shop"),
            ("pod_label_app_kubernetes_io_name", "shop"),
            ("pod_labelpresent_app_kubernetes_io_name", "true"),
            ("pod_annotation_profiles_grafana_com_cpu_scrape", "true"),
            ("pod_annotationpresent_profiles_grafana_com_cpu_scrape", "true"),
            ("pod_container_name", "web"),
            ("pod_container_image", "shop:2"),
            ("pod_container_id", "containerd://1"),
            ("pod_container_init", "false"),
            ("pod_container_port_name", "http"),
            ("pod_container_port_number", "3000"),
            ("pod_container_port_protocol", "TCP"),
        ] {
            assert_eq!(get(&targets[0], &format!("{META}{name}")), value, "{name}");
        }
        assert_eq!(targets[0].len(), 22);
        assert_eq!(get(&targets[3], "__meta_kubernetes_pod_container_init"), "true");
        assert_eq!(get(&targets[4], "__meta_kubernetes_pod_ready"), "unknown");
    }

    #[test]
    fn no_answer_makes_it_panic() {
        for bad in
            ["", "[]", "{\"items\": [{}]}", "{\"items\": 1}", "{\"kind\": \"PodStatus\", \"items\": null}"]
        {
            let _ = pods(bad.as_bytes(), &mut FoundTargets::new());
        }
        let mut seed = 1u64;
        for _ in 0..3000 {
            let mut bytes = LIST.as_bytes().to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (at, what) = ((seed >> 33) as usize % bytes.len(), (seed >> 20) as usize % 14);
                bytes[at] = b" \n-:[]{}'\"9n,x"[what];
            }
            let _ = pods(&bytes, &mut FoundTargets::new());
        }
    }

    #[test]
    fn the_api_is_asked_with_the_service_account() {
        let variable = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
            _ => Some("443".to_owned()),
        };
        let server = ApiServer::of_this_cluster(variable, Path::new("/account")).expect("good");
        assert_eq!(server.url, "https://[fd00::1]:443");
        assert_eq!(server.client.tls.ca_file, Some("/account/ca.crt".into()));
        assert!(format!("{:?}", server.client.authorization).contains("/account/token"));
        assert!(
            ApiServer::of_this_cluster(|_| None, Path::new("/")).expect_err("outside").contains("api_server")
        );
        let kubernetes = Kubernetes {
            server: None,
            namespaces: Vec::new(),
            own_namespace: false,
            label_selector: "app in (a,b)".to_owned(),
            field_selector: String::new(),
        };
        assert_eq!(
            kubernetes.url("https://h", "/api/v1/pods", "x=="),
            "https://h/api/v1/pods?limit=500&labelSelector=app%20in%20%28a%2Cb%29&continue=x%3D%3D"
        );
    }
}

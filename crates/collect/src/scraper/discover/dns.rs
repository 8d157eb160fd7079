//! `dns_sd_configs`: the addresses of names, or the hosts and ports that their SRV records list.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use super::found::FoundTargets;
use super::srv::{self, SrvRecord};
use crate::outside::Outside;
use crate::scraper::labels::{ADDRESS, LabelSet, set};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dns {
    pub(crate) names: Vec<String>,
    pub(crate) records: DnsRecords,
}

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsRecords {
    /// `type: SRV`.
    Srv,
    /// `type: A` or `AAAA`, with the port of all targets.
    Addresses(Family, u16),
}

/// Which addresses of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// `type: A`.
    V4,
    /// `type: AAAA`.
    V6,
}

impl Dns {
    pub(super) fn find(&self, outside: &dyn Outside) -> Result<Vec<LabelSet>, String> {
        let mut found = FoundTargets::new();
        for name in &self.names {
            match self.records {
                DnsRecords::Addresses(family, port) => {
                    add_addresses(name, &outside.resolve(name)?, (family, port), &mut found)?;
                }
                DnsRecords::Srv => {
                    // An attacker who does not see the question cannot answer it.
                    let id = RandomState::new().build_hasher().finish() as u16;
                    let bytes = outside.ask_name_server(&srv::query(name, id)?)?;
                    let records = srv::records(&bytes, id).map_err(|message| format!("{name}: {message}"))?;
                    add_records(name, &records, &mut found)?;
                }
            }
        }
        Ok(found.into_targets())
    }
}

fn labels_of(name: &str) -> LabelSet {
    let mut common = LabelSet::new();
    set(&mut common, "__meta_dns_name", name);
    common
}

fn add_addresses(
    name: &str,
    addresses: &[IpAddr],
    (family, port): (Family, u16),
    found: &mut FoundTargets,
) -> Result<(), String> {
    let mut addresses: Vec<IpAddr> = addresses.to_vec();
    addresses.retain(|address| address.is_ipv4() == (family == Family::V4));
    addresses.sort_unstable();
    addresses.dedup();
    for address in addresses {
        let mut own = LabelSet::new();
        set(&mut own, ADDRESS, std::net::SocketAddr::new(address, port).to_string());
        found.push(&labels_of(name), own)?;
    }
    Ok(())
}

fn add_records(name: &str, records: &[SrvRecord], found: &mut FoundTargets) -> Result<(), String> {
    for SrvRecord { host, port } in records {
        let mut own = LabelSet::new();
        set(&mut own, ADDRESS, format!("{}:{port}", host.trim_end_matches('.')));
        set(&mut own, "__meta_dns_srv_record_target", host.as_str());
        set(&mut own, "__meta_dns_srv_record_port", port.to_string());
        found.push(&labels_of(name), own)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scraper::labels::get;

    #[test]
    fn addresses_of_one_family_become_targets() {
        let all: Vec<IpAddr> = ["10.0.0.2", "::1", "10.0.0.1", "10.0.0.2"]
            .map(|text| text.parse().expect("an address"))
            .to_vec();
        let targets = |family: Family| {
            let mut found = FoundTargets::new();
            add_addresses("shop.local", &all, (family, 80), &mut found).expect("room");
            found.into_targets()
        };
        let v4 = targets(Family::V4);
        assert_eq!(
            v4.iter().map(|labels| get(labels, ADDRESS)).collect::<Vec<_>>(),
            ["10.0.0.1:80", "10.0.0.2:80"]
        );
        let v6 = targets(Family::V6);
        assert_eq!((get(&v6[0], ADDRESS), get(&v6[0], "__meta_dns_name")), ("[::1]:80", "shop.local"));
    }
    #[test]
    fn hosts_of_records_become_targets() {
        let records = [SrvRecord { host: "a.shop.local.".to_owned(), port: 80 }];
        let mut found = FoundTargets::new();
        add_records("_http._tcp.shop.local", &records, &mut found).expect("room");
        let targets = found.into_targets();
        let pairs: Vec<(&str, &str)> = targets[0].iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            pairs,
            [
                ("__address__", "a.shop.local:80"),
                ("__meta_dns_name", "_http._tcp.shop.local"),
                ("__meta_dns_srv_record_port", "80"),
                ("__meta_dns_srv_record_target", "a.shop.local."),
            ]
        );
    }
}

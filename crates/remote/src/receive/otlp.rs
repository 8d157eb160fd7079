//! What OTLP's profiles are called here, and the answers that their senders expect. The message itself is a file format.

use flamelet_profile::protobuf::MessageWriter;
use serde_json::json;

use crate::label_name::allowed;
use crate::querier::Codec;

/// The path of the gRPC call.
pub const EXPORT_PATH: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// The name of a service that does not say its name, as Pyroscope and OpenTelemetry have it.
const UNKNOWN: &str = "unknown_service";

/// Returns the name of the service and the labels that the attributes of a resource stand for, as Pyroscope does:
/// `service.name` is the service, and each other attribute a label whose name has underscores for dots.
pub fn labels(attributes: &[(String, String)]) -> (String, Vec<(String, String)>) {
    let find = |name: &str| {
        let found = attributes.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    let unknown = || match find("process.executable.name") {
        Some(program) => format!("{UNKNOWN}:{program}"),
        None => UNKNOWN.to_owned(),
    };
    let service = find("service.name").unwrap_or_else(unknown);
    let others = attributes.iter().filter(|(key, _)| key != "service.name");
    (service, others.map(|(key, value)| (allowed(key), value.clone())).collect())
}

/// Returns an `ExportProfilesServiceResponse`: empty, or with the number of profiles that were refused and why.
pub fn response(codec: Codec, rejected: u64, why: &str) -> Vec<u8> {
    match codec {
        Codec::Json if rejected == 0 => b"{}".to_vec(),
        Codec::Json => {
            let partial = json!({ "rejectedProfiles": rejected.to_string(), "errorMessage": why });
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
        Codec::Proto if rejected == 0 => Vec::new(),
        Codec::Proto => {
            let mut message = MessageWriter::default();
            message.message(1, |partial| {
                partial.uint(1, rejected);
                partial.bytes(2, why.as_bytes());
            });
            message.into_bytes()
        }
    }
}

/// Returns a `google.rpc.Status`, as OTLP/HTTP and the gateways of gRPC write errors; `code` is gRPC's.
pub fn status(codec: Codec, code: u32, why: &str) -> Vec<u8> {
    match codec {
        Codec::Json => json!({ "code": code, "message": why }).to_string().into_bytes(),
        Codec::Proto => {
            let mut message = MessageWriter::default();
            message.uint(1, code.into());
            message.bytes(2, why.as_bytes());
            message.into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::{Answer, Protocol, Verdict, judge};

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn attributes_become_labels() {
        let all = pairs(&[("host.name", "a1"), ("service.name", "shop"), ("k8s/pod", "p"), ("region", "eu")]);
        let expected = pairs(&[("host_name", "a1"), ("k8s_pod", "p"), ("region", "eu")]);
        assert_eq!(labels(&all), ("shop".to_owned(), expected));
        assert_eq!(labels(&[]).0, "unknown_service");
        assert_eq!(labels(&pairs(&[("service.name", "")])).0, "unknown_service");
        assert_eq!(labels(&pairs(&[("process.executable.name", "sh")])).0, "unknown_service:sh");
    }

    #[test]
    fn our_sender_understands_the_answers() {
        let judged =
            |body: Vec<u8>| judge(Protocol::Otlp, &Answer { status: 200, body, ..Answer::default() });
        assert_eq!(judged(response(Codec::Proto, 0, "")), Verdict::Accepted);
        assert_eq!(judged(response(Codec::Proto, 2, "too old")), Verdict::Refused("too old".into()));
        assert_eq!(response(Codec::Json, 0, ""), b"{}");
        let partial = response(Codec::Json, 2, "a \"b\"");
        assert_eq!(partial, br#"{"partialSuccess":{"errorMessage":"a \"b\"","rejectedProfiles":"2"}}"#);
        assert_eq!(status(Codec::Proto, 3, "no"), [8, 3, 0x12, 2, b'n', b'o']);
        assert_eq!(status(Codec::Json, 3, "no"), br#"{"code":3,"message":"no"}"#);
    }
}

//! Pyroscope's query calls, as Grafana makes them, answered from the history. JSON bodies: those of real clients are
//! in `crates/remote`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flamelet::{History, Profiler};

use crate::service::{Answer, Burner, Service, again_until};

const TYPE: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

fn with_history(folder: &std::path::Path) -> Service {
    let history = History::new(folder).window(Duration::from_millis(200)).frequency(200);
    Service::start(Profiler::builder().overhead_budget(None).label("region", "north").history(history))
}

fn call(service: &Service, method: &str, body: &str) -> Answer {
    let path = format!("/querier.v1.QuerierService/{method}");
    service.ask("POST", &path, &[("Content-Type", "application/json")], body)
}

fn now_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

#[test]
fn grafana_reads_the_service_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    let (start, _burner) = (now_millis() - 1000, Burner::start());
    let times = || format!(r#""start":"{start}","end":"{}""#, now_millis() + 1000);
    let selector = r#""labelSelector":"{service_name=\"under test\",region=\"north\"}""#;
    let merge = || format!(r#"{{"profileTypeID":"{TYPE}",{selector},{}}}"#, times());
    let flame = again_until(
        || call(&service, "SelectMergeStacktraces", &merge()),
        |answer| answer.status == 200 && answer.text().contains("burn_cycles"),
    );
    assert_eq!(flame.header("content-type"), "application/json");
    assert!(flame.text().contains(r#""names":["total","#), "{:.300}", flame.text());
    let types = call(&service, "ProfileTypes", &format!("{{{}}}", times()));
    assert!(types.text().contains(&format!(r#""ID":"{TYPE}""#)), "{}", types.text());
    let names = call(&service, "LabelNames", &format!("{{{}}}", times()));
    for name in ["region", "service_name", "thread", "__profile_type__"] {
        assert!(names.text().contains(&format!("\"{name}\"")), "{}", names.text());
    }
    let values = call(&service, "LabelValues", &format!(r#"{{"name":"service_name",{}}}"#, times()));
    assert_eq!(values.text(), r#"{"names":["under test"]}"#);
    let series =
        format!(r#"{{"profileTypeID":"{TYPE}",{selector},{},"step":1,"groupBy":["thread"]}}"#, times());
    let series = call(&service, "SelectSeries", &series);
    assert!(series.text().contains(r#"{"name":"thread","value":"burner"}"#), "{}", series.text());
    let empty = merge().replace("north", "south");
    assert!(call(&service, "SelectMergeStacktraces", &empty).text().contains(r#""total":"0""#));
    let render = format!("/pyroscope/render?query={TYPE}%7Bregion%3D%22north%22%7D&from=now-1h&until=now");
    let render = service.get(&render);
    assert!(render.status == 200 && render.text().contains("burn_cycles"), "{:.300}", render.text());
    let profile = service.ask(
        "POST",
        "/querier.v1.QuerierService/SelectMergeProfile",
        &[("Content-Type", "application/json")],
        &merge(),
    );
    assert!(profile.text().contains("\"stringTable\""), "{:.300}", profile.text());
}

#[test]
fn queries_that_make_no_sense_are_refused_as_pyroscope_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    for (method, body, status, code) in [
        ("SelectMergeStacktraces", r#"{"profileTypeID":"cpu","start":1,"end":2}"#, 400, "invalid_argument"),
        (
            "SelectMergeStacktraces",
            r#"{"profileTypeID":"a:b:c:d:e","start":9,"end":2}"#,
            400,
            "invalid_argument",
        ),
        ("SelectMergeStacktraces", r#"{"labelSelector":"{a=","start":1,"end":2}"#, 400, "invalid_argument"),
        ("SelectSeries", r#"{"profileTypeID":"a:b:c:d:e","start":1,"end":2}"#, 400, "invalid_argument"),
        ("LabelValues", "{}", 400, "invalid_argument"),
        ("Diff", "{}", 400, "invalid_argument"),
        ("ProfileTypes", "[", 400, "invalid_argument"),
        ("ProfileTypes", "7", 400, "invalid_argument"),
    ] {
        let answer = call(&service, method, body);
        assert_eq!(answer.status, status, "{method} {body}: {}", answer.text());
        assert!(answer.text().contains(code), "{}", answer.text());
    }
    let path = "/querier.v1.QuerierService/ProfileTypes";
    assert_eq!(service.ask("POST", path, &[("Content-Type", "text/plain")], "").status, 415);
    assert_eq!(service.get(path).status, 405);
    let nothing =
        call(&service, "SelectMergeStacktraces", r#"{"profileTypeID":"a:b:c:d:e","start":1,"end":2}"#);
    assert_eq!(nothing.status, 200, "a type that is not there is empty");
    let without = Service::start(Profiler::builder());
    call(&without, "ProfileTypes", "{}").assert_refused(403, "keeps no history");
}

//! Known results of the page's data.

use flamelet_profile::{LabelSetId, Profile, ProfileBuilder};

use super::*;
use crate::flame::tests::{numbers, profile};
use crate::flame::{FlameOptions, LIGHT};
use crate::stacks::{Frames, StackWeights};

#[test]
fn functions_count_recursion_once() {
    let profile = profile(&[("a;b;a;b", 4), ("a", 1)]);
    let frames = Frames::new(&profile);
    let rows = functions(&profile, &frames, &StackWeights::new(&profile, 1));
    let text: Vec<_> =
        rows.iter().map(|row| (frames.text(&profile, row.name), row.flat.new, row.cum.new)).collect();
    assert_eq!(text, [("a", 1, 5), ("b", 4, 4)]);
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}\"'&\u{1}";
    let profile = profile(&[(hostile, 10)]);
    let options = FlameOptions { title: hostile.into(), ..FlameOptions::default() };
    let page = html(&profile, &options);
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own");
    assert!(!page.contains("<img"));
    assert!(page.contains("script-src 'sha256-"));
}

#[test]
fn an_empty_profile_is_a_page() {
    assert!(html(&profile(&[]), &FlameOptions::default()).contains("flamelet-data"));
    assert!(html(&Profile::default(), &FlameOptions::default()).ends_with("</html>\n"));
}

#[test]
fn huge_values_do_not_overflow() {
    use flamelet_profile::{Event, Thread, Timeline};

    let mut profile = profile(&[("main;a", i64::MAX), ("main;b", i64::MAX), ("main;c", i64::MIN)]);
    let event = |time| Event { time, value: i64::MAX, ..Event::default() };
    let events = vec![event(0), event(0), event(u64::MAX)];
    profile.timeline = Some(Timeline { threads: vec![Thread::default()], events, ..Timeline::default() });
    let frames = Frames::new(&profile);
    assert!(lanes(&profile, &frames, 0, 100).is_some() && heatmap(&profile, 0).is_some());
    let weights = StackWeights::new(&profile, 1);
    functions(&profile, &frames, &weights);
    call_graph(&profile, &frames, &weights, 10, true);
    assert!(html(&profile, &FlameOptions::default()).ends_with("</html>\n"));
}

#[test]
fn an_exported_page_keeps_its_size() {
    let mut next = numbers(7);
    let stacks: Vec<_> = (0..4000)
        .map(|_| {
            let frames: Vec<_> = (0..6).map(|_| format!("crate::module::function_{}", next(50))).collect();
            (frames.join(";"), next(50) as i64)
        })
        .collect();
    let stacks: Vec<_> = stacks.iter().map(|(stack, value)| (stack.as_str(), *value)).collect();
    let profile = profile(&stacks);
    let room = script().len() + style().len() + 200_000;
    let page = html(&profile, &FlameOptions { max_bytes: room, ..FlameOptions::default() });
    assert!(page.len() <= room, "{} of {room}", page.len());
    assert!(!page.contains("\"narrower\":0,"), "says that boxes were left out");
    let whole = html(&profile, &FlameOptions::default());
    assert!(whole.contains("\"narrower\":0,"));
}

#[test]
fn lanes_tell_work_from_waiting() {
    use flamelet_profile::{Event, Thread, ThreadId, Timeline};

    let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")]);
    let label = builder.text_label("wait", "futex");
    let waiting = builder.labels(&[label]);
    let mut add = |name: &str, labels| {
        let function = builder.named_function(name, "");
        let frame = builder.frame(function, 0);
        let stack = builder.stack(&[frame]);
        builder.sample(stack, labels, &[10]) as u32
    };
    let (work, wait) = (add("app::work", LabelSetId::EMPTY), add("app::wait", waiting));
    let event =
        |time, sample, thread| Event { time, sample, thread: ThreadId::from_index(thread), value: 10 };
    let threads = vec![Thread { tid: 1, ..Thread::default() }, Thread { tid: 2, ..Thread::default() }];
    let events = vec![event(0, work, 0), event(50, wait, 1), event(1_999_999_999, work, 1)];
    let profile = builder.finish_with(Some(Timeline { threads, events, ..Timeline::default() }), None);
    let lanes = serde_json::to_value(lanes(&profile, &Frames::new(&profile), 0, 2).unwrap()).unwrap();
    assert_eq!(lanes["lanes"][0]["tid"], 2, "the busiest first");
    assert_eq!(lanes["lanes"][0]["values"], serde_json::json!([10, 10]));
    assert_eq!(lanes["lanes"][0]["waits"], serde_json::json!([10, 0]));
    assert_eq!(lanes["lanes"][1]["waits"], serde_json::json!([0, 0]));
    let heat = serde_json::to_value(heatmap(&profile, 0).unwrap()).unwrap();
    assert_eq!((&heat["columns"], &heat["cells"][0]), (&2.into(), &20.into()));
    assert_eq!(heat["cells"][99], 10);
}

#[test]
fn marks_say_what_a_thread_asked_of_the_kernel_and_in_which_span() {
    use flamelet_profile::{Event, Thread, ThreadId, Timeline};

    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let label = builder.text_label("span", "request:load");
    let in_span = builder.labels(&[label]);
    let mut add = |names: &[&str], labels| {
        let frames: Vec<_> = names.iter().map(|name| builder.named_frame(name)).collect();
        let stack = builder.stack(&frames);
        builder.sample(stack, labels, &[10]) as u32
    };
    let reads = add(&["copy_to_user", "__x64_sys_read", "app::load"], in_span);
    let faults = add(&["clear_page_erms", "asm_exc_page_fault", "app::fill"], LabelSetId::EMPTY);
    let works = add(&["app::work"], LabelSetId::EMPTY);
    let event =
        |time, sample, value, thread| Event { time, sample, thread: ThreadId::from_index(thread), value };
    let events = vec![
        event(0, works, 7, 0),
        event(1, faults, 2, 0),
        event(2, reads, 3, 0),
        event(60, works, 9, 0),
        event(99, works, 5, 1),
    ];
    let threads = vec![Thread { tid: 1, ..Thread::default() }, Thread { tid: 2, ..Thread::default() }];
    let profile = builder.finish_with(Some(Timeline { threads, events, ..Timeline::default() }), None);
    let found = serde_json::to_value(lanes(&profile, &Frames::new(&profile), 0, 2).unwrap()).unwrap();
    let (one, two) = (&found["lanes"][0], &found["lanes"][1]);
    let mark = |row: &serde_json::Value| found["marks"][row.as_u64().unwrap() as usize].clone();
    assert_eq!(mark(&one["marks"][0]), serde_json::json!({"kind": "call", "name": "read"}), "the largest");
    assert_eq!((&one["marks"][1], &one["marked"]), (&(-1).into(), &serde_json::json!([3, 0])));
    assert_eq!(mark(&one["spans"][0]), serde_json::json!({"kind": "span", "name": "request:load"}));
    assert_eq!(one["spans"][1], -1);
    assert_eq!((&two["marks"], &two["spans"]), (&serde_json::json!([]), &serde_json::json!([])));
}

#[test]
fn tasks_and_routes_have_lanes_too() {
    use flamelet_profile::{Event, Thread, ThreadId, Timeline};

    let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")]);
    let stack = builder.stack(&[]);
    let mut add = |labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels.iter().map(|(key, text)| builder.text_label(key, text)).collect();
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[10]) as u32
    };
    let refill = add(&[("task", "refill")]);
    let cart = add(&[("route", "/cart"), ("method", "GET")]);
    let waits = add(&[("route", "/cart"), ("state", "waiting")]);
    let other = add(&[("thread", "main")]);
    let event = |time, sample, value| Event { time, sample, thread: ThreadId::from_index(0), value };
    let events =
        vec![event(0, refill, 10), event(10, cart, 40), event(50, waits, 100), event(160, other, 1000)];
    let threads = vec![Thread { tid: 1, ..Thread::default() }];
    let profile = builder.finish_with(Some(Timeline { threads, events, ..Timeline::default() }), None);
    let by_task = task_lanes(&profile, &Frames::new(&profile), 0, 2).unwrap();
    let by_task = serde_json::to_value(by_task).unwrap();
    let lanes = by_task["lanes"].as_array().unwrap();
    let lane = |at: usize| (lanes[at]["thread"].as_str().unwrap(), lanes[at]["total"].as_i64().unwrap());
    assert_eq!((lanes.len(), lane(0), lane(1)), (2, ("/cart", 140), ("refill", 10)));
    assert_eq!(lanes[0]["waits"], serde_json::json!([31, 69]), "a wait lasts: {by_task}");
}

#[test]
fn only_the_busiest_threads_get_lanes() {
    use flamelet_profile::{Event, Thread, ThreadId, Timeline};

    let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")]);
    let function = builder.named_function("app::work", "");
    let frame = builder.frame(function, 0);
    let stack = builder.stack(&[frame]);
    let sample = builder.sample(stack, LabelSetId::EMPTY, &[1]) as u32;
    let threads = (0..1000).map(|tid| Thread { tid, ..Thread::default() }).collect();
    let event = |at: usize| Event { time: 0, sample, thread: ThreadId::from_index(at), value: at as i64 };
    let events = (0..500).map(event).collect();
    let profile = builder.finish_with(Some(Timeline { threads, events, ..Timeline::default() }), None);
    let lanes = serde_json::to_value(lanes(&profile, &Frames::new(&profile), 0, 2).unwrap()).unwrap();
    let tids: Vec<u64> =
        lanes["lanes"].as_array().unwrap().iter().map(|lane| lane["tid"].as_u64().unwrap()).collect();
    assert_eq!(tids[..200], (300..500).rev().collect::<Vec<_>>());
    let rest = &lanes["lanes"][200];
    assert_eq!(
        (&rest["threads"], &rest["total"]),
        (&299.into(), &(299 * 300 / 2).into()),
        "the others share one"
    );
    assert_eq!(tids.len(), 201);
}

#[test]
fn waits_are_intervals_and_lanes_are_those_of_the_chosen_type() {
    use flamelet_profile::{Event, KERNEL_START, Thread, ThreadId, Timeline};

    let mut builder =
        ProfileBuilder::new(&[("cpu", "nanoseconds"), ("off_cpu", "nanoseconds"), ("wall", "nanoseconds")]);
    let label = builder.text_label("wait", "futex");
    let waiting = builder.labels(&[label]);
    let user = builder.address(None, 0x1000);
    let kernel = builder.address(None, KERNEL_START + 16);
    let (user, kernel) = (builder.stack(&[user]), builder.stack(&[kernel, user]));
    let run = builder.sample(user, LabelSetId::EMPTY, &[30, 0, 30]) as u32;
    let system = builder.sample(kernel, LabelSetId::EMPTY, &[5, 0, 5]) as u32;
    let wait = builder.sample(user, waiting, &[0, 250, 250]) as u32;
    let (first, second) = (builder.string("first"), builder.string("second"));
    let thread = |pid, tid, process| Thread { pid, tid, process, ..Thread::default() };
    let threads = vec![thread(1, 1, first), thread(2, 2, second), thread(1, 3, first), thread(1, 4, first)];
    let event =
        |time, sample, value, thread| Event { time, sample, value, thread: ThreadId::from_index(thread) };
    let events = vec![
        event(0, run, 10, 0),
        event(50, wait, 250, 0),
        event(60, wait, 0, 2),
        event(70, wait, 0, 3),
        event(310, run, 20, 1),
        event(399, system, 5, 0),
    ];
    let timeline = Timeline { threads, events, value_type: 2, ..Timeline::default() };
    let profile = builder.finish_with(Some(timeline), None);
    let of =
        |index| serde_json::to_value(lanes(&profile, &Frames::new(&profile), index, 4).unwrap()).unwrap();
    let wall = of(2);
    let [one, two] = [0, 1].map(|at| &wall["lanes"][at]);
    assert_eq!((&one["tid"], &two["tid"]), (&2.into(), &1.into()), "the busiest process first");
    assert_eq!(two["waits"], serde_json::json!([50, 100, 100, 0]), "{wall}");
    assert_eq!(two["values"], serde_json::json!([60, 100, 100, 5]));
    assert_eq!(two["kernel"], serde_json::json!([0, 0, 0, 5]));
    assert_eq!(of(0)["lanes"][1]["values"], serde_json::json!([10, 0, 0, 5]));
    assert_eq!(of(1)["lanes"][0]["values"], serde_json::json!([50, 100, 100, 0]));
}

#[cfg(feature = "text")]
#[test]
fn the_same_numbers_as_top() {
    use crate::{Report, ReportKind, ReportOptions, top};

    let mut next = numbers(3);
    let stacks: Vec<_> = (0..500)
        .map(|_| {
            let frames: Vec<_> = (0..=next(9))
                .map(|_| format!("f{}{}", next(9), if next(5) == 0 { "+inl" } else { "" }))
                .collect();
            (frames.join(";"), 1 + next(50) as i64)
        })
        .collect();
    let stacks: Vec<_> = stacks.iter().map(|(stack, value)| (stack.as_str(), *value)).collect();
    let profile = profile(&stacks);
    let frames = Frames::new(&profile);
    let rows = functions(&profile, &frames, &StackWeights::new(&profile, 1));
    let mut ours: Vec<_> = rows
        .iter()
        .map(|row| (frames.text(&profile, row.name).to_owned(), row.flat.new, row.cum.new))
        .collect();
    let options = ReportOptions { node_count: Some(0), trim: false, ..ReportOptions::default() };
    let report = Report::new(profile.clone(), &options, ReportKind::Top).unwrap();
    let mut theirs: Vec<_> =
        top::top(&report).rows.into_iter().map(|row| (row.name, row.flat, row.cum)).collect();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

#[test]
fn the_page_has_the_same_colours() {
    for (hue, colour) in LIGHT.iter().enumerate() {
        assert!(style().contains(&format!("--h{hue}: {colour};")), "hue {hue}");
    }
}

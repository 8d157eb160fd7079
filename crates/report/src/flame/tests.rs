//! Known results, and the lazy tree compared with one that is built in full.

use std::collections::BTreeMap;
use std::sync::Arc;

use flamelet_profile::{LabelSetId, Line, Mapping, Profile, ProfileBuilder};

use super::*;
use crate::stacks::{Frames, StackWeights, costs};

/// Builds a profile of stacks, root first, `a;b;c`, with inlined frames joined by `+` (outermost first).
pub(crate) fn profile(stacks: &[(&str, i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for (stack, value) in stacks {
        let mut locations = Vec::new();
        for names in stack.split(';').rev() {
            let lines: Vec<_> = names
                .split('+')
                .rev()
                .map(|name| Line {
                    function: Some(builder.named_function(name, "lib.rs")),
                    line: 1,
                    column: 0,
                })
                .collect();
            locations.push(builder.location(None, 0, &lines));
        }
        let stack = builder.stack(&locations);
        builder.sample(stack, LabelSetId::EMPTY, &[1, *value]);
    }
    builder.finish()
}

fn tree(profile: &Profile, direction: Direction) -> FlameTree<&Profile> {
    with_folding(profile, direction, &Folding::default())
}

fn with_folding<'p>(profile: &'p Profile, direction: Direction, folding: &Folding) -> FlameTree<&'p Profile> {
    let weights = StackWeights::new(profile, 1);
    FlameTree::new(profile, Arc::new(Frames::new(profile)), &weights, direction, folding)
}

/// Returns the whole tree as text: `name total/self`, indented by two spaces per level.
fn whole(tree: &mut FlameTree<&Profile>) -> Vec<String> {
    let boxes = tree.layout(&Viewport { max_boxes: usize::MAX, ..Viewport::of_width(1e12) });
    let text = |found: &FlameBox| {
        let indent = "  ".repeat(found.depth as usize);
        format!("{indent}{} {}/{}", tree.text(found.node), found.value.new, found.own.new)
    };
    boxes.boxes.iter().map(text).collect()
}

#[test]
fn boxes_are_sorted_by_weight_and_know_their_own_share() {
    let profile = profile(&[("main;a;b", 3), ("main;a", 4), ("main;c", 9), ("main;a;d", 1), ("main;c", 1)]);
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callees)),
        ["root 18/0", "  main 18/0", "    c 10/10", "    a 8/4", "      b 3/3", "      d 1/1"]
    );
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callers)),
        [
            "root 18/0",
            "  c 10/0",
            "    main 10/10",
            "  a 4/0",
            "    main 4/4",
            "  b 3/0",
            "    a 3/0",
            "      main 3/3",
            "  d 1/0",
            "    a 1/0",
            "      main 1/1",
        ]
    );
}

#[test]
fn inlined_frames_are_boxes_of_their_own() {
    let profile = profile(&[("main;outer+middle+inner;leaf", 2), ("main;outer+middle", 1)]);
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callees)),
        [
            "root 3/0",
            "  main 3/0",
            "    outer 3/0",
            "      middle 3/1",
            "        inner 2/0",
            "          leaf 2/2"
        ]
    );
}

/// Stacks of a service: `s:` is std's start of threads, `w:` the rest of std, `t:` tokio, `j:` serde_json, `c:` libc; everything else is yours.
fn service(stacks: &[(&str, i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let libc = builder.string("/usr/lib/x86_64-linux-gnu/libc.so.6");
    let program = builder.string("/srv/shop");
    let program = builder.mapping(Mapping { filename: program, ..Mapping::default() });
    let libc = builder.mapping(Mapping { filename: libc, start: 1, ..Mapping::default() });
    for (stack, value) in stacks {
        let mut locations = Vec::new();
        for names in stack.split(' ').rev() {
            let mapping = if names.starts_with("c:") { libc } else { program };
            let lines: Vec<_> = names
                .split('+')
                .rev()
                .map(|name| {
                    let (name, file) = match name.split_once(':') {
                        Some(("s", name)) => (name, "/rustc/5980/library/std/src/rt.rs"),
                        Some(("w", name)) => (name, "/rustc/5980/library/std/src/sync/mutex.rs"),
                        Some(("t", name)) => (name, "/c/registry/src/i/tokio-1.47.1/src/task.rs"),
                        Some(("j", name)) => (name, "/c/registry/src/i/serde_json-1.0.1/src/de.rs"),
                        Some((_, name)) => (name, ""),
                        None => (name, "/home/me/shop/src/main.rs"),
                    };
                    Line { function: Some(builder.named_function(name, file)), line: 1, column: 0 }
                })
                .collect();
            locations.push(builder.location(Some(mapping), 0, &lines));
        }
        let stack = builder.stack(&locations);
        builder.sample(stack, LabelSetId::EMPTY, &[1, *value]);
    }
    builder.finish()
}

/// A thread that serves, one that parses what it read, one that waits, and the main thread.
const SERVICE: &[(&str, i64)] = &[
    ("c:start_thread s:begin s:catch t:run t:poll serve j:parse j:value visit j:text c:memcpy", 5),
    ("c:start_thread s:begin s:catch t:run t:run t:poll serve j:parse j:number", 2),
    ("c:start_thread s:begin s:catch t:run t:park w:wait c:futex", 4),
    ("c:start main s:map+fold s:sort", 1),
];

#[test]
fn chains_of_others_are_one_box() {
    let profile = service(SERVICE);
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callees)),
        [
            "root 12/0",
            "  tokio · 5 to 6 frames 11/0",
            "    serve 7/0",
            "      serde_json · 2 frames 5/0",
            "        visit 5/0",
            "          text 5/0",
            "            memcpy 5/5",
            "      parse 2/0",
            "        number 2/2",
            "    wait 4/0",
            "      futex 4/4",
            "  start 1/0",
            "    main 1/0",
            "      map 1/0",
            "        fold 1/0",
            "          sort 1/1",
        ]
    );
    let callers = whole(&mut tree(&profile, Direction::Callers));
    assert_eq!(
        callers[1..7],
        [
            "  memcpy 5/0",
            "    text 5/0",
            "      visit 5/0",
            "        serde_json · 2 frames 5/0",
            "          serve 5/0",
            "            tokio · 5 frames 5/5",
        ]
    );
    let everything = whole(&mut with_folding(&profile, Direction::Callees, &Folding::off()));
    assert_eq!(everything[1..4], ["  start_thread 11/0", "    begin 11/0", "      catch 11/0"]);
    assert_eq!(everything.len(), 25, "{everything:#?}");
}

#[test]
fn a_chain_opens_and_the_others_stay() {
    let profile = service(SERVICE);
    let mut folded = tree(&profile, Direction::Callees);
    let tokio = folded.children(NodeId::ROOT).next().unwrap();
    let serve = folded.children(tokio).next().unwrap();
    let serde = folded.children(serve).next().unwrap();
    let path = |nodes: &[NodeId]| nodes.iter().map(|&node| folded.key(node)).collect::<Vec<_>>();
    let (first, second) = (path(&[tokio]), path(&[tokio, serve, serde]));
    let mut folding = Folding::default();
    folding.open(first);
    let opened = whole(&mut with_folding(&profile, Direction::Callees, &folding));
    assert_eq!(
        opened[1..5],
        ["  start_thread 11/0", "    begin 11/0", "      catch 11/0", "        run 11/0"]
    );
    assert!(opened.contains(&"              serde_json · 2 frames 5/0".to_owned()), "{opened:#?}");
    let mut folding = Folding::default();
    folding.open(second);
    let opened = whole(&mut with_folding(&profile, Direction::Callees, &folding));
    assert_eq!(
        opened[1..6],
        [
            "  tokio · 5 to 6 frames 11/0",
            "    serve 7/0",
            "      parse 7/0",
            "        value 5/0",
            "          visit 5/0"
        ],
        "what is read and what comes back to your code are one box again"
    );
}

#[test]
fn a_search_finds_the_chains_that_hold_a_match() {
    let profile = service(SERVICE);
    let holding = |tree: &mut FlameTree<&Profile>, text: &str| -> Vec<String> {
        let boxes = tree.layout(&Viewport { max_boxes: usize::MAX, ..Viewport::of_width(1e12) });
        let frames = Arc::clone(tree.frames());
        let wanted: Vec<bool> =
            frames.name_ids().map(|name| frames.text(&profile, name).contains(text)).collect();
        let nodes: Vec<NodeId> = boxes.boxes.iter().map(|found| found.node).collect();
        let found = tree.holding(&nodes, &wanted);
        found.iter().map(|&row| tree.text(boxes.boxes[row as usize].node).into_owned()).collect()
    };
    let mut callees = tree(&profile, Direction::Callees);
    assert_eq!(holding(&mut callees, "poll"), ["tokio · 5 to 6 frames"]);
    assert_eq!(
        holding(&mut callees, "parse"),
        ["serde_json · 2 frames"],
        "the other one is a box of its own"
    );
    assert!(holding(&mut callees, "serve").is_empty() && holding(&mut callees, "sort").is_empty());
    let mut callers = tree(&profile, Direction::Callers);
    assert_eq!(holding(&mut callers, "parse"), ["serde_json · 2 frames"]);
    assert_eq!(holding(&mut callers, "poll").len(), 2, "one for each leaf whose stack polls");
    let mut opened = Folding::default();
    opened.open([callees.children(NodeId::ROOT).next().map(|node| callees.key(node)).unwrap()]);
    let mut opened = with_folding(&profile, Direction::Callees, &opened);
    assert!(holding(&mut opened, "poll").is_empty(), "it is open");
    assert_eq!(holding(&mut opened, "value"), ["serde_json · 2 frames"]);
    let frames = Arc::new(Frames::new(&profile));
    let serve = frames.find(&profile, "serve").unwrap();
    let weights = StackWeights::new(&profile, 1);
    let around = |direction| {
        FlameTree::around(&profile, Arc::clone(&frames), &weights, direction, &Folding::default(), serve)
    };
    assert_eq!(holding(&mut around(Direction::Callees), "value"), ["serde_json · 2 frames"]);
    assert_eq!(holding(&mut around(Direction::Callers), "poll"), ["tokio · 5 to 6 frames"]);
}

#[test]
fn folding_changes_no_value() {
    let profile = service(SERVICE);
    let sum = |folding: &Folding| {
        let mut tree = with_folding(&profile, Direction::Callees, folding);
        let boxes = tree.layout(&Viewport { max_boxes: usize::MAX, ..Viewport::of_width(1e12) });
        boxes.boxes.iter().map(|found| found.own.new).sum::<i64>()
    };
    assert_eq!((sum(&Folding::default()), sum(&Folding::off())), (12, 12));
    let frames = Frames::new(&profile);
    let weights = StackWeights::new(&profile, 1);
    let wanted = |text: &str| -> Vec<bool> {
        frames.name_ids().map(|name| frames.text(&profile, name).contains(text)).collect()
    };
    let matched = |text: &str| {
        let wanted = wanted(text);
        let all = weights.matching(&profile, &frames, &wanted).new;
        (all, weights.matching_folded(&profile, &frames, &wanted).new)
    };
    assert_eq!(matched("poll"), (7, 7), "in chains only");
    assert_eq!(matched("parse"), (7, 5), "in a chain, and called by yours");
    assert_eq!(matched("serve"), (7, 0));
    assert_eq!(matched("nothing"), (0, 0));
}

#[test]
fn the_picture_says_whose_code_it_is() {
    let profile = service(SERVICE);
    let picture = svg(&profile, &FlameOptions::default());
    assert!(
        picture.contains("<g class=\"chain\"><title>tokio · 5 to 6 frames (11ns, 91.67%)</title>"),
        "{picture}"
    );
    assert!(picture.contains("<g class=\"yours\"><title>serve ("));
    assert!(picture.contains("fill=\"url(#system)\"") && picture.contains("your code"));
    let everything = svg(&profile, &FlameOptions { everything: true, ..FlameOptions::default() });
    assert!(everything.contains("<title>catch (") && !everything.contains("class=\"chain\""));
}

#[test]
fn a_sandwich_weighs_what_the_function_does() {
    let profile = profile(&[("main;f;g;f;h", 5), ("main;x+f+y;z", 2), ("main;g", 100)]);
    let frames = Arc::new(Frames::new(&profile));
    let weights = StackWeights::new(&profile, 1);
    let pivot = frames.find(&profile, "f").unwrap();
    let mut callees = FlameTree::around(
        &profile,
        Arc::clone(&frames),
        &weights,
        Direction::Callees,
        &Folding::default(),
        pivot,
    );
    assert_eq!(whole(&mut callees), ["f 7/0", "  g 5/0", "    f 5/0", "      h 5/5", "  y 2/0", "    z 2/2"]);
    let mut callers = FlameTree::around(
        &profile,
        Arc::clone(&frames),
        &weights,
        Direction::Callers,
        &Folding::default(),
        pivot,
    );
    assert_eq!(whole(&mut callers), ["f 7/0", "  main 5/5", "  x 2/0", "    main 2/2"]);
    let cost = costs(&profile, &frames.table, frames.name_count(), weights.iter())[pivot.index()];
    assert_eq!((cost.flat.new, cost.cum.new), (0, 7));
}

#[test]
fn narrow_boxes_are_found_by_zooming() {
    let profile = profile(&[("main;wide", 1_000_000), ("main;thin;thinner", 3), ("main;thin;least", 1)]);
    let mut tree = tree(&profile, Direction::Callees);
    let view = Viewport::of_width(1000.0);
    let boxes = tree.layout(&view);
    assert_eq!(boxes.boxes.len(), 3, "root, main, wide");
    assert_eq!((boxes.narrower, boxes.zoom), (1, 0));
    let made = tree.node_count();
    let (thin, found) = tree.walk(["main", "thin"].map(name_key));
    assert_eq!((&*tree.text(thin), found, tree.node_count()), ("thin", 2, made));
    let zoomed = tree.layout(&view.zoomed(thin));
    let names: Vec<_> = zoomed.boxes.iter().map(|found| tree.text(found.node)).collect();
    assert_eq!(names, ["root", "main", "thin", "thinner", "least"]);
    assert_eq!(zoomed.zoom, 2);
    assert_eq!(tree.walk(["main", "gone", "thin"].map(name_key)).1, 1, "as far as it can");
}

#[test]
fn too_many_boxes_are_cut_at_wider_ones() {
    let stacks: Vec<_> = (0..500).map(|at| (format!("main;f{at:03}"), 1000 - at)).collect();
    let stacks: Vec<_> = stacks.iter().map(|(stack, value)| (stack.as_str(), *value)).collect();
    let profile = profile(&stacks);
    let boxes =
        tree(&profile, Direction::Callees).layout(&Viewport { max_boxes: 400, ..Viewport::of_width(1e9) });
    assert!(boxes.boxes.len() <= 400, "{}", boxes.boxes.len());
    assert!(boxes.narrower >= 100);
}

#[test]
fn a_diff_shows_both_sides() {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let mark = builder.text_label("pprof::base", "true");
    let base = builder.labels(&[mark]);
    let mut add = |name: &str, labels, value| {
        let function = builder.named_function(name, "");
        let frame = builder.frame(function, 0);
        let stack = builder.stack(&[frame]);
        builder.sample(stack, labels, &[value]);
    };
    add("same", base, -10);
    add("same", LabelSetId::EMPTY, 10);
    add("gone", base, -7);
    add("grown", LabelSetId::EMPTY, 5);
    let profile = builder.finish();
    let weights = StackWeights::new(&profile, 0);
    assert!(weights.is_diff());
    assert_eq!((weights.total().new, weights.total().base, weights.total().weight()), (15, 17, 32));
    let picture = svg(&profile, &FlameOptions::default());
    assert!(picture.contains("gone (7ns → 0, -7ns)"), "{picture}");
    assert!(picture.contains("same (10ns → 10ns, 0)"));
    assert!(picture.contains("grown (0 → 5ns, +5ns)"));
}

/// Returns a deterministic stream of numbers.
pub(crate) fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    }
}

#[test]
fn the_lazy_tree_is_the_whole_tree() {
    for seed in 0..20 {
        let mut next = numbers(seed);
        let stacks: Vec<_> = (0..200)
            .map(|_| {
                let frames: Vec<_> = (0..=next(8))
                    .map(|_| format!("f{}{}", next(4), if next(4) == 0 { "+inl" } else { "" }))
                    .collect();
                (frames.join(";"), next(50) as i64)
            })
            .collect();
        // Prefix sums by path: the definition of a flame graph.
        let mut paths: BTreeMap<String, i64> = BTreeMap::new();
        for (stack, value) in &stacks {
            let mut path = String::new();
            for frame in stack.split([';', '+']) {
                path = format!("{path};{frame}");
                *paths.entry(path.clone()).or_default() += value;
            }
        }
        paths.retain(|_, value| *value != 0);
        let borrowed: Vec<_> = stacks.iter().map(|(stack, value)| (stack.as_str(), *value)).collect();
        let profile = profile(&borrowed);
        let mut tree = tree(&profile, Direction::Callees);
        let boxes = tree.layout(&Viewport { max_boxes: usize::MAX, ..Viewport::of_width(1e12) });
        let path = |mut node: NodeId| {
            let mut names = Vec::new();
            while let Some(parent) = tree.parent(node) {
                names.push(tree.text(node).into_owned());
                node = parent;
            }
            names.iter().rev().fold(String::new(), |path, name| format!("{path};{name}"))
        };
        let found: BTreeMap<_, _> =
            boxes.boxes.iter().skip(1).map(|found| (path(found.node), found.value.new)).collect();
        assert_eq!(found, paths, "seed {seed}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}\"'&\u{1}";
    let profile = profile(&[(hostile, 10)]);
    let options = FlameOptions { title: hostile.into(), ..FlameOptions::default() };
    let picture = svg(&profile, &options);
    assert!(!picture.contains("<script>") && !picture.contains("<img") && !picture.contains('\u{1}'));
}

#[test]
fn an_empty_profile_is_drawn() {
    let profile = profile(&[]);
    assert!(svg(&profile, &FlameOptions::default()).contains("root (0, 0%)"));
    let nothing = Profile::default();
    assert!(svg(&nothing, &FlameOptions::default()).ends_with("</svg>\n"));
}

#[test]
fn huge_values_do_not_overflow() {
    let profile = profile(&[("main;a", i64::MAX), ("main;b", i64::MAX), ("main;c", i64::MIN)]);
    assert_eq!(StackWeights::new(&profile, 1).total().weight(), u64::MAX);
    assert!(svg(&profile, &FlameOptions::default()).ends_with("</svg>\n"));
}

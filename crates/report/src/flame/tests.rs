//! Known results, and the lazy tree compared with one that is built in full.

use std::collections::BTreeMap;
use std::sync::Arc;

use flamelet_profile::{LabelSetId, Line, Profile, ProfileBuilder};

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
    FlameTree::new(profile, Arc::new(Frames::new(profile)), &StackWeights::new(profile, 1), direction)
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

#[test]
fn folded_glue_is_one_box() {
    let glue = crate::names::RUNTIME_GROUP;
    let stack = format!("main{};a;a;{glue}+{glue}", format!(";{glue}").repeat(10));
    let profile = profile(&[(&stack, 2), (&format!("main;{glue};a"), 1)]);
    let lines = |text: &[&str]| text.iter().map(|line| line.replace("GLUE", glue)).collect::<Vec<_>>();
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callees)),
        lines(&[
            "root 3/0",
            "  main 3/0",
            "    GLUE 3/0",
            "      a 3/1",
            "        a 2/0",
            "          GLUE 2/2"
        ])
    );
    assert_eq!(
        whole(&mut tree(&profile, Direction::Callers))[1..6],
        lines(&["  GLUE 2/0", "    a 2/0", "      a 2/0", "        GLUE 2/0", "          main 2/2"])
    );
}

#[test]
fn a_sandwich_weighs_what_the_function_does() {
    let profile = profile(&[("main;f;g;f;h", 5), ("main;x+f+y;z", 2), ("main;g", 100)]);
    let frames = Arc::new(Frames::new(&profile));
    let weights = StackWeights::new(&profile, 1);
    let pivot = frames.find(&profile, "f").unwrap();
    let mut callees = FlameTree::around(&profile, Arc::clone(&frames), &weights, Direction::Callees, pivot);
    assert_eq!(whole(&mut callees), ["f 7/0", "  g 5/0", "    f 5/0", "      h 5/5", "  y 2/0", "    z 2/2"]);
    let mut callers = FlameTree::around(&profile, Arc::clone(&frames), &weights, Direction::Callers, pivot);
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
    assert_eq!((tree.text(thin), found, tree.node_count()), ("thin", 2, made));
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
                names.push(tree.text(node).to_owned());
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
